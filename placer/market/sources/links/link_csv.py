"""Links in any CSV file: in the columns of links.csv, or in others that the user names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from placer.errors import PlacerError, unknown
from placer.market.books.csv_rows import file_columns
from placer.market.catalog import Region
from placer.market.sources.harvest import Harvest
from placer.market.sources.links.readings import BASES, MANY, Reading, harvest_readings
from placer.market.sources.reading.csv_text import Table, read_table
from placer.market.sources.reading.fetch import Document, is_url
from placer.records import replace
from placer.units import parse_bandwidth, parse_date, parse_seconds

FILE = "links.csv"
RATES = ("gbps_one_stream", "gbps_many_streams", "gbps_low", "gbps_high")


def parse_map(text: str) -> dict[str, str]:
    """Read which column of the file is which of links.csv.

    Examples
    --------
    >>> parse_map("src=from,dst=to,rtt_ms=latency")
    {'src': 'from', 'dst': 'to', 'rtt_ms': 'latency'}
    """
    known = list(file_columns(FILE))
    columns: dict[str, str] = {}
    for part in text.split(","):
        name, equals, column = (word.strip() for word in part.partition("="))
        if not equals or not column:
            raise PlacerError(
                f"map '{part}' is not two columns", "write it as src=from,dst=to,rtt_ms=latency"
            )
        if name not in known:
            raise unknown("column of links.csv", name, known)
        if name in columns:
            raise PlacerError(f"map '{text}' names '{name}' twice", "name each column once")
        columns[name] = column
    return columns


def import_links(
    documents: Sequence[Document],
    regions: Mapping[str, Region],
    *,
    columns: Mapping[str, str] | None = None,
    rate_unit: str = "Gb/s",
    rtt_unit: str = "ms",
    date: str | None = None,
    skip_bad: bool = False,
) -> Harvest:
    """Read links from CSV files.

    Parameters
    ----------
    documents
        The files.
    regions
        Places that a book knows.
    columns
        Column of the file for each of links.csv; None: they have the same names.
    rate_unit, rtt_unit
        Units of the file, such as ``Mb/s`` and ``us``.
    date
        ISO date for rows without one.
    skip_bad
        Leave out and count rows that cannot be true.

    Raises
    ------
    PlacerError
        Names file and line.
    """
    bits, ms = parse_bandwidth(f"1{rate_unit}") * 8, parse_seconds(f"1{rtt_unit}") * 1e3
    names = {name: name for name in file_columns(FILE)} if columns is None else dict(columns)
    for needed in ("src", "dst"):
        if needed not in names:
            raise PlacerError(
                f"map has no column for '{needed}'", "write it as src=from,dst=to,rtt_ms=latency"
            )
    readings = [
        r
        for document in documents
        for r in _readings(read_table(document), names, columns is not None, bits, ms, date)
    ]
    return harvest_readings(
        readings, regions, origins=[d.origin for d in documents], skip_bad=skip_bad
    )


def _readings(
    table: Table, names: Mapping[str, str], mapped: bool, bits: float, ms: float, date: str | None
) -> Iterator[Reading]:
    for line, row in table.rows():
        missing = [
            column
            for name, column in names.items()
            if column not in row and (mapped or name in ("src", "dst"))
        ]
        if missing:
            hint = (
                "correct --map"
                if mapped
                else "name the columns of this file with --map 'src=from,dst=to,rtt_ms=latency'"
            )
            raise table.error(f"column '{missing[0]}' is missing", hint, 1)
        cells = {name: row.get(column, "").strip() for name, column in names.items()}
        rates = {
            name: _scaled(table.number(line, names[name], cells[name]), bits)
            for name in RATES
            if name in cells
        }
        rtt_ms = (
            _scaled(table.number(line, names["rtt_ms"], cells["rtt_ms"]), ms)
            if "rtt_ms" in cells
            else None
        )
        one, many = rates.get("gbps_one_stream"), rates.get("gbps_many_streams")
        if one is None and many is None and rtt_ms is None:
            raise table.error(
                "has neither a throughput nor a round-trip time",
                "fill one of them, or map their columns",
                line,
            )
        reading = Reading(
            src=cells["src"],
            dst=cells["dst"],
            where=f"{table.place}:{line}",
            source=cells.get("source") or table.name,
            as_of=_date(table, line, cells.get("as_of"), date),
            basis=_basis(table, line, cells.get("basis")),
            rtt_ms=rtt_ms,
        )
        yield replace(
            reading, bits_per_s=one, low=rates.get("gbps_low"), high=rates.get("gbps_high")
        )
        if many is not None:
            yield replace(reading, streams=MANY, bits_per_s=many, rtt_ms=None)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _date(table: Table, line: int, cell: str | None, date: str | None) -> str:
    if cell:
        return parse_date(cell, f"{table.place}:{line}: as_of").isoformat()
    return given_day(table, line, date)


def given_day(table: Table, line: int, date: str | None) -> str:
    """Return the day that the user gives for rows that have none; `PlacerError` without one."""
    if date is None:
        raise table.error(
            "does not say when it was measured", "give its day, as in --date 2026-08-03", line
        )
    return date


def _basis(table: Table, line: int, cell: str | None) -> str:
    if cell and cell not in BASES:
        raise table.error(
            f"basis '{cell[:40]}' is not one of {', '.join(BASES)}", "correct this cell", line
        )
    return cell or BASES[0]


def read_pairs(document: Document) -> list[tuple[str, str, str]]:
    """Read a table of runs with the columns file,src,dst; a relative file lies beside the table.

    Raises
    ------
    PlacerError
        If a column is missing or a cell is empty.
    """
    table = read_table(document)
    rows = []
    for line, row in table.rows():
        cells = [row.get(column, "").strip() for column in ("file", "src", "dst")]
        if not all(cells):
            raise table.error("a cell of file,src,dst is empty or missing", _PAIRS_HINT, line)
        file = (
            cells[0]
            if is_url(cells[0]) or is_url(table.place)
            else str(Path(table.place).parent / cells[0])
        )
        rows.append((file, cells[1], cells[2]))
    if not rows:
        raise table.error("has no row", _PAIRS_HINT, 1)
    return rows


_PAIRS_HINT = "write one row a run: run.json,aws/us-east-1,gcp/us-west1"
