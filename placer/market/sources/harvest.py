"""What a source gave: rows of a book, what was left out and why, and where they came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from placer.errors import PlacerError, SourceError
from placer.records import Count

FORMULA = ("=", "+", "-", "@")
"""A text that begins so is a formula to spreadsheets that open the book."""
MOST_REASONS = 12  # Names that are listed for one reason; the others are added up
MOST_SHOWN = 256  # Longest text of a document that a message repeats
Cell = str | float | int | None
Row = Mapping[str, Cell]


class Origin(Struct, frozen=True, kw_only=True):
    """One document that a source read; ``place`` is a URL, a path or the name of an interface."""

    place: str
    sha256: str
    size_bytes: int


class BookOrigin(Struct, frozen=True, kw_only=True, tag_field="schema", tag="placer.origin/v1"):
    """The file origin.json beside a book that a command wrote.

    retrieved: In UTC.
    left_out: Left out, by reason.
    """

    retrieved: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    documents: list[Origin]
    left_out: dict[str, Count]
    notes: list[str]


class Harvest(Struct, frozen=True, kw_only=True):
    """Rows of a partial book before they are checked and written.

    ``rows`` are by file, such as ``offers.csv``, with the columns of catalogs/columns.csv; None is
    an empty cell. ``left_out`` counts rows of the source by reason in words: ``{"region that no
    book knows: aws/us-gov-west-1": 12}``. ``notes`` say what is estimated and what to do next.
    """

    rows: Mapping[str, Sequence[Row]]
    origins: Sequence[Origin]
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()


class Tally(Struct, kw_only=True):
    """What was read, left out and noted, gathered while documents are read.

    With ``skip_bad`` a row that is wrong is left out and counted, instead of ending the import;
    with ``by_reason`` by what is wrong, not by where it stands: an interface has no lines.
    ``may_skip`` says whether the command has the option for it.
    """

    skip_bad: bool
    by_reason: bool = False
    may_skip: bool = True
    origins: list[Origin] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    notes: dict[str, Counter[str]] = field(default_factory=dict)

    def harvest(self, rows: Mapping[str, Sequence[Row]]) -> Harvest:
        """Return rows by file with what was gathered while they were read; equal notes once."""
        notes = [*dict.fromkeys(self.words), *self.sentences()]
        left_out = self.reasons()
        return Harvest(rows=rows, origins=self.origins, left_out=left_out, notes=notes)

    def leave_out(self, reason: str, name: str = "", rows: int = 1) -> None:
        """Count a row that is right but of no use."""
        self.left_out.setdefault(reason, Counter())[shown(name)] += rows

    def note(self, words: str, example: str) -> None:
        """Count a row that is used but worth a word."""
        self.notes.setdefault(words, Counter())[example] += 1

    def refuse(self, where: str, words: str, hint: str = "", name: str = "") -> None:
        """Stop at a row that is wrong, or count it; ``name`` says in an error what it is about."""
        if not self.skip_bad:
            skip = ", or leave such rows out with --skip-bad" if self.may_skip else ""
            tip = f"{hint or 'correct it'}{skip}"
            raise SourceError(f"{where}: {shown(words)}{name}", tip)
        if self.by_reason:
            self.leave_out(shown(words))
        else:
            self.leave_out("wrong row", f"{where}: {words}{name}")

    def reasons(self) -> dict[str, int]:
        """Return how many rows were left out, by reason and name; rare names are added up."""
        reasons: dict[str, int] = {}
        for reason, names in self.left_out.items():
            common = names.most_common()
            for name, count in common[:MOST_REASONS]:
                reasons[f"{reason}: {name}" if name else reason] = count
            if rest := common[MOST_REASONS:]:
                reasons[f"{reason}: {len(rest)} others"] = sum(count for _, count in rest)
        return reasons

    def nothing(self) -> PlacerError:
        """Build the error of an import that has left everything out."""
        first = [f"{count:,} x {reason}" for reason, count in list(self.reasons().items())[:4]]
        words = f"no row can be used: {'; '.join(first) or 'there are none'}"
        return SourceError(words, "name other files; no book was changed")

    def sentences(self) -> list[str]:
        """Return the notes with the number of rows and one example each."""
        return [
            f"{words} ({sum(rows.values()):,} times, as in {next(iter(rows))})"
            for words, rows in self.notes.items()
        ]


def shown(text: str) -> str:
    """Return what a message may repeat of a document: printable and not too long."""
    flat = "".join(c if c.isprintable() else "?" for c in text)
    return flat if len(flat) <= MOST_SHOWN else f"{flat[:MOST_SHOWN]} ..."
