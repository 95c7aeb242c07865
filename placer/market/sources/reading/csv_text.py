"""Read the cells of a CSV document that another program wrote: encodings, what is not CSV at all,
and files that are cut off.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from placer.errors import PlacerError
from placer.market.books.csv_rows import plain_number
from placer.market.sources.reading.fetch import FAILED, Document, is_url

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
MOST_NAME = 200
"""Longest name of a column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A header and its rows, not yet checked.

    Parameters
    ----------
    place
        Path or URL, for messages.
    header
        Names of the columns without blanks around them.
    cells
        Number of the line and cells of each row; rows may be too short or too long.
    cut_off
        Whether the last line has no end: a program that writes a file to its end leaves one.
    """

    place: str
    header: Sequence[str]
    cells: Iterator[tuple[int, list[str]]]
    cut_off: bool

    @property
    def name(self) -> str:
        """Last part of the place, which a book may tell."""
        return (
            PurePosixPath(
                urlsplit(self.place).path if is_url(self.place) else self.place.replace("\\", "/")
            ).name
            or self.place
        )

    def error(self, words: str, hint: str, line: int) -> PlacerError:
        """Build the error about a line: a file of the user is wrong input, a URL a source that did
        not deliver.
        """
        return PlacerError(
            f"{self.place}:{line}: {words}", hint, FAILED if is_url(self.place) else 2
        )

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Give every row by column name with its line.

        Raises
        ------
        PlacerError
            If a row has more or fewer cells than the header.
        """
        for line, cells in self.cells:
            if len(cells) != len(self.header):
                words = f"{len(cells)} cells instead of {len(self.header)}"
                raise self.error(
                    words,
                    "check the commas of this line; if it is the last one, the file is incomplete",
                    line,
                )
            yield line, dict(zip(self.header, cells, strict=True))

    def number(self, line: int, column: str, cell: str) -> float | None:
        """Read a number; None for an empty cell. NaN and infinity stay: who judges the figure
        refuses or counts them.
        """
        try:
            return plain_number(cell) if cell.strip() else None
        except ValueError as error:
            raise self.error(
                f"{column} '{cell.strip()[:40]}' {error}", "correct this cell", line
            ) from None


def read_table(document: Document) -> Table:
    """Split a document into a header and rows.

    Parameters
    ----------
    document
        UTF-8 with or without a mark, or UTF-16 with one.

    Raises
    ------
    PlacerError
        With exit code 7 if it is empty, no text, HTML or an archive; while rows are read, if quotes
        are broken.
    """
    place = document.origin.place
    text = _text(document.data, place)
    rows = _rows(text, place)
    header = next(rows, None)
    if header is None:
        raise PlacerError(f"'{place}' is empty", "fetch it again", exit_code=FAILED)
    names = [name.strip() for name in header[1]]
    if any(len(name) > MOST_NAME or not name.isprintable() for name in names):
        raise PlacerError(
            f"{place}:{header[0]}: the first line has no names of columns",
            "name a CSV file with a header",
            exit_code=FAILED,
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise PlacerError(
            f"{place}:{header[0]}: column '{twice[0]}' appears twice",
            "keep one of the two",
            exit_code=FAILED,
        )
    first = next(rows, None)
    cells = rows if first is None else chain([first], rows)
    return Table(
        place=place,
        header=names,
        cells=cells,
        cut_off=first is not None and not text.endswith(("\n", "\r")),
    )


def _text(data: bytes, place: str) -> str:
    if data[:4] == b"PK\x03\x04":
        raise PlacerError(f"'{place}' is a zip archive", "unpack it first", exit_code=FAILED)
    try:
        text = data.decode("utf-16" if data[:2] in UTF16_MARKS else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlacerError(
            f"'{place}' is not UTF-8 text: byte {error.start}",
            "save it as UTF-8 CSV",
            exit_code=FAILED,
        ) from None
    if "\0" in text:
        raise PlacerError(
            f"'{place}' is not text: it has zero bytes", "save it as UTF-8 CSV", exit_code=FAILED
        )
    if text.lstrip()[:1] == "<":
        raise PlacerError(
            f"'{place}' is a web page (HTML), no CSV",
            "use the address of the raw file",
            exit_code=FAILED,
        )
    return text


def _rows(text: str, place: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise PlacerError(
            f"{place}:{reader.line_num}: not valid CSV: {error}",
            "check the quotes of this line, or fetch it again",
            FAILED,
        ) from None
