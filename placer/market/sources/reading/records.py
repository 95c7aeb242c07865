"""Records of a document, whatever holds them: CSV in any encoding, JSON, or lines of JSON."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from placer.errors import PlacerError, SourceError, unknown
from placer.files.json_text import parse_json
from placer.market.sources.harvest import Tally
from placer.market.sources.reading.expressions import as_text, evaluate
from placer.market.sources.reading.fetch import Document, is_url
from placer.market.sources.reading.mapping import SourceMap

Record = Mapping[str, Any]
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
SEPARATORS = (",", ";", "\t", "|")
MOST_NAME = 200  # Longest name of a column
AWS_PREAMBLE = "FormatVersion"
"""With this begins what AWS's bulk price lists say of themselves above the names of columns."""


class Records(Struct, frozen=True, kw_only=True):
    """Records with where each stands, and whether the end of the last line is missing."""

    place: str
    names: Sequence[str]
    rows: Sequence[tuple[str, Record]]
    cut_off: bool = False

    @property
    def file(self) -> str:
        """Last part of the place, which a book may tell."""
        path = urlsplit(self.place).path if is_url(self.place) else self.place.replace("\\", "/")
        return PurePosixPath(path).name or self.place


def read_records(document: Document, mapping: SourceMap, tally: Tally) -> Records:
    """Split a document into records; ``tally`` counts rows of CSV with other cells than the header.
    Exit code 7 if it is not of the format of the mapping, or lacks a name that it needs.
    """
    place = document.origin.place
    if mapping.format == "csv":
        records = _of_csv(document, mapping, tally)
    else:
        found = list(_of_json(document, mapping))
        names = dict.fromkeys(name for _, record in found for name in record)
        records = Records(place=place, names=[*names], rows=found)
        if not found:
            return records
    for need in mapping.needs:
        if not set(need.split("|")) & set(records.names):
            words = need.replace("|", " or ")
            raise SourceError(f"{place}:1: column '{words}' is missing", _about(mapping))
    for part in mapping.parts():
        for theirs in part.columns.values():
            if theirs not in records.names:
                error = unknown("column", theirs, records.names)
                raise PlacerError(f"{place}:1: {error.message}", error.hint)
    return records


def _about(mapping: SourceMap) -> str:
    return f"the mapping is for: {mapping.about}" if mapping.about else "name another file"


def _of_csv(document: Document, mapping: SourceMap, tally: Tally) -> Records:
    place = document.origin.place
    text = _text(document.data, place)
    lines = _lines(text, place)
    header = _header(lines, place)
    rows: list[tuple[str, Record]] = []
    where = ""
    for number, cells in lines:
        where = f"{place}:{number}"
        if len(cells) != len(header):
            tally.refuse(where, f"{len(cells)} cells instead of {len(header)}")
        else:
            rows.append((where, dict(zip(header, map(str.strip, cells), strict=True))))
    below = {row[header[0]] for _, row in rows}
    # A matrix has places for names: they have a provider, or stand below, too.
    is_matrix = "/" in header[-1] or (len(header) > 2 and {*header[1:]} == below)
    if mapping.kind == "links" and is_matrix:
        header, rows = _unpivoted(header, rows)
    # A program that writes a file to its end leaves the end of the last line.
    cut_off = bool(where) and not text.endswith(("\n", "\r"))
    if cut_off and mapping.whole_lines and rows and rows[-1][0] == where:
        tally.refuse(where, "the last line has no end: the file is cut off")
        rows.pop()
    cut_off = cut_off and not mapping.whole_lines
    return Records(place=place, names=header, rows=rows, cut_off=cut_off)


def cells_of(document: Document) -> tuple[list[str], list[tuple[str, Mapping[str, str]]]]:
    """Split a CSV file, separated by the sign that divides most of its lines alike, or a table of
    Markdown, into the names of its columns and its rows with where each stands; a list of JSON,
    too. Titles above the names and remarks, which fill fewer cells, stay out; a row with more cells
    than there are names is refused.
    """
    place = document.origin.place
    if is_json(document):
        return _cells_of_json(document)
    text = _text(document.data, place, otherwise="cp1252").lstrip("\n\r")
    said = re.match(r"(?i)sep=(.)\r?\n", text)  # as Excel writes it
    sign = said[1] if said else _sign(text)
    lines = [
        (number, [cell.strip("*` \t") for cell in cells])
        for number, cells in _lines(text, place, sign)
        if not all(re.fullmatch(r":?-+:?|", cell.strip()) for cell in cells)
    ]
    first = next((at for at, (_, cells) in enumerate(lines) if any(cells[1:])), 0)
    names, rows = _merged([cells for _, cells in lines[first : first + 2]]), lines[first + 1 :]
    if rows and names != lines[first][1]:
        rows = rows[1:]
    if twice := [name for name, count in Counter(names).items() if count > 1 and name]:
        words = f"{place}:{lines[first][0]}: column '{twice[0]}' appears twice"
        raise SourceError(words, "keep one of the two")
    rows = [(number, cells) for number, cells in rows if 2 * len(cells) > len(names)]
    widest = max((len(cells) for _, cells in rows), default=0)
    for number, cells in rows:
        if any(cells[len(names) :]) or widest < len(names):
            words = f"{place}:{number}: {len(cells)} cells below {len(names)} names of columns"
            raise SourceError(words, f"put what has a '{sign}' in it into double quotes")
    return names, [
        (f"{place}:{number}", dict(zip_longest(names, cells[: len(names)], fillvalue="")))
        for number, cells in rows
    ]


