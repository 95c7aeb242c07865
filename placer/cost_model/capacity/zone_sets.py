"""Which zones together will have enough machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MOST_SETS = 3_000
"""Sets of one size that are all looked at; of more, those that add a zone to the best smaller ones.
"""
KEPT = 40
"""Best sets of a size to which a zone is added."""
CHUNK = 256
"""Sets that are summed at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ZoneSet:
    """Zones, and the chances that they have enough.

    Notes
    -----
    ``together``: all of them in sum. ``one_zone``: at least one of them alone.
    """

    zones: tuple[int, ...]
    together: float
    one_zone: float


def best_sets(machines: Array, least: int, most_zones: int) -> tuple[ZoneSet, ...]:
    """Find the zones that most likely have enough machines, for each number of zones.

    Parameters
    ----------
    machines
        That each zone can launch; shape (scenarios, zones).
    least
        Machines that are enough, in all.
    most_zones
        Largest set.

    Returns
    -------
    tuple[ZoneSet, ...]
        The best set of one zone, of two and so on; a larger one only if it is more likely to have
        enough. Where there are over `MOST_SETS` of a size, the best that grows from smaller ones.
    """
    found: list[ZoneSet] = []
    kept: list[tuple[int, ...]] = [()]
    count = machines.shape[1]
    for size in range(1, min(most_zones, count) + 1):
        sets = (
            list(combinations(range(count), size))
            if comb(count, size) <= MOST_SETS
            else sorted({tuple(sorted({*of, zone})) for of in kept for zone in range(count)})
        )
        sets = [zones for zones in sets if len(zones) == size]
        ranked = sorted(zip(_together(machines, sets, least), sets, strict=True), key=_order)
        kept = [zones for _, zones in ranked[:KEPT]]
        chance, best = ranked[0]
        if found and chance <= found[-1].together:
            break
        alone = float((machines[:, list(best)].max(1) >= least).mean())
        found.append(ZoneSet(zones=best, together=chance, one_zone=alone))
    return tuple(found)


def _order(ranked: tuple[float, tuple[int, ...]]) -> tuple[float, tuple[int, ...]]:
    return -ranked[0], ranked[1]


def _together(machines: Array, sets: Sequence[tuple[int, ...]], least: int) -> list[float]:
    """Return the share of scenarios in which each set has enough."""
    chances: list[float] = []
    for first in range(0, len(sets), CHUNK):
        at = np.array(sets[first : first + CHUNK], dtype=np.intp)
        chances += (machines[:, at].sum(2) >= least).mean(0).tolist()
    return chances
