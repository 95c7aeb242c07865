"""Records of a document, whatever holds them: CSV, JSON, or lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from placer.errors import PlacerError, SourceError, unknown
from placer.files.json_text import parse_json
from placer.market.sources.reading.csv_text import read_table
from placer.market.sources.reading.expressions import evaluate
from placer.market.sources.reading.fetch import Document, is_url
from placer.market.sources.reading.mapping import SourceMap
from placer.market.sources.reading.tally import Tally

Record = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Records:
    """Records with where each stands, the names that they have, and whether the end of the last
    line is missing.
    """

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
    """Split a document into records.

    Parameters
    ----------
    document
        What was read.
    mapping
        Says which container it is and which names it needs.
    tally
        Counts rows of CSV with other cells than the header.

    Raises
    ------
    PlacerError
        With exit code 7 if it is not of this format; if a name is missing that the mapping needs.
    """
    place = document.origin.place
    if mapping.format == "csv":
        records = _of_csv(document, mapping, tally)
    else:
        found = list(_of_json(document, mapping))
        names = dict.fromkeys(name for _, record in found for name in record)
        records = Records(place=place, names=[*names], rows=found)
    if mapping.format != "csv" and not records.rows:
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
    table, place = read_table(document), document.origin.place
    rows: list[tuple[str, Record]] = []
    where = f"{place}:1"
    for number, cells in table.cells:
        where = f"{place}:{number}"
        if len(cells) != len(table.header):
            tally.refuse(where, f"{len(cells)} cells instead of {len(table.header)}")
        else:
            rows.append((where, dict(zip(table.header, map(str.strip, cells), strict=True))))
    if table.cut_off and mapping.whole_lines and rows and rows[-1][0] == where:
        tally.refuse(where, "the last line has no end: the file is cut off")
        rows.pop()
    return Records(
        place=place,
        names=table.header,
        rows=rows,
        cut_off=table.cut_off and not mapping.whole_lines,
    )


def _of_json(document: Document, mapping: SourceMap) -> Iterator[tuple[str, Record]]:
    place = document.origin.place
    if mapping.format == "json":
        texts = [(place, document.data)]
    else:
        lines = enumerate(document.data.splitlines(), 1)
        texts = [(f"{place}:{number}", line) for number, line in lines if line.strip()]
    for where, text in texts:
        try:
            parsed = parse_json(text.removeprefix(b"\xef\xbb\xbf"))
        except (ValueError, RecursionError) as error:
            words = f"is not the JSON of this source: {str(error)[:80] or 'nested too deep'}"
            raise SourceError(f"{where}: {words}", _about(mapping)) from None
        yield from parsed_records(parsed, mapping, where).rows


def parsed_records(parsed: Any, mapping: SourceMap, place: str) -> Records:
    """Return the records of JSON that was parsed before, such as the answer of an interface.

    Raises
    ------
    PlacerError
        With exit code 7 if there is no list of objects where the mapping says.
    """
    try:
        found = evaluate(mapping.rows, parsed) if mapping.rows else parsed
    except ValueError:
        found = None
    records = found if isinstance(found, list) else [found]
    if not all(isinstance(record, dict) for record in records):
        under = f" under '{mapping.rows}'" if mapping.rows else ""
        raise SourceError(f"{place}: has no list of objects{under}", _about(mapping))
    alone = len(records) == 1
    rows = [
        (place if alone else f"{place}: row {number}", record)
        for number, record in enumerate(records, 1)
    ]
    return Records(place=place, names=(), rows=rows)
