"""Least prices and seconds of one worker of a group around a hub, and rows of hubs with their
numbers of workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from placer.problem.exchange import memory_gib

from ..._market.arrays import Array, Indices, Mask, Rows
from ..._market.market import Market
from ..._market.required_machines import best_of
from ..._mode import Mode
from .hub import Hub


class HubRows(Rows, frozen=True, eq=False):
    """Figures of some hubs with their numbers of workers; all of shape (rows,).

    ``hubs``, ``workers``: position of each hub in its list, and how many workers it has.
    ``aggregate``, ``shared``: seconds between the last gradient and the result; seconds in which
    all gradients pass through the hub, one way. ``usd``: USD/h of the server, infinite where there
    is none.
    """

    hubs: Indices
    workers: Indices
    aggregate: Array
    shared: Array
    usd: Array

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.workers)

    @staticmethod
    def of(hub: Hub, workers: Indices, position: int = 0) -> HubRows:
        """Build the rows of one hub with several numbers of workers."""
        aggregate, shared = (
            np.broadcast_to(np.asarray(each), workers.shape)
            for each in (hub.aggregate(workers), hub.shared(workers))
        )
        return HubRows(
            np.full(workers.shape, position), workers, aggregate, shared, hub.usd_per_hour(workers)
        )


class HubTable:
    """Every hub with every number of workers, none of which depends on a target."""

    def __init__(self, hubs: Sequence[Hub], most: int) -> None:
        self._hubs, self._workers = hubs, np.arange(most + 1)

    @cached_property
    def _every(self) -> list[HubRows]:
        return [HubRows.of(hub, self._workers, k) for k, hub in enumerate(self._hubs)]

    @cached_property
    def _columns(self) -> tuple[Array, Array, Array]:
        """Aggregate, shared and price; each of shape (hubs, workers + 1)."""
        rows = self._every
        return (
            np.array([r.aggregate for r in rows]),
            np.array([r.shared for r in rows]),
            np.array([r.usd for r in rows]),
        )

    @cached_property
    def _able(self) -> Mask:
        """Which hubs may have so many workers; shape (hubs, workers + 1)."""
        memory = np.array(
            [
                memory_gib(self._hubs[0].size, self._hubs[0].gradients(n))
                for n in self._workers.tolist()
            ]
        )
        able = [
            hub.able(memory, rows.aggregate) & np.isfinite(rows.usd)
            for hub, rows in zip(self._hubs, self._every, strict=True)
        ]
        return np.array(able, dtype=bool)

    def best(self, workers: Indices) -> HubRows:
        """Return for each number of workers a hub as good as any in every figure."""
        # Each figure from another hub if need be: no real hub is better in any of them.
        least = [np.where(self._able, each, np.inf).min(axis=0)[workers] for each in self._columns]
        return HubRows(np.zeros(workers.shape, dtype=np.intp), workers, *least)

    def each(self, workers: Indices) -> HubRows:
        """List every hub that can have each of some numbers of workers, hub by hub."""
        hubs, at = np.nonzero(self._able[:, workers])
        counts = workers[at]
        return HubRows(hubs, counts, *(each[hubs, counts] for each in self._columns))


MOST_CELLS = 1 << 17
"""Rows times pools that are worked on at once: 1 MiB for each array."""


class HubWorkers:
    """Least prices and seconds of workers around any hub; none depends on a target."""

    def __init__(self, market: Market, mode: Mode, most: int) -> None:
        self.market, self.mode, self.most, self.problem = market, mode, most, market.problem
        self.ideal = Hub(market, mode, (None, None), {})

    def _least(self, each: Array) -> Array:
        """Return the least sum of a figure over n machines, without regard to quotas that they
        share; infinite where there are too few; shape (most + 1,).
        """
        machines = np.minimum(self.market.cap, self.most).astype(np.intp)
        able = machines > 0
        return -best_of(-each[None, able], self.most, machines[able])[0]

    @cached_property
    def cheapest(self) -> Array:
        """Least USD/h of n machines; shape (most + 1,)."""
        return self._least(self.market.usd)

    @cached_property
    def cleanest(self) -> Array:
        """Least emissions of n machines; shape (most + 1,)."""
        return self._least(self.market.carbon)

    @property
    def at_once(self) -> int:
        """How many rows of all pools are worked on at once."""
        return max(1, MOST_CELLS // len(self.market.pools))

    def usd_beside(self, workers: Indices, pools: Indices | None = None) -> Array:
        """Return the least price of n machines, one of each pool; shape (numbers, pools)."""
        usd = self.market.usd if pools is None else self.market.usd[pools]
        # One of this pool and the n - 1 cheapest; never below the n cheapest.
        return np.maximum(
            usd + self.cheapest[workers - 1][:, None], self.cheapest[workers][:, None]
        )

    def calculation(self, workers: Indices, pools: Indices | None = None) -> Array:
        """Return the least calculation of one machine of each pool among n workers; shape (numbers
        of workers, pools).

        Parts are equal; where data stays, each region's workers share its part, and the other
        regions need a worker each.
        """
        speed, place, n = self.market.speed, self.market.place_of, workers[:, None]
        if pools is not None:
            speed, place = speed[pools], place[pools]
        if not self.problem.requirements.datasets:
            return self.problem.batch / n / speed
        others = len(self.problem.requirements.required_places) - (self.market.stay_share > 0)
        # As many as possible share a region's part, so the part of each errs low.
        most = np.maximum(1, np.minimum(self.market.room, n - others))
        return (self.market.stay_share / most)[:, place] * self.problem.batch / speed

    def ideal_seconds(self, workers: Indices, pools: Indices | None = None) -> tuple[Array, Array]:
        """Return calculation with one and both ideal ways; shapes (numbers, pools)."""
        place = self.market.place_of if pools is None else self.market.place_of[pools]
        up, down = (way[place] for way in self.ideal.ways())
        ready = self.calculation(workers, pools) + up
        return ready, ready + down

    @cached_property
    def leading(self) -> Indices:
        """Pools of which no other one in their place is as fast and no dearer: the first to be
        paid, and the first to be ready.
        """
        market = self.market
        if "leading" not in market.kept:  # the same for every strategy
            market.kept["leading"] = leading(market.place_of, market.usd, market.speed)
        return market.kept["leading"]

    def passing(self, rows: HubRows) -> Array:
        """Return the seconds until all have passed the hub in and out; shape (rows,)."""
        return self.soonest[rows.workers] + rows.aggregate + 2 * rows.shared

    @cached_property
    def soonest(self) -> Array:
        """Least calculation of any machine; shape (workers + 1,)."""
        soonest = np.full(self.most + 1, math.inf)
        for counts in self.chunks():
            soonest[counts] = self.calculation(counts, self.leading).min(axis=1)
        return soonest

    def chunks(self) -> Iterator[Indices]:
        """Yield numbers of workers from 1, as many at once as fit."""
        for first in range(1, self.most + 1, self.at_once):
            yield np.arange(first, min(first + self.at_once, self.most + 1))


def leading(place: Indices, usd: Array, speed: Array) -> Indices:
    """List the machines that no other in their place beats in speed and price."""
    order = np.lexsort((-speed, usd, place))
    # Ranks are whole numbers, so that the running maximum of one place ends where the next begins.
    rank = np.searchsorted(np.sort(speed), speed)[order] + place[order] * (len(speed) + 1)
    before = np.concatenate([[-1], np.maximum.accumulate(rank)[:-1]])
    first = np.concatenate([[True], np.diff(place[order]) > 0])
    return order[(rank > before) | first]
