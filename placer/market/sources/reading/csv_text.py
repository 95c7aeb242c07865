"""Read the cells of a CSV document that another program wrote: encodings, what is not CSV at all,
and files that are cut off.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from placer.errors import SourceError
from placer.market.sources.reading.fetch import Document

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
MOST_NAME = 200
"""Longest name of a column."""


class Table(NamedTuple):
    """Names of columns, the number of the line and cells of each row, not yet checked, and whether
    the last line has no end: a program that writes a file to its end leaves one.
    """

    header: Sequence[str]
    cells: Iterator[tuple[int, list[str]]]
    cut_off: bool


def read_table(document: Document) -> Table:
    """Split a document into a header and rows.

    Parameters
    ----------
    document
        UTF-8 with or without a mark, or UTF-16 with one.

    Raises
    ------
    PlacerError
        With exit code 7 if it is empty, no text, JSON, HTML or an archive, or has other separators
        than commas; while rows are read, if quotes are broken.
    """
    place = document.origin.place
    text = _text(document.data, place)
    rows = _rows(text, place)
    header = next(rows, None)
    if header is None:
        raise SourceError(f"'{place}' is empty", "fetch it again")
    names = [name.strip() for name in header[1]]
    where = f"{place}:{header[0]}"
    if len(names) == 1 and (other := next((c for c in ";\t" if c in names[0]), None)):
        words = "tabs" if other == "\t" else f"'{other}'"
        raise SourceError(
            f"'{place}' is separated by {words}, not by commas", "export it as CSV with commas"
        )
    if any(len(name) > MOST_NAME or not name.isprintable() for name in names):
        raise SourceError(
            f"{where}: the first line has no names of columns", "name a CSV file with a header"
        )
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise SourceError(f"{where}: column '{twice[0]}' appears twice", "keep one of the two")
    first = next(rows, None)
    return Table(
        header=names,
        cells=rows if first is None else chain([first], rows),
        cut_off=first is not None and not text.endswith(("\n", "\r")),
    )


def _text(data: bytes, place: str) -> str:
    if data[:4] == b"PK\x03\x04":
        what, tip = "a zip archive or a workbook", "unpack it, or export it as CSV"
    elif (text := _decoded(data)) is None:
        what, tip = "not UTF-8 text", "save it as UTF-8 CSV"
    elif "\0" in text:
        what, tip = "not text: it has zero bytes", "save it as UTF-8 CSV"
    elif text.lstrip()[:1] == "<":
        what, tip = "a web page (HTML), no CSV", "use the address of the raw file"
    elif text.lstrip()[:1] in ("{", "["):
        what, tip = "JSON, not CSV", 'name a mapping file that says format = "json" or "jsonl"'
    else:
        return text
    raise SourceError(f"'{place}' is {what}", tip)


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-16" if data[:2] in UTF16_MARKS else "utf-8-sig")
    except UnicodeDecodeError:
        return None


def _rows(text: str, place: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise SourceError(
            f"{place}:{reader.line_num}: not valid CSV: {error}",
            "check the quotes of this line, or fetch it again",
        ) from None
