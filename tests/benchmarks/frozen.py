"""Instances with proved optima, to compare later runs with.

    python tests/benchmarks/frozen.py --freeze RUN.jsonl
    python tests/benchmarks/frozen.py --check RUN.jsonl

`frozen.csv` names each instance by the numbers it is drawn from, with a digest of the drawn
problem, the optimum, its bound, the placement, and what proved it. A later run of the same
questions must neither beat the bound nor prove a bound below the optimum.

Three things can change an answer, and each is told apart. The instance: its digest differs. The
formulas: the frozen placement is priced again and differs. The solver: instance and price are the
same, and the answers contradict each other.
"""

import argparse
import csv
import io
import json
import sys
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

import msgspec
from ledger import Record, read
from markets import Question

from placer.cost_model.estimate import evaluate
from placer.problem.placement import Placement

FILE = Path(__file__).parent / "frozen.csv"
SAME = 1e-9
"""Relative difference up to which a value counts as the same."""
WRONG = ("drifted", "repriced", "beats the bound", "below the optimum")
"""Verdicts that need somebody to look."""
AGAIN = (
    "after a change that is meant: python tests/benchmarks/solving.py --freeze, again "
    "with --local-steps 64, with --huge and with --sizes book"
)
QUESTION = tuple(field.name for field in fields(Question))
"""The numbers that an instance is drawn from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Frozen:
    """One instance, its optimum and the proof's bound in samples/s, and where it comes from."""

    regions: int
    types: int
    budget: float
    seed: int
    local_steps: int | None
    huge: bool
    book_model: str | None
    quota: int | None
    digest: str
    optimum: float
    bound: float
    strategy: str
    proved_on: str
    commit: str
    cpu_s: float
    placement: str

    @property
    def question(self) -> Question:
        """The question by its numbers."""
        return Question(**{name: getattr(self, name) for name in QUESTION})

    @property
    def key(self) -> tuple[float | str, ...]:
        """The numbers of the question; sorts the file."""
        return key_of({name: getattr(self, name) for name in QUESTION})

    def worth(self) -> float:
        """Value of the frozen placement by today's formulas and books."""
        problem = self.question.problem()
        return evaluate(
            msgspec.json.decode(self.placement, type=Placement), problem
        ).samples_per_second


def key_of(question: Record) -> tuple[float | str, ...]:
    """The numbers of a question, in the order of the file."""
    return (
        question["huge"],
        question["local_steps"] or 0,
        *(question[name] for name in ("regions", "types", "budget", "seed")),
        question["book_model"] or "",
        question["quota"] or 0,
    )


def rows(path: Path = FILE) -> list[Frozen]:
    """Read the frozen instances."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as handle:
        return [
            msgspec.convert({k: v or None for k, v in row.items()}, Frozen, strict=False)
            for row in csv.DictReader(handle)
        ]


def verdict(row: Frozen, record: Record) -> str:
    """Compare a later run of an instance with what is frozen.

    Returned: ``same`` (proved, and neither beats the other's bound), ``open`` (not proved in its
    time, no contradiction), or one of `WRONG`.
    """
    if record["digest"] != row.digest:
        return "drifted"
    value, bound = record["value"], record["bound"]
    beaten = value is not None and value > row.bound * (1 + SAME)
    short = bound is not None and bound < row.optimum * (1 - SAME)
    if beaten or short or record["status"] == "infeasible":
        if abs(row.worth() - row.optimum) > SAME * row.optimum:
            return "repriced"
        return "beats the bound" if beaten else "below the optimum"
    return "same" if record["status"] == "optimal" else "open"


def freeze(path: Path, into: Path = FILE) -> None:
    """Take what a run proved into the file; it replaces the rows of the same questions."""
    run, records = read(path)
    kept = {row.key: row for row in rows(into)}
    proved = [
        _row(record, run)
        for record in records
        if record["kind"] == "question" and record["status"] == "optimal"
    ]
    kept.update({row.key: row for row in proved})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [field.name for field in fields(Frozen)]
    writer.writerow(names)
    writer.writerows([getattr(kept[key], name) for name in names] for key in sorted(kept))
    whole = into.with_suffix(".tmp")
    whole.write_text(text.getvalue(), encoding="utf-8")
    whole.replace(into)
    print(f"{len(proved)} proved instances frozen; {into.name} has {len(kept)}", file=sys.stderr)


def _row(record: Record, run: Record) -> Frozen:
    return Frozen(
        **{name: record[name] for name in (*QUESTION, "digest", "bound", "strategy", "cpu_s")},
        optimum=record["value"],
        proved_on=run["started"][:10],
        commit=run["commit"],
        placement=json.dumps(record["placement"], separators=(",", ":")),
    )


def check(path: Path, against: Path = FILE) -> None:
    """Print how a run compares with the file.

    Raises SystemExit with code 1 if an answer contradicts a frozen one, or its instance is another
    one now.
    """
    frozen = {row.key: row for row in rows(against)}
    found: Counter[str] = Counter()
    for record in read(path)[1]:
        if record["kind"] != "question":
            continue
        row = frozen.get(key_of(record))
        said = "not frozen" if row is None else verdict(row, record)
        found[said] += 1
        if row is not None and said in WRONG:
            print(
                f"{row.question}: {said}: {record['value']} (bound {record['bound']}), frozen "
                f"{row.optimum} (bound {row.bound})"
            )
    print(
        "frozen set: " + ", ".join(f"{count} {said}" for said, count in sorted(found.items())),
        file=sys.stderr,
    )
    if any(found[said] for said in WRONG):
        raise SystemExit(f"error: answers differ from frozen.csv\n  tip: {AGAIN}")


def main() -> None:
    """Freeze or check a run."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument(
        "--freeze", type=Path, metavar="RUN", help="take what a run of solving.py proved"
    )
    words.add_argument("--check", type=Path, metavar="RUN", help="compare a run of solving.py")
    given = words.parse_args()
    if given.freeze is None and given.check is None:
        words.error("give --freeze RUN or --check RUN")
    if given.freeze is not None:
        freeze(given.freeze)
    if given.check is not None:
        check(given.check)


if __name__ == "__main__":
    main()
