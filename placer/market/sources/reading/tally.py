"""What an import leaves out and why, and what the user should know of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from placer.errors import PlacerError, SourceError

MOST_REASONS = 12
"""Names that are listed for one reason; the others are added up."""
MOST_SHOWN = 256
"""Longest text of a document that a message repeats."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts, filled while documents are read.

    Parameters
    ----------
    skip_bad
        Leave out a row that is wrong and count it, instead of refusing the whole import.
    by_reason
        Count such rows by what is wrong, not by where they stand: an interface has no lines.
    """

    skip_bad: bool
    by_reason: bool = False
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    notes: dict[str, Counter[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, name: str = "", rows: int = 1) -> None:
        """Count a row that is right but of no use."""
        self.left_out.setdefault(reason, Counter())[shown(name)] += rows

    def note(self, words: str, example: str) -> None:
        """Count a row that is used but worth a word."""
        self.notes.setdefault(words, Counter())[example] += 1

    def refuse(self, where: str, words: str, hint: str = "", name: str = "") -> None:
        """Stop at a row that is wrong, or count it; ``name`` says in an error what it is about."""
        if not self.skip_bad:
            tip = hint or "correct it"
            raise SourceError(
                f"{where}: {shown(words)}{name}", f"{tip}, or leave such rows out with --skip-bad"
            )
        if self.by_reason:
            self.leave_out(shown(words))
        else:
            self.leave_out("wrong row", f"{where}: {words}{name}")

    def reasons(self) -> dict[str, int]:
        """Return how many rows were left out, by reason and name; names beyond `MOST_REASONS` are
        added up.
        """
        reasons: dict[str, int] = {}
        for reason, names in self.left_out.items():
            common = names.most_common()
            reasons |= {
                f"{reason}: {name}" if name else reason: count
                for name, count in common[:MOST_REASONS]
            }
            if rest := common[MOST_REASONS:]:
                reasons[f"{reason}: {len(rest)} others"] = sum(count for _, count in rest)
        return reasons

    def nothing(self) -> PlacerError:
        """Build the error of an import that has left everything out."""
        first = [f"{count:,} x {reason}" for reason, count in list(self.reasons().items())[:4]]
        return SourceError(
            f"no row can be used: {'; '.join(first) or 'there are none'}",
            "name other files; no book was changed",
        )

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
