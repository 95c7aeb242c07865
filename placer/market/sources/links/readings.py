"""Measurements of links from any source: which are sound, and what several of one pair come to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from statistics import median

from placer.errors import PlacerError, unknown
from placer.market.catalog import Region
from placer.market.network.link_model import light_rtt_s
from placer.market.sources.harvest import Harvest, Origin, Row
from placer.records import replace

MOST_BITS_PER_S = 1e12
"""No machine that a cloud rents has a network of 1 Tb/s to another region: a larger figure is a
wrong unit.
"""
OLDEST = "2006-01-01"
"""No cloud rented a machine before; a clock that was never set says 1970."""
MOST_RTT_MS = 10_000.0
"""Ten seconds: twenty times the slowest pair of cloud regions; a larger figure is a wrong unit."""
OUTLIER = 3.0
"""A run this many times above or below the median of its pair tells of something else than the
link.
"""
LEAST_RUNS_FOR_OUTLIERS = 3
"""Of two runs nobody can say which one is wrong."""
CONTRADICTION = 1.5
CONTRADICTION_MS = 2.0
"""A round trip is one whichever end starts it. Where both ends measured and differ by more than
this factor and these milliseconds, one of them is wrong and nobody can say which: 3 % of the pairs
in Skyplane's grid of April 2022.
"""
MANY = 0
"""Number of streams of a reading that says no more than that they were many."""
BASES = ("measured", "published", "estimated")
"""From the best to the weakest: a pair is as good as its weakest reading."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One measurement of one direction.

    Parameters
    ----------
    src, dst
        Places.
    where
        ``file:line`` or the name of a host, for messages.
    source
        What the book says about its origin.
    as_of
        ISO date of the measurement.
    streams
        TCP streams side by side; `MANY` if only that is known.
    bits_per_s, low, high
        Throughput with its stated spread; None if not measured.
    rtt_ms
        Round-trip time; None if not measured.
    basis
        One of `BASES`.
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


def harvest_readings(
    readings: Iterable[Reading],
    regions: Mapping[str, Region],
    *,
    origins: Sequence[Origin] = (),
    skip_bad: bool = False,
    strict_places: bool = False,
    left_out: Mapping[str, int] | None = None,
) -> Harvest:
    """Bring readings into rows of links.csv, one a pair.

    Parameters
    ----------
    readings
        In any order; several of one pair are several runs.
    regions
        Places that a book knows, with their coordinates.
    origins
        Documents that were read.
    skip_bad
        Leave out and count what cannot be true, instead of refusing it.
    strict_places
        Refuse unknown places (a user wrote them) instead of counting them.
    left_out
        What the reader of the source left out already.

    Raises
    ------
    PlacerError
        Names where the first reading stands that cannot be true.
    """
    counted: Counter[str] = Counter(left_out or {})
    sound = []
    for reading in readings:
        stranger = next(
            (place for place in (reading.src, reading.dst) if place not in regions), None
        )
        wrong = None if stranger else _wrong(reading, regions)
        if stranger is not None and strict_places:
            raise unknown("place", stranger, regions)
        if stranger is not None:
            counted[f"region that the book does not know: {stranger}"] += 1
        elif wrong is None:
            sound.append(reading)
        elif skip_bad:
            counted[wrong[0]] += 1
        else:
            raise PlacerError(
                f"{reading.where}: {wrong[1]}",
                "correct the file, or leave such rows out with --skip-bad",
            )
    pairs = _without_contradictions(_by_pair(sound), counted)
    mirrored = _mirrored(pairs)
    rows = [_row(pair, pairs[pair], counted) for pair in sorted(pairs)]
    notes = (
        [f"{mirrored} round-trip times were measured one way only and count for the way back too"]
        if mirrored
        else []
    )
    if any(row["gbps_one_stream"] is None for row in rows):
        notes.append(
            "where no single stream was measured, it is estimated from its window and the "
            "round-trip time"
        )
    return Harvest(rows={"links.csv": rows}, origins=origins, left_out=dict(counted), notes=notes)


def _wrong(reading: Reading, regions: Mapping[str, Region]) -> tuple[str, str] | None:
    """Say why a reading cannot be true: in short for the count, in full for the error."""
    for name, value in (
        ("throughput", reading.bits_per_s),
        ("low", reading.low),
        ("high", reading.high),
    ):
        if value is not None and not 0 < value <= MOST_BITS_PER_S:
            return (
                f"{name} out of range",
                f"{name} {value:g} bits/s is not above 0 and at most 1 Tb/s",
            )
    if not OLDEST <= reading.as_of <= (datetime.now(UTC) + timedelta(days=1)).date().isoformat():
        return (
            "day out of range",
            f"measured on {reading.as_of}, which is in the future or before {OLDEST[:4]}",
        )
    rtt_ms = reading.rtt_ms
    if rtt_ms is None:
        return None
    if not 0 < rtt_ms <= MOST_RTT_MS:
        return (
            "round-trip time out of range",
            f"round-trip time {rtt_ms:g} ms is not above 0 and at most {MOST_RTT_MS:g} ms",
        )
    least_ms = light_rtt_s(regions[reading.src], regions[reading.dst]) * 1e3
    if rtt_ms < least_ms:
        words = (
            f"round-trip time {rtt_ms:g} ms from {reading.src} to {reading.dst}: light in "
            f"fibre needs {least_ms:.1f} ms"
        )
        return "round-trip time faster than light in fibre", words
    return None