def is_json(document: Document) -> bool:
    """Tell whether a document begins as JSON does."""
    return document.data.removeprefix(UTF8_MARK).lstrip()[:1] in (b"{", b"[")


def _sign(text: str) -> str:
    """Return the sign that divides most lines of the beginning into as many cells."""

    def alike(sign: str) -> tuple[int, int]:
        counts = Counter(line.count(sign) for line in text.splitlines()[:50] if sign in line)
        return max(((lines, number) for number, lines in counts.items()), default=(0, 0))

    return max(SEPARATORS, key=alike)


def _merged(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of columns of two lines, of which the upper one may name several columns
    with one cell, as spreadsheets do; of the first alone where it names each column.
    """
    if not lines:
        return []
    upper = list(lines[0])
    below = lines[1] if len(lines) > 1 else []
    plain = len({*upper}) == len(upper) and all(upper[:-1])
    if plain or len(below) != len(upper) or any(map(_FIGURE.match, below)):
        return upper
    for at in range(1, len(upper)):
        upper[at] = upper[at] or upper[at - 1]
    both = zip(upper, below, strict=True)
    return [" ".join(dict.fromkeys(f"{above} {name}".split())) for above, name in both]


_FIGURE = re.compile(r"[^A-Za-z0-9]*[0-9][0-9.,]*(?![0-9.,]| ?-?(?:year|yr|month|jahr|monat))")
"""Begins a cell of data; names of columns begin so where they name a term."""


def _cells_of_json(document: Document) -> tuple[list[str], list[tuple[str, Mapping[str, str]]]]:
    """Take the longest list of objects in JSON for the rows; names inside names have a point."""
    found = max(_lists(_parsed(document)), key=len, default=[])
    flat = [dict(_flat(record)) for record in found]
    names = [*dict.fromkeys(name for record in flat for name in record)]
    place = document.origin.place
    return names, [
        (f"{place}: row {number}", {name: record.get(name, "") for name in names})
        for number, record in enumerate(flat, 1)
    ]


def _parsed(document: Document) -> Any:
    try:
        return parse_json(document.data.removeprefix(UTF8_MARK))
    except (ValueError, RecursionError) as error:
        words = f"{document.origin.place}: is no JSON: {str(error)[:80] or 'nested too deep'}"
        raise SourceError(words, "save it again") from None


def _lists(value: Any) -> Iterator[list[Any]]:
    """Yield the lists of objects in JSON, not those inside of records."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _lists(inner)


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, list):
            yield f"{before}{name}", as_text(value)


def _unpivoted(
    names: Sequence[str], rows: Sequence[tuple[str, Record]]
) -> tuple[list[str], list[tuple[str, Record]]]:
    """Read a matrix, whose first column and other names are places, as a row for each cell that has
    a figure. The name of the corner or the unit of the cells says what they are; without one it is
    ``cell``.
    """
    corner, *ends = names
    cells = [row[end] for _, row in rows for end in ends if row[end]]
    timed = any(re.fullmatch(r"[0-9.]+ ?ms", cell) for cell in cells)
    figure = "rtt_ms" if timed or re.search(r"(?i)latency|rtt|ping|\bms\b", corner) else "cell"
    if re.search(r"(?i)\bg(bps|b/s|bits?/s)\b", corner):
        figure = "gbps_many_streams"
    pairs = (
        (where, {"src": row[corner], "dst": end, figure: re.sub(r" ?ms$", "", row[end])})
        for where, row in rows
        for end in ends
        if row[end].lower() not in ("", "-", "n/a", "nan") and end != row[corner]
    )
    return ["src", "dst", figure], [*pairs]


