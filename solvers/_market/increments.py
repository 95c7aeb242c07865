"""Increments of weighted sums: what one more machine of a bucket, or of a list of pools, adds at
most.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from operator import mul

import numpy as np

from .arrays import Array

MOST_COUPLED_GPUS = 16
"""Up to this quota the bound knows that machines of several sizes share it; above, each size has
its own.
"""


def increments(values: Array, sizes: tuple[int, ...], caps: tuple[int, ...], quota: int) -> Array:
    """Return the increments of the concave majorant of the best value of m machines, for buckets
    alike in size and quota.

    Parameters
    ----------
    values
        Shape (rows, buckets, kinds).
    sizes, caps
        Devices of one machine and most machines of each kind.
    quota
        Devices of all machines of one bucket together.

    Returns
    -------
    Array
        Shape (rows, buckets, machines), not increasing along the last axis.
    """
    # Each size has the whole quota to itself: more machines than there can be, so the sum errs
    # high.
    if _apart(sizes, quota):
        return np.concatenate(
            [np.repeat(values[:, :, k : k + 1], cap, axis=2) for k, cap in enumerate(caps)], axis=2
        )
    mixes = _mixes(sizes, caps, quota)
    machines = machines_of(sizes, caps, quota)
    best = np.full((*values.shape[:2], machines + 1), -np.inf)
    for mix in mixes:
        m = sum(mix)
        best[:, :, m] = np.maximum(best[:, :, m], values @ np.array(mix, dtype=float))
    # The majorant is at least the best value of m machines and its increments fall, so that the n
    # largest increments of all buckets are a sum that can be taken in order.
    hull = best.copy()
    for low in range(machines + 1):
        for high in range(low + 2, machines + 1):
            for m in range(low + 1, high):
                chord = (best[:, :, low] * (high - m) + best[:, :, high] * (m - low)) / (high - low)
                hull[:, :, m] = np.maximum(hull[:, :, m], chord)
    return np.diff(hull, axis=2)


def machines_of(sizes: tuple[int, ...], caps: tuple[int, ...], quota: int) -> int:
    """Return the increments of one bucket: most machines that its quota and caps allow, as far as
    the bound knows them.

    Examples
    --------
    >>> machines_of((1, 4), (8, 2), 8), machines_of((4,), (2,), 8)
    (8, 2)
    """
    return (
        sum(caps) if _apart(sizes, quota) else max(sum(mix) for mix in _mixes(sizes, caps, quota))
    )


def _apart(sizes: tuple[int, ...], quota: int) -> bool:
    """Return whether each size has the quota to itself in the bound."""
    return len(sizes) == 1 or quota > MOST_COUPLED_GPUS


@lru_cache(maxsize=1024)
def _mixes(sizes: tuple[int, ...], caps: tuple[int, ...], quota: int) -> list[tuple[int, ...]]:
    """Return the counts of each size that a quota holds."""
    return [
        mix
        for mix in product(*(range(cap + 1) for cap in caps))
        if sum(map(mul, mix, sizes)) <= quota
    ]


def suffix_sums(values: Sequence[float], caps: Sequence[int], most: int) -> list[list[float]]:
    """Return the largest sum of exactly m machines among pools i, i+1, ...: one row per i, for m =
    0 .. most.

    Examples
    --------
    >>> suffix_sums([3.0, 1.0], [1, 2], 2)
    [[0.0, 3.0, 4.0], [0.0, 1.0, 2.0], [0.0, -inf, -inf]]
    """
    rows = [[0.0] + [-np.inf] * most]
    units: list[float] = []
    for value, cap in zip(reversed(values), reversed(caps), strict=True):
        units = sorted([*units, *([value] * min(cap, most))], reverse=True)[:most]
        sums = [0.0]
        for unit in units:
            sums.append(sums[-1] + unit)
        rows.append(sums + [-np.inf] * (most + 1 - len(sums)))
    return rows[::-1]
