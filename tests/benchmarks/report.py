"""Write docs/benchmarks/results.md from what the benchmarks measured.

    python tests/benchmarks/report.py

Each table has the machine, the date, the commit and the command that made it; a benchmark that was
not run again keeps its table, and one that never ran is named as missing.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import solving
from ledger import FOLDER, ROOT, Record, origin, read

PAGE = ROOT / "docs" / "benchmarks" / "results.md"


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A title, the file that has its measurements, what summarises them, and what a reader must
    know.
    """

    title: str
    file: str
    table: Callable[[Sequence[Record]], list[str]]
    note: str


SECTIONS = (
    Section(
        title="Time to prove, synchronous strategies",
        file="solving.jsonl",
        table=solving.table,
        note="`exact` on drawn markets (regions x types, two markets), gap 0.1 %. A question that "
        "was stopped counts with its time so far. "
        "The first answer within 3 % is measured against the last one.",
    ),
    Section(
        title="Time to prove, local steps allowed",
        file="solving-local.jsonl",
        table=solving.table,
        note="The same questions with all strategies open.",
    ),
    Section(
        title="Time to prove, huge batches",
        file="solving-huge.jsonl",
        table=solving.table,
        note="Synchronous strategies with 1, 8 or 64 times the profile's batch, up to 2,097,152 "
        "samples a step: more than anybody trains "
        "with, but many machines in many regions pay, which is what proofs find hardest.",
    ),
    Section(
        title="Time to prove, the default book with islands",
        file="solving-book.jsonl",
        table=solving.table,
        note="The default book of one day, asked as a user would: four models that fit one device "
        "and three language models on islands of machines; synchronous strategies.",
    ),
    Section(
        title="Time to prove, the default book with local steps",
        file="solving-book-local.jsonl",
        table=solving.table,
        note="The same questions with all strategies open.",
    ),
    Section(
        title="The slowest questions",
        file="solving.jsonl",
        table=solving.slow_table,
        note="Ten of the first table; where the time went is known if it ran with `--by-strategy`.",
    ),
)


def page(folder: Path, former: str = "") -> str:
    """Build the page from a folder of measurements.

    ``former``: the page so far: a benchmark that was not run again keeps its table, which names its
    commit.
    """
    kept = {
        part.partition("\n")[0]: part.partition("\n")[2].strip()
        for part in former.split("\n## ")[1:]
    }
    lines = [
        "# Benchmarks",
        "",
        (
            "Written by `python tests/benchmarks/report.py` (`make bench`, `make bench-full`), "
            "never by hand."
        ),
        "",
    ]
    for section in SECTIONS:
        path = folder / section.file
        lines += [f"## {section.title}", ""]
        if not path.exists() and section.title in kept:
            lines += [kept[section.title], ""]
            continue
        lines += [section.note, ""]
        if not path.exists():
            lines += [f"Not measured: no `{section.file}`.", ""]
            continue
        run, records = read(path)
        lines += [*section.table(records), "", *origin(run, records), ""]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument(
        "--from", dest="folder", type=Path, default=FOLDER, help="folder of measurements"
    )
    words.add_argument("-o", "--output", type=Path, default=PAGE)
    given = words.parse_args()
    former = given.output.read_text(encoding="utf-8") if given.output.exists() else ""
    text = page(given.folder, former)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    whole = given.output.with_suffix(".tmp")
    whole.write_text(text, encoding="utf-8")
    whole.replace(given.output)
    print(f"wrote {given.output}")


if __name__ == "__main__":
    main()
