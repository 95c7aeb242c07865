"""Tables on a terminal: every column stays, cells are folded where the terminal is narrow."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

GAP = 2
"""Blanks between columns."""
WORDS = re.compile(r"[^ ]* *")
PARTS = re.compile(r"[^ /_.+,:-]*[ /_.+,:-]*")
"""Pieces of a cell that stay on one line, as long as the column has room for them."""


class Sheet:
    """A plain table; where the terminal has no room for its columns, its rows are printed as
    records, a header and its value in a line.

    Parameters
    ----------
    headers
        Of the columns.
    right
        Headers of the columns of numbers.
    wrap
        Headers of the columns that are narrowed first; None: all.
    unseen
        Names of the columns without a header, in their order, for formats that name every column.
    """

    def __init__(
        self,
        headers: Iterable[str],
        *,
        right: Collection[str] = (),
        wrap: Collection[str] | None = None,
        unseen: Sequence[str] = (),
    ) -> None:
        self.headers = list(headers)
        left = iter(unseen)
        self.names = [header or next(left, "") for header in self.headers]
        self.right = [header in right for header in self.headers]
        self.wrap = [wrap is None or header in wrap for header in self.headers]
        self.rows: list[list[str]] = []
        self._styles: list[str | None] = []

    def add_row(self, *cells: object, style: str | None = None) -> None:
        """Add a row; cells that are left out are empty, and line breaks in cells are kept."""
        texts = [str(cell) for cell in cells]
        self.rows.append([*texts, *[""] * (len(self.headers) - len(texts))])
        self._styles.append(style)

    def lines(self, width: int) -> list[tuple[str, str | None]]:
        """Return the lines of the table, none longer than the width, each with its style."""
        widths = self._widths(width)
        if widths is None:
            return list(self._records(width))
        table: list[tuple[str, str | None]] = [
            (line, "underline") for line in self._row(self.headers, widths)
        ]
        for cells, style in zip(self.rows, self._styles, strict=True):
            table += [(line, style) for line in self._row(cells, widths)]
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines to a console."""
        from rich.text import Text

        for line, style in self.lines(options.max_width):
            yield Text(line, style=style or "", no_wrap=True, overflow="ignore", end="\n")

    def _widths(self, width: int) -> list[int] | None:
        """Return the columns' widths, narrowed as far as is needed; None if there is no room."""
        columns = [list(cells) for cells in zip(self.headers, *self.rows, strict=True)]
        widths = [max(_longest(cell) for cell in column) for column in columns]
        room = width - GAP * (len(columns) - 1)
        for pattern, narrowed in (
            (WORDS, self.wrap),
            (WORDS, [True] * len(columns)),
            (PARTS, self.wrap),
            (PARTS, [True] * len(columns)),
        ):
            least = [_least(column, pattern) for column in columns]
            while sum(widths) > room:
                can = [i for i, w in enumerate(widths) if narrowed[i] and w > least[i]]
                if not can:
                    break
                widths[max(can, key=lambda i: widths[i])] -= 1
        return widths if sum(widths) <= room else None

    def _row(self, cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
        folded = [fold(cell, width) for cell, width in zip(cells, widths, strict=True)]
        for number in range(max((len(lines) for lines in folded), default=0)):
            parts = []
            for lines, width, right in zip(folded, widths, self.right, strict=True):
                text = lines[number] if number < len(lines) else ""
                blanks = " " * (width - _cells(text))
                parts.append(blanks + text if right else text + blanks)
            yield (" " * GAP).join(parts).rstrip()

    def _records(self, width: int) -> Iterator[tuple[str, str | None]]:
        for cells, style in zip(self.rows, self._styles, strict=True):
            for header, cell in zip(self.headers, cells, strict=True):
                for line in fold(f"{header}: {' '.join(cell.split())}", width):
                    yield line, style
            yield "", None


def fold(text: str, width: int) -> list[str]:
    """Break text into lines of a width: between words, else after a sign, else anywhere.

    Examples
    --------
    >>> fold("gcp/europe-north1", 12), fold("as of", 2)
    (['gcp/europe-', 'north1'], ['as', 'of'])
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for piece in _pieces(paragraph, width):
            if line and _cells(line + piece.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
        lines.append(line.rstrip())
    return lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """Yield what stays on one line, with the blanks behind it."""
    for word in filter(None, WORDS.findall(text)):
        if _cells(word.rstrip()) <= width:
            yield word
            continue
        for part in filter(None, PARTS.findall(word)):
            if _cells(part.rstrip()) <= width:
                yield part
            else:
                yield from part


def _longest(text: str) -> int:
    return max(_cells(line) for line in text.split("\n"))


def _least(column: Iterable[str], pattern: re.Pattern[str]) -> int:
    """Return the least width in which no piece of a column is broken."""
    return max(
        (_cells(piece.rstrip()) for cell in column for piece in pattern.findall(cell)), default=1
    )


def _cells(text: str) -> int:
    """Return the columns that text takes: two for each wide character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
