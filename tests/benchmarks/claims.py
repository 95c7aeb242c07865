"""Verdicts on all claims of the papers, before and after they were given conditions.

python tests/benchmarks/claims.py            the page
python tests/benchmarks/claims.py --write    the tables of docs/claims.md as well
"""

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from placer.documents.schemas.measured import Claim, Verdict  # noqa: E402
from placer.reproduction import PAPERS, reproduce  # noqa: E402
from placer.reproduction.comparison import Reproduction  # noqa: E402

PAGE = ROOT / "docs" / "claims.md"
REPRODUCED, CONTRADICTED, FORMER = "reproduced", "contradicted", "not reproducible"
BEFORE = {
    "erben": {"E01": CONTRADICTED, "E02": REPRODUCED, "E03": REPRODUCED},
    "phalak": {
        **dict.fromkeys([f"P{n}" for n in range(14, 30)], FORMER),
        **dict.fromkeys(["P14", "P17", "P21", "P24", "P26", "P27", "P28"], REPRODUCED),
        "P19": CONTRADICTED,
    },
    "cloudless": {"L01": FORMER, "L02": FORMER},
    "intellect-1": dict.fromkeys([f"I0{n}" for n in range(1, 6)], REPRODUCED),
}
"""Verdicts of 22 November 2026, when no claim named a condition."""
TABLES = "| paper | before | after |"
"""Head of the first table: what stands above it is written by hand."""


def page() -> str:
    """Write the words as they stand on the page, the counts and one table a paper."""
    papers = {name: reproduce(name) for name in PAPERS}
    lines = [TABLES, "|---|---|---|"]
    for name, got in papers.items():
        then = Counter(BEFORE[name].values())
        before = ", ".join(f"{then[v]} {v}" for v in (REPRODUCED, FORMER, CONTRADICTED))
        counts = got.to_dict()["verdicts"]
        after = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        lines.append(f"| {name} | {before} | {after} |")
    words = PAGE.read_text(encoding="utf-8").partition(TABLES)[0]
    return words + "\n".join([*lines, *(line for n, p in papers.items() for line in table(n, p))])


def table(name: str, got: Reproduction) -> list[str]:
    """Write the claims of one paper."""
    return [
        "",
        f"## {name}",
        "",
        got.title,
        "",
        "| claim | before | after | published, within | statement | condition |",
        "|---|---|---|---|---|---|",
        *(row(claim, BEFORE[name].get(claim.id, "-")) for claim in got.claims),
    ]


def row(claim: Claim, before: str) -> str:
    """Write one claim."""
    tolerance = claim.tolerance
    within = f", {100 * tolerance:g} %" if isinstance(tolerance, float) else ""
    after = {Verdict.UNDECIDED: "undecided"}.get(claim.verdict, str(claim.verdict))
    where = f" ({claim.passage})" if claim.passage else ""
    cells = [
        claim.id,
        before,
        after,
        f"{claim.published} {claim.unit}".strip() + within,
        claim.statement + where,
        str(claim.condition),
    ]
    return f"| {' | '.join(cell.replace('|', '/').replace('**', '^') for cell in cells)} |"


def main() -> None:
    """Print the page, and write it."""
    text = page() + "\n"
    print(text)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
