"""Measured links of any source: which are sound, and what several of one pair come to."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError, unknown
from placer.market.catalog import Region
from placer.market.network.link_model import light_rtt_s
from placer.market.sources.harvest import Harvest, Row, Tally
from placer.market.sources.reading.fetch import Document, is_url
from placer.market.sources.reading.mapped_rows import mapped_rows
from placer.market.sources.reading.mapping import SourceMap
from placer.market.sources.reading.records import read_records
from placer.records import replace

PAIRS = SourceMap(about="one row a run: run.json,aws/us-east-1,gcp/us-west1", kind="links")
MOST_BITS_PER_S = 1e12
"""No rented machine has a network of 1 Tb/s to another region: more is a wrong unit."""
OLDEST = "2006-01-01"  # No cloud rented a machine before; a clock that was never set says 1970
MOST_RTT_MS = 10_000.0
"""Ten seconds: twenty times the slowest pair of cloud regions; a larger figure is a wrong unit."""
OUTLIER = 3.0
"""A run this many times off the median of its pair tells of something else than the link."""
LEAST_RUNS_FOR_OUTLIERS = 3  # Of two runs nobody can say which one is wrong
CONTRADICTION = 1.5
CONTRADICTION_MS = 2.0
"""A round trip is one whichever end starts it. Where both ends measured and differ by more than
this factor and these milliseconds, one of them is wrong and nobody can say which: 3 % of the pairs
in Skyplane's grid of April 2022.
"""
MANY = 0  # Number of streams of a reading that says no more than that they were many
BASES = ("measured", "published", "estimated")
"""From the best to the weakest: a pair is as good as its weakest reading."""
UNKNOWN = "region that the book does not know"
Pair = tuple[str, str]


class Reading(Struct, frozen=True, kw_only=True):
    """One measurement of one direction between places.

    ``where`` is ``file:line`` or the name of a host, for messages; ``source`` what the book says
    about its origin; ``streams`` TCP streams side by side, `MANY` if only that is known. Throughput
    has its stated spread, ``low`` and ``high``; None where nothing was measured.
    """

    src: str
    dst: str
    where: str
    source: str
    as_of: str
    streams: int = 1
    bits_per_s: float | None = None
    low: float | None = None
    high: float | None = None
    rtt_ms: float | None = None
    basis: str = "measured"


def import_links(
    documents: Sequence[tuple[Document, Mapping[str, str]]],
    mapping: SourceMap,
    regions: Mapping[str, Region],
    *,
    date: str | None = None,
    skip_bad: bool = False,
) -> Harvest:
    """Read links from documents by a mapping of links; several of one pair are several runs. Each
    document has what its mapping finds under ``given``: the places ``from`` and ``to`` of a run.
    With ``skip_bad`` what failed or cannot be true is left out and counted.
    """
    tally = Tally(skip_bad=skip_bad)
    readings = []
    for document, given in documents:
        tally.origins.append(document.origin)
        records = read_records(document, mapping, tally)
        for where, row, _ in mapped_rows(records, mapping, tally, given, date):
            made = list(_readings(where, row, records.file))
            if not made:
                words = "has neither a throughput nor a round-trip time"
                matrix = "say what the cells of a matrix are: --map rtt_ms=cell"
                tally.refuse(
                    where, words, matrix if "cell" in records.names else "fill one of them"
                )
            readings += made
    strict = mapping.unknown_names == "refused"
    return harvest_readings(readings, regions, tally, strict_places=strict)


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
        basis=row.get("basis") or "measured",
    )
    one, many, rtt_ms = rates["gbps_one_stream"], rates["gbps_many_streams"], row.get("rtt_ms")
    if one is not None or rtt_ms is not None:
        low, high = rates["gbps_low"], rates["gbps_high"]
        yield replace(reading, bits_per_s=one, low=low, high=high, rtt_ms=rtt_ms)
    for bits, streams in ((rates["gbps"], row.get("streams")), (many, None)):
        if bits is not None:
            yield replace(reading, streams=streams or MANY, bits_per_s=bits)


def read_pairs(document: Document) -> list[tuple[str, str, str]]:
    """Read a table of runs with the columns file,src,dst; relative files lie beside it."""
    records = read_records(document, PAIRS, Tally(skip_bad=False))
    pairs = []
    for where, row in records.rows:
        file, src, dst = (str(row.get(name, "")) for name in ("file", "src", "dst"))
        if not (file and src and dst):
            raise PlacerError(f"{where}: a cell of file,src,dst is empty or missing", PAIRS.about)
        beside = not is_url(file) and not is_url(records.place)
        pairs.append((str(Path(records.place).parent / file) if beside else file, src, dst))
    if not pairs:
        raise PlacerError(f"{records.place}:1: has no row", PAIRS.about)
    return pairs


def harvest_readings(
    readings: Iterable[Reading],
    regions: Mapping[str, Region],
    tally: Tally,
    *,
    strict_places: bool = False,
) -> Harvest:
    """Bring readings, in any order, into rows of links.csv, one a pair of places.

    What cannot be true is refused or counted, as the tally says; unknown places are counted, or
    refused with ``strict_places``: a user wrote them.
    """
    pairs: dict[Pair, list[Reading]] = defaultdict(list)
    for reading in readings:
        stranger = next((p for p in (reading.src, reading.dst) if p not in regions), None)
        if stranger is not None and strict_places:
            raise unknown("place", stranger, regions)
        if stranger is not None:
            bare = "/" not in stranger
            why = "place without its provider, as in aws/us-east-1" if bare else UNKNOWN
            tally.leave_out(why, stranger)
            continue
        wrong = _wrong(reading, regions)
        if wrong is None:
            pairs[reading.src, reading.dst].append(reading)
        elif tally.skip_bad:
            tally.leave_out(wrong[0])
        else:
            tip = "correct the file, or leave such rows out with --skip-bad"
            raise PlacerError(f"{reading.where}: {wrong[1]}", tip)
    kept = _without_contradictions(pairs, tally)
    mirrored = _mirrored(kept)
    rows = [_row(pair, kept[pair], tally) for pair in sorted(kept)]
    if mirrored:
        tally.words.append(
            f"{mirrored} round-trip times were measured one way only and count for the way back too"
        )
    if any(row["gbps_one_stream"] is None for row in rows):
        tally.words.append(
            "where no single stream was measured, it is estimated from its window and the "
            "round-trip time"
        )
    return tally.harvest({"links.csv": rows})


def _wrong(reading: Reading, regions: Mapping[str, Region]) -> tuple[str, str] | None:
    """Say why a reading cannot be true: in short for the count, in full for the error."""
    rates = {"throughput": reading.bits_per_s, "low": reading.low, "high": reading.high}
    for name, value in rates.items():
        if value is not None and not 0 < value <= MOST_BITS_PER_S:
            words = f"{name} {value:g} bits/s is not above 0 and at most 1 Tb/s"
            return f"{name} out of range", words
    if not OLDEST <= reading.as_of <= (datetime.now(UTC) + timedelta(days=1)).date().isoformat():
        words = f"measured on {reading.as_of}, which is in the future or before {OLDEST[:4]}"
        return "day out of range", words
    rtt_ms = reading.rtt_ms
    if rtt_ms is None:
        return None
    if not 0 < rtt_ms <= MOST_RTT_MS:
        words = f"round-trip time {rtt_ms:g} ms is not above 0 and at most {MOST_RTT_MS:g} ms"
        return "round-trip time out of range", words
    least_ms = light_rtt_s(regions[reading.src], regions[reading.dst]) * 1e3
    if rtt_ms < least_ms:
        words = (
            f"round-trip time {rtt_ms:g} ms from {reading.src} to {reading.dst}: light in "
            f"fibre needs {least_ms:.1f} ms"
        )
        return "round-trip time faster than light in fibre", words
    return None


def _without_contradictions(
    pairs: Mapping[Pair, list[Reading]], tally: Tally
) -> dict[Pair, list[Reading]]:
    """Drop round-trip times that the reverse direction contradicts, and count them."""
    times = {pair: median(rtts) for pair, runs in pairs.items() if (rtts := _known(runs, "rtt_ms"))}
    kept_readings = {}
    for (src, dst), runs in pairs.items():
        there, back = times.get((src, dst)), times.get((dst, src))
        kept = runs
        if there is not None and back is not None:
            most_ms = max(CONTRADICTION_MS, (CONTRADICTION - 1) * min(there, back))
            if abs(there - back) > most_ms:
                words = f"more than {CONTRADICTION:g}x that of the way back, or less"
                tally.leave_out(f"round-trip time {words}", rows=len(_known(runs, "rtt_ms")))
                kept = [replace(run, rtt_ms=None) for run in runs if run.bits_per_s is not None]
        if kept:
            kept_readings[src, dst] = kept
    return kept_readings


def _mirrored(pairs: dict[Pair, list[Reading]]) -> int:
    """Give pairs without a round-trip time the one of the way back; return how many."""
    timed = {pair: [r for r in runs if r.rtt_ms is not None] for pair, runs in pairs.items()}
    one_way = [(pair, runs) for pair, runs in timed.items() if runs and not timed.get(pair[::-1])]
    for (src, dst), runs in one_way:
        pairs.setdefault((dst, src), []).extend(
            replace(run, src=dst, dst=src, bits_per_s=None, low=None, high=None) for run in runs
        )
    return len(one_way)


def _row(pair: Pair, runs: Sequence[Reading], tally: Tally) -> Row:
    """Bring all runs of a pair into one row: medians, with the lowest and the highest run."""
    rated = [run for run in runs if run.bits_per_s is not None]
    one = _without_outliers([run for run in rated if run.streams == 1], tally)
    many = _without_outliers([run for run in rated if run.streams != 1], tally)
    rtts, speeds, widest = (
        _known(runs, "rtt_ms"),
        _known(one, "bits_per_s"),
        _known(many, "bits_per_s"),
    )
    # The column asks for as many streams as help: of those that moved most the median counts.
    best = max((median(_known(group, "bits_per_s")) for group in _by_streams(many)), default=None)
    lows, highs = _known(one, "low"), _known(one, "high")
    spread = len(speeds) > 1
    source = "; ".join(dict.fromkeys(run.source for run in runs))
    if len(widest) > 1:  # which has no column of its own
        ends = f"{min(widest) / 1e9:.3g} to {max(widest) / 1e9:.3g} Gb/s"
        source = f"{source}; {len(widest)} runs of many streams: {ends}"
    return {
        "src": pair[0],
        "dst": pair[1],
        "gbps_one_stream": _digits(median(speeds) / 1e9) if speeds else None,
        "gbps_many_streams": None if best is None else _digits(best / 1e9),
        "gbps_low": _digits(min([*lows, *speeds]) / 1e9) if lows or spread else None,
        "gbps_high": _digits(max([*highs, *speeds]) / 1e9) if highs or spread else None,
        "rtt_ms": _digits(median(rtts)) if rtts else None,
        "basis": max((run.basis for run in runs), key=BASES.index),
        "source": source,
        "as_of": min(run.as_of for run in runs),
    }


def _without_outliers(runs: Iterable[Reading], tally: Tally) -> list[Reading]:
    """Drop runs far from the median of those with as many streams, and count them."""
    kept = []
    for group in _by_streams(runs):
        middle, good = median(_known(group, "bits_per_s")), group
        if len(group) >= LEAST_RUNS_FOR_OUTLIERS:
            low, high = middle / OUTLIER, middle * OUTLIER
            good = [run for run in group if low <= (run.bits_per_s or 0) <= high]
        if len(good) < len(group):
            words = f"run beyond {OUTLIER:g}x of the median of its pair"
            tally.leave_out(words, rows=len(group) - len(good))
        kept += good
    return kept


def _by_streams(runs: Iterable[Reading]) -> list[list[Reading]]:
    groups: dict[int, list[Reading]] = {}
    for run in runs:
        groups.setdefault(run.streams, []).append(run)
    return list(groups.values())


def _known(runs: Iterable[Reading], figure: str) -> list[float]:
    return [value for run in runs if (value := getattr(run, figure)) is not None]


def _digits(value: float) -> float:
    """Round to six significant digits: no measurement has more."""
    return 0.0 if value == 0 or not math.isfinite(value) else float(f"{value:.6g}")
