"""Measured links of any source as readings, by a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.market.catalog import Region
from placer.market.sources.harvest import Harvest
from placer.market.sources.links.readings import MANY, Reading, harvest_readings
from placer.market.sources.reading.fetch import Document, is_url
from placer.market.sources.reading.mapped_rows import mapped_rows
from placer.market.sources.reading.mapping import SourceMap
from placer.market.sources.reading.records import read_records
from placer.market.sources.reading.tally import Tally
from placer.records import replace

PAIRS = SourceMap(about="one row a run: run.json,aws/us-east-1,gcp/us-west1", kind="links")
PAIRS_COLUMNS = ("file", "src", "dst")


def import_links(
    documents: Sequence[tuple[Document, Mapping[str, str]]],
    mapping: SourceMap,
    regions: Mapping[str, Region],
    *,
    date: str | None = None,
    skip_bad: bool = False,
) -> Harvest:
    """Read links from documents; several of one pair are several runs.

    Parameters
    ----------
    documents
        Each with what its mapping finds under ``given``: the places ``from`` and ``to`` of a run.
    mapping
        Of links.
    regions
        Places that a book knows.
    date
        ISO date for rows without one.
    skip_bad
        Leave out and count what failed or cannot be true.

    Raises
    ------
    PlacerError
        Names file and line.
    """
    tally = Tally(skip_bad=skip_bad)
    readings = []
    for document, given in documents:
        records = read_records(document, mapping, tally)
        for where, row, _ in mapped_rows(records, mapping, tally, given, date):
            made = list(_readings(where, row, records.file))
            if not made:
                tally.refuse(
                    where, "has neither a throughput nor a round-trip time", "fill one of them"
                )
            readings += made
    return harvest_readings(
        readings,
        regions,
        origins=[document.origin for document, _ in documents],
        skip_bad=skip_bad,
        strict_places=mapping.unknown_names == "refused",
        left_out=tally.reasons(),
    )


def _readings(where: str, row: Mapping[str, Any], file: str) -> Iterator[Reading]:
    """Yield the measurements of one row: a number of streams is measured by itself."""
    rates = {
        name: None if row.get(name) is None else row[name] * 1e9
        for name in ("gbps", "gbps_one_stream", "gbps_many_streams", "gbps_low", "gbps_high")
    }
    reading = Reading(
        src=row["src"],
        dst=row["dst"],
        where=where,
        source=row.get("source") or file,
        as_of=row["as_of"],
        basis=row.get("basis", "measured"),
    )
    one, many = rates["gbps_one_stream"], rates["gbps_many_streams"]
    if one is not None or row.get("rtt_ms") is not None:
        yield replace(
            reading,
            bits_per_s=one,
            low=rates["gbps_low"],
            high=rates["gbps_high"],
            rtt_ms=row.get("rtt_ms"),
        )
    for bits, streams in ((rates["gbps"], row.get("streams")), (many, None)):
        if bits is not None:
            yield replace(reading, streams=streams or MANY, bits_per_s=bits)


def read_pairs(document: Document) -> list[tuple[str, str, str]]:
    """Read a table of runs with the columns file,src,dst; a relative file lies beside the table.

    Raises
    ------
    PlacerError
        If a column is missing or a cell is empty.
    """
    records = read_records(document, PAIRS, Tally(skip_bad=False))
    pairs = []
    for where, row in records.rows:
        file, src, dst = (str(row.get(name, "")) for name in PAIRS_COLUMNS)
        if not (file and src and dst):
            raise PlacerError(f"{where}: a cell of file,src,dst is empty or missing", PAIRS.about)
        beside = not is_url(file) and not is_url(records.place)
        pairs.append((str(Path(records.place).parent / file) if beside else file, src, dst))
    if not pairs:
        raise PlacerError(f"{records.place}:1: has no row", PAIRS.about)
    return pairs
