"""The public grids of Skyplane: throughput of 64 connections and round-trip time between cloud
regions.

Jain et al., Skyplane (NSDI 2023); github.com/skyplane-project/skyplane, profiles/throughput.csv and
latency.csv.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from placer.market.catalog import Region
from placer.market.sources.harvest import Harvest
from placer.market.sources.links.link_csv import given_day
from placer.market.sources.links.readings import MANY, Reading, harvest_readings
from placer.market.sources.reading.csv_text import Table, read_table
from placer.market.sources.reading.fetch import Document
from placer.units import parse_date

THROUGHPUT = ("throughput_received", "throughput_recieved", "throughput_sent")
"""Columns in bits/s, the best first: what arrived. Skyplane's own files spell the first one as the
second.
"""
RTT = (
    "avg_rtt",
    "rtt_avg",
    "rtt_avg_ms",
    "avg",
    "rtt_ms",
    "rtt",
    "min_rtt",
    "rtt_min",
    "rtt_min_ms",
)
"""Columns in ms, the best first."""
TIER = "PREMIUM"
"""Network tier that placer's egress prices are for; GCP also sells STANDARD, which routes over the
internet.
"""
ZONE = re.compile(
    r"(?:gcp/(?P<gcp>[a-z]+-[a-z]+[0-9]+)-[a-z]|aws/(?P<aws>[a-z]{2}(?:-[a-z]+)+-[0-9]+)[a-z])"
)
RUN_DATE = re.compile(r"(20[0-9]{2})\.([01][0-9])\.([0-3][0-9])_[0-2][0-9]\.[0-5][0-9]")
"""Skyplane names the logs of a run by its time: ``throughput_grid/2022.01.24_21.42_name``."""


def import_skyplane(
    documents: Sequence[Document],
    regions: Mapping[str, Region],
    *,
    date: str | None = None,
    skip_bad: bool = False,
) -> Harvest:
    """Read grids of throughput and latency; several of them merge.

    Parameters
    ----------
    documents
        CSV files with ``src_region``, ``dst_region`` and a column of throughput or round-trip time.
    regions
        Places of the book that the links shall serve.
    date
        ISO date of the measurement, for rows that name no log of their run.
    skip_bad
        Leave out and count rows that cannot be true.

    Raises
    ------
    PlacerError
        Names file and line.
    """
    left_out: Counter[str] = Counter()
    readings = [
        reading
        for document in documents
        for reading in _readings(read_table(document), date, left_out)
    ]
    return harvest_readings(
        readings,
        regions,
        origins=[d.origin for d in documents],
        skip_bad=skip_bad,
        left_out=left_out,
    )


def place_of(region: str) -> str:
    """Write Skyplane's name of a region or zone as a place.

    Examples
    --------
    >>> place_of("gcp:us-central1-a"), place_of("aws:us-east-1"), place_of("azure:eastus")
    ('gcp/us-central1', 'aws/us-east-1', 'azure/eastus')
    """
    place = region.strip().replace(":", "/", 1)
    zone = ZONE.fullmatch(place)
    return place if zone is None else f"gcp/{zone['gcp']}" if zone["gcp"] else f"aws/{zone['aws']}"


def _readings(table: Table, date: str | None, left_out: Counter[str]) -> Iterator[Reading]:
    for line, row in table.rows():
        if (
            "src_region" not in row
            or "dst_region" not in row
            or not any(c in row for c in (*THROUGHPUT, *RTT))
        ):
            words = (
                "is no grid of Skyplane: it needs src_region, dst_region and "
                "throughput_received or avg_rtt"
            )
            raise table.error(
                words,
                "name its throughput.csv or latency.csv, or use 'placer network import csv --map'",
                1,
            )
        reason = _unused(row)
        bits, rtt_ms = _first(table, line, row, THROUGHPUT), _first(table, line, row, RTT)
        if reason is None and bits is None and rtt_ms is None:
            reason = "row without a figure"
        if reason is not None:
            left_out[reason] += 1
            continue
        yield Reading(
            src=place_of(row["src_region"]),
            dst=place_of(row["dst_region"]),
            where=f"{table.place}:{line}",
            source=f"Skyplane grid {table.name}",
            as_of=_date(table, line, row, date),
            streams=_streams(table, line, row),
            bits_per_s=bits,
            rtt_ms=rtt_ms,
        )


def _unused(row: Mapping[str, str]) -> str | None:
    if row.get("success", "").strip().lower() == "false":
        return "run that failed"
    tier = next(
        (
            row[c].strip()
            for c in ("src_tier", "dst_tier")
            if row.get(c, "").strip().upper() not in ("", TIER)
        ),
        None,
    )
    return None if tier is None else f"network tier {tier}"


def _first(table: Table, line: int, row: Mapping[str, str], columns: Sequence[str]) -> float | None:
    """Return the first figure that a row has."""
    return next(
        (value for c in columns if (value := table.number(line, c, row.get(c, ""))) is not None),
        None,
    )


def _streams(table: Table, line: int, row: Mapping[str, str]) -> int:
    connections = table.number(line, "iperf3_connections", row.get("iperf3_connections", ""))
    return int(connections) if connections is not None and 1 <= connections <= 1e6 else MANY


def _date(table: Table, line: int, row: Mapping[str, str], date: str | None) -> str:
    match = RUN_DATE.search(row.get("stdout_path", ""))
    if match is not None:
        return parse_date(
            "-".join(match.groups()), f"{table.place}:{line}: date of the log"
        ).isoformat()
    return given_day(table, line, date)
