"""Machines of known places within a budget: those of each place that nothing beats, and one choice
of each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..._market.arrays import Array, Indices
from ..._market.market import Market

MOST = 4_000
"""Sums of one front; more are joined with their neighbours, which errs high."""
ROWS = 200
"""Choices of so many machines of one place, likewise."""
SUMS = 2_000
"""Sums that count as one node: they take about as long."""


@dataclass(frozen=True, kw_only=True)
class Items:
    """Options of one place: what each adds at most, and what it costs at least; shape
    (options,).
    """

    gain: Array
    usd: Array


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a choice keeps: its gains are ``needed`` at least, and it costs ``most_usd`` at most.

    Notes
    -----
    ``dollar`` is a price at which choices are dropped early; any one is valid.
    """

    needed: float
    most_usd: float
    dollar: float


class Knapsack:
    """Choices of one option of each place.

    Parameters
    ----------
    items
        Options place by place, each with one at least.
    terms
        What a choice keeps.
    tick
        Called now and then; ends a search that takes too long.

    Notes
    -----
    The sums of the last places that nothing beats in price and in gain are worked out place by
    place (Nemhauser & Ullmann, 1969). Those that no choice of the other places completes, at the
    price of a dollar, are dropped.
    """

    def __init__(self, items: Sequence[Items], terms: Terms, tick: Callable[[], None]) -> None:
        self.items, self.terms, self.tick = items, terms, tick
        self.fronts = self._fronts()

    @property
    def reached(self) -> float:
        """The gains that no choice exceeds; minus infinity if none keeps the terms."""
        gain = self.fronts[0].gain
        return float(gain[-1]) if len(gain) else -np.inf

    def _fronts(self) -> list[Items]:
        """Return the best sums of the places from each one on; the last ones of none."""
        items, terms = self.items, self.terms
        worth = [own.gain - terms.dollar * own.usd for own in items]
        best = np.array([own.max() for own in worth])
        paid = terms.dollar * terms.most_usd if terms.dollar > 0 else 0.0
        cheapest = np.concatenate([[0.0], np.cumsum([own.usd.min() for own in items])])
        spare = paid + float(best.sum()) - terms.needed
        front = Items(gain=np.zeros(1), usd=np.zeros(1))
        found = [front]
        for k in range(len(items) - 1, -1, -1):
            for _ in range(1 + len(front.gain) * len(items[k].gain) // SUMS):
                self.tick()
            gain = (front.gain[:, None] + items[k].gain).ravel()
            usd = (front.usd[:, None] + items[k].usd).ravel()
            kept = gain - terms.dollar * usd >= float(best[k:].sum()) - spare
            kept &= usd <= terms.most_usd - cheapest[k]
            front = _thinned(best_items(gain[kept], usd[kept])[0])
            found.append(front)
        return found[::-1]

    def choices(self, needed: Callable[[], float]) -> Iterator[tuple[int, ...]]:
        """Yield the options of each place that may be an improvement, those first that come first.

        Parameters
        ----------
        needed
            The least gains; they may rise meanwhile.
        """
        items = [list(zip(own.gain.tolist(), own.usd.tolist(), strict=True)) for own in self.items]
        fronts = [(own.usd.tolist(), own.gain.tolist()) for own in self.fronts]
        chosen: list[int] = []

        def descend(at: int, gain: float, left: float) -> Iterator[tuple[int, ...]]:
            self.tick()
            if at == len(items):
                yield tuple(chosen)
                return
            usd, gains = fronts[at + 1]
            for k, (own, price) in enumerate(items[at]):
                end = bisect_right(usd, left - price)
                if end and gain + own + gains[end - 1] >= needed():
                    chosen.append(k)
                    yield from descend(at + 1, gain + own, left - price)
                    chosen.pop()

        yield from descend(0, 0.0, self.terms.most_usd)


def best_items(gain: Array, usd: Array) -> tuple[Items, Indices]:
    """Return the items of which none costs less and gains as much, the cheapest first, and which
    they are.
    """
    order = np.lexsort((-gain, usd))
    ranked = gain[order]
    before = np.maximum.accumulate(np.concatenate([[-np.inf], ranked]))[:-1]
    kept = order[ranked > before]
    return Items(gain=gain[kept], usd=usd[kept]), kept


def _thinned(front: Items) -> Items:
    """Return at most so many sums; each of them costs no more and gains no less than those that it
    stands for.
    """
    count = len(front.gain)
    if count <= MOST:
        return front
    ends = np.linspace(0, count, MOST + 1).astype(np.intp)
    return Items(gain=front.gain[ends[1:] - 1], usd=front.usd[ends[:-1]])


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

    def extended(self, column: int, pool: Offer, most: int) -> Front:
        """Return the machines with some of one pool more."""
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
    """Return all choices of up to so many machines of some pools of one place."""
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
            for _ in range(1 + len(built.usd) * most // SUMS):
                tick()
            index = int(pools[column])
            offer = Offer(
                cap=int(market.cap[index]),
                gpus=pool.gpus,
                quota=pool.gpu_quota,
                binding=len(own) > 1 and pool.gpu_quota < largest,
                usd=float(market.usd[index]),
                speed=float(market.speed[index]),
            )
            built = built.extended(column, offer, most)
        built = built.without_devices()
    return built
