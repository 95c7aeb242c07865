"""Increments of weighted sums: what one more machine of a bucket, a place or a list of pools adds
at most; the concave majorant of what quotas allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from placer.market.table import grouped, members
from placer.problem.workers.pool import Pool
from placer.problem.workers.pools import Pools
from placer.solving import allowance

from .arrays import Array, Indices

MOST_COUPLED_GPUS = 16
"""Up to this quota the bound knows every mix of machines that the quota holds; above, it takes
parts of machines too.
"""
AT_ONCE = 500_000
"""Slopes, or rows x buckets x machines of one step, that are worked out at once: 4 MB."""


def increments(
    values: Array, sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, most: int
) -> Array:
    """Return the increments of a concave majorant of the best value of m machines, for buckets
    alike in size and quota; shape (rows, buckets, steps), not increasing along the last axis;
    `step_machines` says how many machines a step stands for.

    ``values``: shape (rows, buckets, kinds). ``sizes``, ``caps``: devices of one machine and most
    machines of each kind. ``quota``: devices of all machines of one bucket together. ``most``:
    machines of one bucket that count at most.
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

    It is at least the best value of m machines and its increments fall, so that the n largest
    increments of all buckets are a sum that can be taken in order. From m to m + 1 it grows by min
    over a <= m of max over b > m of (best_b - best_a) / (b - a): the slope of the chord over this
    step that nothing passes.
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

    >>> step_machines((4,), (2,), 8, 64), step_machines((1, 4), (8, 2), 8, 64)
    ((2,), (1, 1, 1, 1, 1, 1, 1, 1))
    """
    machines = machines_of(sizes, caps, quota, most)
    if add_alike(sizes, caps, quota, most):
        return (machines,) if machines else ()
    return (1,) * machines


@lru_cache(maxsize=4096)
def add_alike(sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, most: int) -> bool:
    """Return whether the best machine of a bucket may be taken each time."""
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
    """Return the largest single machines; shape (rows, buckets, machines)."""
    kinds = np.repeat(np.arange(len(caps)), [min(cap, machines) for cap in caps])
    return -np.sort(-values[:, :, kinds], axis=2)[:, :, :machines]


def _divisible(
    values: Array, sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, machines: int
) -> Array:
    """Return the increments of the best value where machines could be divided.

    The maximum of sum v x over sum x = m, sum g x <= Q and 0 <= x <= cap is a linear program. By
    duality it is the minimum over prices p >= 0 of a device of p Q + (the m largest v - p g, each
    kind as often as its cap): every price gives a bound, and the best one is 0 or makes two kinds
    equal. As a minimum of concave functions it is concave in m.
    """
    size, cap, m = np.array(sizes, dtype=float), np.array(caps), np.arange(machines + 1)
    prices = np.stack([*_device_prices(values, size)])[..., None]
    best = np.full((*values.shape[:2], machines + 1), np.inf)
    step = max(1, AT_ONCE // (values.size * len(m)))
    for first in range(0, len(prices), step):
        allowance.check()
        price = prices[first : first + step]
        worth = values - price * size
        order = np.argsort(-worth, axis=-1)
        worth, room = np.take_along_axis(worth, order, axis=-1), cap[order]
        before = np.cumsum(room, axis=-1) - room
        taken = np.minimum(np.maximum(m - before[..., None], 0), room[..., None])
        gained = worth[..., None] * taken
        reached = price * quota
        for k in range(len(sizes)):
            reached = reached + gained[..., k, :]
        np.minimum(best, reached.min(axis=0), out=best)
    return np.diff(best, axis=2)


def _device_prices(values: Array, size: Array) -> Iterator[Array]:
    """Yield prices of a device where the bound may be tight; shape (rows, buckets)."""
    yield np.zeros(values.shape[:2])
    for small, large in combinations(np.argsort(size, kind="stable").tolist(), 2):
        if size[small] < size[large]:
            each = (values[:, :, large] - values[:, :, small]) / (size[large] - size[small])
            yield np.maximum(0.0, each)


@lru_cache(maxsize=1024)
def _mixes_by_machines(
    sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, machines: int
) -> tuple[Array, Indices]:
    """Return the counts that a quota holds; shape (kinds, mixes); and where m machines begin."""
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


Kinds = tuple[tuple[int, ...], tuple[int, ...], int]
"""Devices of a machine and most machines of each pool of a bucket, and its quota."""


class Buckets:
    """Pools of every quota bucket, together where sizes, caps and quota are alike."""

    def __init__(self, pools: Pools, cap: Array, class_of: Indices, most: int) -> None:
        self.most = most
        gpus, quotas = (pools.figures(of) for of in (lambda p: p.gpus, lambda p: p.gpu_quota))
        size, count, quota = (each.astype(np.intp).tolist() for each in (gpus, cap, quotas))
        # Apart by class of host, as the searches leave classes out: each has the quota to itself,
        # so the bound errs high.
        classes = int(class_of.max(initial=0)) + 1
        of, first = grouped(pools.bucket_of * classes + class_of, len(size) * classes)
        each = members(of, len(first))
        self._alike: dict[Kinds, list[list[int]]] = {}
        for bucket in (each[at].tolist() for at in np.argsort(first).tolist()):
            sizes, caps = (tuple([of[i] for i in bucket]) for of in (size, count))
            self._alike.setdefault((sizes, caps, quota[bucket[0]]), []).append(bucket)
        self.owners, self.machines = self._steps()

    def _steps(self) -> tuple[Indices, Indices]:
        """Return each step's first pool and its machines; shape (steps,)."""
        owners, machines = [], []
        for (sizes, caps, quota), group in self._alike.items():
            each = step_machines(sizes, caps, quota, self.most)
            owners.append(np.repeat([members[0] for members in group], len(each)))
            machines.append(np.tile(np.array(each, dtype=np.intp), len(group)))
        return np.concatenate(owners).astype(np.intp), np.concatenate(machines)

    def increments(self, values: Array) -> Array:
        """Return the concave increments of every quota bucket; shape (rows, steps). Taking the n
        largest increments of a row, each as often as its step has machines, bounds the row's sum
        over any n machines that respect the quotas.

        ``values``: what one machine of each pool is worth; shape (rows, pools).
        """
        allowance.reserve(2 * 8 * len(values) * len(self.owners))
        blocks = []
        for (sizes, caps, quota), group in self._alike.items():
            # Some buckets at a time: each is worked out by itself, with several tables of its size.
            step = max(1, int(AT_ONCE // (len(values) * (self.most + 1))))
            for first in range(0, len(group), step):
                allowance.check()
                some = values[:, np.array(group[first : first + step])]
                own = increments(some, sizes, caps, quota, self.most)
                blocks.append(own.reshape(len(values), -1))
        return np.concatenate(blocks, axis=1)


class PlaceUnits:
    """Increments of the quota buckets of one place.

    ``buckets``: indices of the pools of each quota. ``pools``, ``cap``: all pools of the market,
    and the most machines of each. ``most``: machines that are ever asked for. Where the best
    machine of a bucket may be taken each time, its increments are one value: the largest of its
    pools. That holds for fewer machines too if it holds for the most. ``enough`` is how many
    machines any mix of the pools may have at least, whatever their caps and quotas.
    """

    def __init__(
        self, buckets: Sequence[list[int]], pools: Sequence[Pool], cap: Array, most: int
    ) -> None:
        self.buckets = buckets
        self._size = {i: pools[i].gpus for bucket in buckets for i in bucket}
        self._cap = {i: int(cap[i]) for i in self._size}
        self._quota = {i: pools[i].gpu_quota for i in self._size}
        machines = [machines_of(*self._kinds(bucket), most) for bucket in buckets]
        alike = [add_alike(*self._kinds(bucket), most) for bucket in buckets]
        first = [b for b, n, one in zip(buckets, machines, alike, strict=True) if n and one]
        others = [b for b, one in zip(buckets, alike, strict=True) if not one]
        self._starts = np.cumsum([0, *(len(bucket) for bucket in first)])
        self._machines = np.array(
            [n for n, one in zip(machines, alike, strict=True) if n and one], dtype=np.intp
        )
        self.enough = min(
            (min(self._cap[i], self._quota[i] // self._size[i]) for i in self._size), default=0
        )
        ordered = [i for bucket in (*first, *others) for i in bucket]
        ordered += [i for i in self._size if i not in {*ordered}]  # of buckets without machines
        self.pools: Indices = np.array(ordered, dtype=np.intp)
        self.column = {pool: at for at, pool in enumerate(ordered)}
        self._others = self._by_kinds(others)
        self._steps: dict[int, Indices] = {}

    def increments(self, values: Array, most: int) -> tuple[Array, Indices]:
        """Return the increments of all buckets, and how many machines each step stands for; shape
        (rows, steps). Shape (steps,).

        ``values``: what one machine of each of ``pools`` is worth; shape (rows, pools). ``most``:
        machines of one bucket that count at most.
        """
        blocks = [values[:, :0]]
        if len(self._machines):
            together = values[:, : self._starts[-1]]
            blocks.append(np.maximum.reduceat(together, self._starts[:-1], axis=1))
        for kinds, at in self._others:
            built = increments(values[:, at], *kinds, most)
            blocks.append(built.reshape(len(values), -1))
        return np.concatenate(blocks, axis=1), self._machines_of_steps(most)

    def _machines_of_steps(self, most: int) -> Indices:
        """Return how many machines each step stands for."""
        if most not in self._steps:
            steps = [np.minimum(self._machines, most)]
            for kinds, at in self._others:
                each = np.array(step_machines(*kinds, most), dtype=np.intp)
                steps.append(np.tile(each, len(at)))
            self._steps[most] = np.concatenate(steps)
        return self._steps[most]

    def of_pools(self, values: Array, pools: list[int], most: int) -> Array:
        """Return the increments of pools of one quota; shape (rows, machines)."""
        kinds = self._kinds(pools)
        built = increments(values[:, None, [self.column[i] for i in pools]], *kinds, most)[:, 0]
        return np.repeat(built, step_machines(*kinds, most), axis=1)

    def _by_kinds(self, buckets: Sequence[list[int]]) -> list[tuple[Kinds, Indices]]:
        """Put buckets together that are alike, with the columns of their pools."""
        alike: dict[Kinds, list[list[int]]] = {}
        for bucket in buckets:
            alike.setdefault(self._kinds(bucket), []).append([self.column[i] for i in bucket])
        return [(kinds, np.array(at, dtype=np.intp)) for kinds, at in alike.items()]

    def _kinds(self, pools: list[int]) -> Kinds:
        """Return devices of a machine and most machines of each pool, and their quota."""
        sizes, caps = (tuple(of[i] for i in pools) for of in (self._size, self._cap))
        return sizes, caps, self._quota[pools[0]]
