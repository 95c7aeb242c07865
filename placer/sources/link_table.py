"""A CSV document of links from elsewhere: its header, its rows with their lines, its numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from placer.errors import PlacerError
from placer.sources.fetch import FAILED, Document, is_url


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A document as text, with the short name that a book may tell."""

    place: str
    name: str
    text: str

    def error(self, words: str, hint: str, line: int | None = None) -> PlacerError:
        """Build the error about a line: a file of the user is wrong input, a URL a source that did not deliver."""
        where = self.place if line is None else f"{self.place}:{line}"
        return PlacerError(f"{where}: {words}", hint, FAILED if is_url(self.place) else 2)


def as_table(document: Document) -> Table:
    """Decode a document as UTF-8 text; `PlacerError` if it is binary or an HTML page."""
    place = document.origin.place
    name = PurePosixPath(urlsplit(place).path if is_url(place) else place.replace("\\", "/")).name or place
    table = Table(place=place, name=name, text="")
    try:
        text = document.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise table.error("is no UTF-8 text", "name a CSV file") from None
    if text.lstrip()[:1] == "<":
        raise table.error("is an HTML or XML page, not CSV", "name the file itself: on GitHub, its raw address")
    return Table(place=place, name=name, text=text)


def numbered_rows(table: Table) -> Iterator[tuple[int, dict[str, str]]]:
    """Give every row by column name with its line; empty lines are passed over.

    Raises
    ------
    PlacerError
        If a column stands twice, or a row has more or fewer cells than the header.
    """
    lines = csv.reader(io.StringIO(table.text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(lines, [])]
        if not header:
            raise table.error("is empty", "name a CSV file with a header")
        if len(set(header)) != len(header):
            raise table.error("a column stands twice in the header", "keep one of the two", 1)
        for cells in lines:
            if cells and len(cells) != len(header):
                words = f"{len(cells)} cells instead of {len(header)}"
                raise table.error(words, "check the commas of this line; if it is the last one, the file is not complete", lines.line_num)
            if cells:
                yield lines.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise table.error(f"not valid CSV: {error}", "check the quotes of this line", lines.line_num) from None


def number(table: Table, line: int, column: str, cell: str) -> float | None:
    """Read a number; None for an empty cell. NaN and infinity stay: who judges the figure refuses or counts them."""
    text = cell.strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = None
    if value is None or "_" in text or not text.isascii():
        raise table.error(f"{column} '{text[:40]}' is not a number", "correct this cell", line)
    return value
