"""Text in columns: wrapped to a width, labels before it, cells folded."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

NARROWEST = 24
"""Columns below which lines are no longer wrapped to the terminal."""
TIED = "\N{NO-BREAK SPACE}%"
"""A percent sign stays on the line of its number."""
WORDS = re.compile(r"[^ ]* *")
PARTS = re.compile(r"[^ /_.+,:-]*[ /_.+,:-]*")
"""Pieces of a cell that stay on one line, as long as the column has room for them."""


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap a paragraph; what is written with hyphens stays whole, so that it can be pasted.

    >>> wrapped("add --require-measured", 20, "  ")
    ['add', '  --require-measured']
    """
    lines = textwrap.wrap(
        text.replace(" %", TIED), width, subsequent_indent=indent, break_on_hyphens=False
    )
    return [line.replace(TIED, " %") for line in lines] or [""]


def labelled(pairs: Sequence[tuple[str, str]], width: int, least: int = 0) -> list[tuple[str, str]]:
    """Return pairs of a padded label and a line of its text; further lines have a blank label.
    Texts start at a column, or later where a label is longer.

    >>> labelled([("step", "29.6 s: compute"), ("risk", "none")], 16)
    [('step  ', '29.6 s:'), ('      ', 'compute'), ('risk  ', 'none')]
    """
    column = max([least, *(len(label) + 2 for label, _ in pairs)])
    lines = []
    for label, text in pairs:
        first, *others = wrapped(text, max(width - column, NARROWEST // 2))
        lines.append((label.ljust(column), first))
        lines += [(" " * column, other) for other in others]
    return lines


def fold(text: str, width: int) -> list[str]:
    """Break text into lines of a width: between words, else after a sign, else anywhere.

    >>> fold("gcp/europe-north1", 12), fold("as of", 2)
    (['gcp/europe-', 'north1'], ['as', 'of'])
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for piece in _pieces(paragraph, width):
            if line and cells(line + piece.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
        lines.append(line.rstrip())
    return lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """Yield what stays on one line, with the blanks behind it."""
    for word in filter(None, WORDS.findall(text)):
        if cells(word.rstrip()) <= width:
            yield word
            continue
        for part in filter(None, PARTS.findall(word)):
            if cells(part.rstrip()) <= width:
                yield part
            else:
                yield from part


def longest(text: str) -> int:
    """Return the columns of the longest line of a text."""
    return max(cells(line) for line in text.split("\n"))


def least(column: Iterable[str], pattern: re.Pattern[str]) -> int:
    """Return the least width in which no piece of a column is broken."""
    return max(
        (cells(piece.rstrip()) for cell in column for piece in pattern.findall(cell)), default=1
    )


def cells(text: str) -> int:
    """Return the columns that text takes: two for each wide character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
