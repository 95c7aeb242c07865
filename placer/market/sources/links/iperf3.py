"""Runs of iperf3 as it writes them with ``--json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from placer.errors import PlacerError
from placer.market.catalog import Region
from placer.market.sources.harvest import Harvest
from placer.market.sources.links.readings import Reading, harvest_readings
from placer.market.sources.reading.fetch import Document

BACK = "_bidir_reverse"
"""Suffix of the sums of the way back in a run with ``--bidir``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run: bits/s by direction (None: not measured), streams, round-trip time in ms and its
    day.
    """

    streams: int
    forth: float | None
    back: float | None
    rtt_ms: float | None
    as_of: str


def import_iperf3(
    documents: Sequence[tuple[Document, str, str]],
    regions: Mapping[str, Region],
    *,
    date: str | None = None,
    skip_bad: bool = False,
) -> Harvest:
    """Read runs of iperf3.

    Parameters
    ----------
    documents
        Each with the place of the client and of the server.
    regions
        Places that a book knows.
    date
        ISO date for runs without a time stamp.
    skip_bad
        Leave out and count runs that failed or cannot be true.

    Raises
    ------
    PlacerError
        Names the file and what iperf3 said.
    """
    readings: list[Reading] = []
    left_out: dict[str, int] = {}
    for document, client, server in documents:
        place = document.origin.place
        try:
            run = read_run(document.data, place, date)
        except PlacerError:
            if not skip_bad:
                raise
            left_out["run that failed"] = left_out.get("run that failed", 0) + 1
            continue
        readings += run_readings(run, client, server, place, f"iperf3 {Path(place).name}")
    origins = [document.origin for document, _, _ in documents]
    return harvest_readings(
        readings, regions, origins=origins, skip_bad=skip_bad, strict_places=True, left_out=left_out
    )


def run_readings(run: Run, client: str, server: str, where: str, source: str) -> list[Reading]:
    """Give the directions of a run; the round-trip time goes with the first."""
    ways = [(client, server, run.forth), (server, client, run.back)]
    made = [
        Reading(
            src=src,
            dst=dst,
            where=where,
            source=source,
            as_of=run.as_of,
            streams=run.streams,
            bits_per_s=bits,
        )
        for src, dst, bits in ways
        if bits is not None
    ]
    if run.rtt_ms is not None:
        made.append(
            Reading(
                src=client,
                dst=server,
                where=where,
                source=source,
                as_of=run.as_of,
                rtt_ms=run.rtt_ms,
            )
        )
    return made


def read_run(data: bytes | str, where: str, date: str | None = None) -> Run:
    """Read one document of iperf3.

    Raises
    ------
    PlacerError
        If it is no JSON of iperf3, the run failed, used UDP, or moved nothing.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise PlacerError(
            f"{where}: is not the JSON of one run of iperf3", "write it with iperf3 --json"
        ) from None
    if isinstance(document, dict) and "error" in document:
        raise PlacerError(
            f"{where}: iperf3 failed: {str(document['error'])[:200]}",
            "run it again, or leave it out with --skip-bad",
        )
    try:
        return _run(document["start"], document["end"], where, date)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, OSError) as error:
        words = (
            f"{where}: is not the JSON of one run of iperf3: {type(error).__name__} "
            f"{str(error)[:80]}"
        )
        raise PlacerError(words, "write it with iperf3 --json") from None


def _run(start: Mapping[str, Any], end: Mapping[str, Any], where: str, date: str | None) -> Run:
    test = start["test_start"]
    if test["protocol"] != "TCP":
        raise PlacerError(
            f"{where}: is a run over {str(test['protocol'])[:20]}",
            "measure with TCP: gradients travel over TCP",
        )
    first = _bits(end["sum_received"], where)
    reverse = bool(test.get("reverse"))
    other = (
        _bits(end[f"sum_received{BACK}"], where)
        if test.get("bidirectional") or test.get("bidir")
        else None
    )
    streams = int(test["num_streams"])
    if streams < 1:
        raise PlacerError(
            f"{where}: says that it had {streams} streams", "write it with iperf3 --json"
        )
    stamp = start.get("timestamp", {}).get("timesecs")
    if stamp is None and date is None:
        raise PlacerError(
            f"{where}: does not say when it was measured", "give its day, as in --date 2026-08-03"
        )
    return Run(
        streams=streams,
        forth=other if reverse else first,
        back=first if reverse else other,
        rtt_ms=_rtt_ms(end),
        as_of=datetime.fromtimestamp(stamp, UTC).date().isoformat()
        if stamp is not None
        else str(date),
    )


def _bits(total: Mapping[str, Any], where: str) -> float:
    bits = float(total["bits_per_second"])
    if not bits > 0:
        raise PlacerError(
            f"{where}: nothing arrived in this run",
            "measure for some seconds, as with iperf3 -t 10",
        )
    return bits


def _rtt_ms(end: Mapping[str, Any]) -> float | None:
    """Return the median over the streams of the least round-trip time, else of the mean;
    microseconds in the file, 0 where unknown.

    The mean of a stream that fills the link has its own queue in it.
    """
    senders = [stream.get("sender", {}) for stream in end.get("streams", [])]
    for name in ("min_rtt", "mean_rtt"):
        known = [float(sender[name]) for sender in senders if sender.get(name)]
        if known:
            return median(known) / 1e3
    return None
