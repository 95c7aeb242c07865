"""Fit the route factors of the link model to measured round-trip times."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from placer.market.catalog import Region
from placer.market.network.geography import zone_of
from placer.market.network.link_model import FIBRE_KM_PER_RTT_S, RTT_FLOOR_S, ZONES, Pairs

LEAST_KM = 300.0
"""Shorter ways say more about the floor than about the route."""
SHRINK = 3.0
"""A factor counts as this many more pairs with the median of all: few pairs of two zones do not
pull it far.
"""


def fitted_factors(
    measured: Iterable[tuple[Region, Region, float]],
) -> dict[tuple[str, str], float]:
    """Fit one factor for each pair of zones that a grid covers.

    Parameters
    ----------
    measured
        Pairs of places with their round-trip time in seconds; each pair of places once.

    Returns
    -------
    dict
        Factor by pair of zones in the order of `placer.market.network.link_model.ZONES`.

    Notes
    -----
    The factor that makes the summed relative error of a pair of zones least is a weighted median of
    (rtt - floor) / way, with weights way / rtt. It is drawn to the plain median of all pairs.
    """
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for a, b, rtt_s in measured:
        way_s = float(Pairs([a], [b]).weighted_km[0, 0]) / FIBRE_KM_PER_RTT_S
        if way_s * FIBRE_KM_PER_RTT_S < LEAST_KM:
            continue
        first, second = sorted((zone_of(a), zone_of(b)), key=ZONES.index)
        groups.setdefault((first, second), []).append(
            ((rtt_s - RTT_FLOOR_S) / way_s, way_s / rtt_s)
        )
    if not groups:
        return {}
    middle = median(factor for group in groups.values() for factor, _ in group)
    return {
        zones: (len(group) * _weighted_median(group) + SHRINK * middle) / (len(group) + SHRINK)
        for zones, group in groups.items()
    }


def _weighted_median(pairs: list[tuple[float, float]]) -> float:
    """Return the value at which half of the weight is reached."""
    half, reached = sum(weight for _, weight in pairs) / 2, 0.0
    for value, weight in sorted(pairs):
        reached += weight
        if reached >= half:
            return value
    raise AssertionError("weights are positive")
