"""Rows of capacity from a log of the user's own launches: shares with their range, and survival."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from placer.market.catalog import Catalog
from placer.market.launch_log import LaunchLog, region_of
from placer.market.sources.harvest import Harvest, Origin, Row, Tally

Array = npt.NDArray[Any]
LEAST_SPREAD = 0.1
"""Range of a share on either side at least: neighbouring weeks differ by 10 points and more."""
SHORT_SPREAD = 0.2  # The same of a log that is shorter than `FEW_DAYS`
FEW_DAYS = 3
RESAMPLES, SEED = 400, 0
FEW_LOSSES = 5  # Losses below which no survival is fitted
SHAPES_H = np.geomspace(0.05, 50.0, 60)  # Values of b that are tried, hours


def launches_harvest(
    log: LaunchLog, provider: str, device: str, book: Catalog, origin: Origin
) -> Harvest:
    """Make rows of a log: for each zone, shares of at least 1, 2, 4, ... machines.

    Zones may be written with their provider before them, as places are. The range is the 5th to the
    95th percentile of a bootstrap over days, and no narrower than weeks differ. Survival is fitted
    to how long so many machines could be launched: who can launch them has not lost them.
    """
    tally = Tally(skip_bad=False, origins=[origin])
    rows: list[Row] = []
    for at, zone in enumerate(name.removeprefix(f"{provider}/") for name in log.zones):
        region = region_of(zone)
        if f"{provider}/{region}" not in book.regions:
            tally.leave_out("region that no book knows", f"{provider}/{region[:40]}")
            continue
        if not (log.launched[:, at] >= 0).any():
            tally.leave_out("zone at which nobody asked")
            continue
        counts = {2**power for power in range(log.most.bit_length())} | {log.most}
        for machines in sorted(counts):
            share, low, high = _share_of(log, at, machines)
            rows.append(
                {
                    "provider": provider,
                    "region": region,
                    "zone": zone,
                    "device": device,
                    "market": "spot",
                    "machines_asked": log.most,
                    "machines": machines,
                    "share": share,
                    "share_low": low,
                    "share_high": high,
                    "basis": "measured",
                    "source": f"own launches of {log.first:%Y-%m-%d} to {log.last:%Y-%m-%d}",
                    "as_of": f"{log.last:%Y-%m-%d}",
                    **survival_of(log, at, machines),
                }
            )
    return tally.harvest({"capacity.csv": rows})


def _share_of(log: LaunchLog, zone: int, machines: int) -> tuple[float, float, float]:
    """Return the share of looks at a zone with at least so many machines, and its range."""
    launched = log.launched[:, zone]
    seen = launched >= 0
    enough = (launched >= machines) & seen
    share = float(enough.sum() / seen.sum())
    day = (log.hours // 24).astype(int)
    totals = np.stack([np.bincount(day, enough), np.bincount(day, seen)])
    totals = totals[:, totals[1] > 0]
    days = totals.shape[1]
    spread = LEAST_SPREAD if days >= FEW_DAYS else SHORT_SPREAD
    picks = np.random.default_rng(SEED).integers(0, days, (RESAMPLES, days))
    hits, looks = totals[:, picks].sum(-1)
    low, high = np.quantile(hits / looks, (0.05, 0.95))
    least, most = min(float(low), share - spread), max(float(high), share + spread)
    return round(share, 4), round(max(0.0, least), 4), round(min(1.0, most), 4)


def survival_of(log: LaunchLog, zone: int, machines: int) -> dict[str, float]:
    """Fit (1 + t / b)^-a to the times that a zone goes on to launch so many machines; nothing where
    too few of them ended.

    The likeliest a for a given b is the number of ended times over the sum of ln(1 + t / b); b is
    looked for on a grid.
    """
    hours, ended, losses = times_left(log, zone, machines)
    if losses < FEW_LOSSES:
        return {}
    grown = np.log1p(hours[:, None] / SHAPES_H).sum(0)
    events = ended.sum()
    a = events / grown
    densities = (ended[:, None] * np.log(SHAPES_H + hours[:, None])).sum(0)
    best = int(np.argmax(events * np.log(a) - densities - a * grown))
    return {"survival_a": round(float(a[best]), 4), "survival_b_h": round(float(SHAPES_H[best]), 4)}


def times_left(log: LaunchLog, zone: int, machines: int) -> tuple[Array, Array, int]:
    """Return the hours from each look with so many machines to the next one without them, whether
    there is one (else they last at least until the last look), and how many losses there are.

    Each look counts, as survival in `CapacityRow` does: it is met at any moment. Looks at which
    nobody asked are passed over.
    """
    seen = log.launched[:, zone] >= 0
    hours, enough = log.hours[seen], log.launched[seen, zone] >= machines
    short = np.where(enough, np.inf, hours)
    following = np.minimum.accumulate(short[::-1])[::-1]
    ended = np.isfinite(following)
    left = np.where(ended, following, hours[-1]) - hours
    kept = enough & (left > 0)
    return left[kept], ended[kept].astype(float), int((enough[:-1] & ~enough[1:]).sum())