def _header(lines: Iterator[tuple[int, list[str]]], place: str) -> list[str]:
    first = next(lines, None)
    if first is not None and first[1][0] == AWS_PREAMBLE:  # five lines of two cells
        first = next((line for line in lines if len(line[1]) > 2), None)
    if first is None:
        raise SourceError(f"'{place}' is empty", "fetch it again")
    where, names = f"{place}:{first[0]}", [name.strip() for name in first[1]]
    if len(names) == 1 and (other := next((c for c in ";\t" if c in names[0]), None)):
        words = "tabs" if other == "\t" else f"'{other}'"
        tip = "export it as CSV with commas"
        raise SourceError(f"'{place}' is separated by {words}, not by commas", tip)
    if any(len(name) > MOST_NAME or not name.isprintable() for name in names):
        words = f"{where}: the first line has no names of columns"
        raise SourceError(words, "name a CSV file with a header")
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise SourceError(f"{where}: column '{twice[0]}' appears twice", "keep one of the two")
    return names


def _text(data: bytes, place: str, otherwise: str = "utf-8") -> str:
    """Decode UTF-8 with or without a mark, UTF-16 with one, or another encoding, such as that of
    spreadsheets; say what is no CSV at all.
    """
    if data[:4] == b"PK\x03\x04":
        what, tip = "a zip archive or a workbook", "unpack it, or export it as CSV"
        raise SourceError(f"'{place}' is {what}", tip)
    try:
        text = data.decode("utf-16" if data[:2] in UTF16_MARKS else "utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = data.decode(otherwise)
        except UnicodeDecodeError:
            raise SourceError(f"'{place}' is not UTF-8 text", "save it as UTF-8 CSV") from None
    first = text.lstrip()[:1]
    if "\0" in text:
        what, tip = "not text: it has zero bytes", "save it as UTF-8 CSV"
    elif first == "<":
        what, tip = "a web page (HTML), no CSV", "use the address of the raw file"
    elif first in ("{", "["):
        what, tip = "JSON, not CSV", 'name a mapping file that says format = "json" or "jsonl"'
    else:
        return text
    raise SourceError(f"'{place}' is {what}", tip)


def _lines(text: str, place: str, sign: str = ",") -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=sign)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        words = f"{place}:{reader.line_num}: not valid CSV: {error}"
        raise SourceError(words, "check the quotes of this line, or fetch it again") from None


def _of_json(document: Document, mapping: SourceMap) -> Iterator[tuple[str, Record]]:
    place = document.origin.place
    if mapping.format == "json":
        texts = [(place, document.data)]
    else:
        lines = enumerate(document.data.splitlines(), 1)
        texts = [(f"{place}:{number}", line) for number, line in lines if line.strip()]
    for where, text in texts:
        try:
            parsed = _parsed_once(text)
        except (ValueError, RecursionError) as error:
            words = f"is not the JSON of this source: {str(error)[:80] or 'nested too deep'}"
            raise SourceError(f"{where}: {words}", _about(mapping)) from None
        yield from parsed_records(parsed, mapping, where).rows


@lru_cache(maxsize=1)
def _parsed_once(data: bytes) -> Any:
    """Parse a document that several mappings are asked about; a list of AWS takes seconds."""
    return parse_json(data.removeprefix(UTF8_MARK))


def fits(document: Document, mapping: SourceMap) -> bool:
    """Tell whether a document is of the kind that a mapping is made for."""
    try:
        if mapping.format == "csv":
            place = document.origin.place
            names = {*_header(_lines(_text(document.data, place), place), place)}
            return bool(mapping.needs) and all(names & {*need.split("|")} for need in mapping.needs)
        return bool(mapping.known_by) and is_of(_parsed_once(document.data), mapping)
    except (PlacerError, ValueError, RecursionError):
        return False


def is_of(parsed: Any, mapping: SourceMap) -> bool:
    """Tell whether a parsed document has what a mapping is known by."""
    try:
        return bool(evaluate(mapping.known_by, parsed))
    except ValueError:  # a key of the same name that holds something else
        return False


def parsed_records(parsed: Any, mapping: SourceMap, place: str) -> Records:
    """Return the records of JSON that was parsed before, such as the answer of an interface. Exit
    code 7 if there is no list of objects where the mapping says.
    """
    try:
        found = evaluate(mapping.rows, parsed) if mapping.rows else parsed
    except ValueError:
        found = None
    records = found if isinstance(found, list) else [found]
    if not all(isinstance(record, dict) for record in records):
        under = f" under '{mapping.rows}'" if mapping.rows else ""
        raise SourceError(f"{place}: has no list of objects{under}", _about(mapping))
    several = len(records) > 1
    rows = [
        (f"{place}: row {number}" if several else place, record)
        for number, record in enumerate(records, 1)
    ]
    return Records(place=place, names=(), rows=rows)
