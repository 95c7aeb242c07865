"""Machines of one place that no others beat in price and speed, number by number of machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from placer.records import replace

from ...._market.arrays import Array, Indices
from ...._market.market import Market

ROWS = 200
"""Choices of so many machines; more are joined with their neighbours, which errs high."""
SUMS = 2_000
"""Choices that count as one node: they take about as long."""
AT_ONCE = 200_000
"""Choices that are made between two looks at the clock and the memory."""
KEPT = 30_000
"""Choices of all numbers of machines and devices; with more, devices are counted roughly, which
errs high.
"""


@dataclass(frozen=True, kw_only=True)
class Front:
    """Machines of one place of which none are cheaper and as fast, number by number of machines.

    Notes
    -----
    ``counts`` by pool are of the fastest machines that a row stands for; shape (rows, pools).
    ``devices`` are those that count against the quota of the pools at hand.
    """

    machines: Indices
    devices: Indices
    usd: Array
    speed: Array
    counts: Indices
    pools: Indices

    def machines_of(self, row: int) -> dict[int, int]:
        """Return the machines of a row by pool."""
        own = self.counts[row]
        used = np.flatnonzero(own)
        return dict(zip(self.pools[used].tolist(), own[used].tolist(), strict=True))

    def extended(self, column: int, pool: Offer, most: int, tick: Callable[[], None]) -> Front:
        """Return the machines with some of one pool more, and maybe others; in parts, as all sums
        together may be more than memory holds.
        """
        step = max(1, AT_ONCE // (1 + min(pool.cap, most)))
        parts: list[Front] = []
        for first in range(0, len(self.usd), step):
            part = self._at(np.arange(first, min(first + step, len(self.usd))))
            for _ in range(1 + len(part.usd) * most // SUMS):
                tick()
            parts.append(part._with(column, pool, most))
            if sum(len(own.usd) for own in parts) > KEPT:
                parts = [_joined(parts).coarsened(tick)]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _with(self, column: int, pool: Offer, most: int) -> Front:
        count = np.arange(min(pool.cap, most) + 1)
        machines = self.machines[:, None] + count
        devices = self.devices[:, None] + count * pool.gpus
        row, more = np.nonzero((machines <= most) & (devices <= pool.quota))
        counts = self.counts[row]
        counts[:, column] += more
        return Front(
            machines=machines[row, more],
            devices=devices[row, more] if pool.binding else np.zeros_like(row),
            usd=self.usd[row] + more * pool.usd,
            speed=self.speed[row] + more * pool.speed,
            counts=counts,
            pools=self.pools,
        ).best()

    def coarsened(self, tick: Callable[[], None]) -> Front:
        """Return no more than are kept: devices are counted in ever larger steps, rounded down, so
        that a quota leaves out less; in the end they are not counted, and neighbours joined.
        """
        front, step = self, 1
        while len(front.usd) > KEPT:
            if not front.devices.any():
                return front.thinned()
            step *= 2
            for _ in range(len(front.usd) // SUMS):
                tick()
            front = replace(front, devices=front.devices // step * step).best()
        return front

    def without_devices(self) -> Front:
        """Return the machines for pools of another quota."""
        return replace(self, devices=np.zeros_like(self.devices)).best().thinned()

    def best(self) -> Front:
        """Return the machines that no others of as many machines and devices beat."""
        order = np.lexsort((-self.speed, self.usd, self.devices, self.machines))
        group = self._groups(order)
        # Groups are apart by more than any speed: one running maximum compares within groups.
        lifted = self.speed[order] + group * (2.0 * float(self.speed.max()) + 1.0)
        before = np.concatenate([[-np.inf], np.maximum.accumulate(lifted)[:-1]])
        return self._at(order[lifted > before])

    def thinned(self) -> Front:
        """Return at most so many for each number of machines: runs of neighbours become one that is
        as cheap and as fast as any of them.
        """
        group = self._groups(np.arange(len(self.usd)))
        sizes = np.bincount(group)
        if sizes.max() <= ROWS:
            return self
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        run = (np.arange(len(group)) - first[group]) * ROWS // np.maximum(sizes[group], ROWS)
        starts = np.flatnonzero((np.diff(run, prepend=-1) != 0) | (np.diff(group, prepend=-1) != 0))
        fastest = np.append(starts[1:], len(group)) - 1
        return replace(self._at(fastest), usd=self.usd[starts])

    def _groups(self, order: Indices) -> Indices:
        """Return the number of the run of equal machines and devices of each row, from 0."""
        machines, devices = self.machines[order], self.devices[order]
        new = (np.diff(machines, prepend=-1) != 0) | (np.diff(devices, prepend=-1) != 0)
        groups: Indices = np.cumsum(new) - 1
        return groups

    def _at(self, rows: Indices) -> Front:
        return Front(
            machines=self.machines[rows],
            devices=self.devices[rows],
            usd=self.usd[rows],
            speed=self.speed[rows],
            counts=self.counts[rows],
            pools=self.pools,
        )


def _joined(parts: list[Front]) -> Front:
    """Return the machines of some lists that none of any list beat."""
    names = ("machines", "devices", "usd", "speed", "counts")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Front(**columns, pools=parts[0].pools).best()


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One pool: how many machines it has, what each counts against the quota of its bucket, whether
    that can bind, and what each costs and does.
    """

    cap: int
    gpus: int
    quota: int
    binding: bool
    usd: float
    speed: float


def front_of(market: Market, pools: Indices, most: int, tick: Callable[[], None]) -> Front:
    """Return choices of up to so many machines of some pools of one place, and maybe of more; the
    market keeps them.
    """
    most = 1 << (most - 1).bit_length()  # few different tables
    key = "machines of a place", pools.tobytes(), most
    if key not in market.kept:
        market.kept[key] = _front_of(market, pools, most, tick)
    front: Front = market.kept[key]
    return front


def _front_of(market: Market, pools: Indices, most: int, tick: Callable[[], None]) -> Front:
    none = np.zeros(1, dtype=np.intp)
    counts = np.zeros((1, len(pools)), dtype=np.intp)
    built = Front(
        machines=none, devices=none, usd=np.zeros(1), speed=np.zeros(1), counts=counts, pools=pools
    )
    buckets: dict[tuple[str, ...], list[int]] = {}
    for column, pool in enumerate(pools.tolist()):
        buckets.setdefault(market.pools[pool].bucket, []).append(column)
    for columns in buckets.values():
        own = [market.pools[int(pools[column])] for column in columns]
        largest = most * max(pool.gpus for pool in own)
        for column, pool in zip(columns, own, strict=True):
            index = int(pools[column])
            offer = Offer(
                cap=int(market.cap[index]),
                gpus=pool.gpus,
                quota=pool.gpu_quota,
                binding=len(own) > 1 and pool.gpu_quota < largest,
                usd=float(market.usd[index]),
                speed=float(market.speed[index]),
            )
            built = built.extended(column, offer, most, tick)
        built = built.without_devices()
    return built
