"""Increments of weighted sums: what one more machine of a bucket, or of a list of pools, adds at
most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from placer.solving import allowance

from .arrays import Array, Indices

MOST_COUPLED_GPUS = 16
"""Up to this quota the bound knows every mix of machines that the quota holds; above, it takes
parts of machines too.
"""
AT_ONCE = 500_000
"""Slopes that are worked out at once: 4 MB."""


def increments(
    values: Array, sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, most: int
) -> Array:
    """Return the increments of a concave majorant of the best value of m machines, for buckets
    alike in size and quota.

    Parameters
    ----------
    values
        Shape (rows, buckets, kinds).
    sizes, caps
        Devices of one machine and most machines of each kind.
    quota
        Devices of all machines of one bucket together.
    most
        Machines of one bucket that count at most.

    Returns
    -------
    Array
        Shape (rows, buckets, steps), not increasing along the last axis; `step_machines` says how
        many machines a step stands for.
    """
    machines = machines_of(sizes, caps, quota, most)
    if add_alike(sizes, caps, quota, most):
        return values.max(axis=2, keepdims=True) if machines else values[:, :, :0]
    if _ample(sizes, caps, quota, machines):
        return _best_units(values, caps, machines)
    if quota > MOST_COUPLED_GPUS:
        return _divisible(values, sizes, caps, quota, machines)
    counts, starts = _mixes_by_machines(sizes, caps, quota, machines)
    return _falling(np.maximum.reduceat(values @ counts, starts, axis=2))


def _falling(best: Array) -> Array:
    """Return the increments of the least concave majorant along the last axis.

    Notes
    -----
    It is at least the best value of m machines and its increments fall, so that the n largest
    increments of all buckets are a sum that can be taken in order. From m to m + 1 it grows by
    min over a <= m of max over b > m of (best_b - best_a) / (b - a): the slope of the chord over
    this step that nothing passes.
    """
    at = np.arange(best.shape[2])
    flat = np.moveaxis(best, 2, 0).reshape(len(at), -1)
    built = np.empty((len(at) - 1, flat.shape[1]))
    apart, before = np.maximum(at - at[:, None], 1)[:, :, None], at[:-1, None] <= at[:-1]
    step = max(1, AT_ONCE // len(at) ** 2)
    for first in range(0, flat.shape[1], step):
        allowance.check()
        some = flat[:, first : first + step]
        slopes = (some - some[:, None]) / apart
        slopes[at <= at[:, None]] = -np.inf
        steepest = np.maximum.accumulate(slopes[:-1, :0:-1], axis=1)[:, ::-1]
        built[:, first : first + step] = steepest.min(
            axis=0, where=before[:, :, None], initial=np.inf
        )
    return np.moveaxis(built.reshape(-1, *best.shape[:2]), 0, 2)


@lru_cache(maxsize=4096)
def machines_of(sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, most: int) -> int:
    """Return the increments of one bucket: most machines that its quota and caps allow.

    Examples
    --------
    >>> machines_of((1, 4), (8, 2), 8, 64), machines_of((4,), (2,), 8, 64)
    (8, 2)
    >>> machines_of((8, 1), (12, 3), 100, 64), machines_of((8, 1), (12, 3), 100, 6)
    (15, 6)
    """
    machines, left = 0, quota
    for size, cap in sorted(zip(sizes, caps, strict=True)):
        taken = min(cap, left // size, most - machines)
        machines, left = machines + taken, left - taken * size
    return machines


def step_machines(
    sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, most: int
) -> tuple[int, ...]:
    """Return how many machines each step of `increments` stands for: all where they add alike.

    Examples
    --------
    >>> step_machines((4,), (2,), 8, 64), step_machines((1, 4), (8, 2), 8, 64)
    ((2,), (1, 1, 1, 1, 1, 1, 1, 1))
    """
    machines = machines_of(sizes, caps, quota, most)
    if add_alike(sizes, caps, quota, most):
        return (machines,) if machines else ()
    return (1,) * machines


@lru_cache(maxsize=4096)
def add_alike(sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, most: int) -> bool:
    """Return whether the best machine of a bucket may be taken each time; if so, of fewer machines
    too.
    """
    if len(sizes) == 1:
        return True
    machines = machines_of(sizes, caps, quota, most)
    return min(caps) >= machines and _ample(sizes, caps, quota, machines)


def _ample(sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, machines: int) -> bool:
    """Return whether a quota holds as many machines whatever their sizes."""
    devices, left = 0, machines
    for size, cap in sorted(zip(sizes, caps, strict=True), reverse=True):
        taken = min(cap, left)
        devices, left = devices + taken * size, left - taken
    return devices <= quota


def _best_units(values: Array, caps: tuple[int, ...], machines: int) -> Array:
    """Return the largest values of single machines, each kind as often as its cap; shape (rows,
    buckets, machines).
    """
    kinds = np.repeat(np.arange(len(caps)), [min(cap, machines) for cap in caps])
    built: Array = -np.sort(-values[:, :, kinds], axis=2)[:, :, :machines]
    return built


def _divisible(
    values: Array, sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, machines: int
) -> Array:
    """Return the increments of the best value where machines could be divided.

    Notes
    -----
    The maximum of sum v x over sum x = m, sum g x <= Q and 0 <= x <= cap is a linear program. By
    duality it is the minimum over prices p >= 0 of a device of p Q + (the m largest v - p g, each
    kind as often as its cap): every price gives a bound, and the best one is 0 or makes two kinds
    equal. As a minimum of concave functions it is concave in m.
    """
    size, cap, m = np.array(sizes, dtype=float), np.array(caps), np.arange(machines + 1)
    best = np.full((*values.shape[:2], machines + 1), np.inf)
    for price in _device_prices(values, size):
        allowance.check()
        worth = values - price[:, :, None] * size
        order = np.argsort(-worth, axis=2)
        worth, room = np.take_along_axis(worth, order, axis=2), cap[order]
        before = np.cumsum(room, axis=2) - room
        reached = price[:, :, None] * quota
        for k in range(len(sizes)):
            taken = np.clip(m - before[:, :, k, None], 0, room[:, :, k, None])
            reached = reached + worth[:, :, k, None] * taken
        best = np.minimum(best, reached)
    return np.diff(best, axis=2)


def _device_prices(values: Array, size: Array) -> Iterator[Array]:
    """Yield the prices of a device at which a bound may be tight: none, and those that make two
    kinds equal; shape (rows, buckets) each.
    """
    yield np.zeros(values.shape[:2])
    for small, large in combinations(np.argsort(size, kind="stable").tolist(), 2):
        if size[small] < size[large]:
            each = (values[:, :, large] - values[:, :, small]) / (size[large] - size[small])
            yield np.maximum(0.0, each)


@lru_cache(maxsize=1024)
def _mixes_by_machines(
    sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, machines: int
) -> tuple[Array, Indices]:
    """Return the counts of each size that a quota holds, in the order of their machines.

    Returns
    -------
    Array
        Shape (kinds, mixes): up to ``machines`` machines in all.
    Indices
        The first mix of 0, 1, ..., ``machines`` machines.
    """
    mixes: list[tuple[tuple[int, ...], int]] = [((), quota)]
    for size, cap in zip(sizes, caps, strict=True):
        allowance.check()
        mixes = [
            ((*mix, n), left - n * size)
            for mix, left in mixes
            for n in range(min(cap, left // size) + 1)
        ]
    counts = np.array([mix for mix, _ in mixes], dtype=float).T
    total = counts.sum(axis=0)
    order = np.argsort(total, kind="stable")
    order = order[total[order] <= machines]
    starts = np.searchsorted(total[order], np.arange(machines + 1))
    return np.ascontiguousarray(counts[:, order]), starts


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
