"""Verdicts on all claims of the papers, before and after they were given conditions.

python tests/benchmarks/claims.py            the page
python tests/benchmarks/claims.py --write    docs/claims.md as well
"""

from __future__ import annotations

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
HEAD = """# Claims of the papers and their conditions

Written by `python tests/benchmarks/claims.py --write`; [reproduction](manual/reproduction.md) says
how to print the same with the figures. Each claim is judged under the condition that stands beside
it in `claims.csv` of its book, and by the tolerance there: 10 % for a figure, 25 % for a bandwidth
(the paper reports wide variation), 15 % for a ratio of granularities. The conditions were written
with the figures in sight, so agreement is weaker evidence than a blind test would be. One choice is
the project's, not the paper's, and was made after the figures were seen: the paper prices traffic
by the GB; clouds bill, and the book counts, GiB, so a GB of a price is 2**30 bytes here. With
10**9 bytes egress and loading are 7 % higher, and E50, E54 and E57 would be contradicted.

*Before* is the verdict of 22 November 2026. What changed since:

* E02 quoted the 90 % that section 5 (3) says of C-8 for D-2, and priced traffic between clouds as
  traffic to the internet: 19.6 USD/h for D-2, where the paper has 3.77 (now E50). It is judged on
  C-8 under the paper's own prices and accounting.
* P26 tried one to eight workers a city until the ratio agreed, P24 took one. Figure 8 does not say
  how many there are, so P26 is undecided.
* P17 holds at placer's assumed speeds and fails with functions half as fast: undecided.
* I01 to I03 rest on links that were not published; a figure inside of a wide interval decides
  nothing.
* P17 said "most of a mini-batch" where the paper says the largest share; L01 named a baseline that
  the abstract does not name.
* Claims without a verdict before are new.

"""


def page() -> str:
    """Write the counts and one table a paper."""
    papers = {name: reproduce(name) for name in PAPERS}
    lines = ["| paper | before | after |", "|---|---|---|"]
    for name, got in papers.items():
        then = Counter(BEFORE[name].values())
        before = ", ".join(f"{then[v]} {v}" for v in (REPRODUCED, FORMER, CONTRADICTED))
        counts = got.to_dict()["verdicts"]
        after = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        lines.append(f"| {name} | {before} | {after} |")
    return HEAD + "\n".join([*lines, *(line for n, p in papers.items() for line in table(n, p))])


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