def _by_pair(readings: Iterable[Reading]) -> dict[tuple[str, str], list[Reading]]:
    pairs: dict[tuple[str, str], list[Reading]] = {}
    for reading in readings:
        pairs.setdefault((reading.src, reading.dst), []).append(reading)
    return pairs


def _without_contradictions(
    pairs: dict[tuple[str, str], list[Reading]], counted: Counter[str]
) -> dict[tuple[str, str], list[Reading]]:
    """Drop round-trip times that the reverse direction contradicts, and count them."""
    times = {
        pair: median(rtts)
        for pair, runs in pairs.items()
        if (rtts := [r.rtt_ms for r in runs if r.rtt_ms is not None])
    }
    kept_readings = {}
    for (src, dst), runs in pairs.items():
        there, back = times.get((src, dst)), times.get((dst, src))
        kept = runs
        if (
            there is not None
            and back is not None
            and abs(there - back) > max(CONTRADICTION_MS, (CONTRADICTION - 1) * min(there, back))
        ):
            counted[
                f"round-trip time more than {CONTRADICTION:g}x that of the way back, or less"
            ] += sum(r.rtt_ms is not None for r in runs)
            kept = [replace(run, rtt_ms=None) for run in runs if run.bits_per_s is not None]
        if kept:
            kept_readings[src, dst] = kept
    return kept_readings


def _mirrored(pairs: dict[tuple[str, str], list[Reading]]) -> int:
    """Give pairs without a round-trip time the one of the way back; return how many."""
    timed = {pair: [r for r in runs if r.rtt_ms is not None] for pair, runs in pairs.items()}
    added = 0
    for (src, dst), runs in timed.items():
        if not runs or timed.get((dst, src)):
            continue
        back = [
            replace(run, src=dst, dst=src, bits_per_s=None, low=None, high=None) for run in runs
        ]
        pairs.setdefault((dst, src), []).extend(back)
        added += 1
    return added


def _row(pair: tuple[str, str], runs: Sequence[Reading], counted: Counter[str]) -> Row:
    """Bring all runs of a pair into one row: medians, with the lowest and the highest run."""
    one = [run for run in runs if run.bits_per_s is not None and run.streams == 1]
    many = [run for run in runs if run.bits_per_s is not None and run.streams != 1]
    one, many = _without_outliers(one, counted), _without_outliers(many, counted)
    rtts = [run.rtt_ms for run in runs if run.rtt_ms is not None]
    lows, highs = (
        [r.low for r in one if r.low is not None],
        [r.high for r in one if r.high is not None],
    )
    speeds = _speeds(one)
    spread = len(speeds) > 1
    return {
        "src": pair[0],
        "dst": pair[1],
        "gbps_one_stream": _gbps(median(speeds)) if speeds else None,
        "gbps_many_streams": _gbps(_best(many)) if many else None,
        "gbps_low": _gbps(min([*lows, *speeds])) if lows or spread else None,
        "gbps_high": _gbps(max([*highs, *speeds])) if highs or spread else None,
        "rtt_ms": _digits(median(rtts)) if rtts else None,
        "basis": max((run.basis for run in runs), key=BASES.index),
        "source": _source(runs, many),
        "as_of": min(run.as_of for run in runs),
    }


def _without_outliers(runs: list[Reading], counted: Counter[str]) -> list[Reading]:
    """Drop runs far from the median of those with as many streams, and count them."""
    kept = []
    for group in _by_streams(runs):
        middle = median(_speeds(group))
        far = len(group) >= LEAST_RUNS_FOR_OUTLIERS
        good = [
            r
            for r, speed in zip(group, _speeds(group), strict=True)
            if not far or middle / OUTLIER <= speed <= middle * OUTLIER
        ]
        if len(good) < len(group):
            counted[f"run beyond {OUTLIER:g}x of the median of its pair"] += len(group) - len(good)
        kept += good
    return kept


def _by_streams(runs: Iterable[Reading]) -> list[list[Reading]]:
    groups: dict[int, list[Reading]] = {}
    for run in runs:
        groups.setdefault(run.streams, []).append(run)
    return list(groups.values())


def _speeds(runs: Iterable[Reading]) -> list[float]:
    return [run.bits_per_s for run in runs if run.bits_per_s is not None]


def _best(many: Sequence[Reading]) -> float:
    """Return the median of the number of streams that moved most: the column asks for as many
    streams as help.
    """
    return max(median(_speeds(group)) for group in _by_streams(many))


def _source(runs: Sequence[Reading], many: Sequence[Reading]) -> str:
    """Name the documents and the spread of the many-stream runs, which has no column of its own."""
    names = "; ".join(dict.fromkeys(run.source for run in runs))
    speeds = _speeds(chain(many))
    spread = (
        f"; {len(speeds)} runs of many streams: {min(speeds) / 1e9:.3g} to "
        f"{max(speeds) / 1e9:.3g} Gb/s"
        if len(speeds) > 1
        else ""
    )
    return names + spread


def _gbps(bits_per_s: float) -> float:
    return _digits(bits_per_s / 1e9)


def _digits(value: float) -> float:
    """Round to six significant digits: no measurement has more."""
    return 0.0 if value == 0 or not math.isfinite(value) else float(f"{value:.6g}")
