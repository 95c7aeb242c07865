"""Least prices and seconds of one worker of a group around a hub."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from ..._market.arrays import Array, Indices
from ..._market.market import Market
from ..._market.required_machines import Rule, least_usd
from ..._mode import Mode
from .egress import ManyPlaces
from .hub import Hub
from .hub_rows import HubRows

MOST_CELLS = 1 << 17
"""Rows times pools that are worked on at once: 1 MiB for each array."""


class HubWorkers:
    """Least prices and seconds of workers around any hub; none depends on a target.

    Parameters
    ----------
    market, mode
        Pools and strategy.
    most
        Largest number of workers.
    """

    def __init__(self, market: Market, mode: Mode, most: int) -> None:
        self.market, self.mode, self.most, self.problem = market, mode, most, market.problem
        self.required = market.required_machines.apart
        self.cheapest = self._least_usd(self.required)
        self._freest = self._least_usd(())
        self.prices = ManyPlaces(market.problem.network, market.places)
        self.ideal = Hub(market, mode, None, None, self.prices)

    def _least_usd(self, required: Sequence[Rule]) -> Array:
        """Return the least price of n machines that keep some rules, the same for every number of
        local steps; shape (most + 1,).
        """
        key, market = ("least usd", self.most, bool(required)), self.market
        if key not in market.kept:
            market.kept[key] = least_usd(market.usd, market.cap, required, self.most)
        built: Array = market.kept[key]
        return built

    @cached_property
    def cleanest(self) -> Array:
        """Least emissions of n machines, quotas left out; shape (most + 1,)."""
        each, cap = self.market.carbon, self.market.cap
        order = np.argsort(each, kind="stable")
        sizes = np.concatenate([[0.0], np.cumsum(cap[order])])
        sums = np.concatenate([[0.0], np.cumsum(each[order] * cap[order])])
        built: Array = np.interp(np.arange(self.most + 1), sizes, sums)
        return built

    @property
    def at_once(self) -> int:
        """How many rows of all pools are worked on at once."""
        return max(1, MOST_CELLS // len(self.market.pools))

    def usd_beside(self, workers: Indices, pools: Indices | None = None) -> Array:
        """Return the least price of n machines of which one is of each pool; shape (numbers of
        workers, pools).
        """
        usd = self.market.usd if pools is None else self.market.usd[pools]
        rest = np.repeat(self.cheapest[workers - 1][:, None], len(usd), axis=1)
        for rule in self.required:
            mine = rule.owns if pools is None else rule.owns[pools]
            rest[:, mine] = self._freest[workers - 1][:, None]
        # One of this pool and the n - 1 cheapest; never below the n cheapest that keep the rules.
        beside: Array = np.maximum(usd + rest, self.cheapest[workers][:, None])
        return beside

    def calculation(self, workers: Indices, pools: Indices | None = None) -> Array:
        """Return the least calculation of one machine of each pool among n workers; shape (numbers
        of workers, pools).

        Notes
        -----
        Parts are equal; where data stays, each region's workers share its part, and the other
        regions need a worker each.
        """
        speed, place, n = self.market.speed, self.market.place_of, workers[:, None]
        if pools is not None:
            speed, place = speed[pools], place[pools]
        if not self.problem.requirements.datasets:
            equal: Array = self.problem.batch / n / speed
            return equal
        others = len(self.problem.requirements.required_places) - (self.market.stay_share > 0)
        # As many as possible share a region's part, so the part of each errs low.
        most = np.maximum(1, np.minimum(self.market.room, n - others))
        placed: Array = (self.market.stay_share / most)[:, place] * self.problem.batch / speed
        return placed

    def ideal_seconds(self, workers: Indices, pools: Indices | None = None) -> tuple[Array, Array]:
        """Return the calculation with the ideal way up, and with both ideal ways; each of shape
        (numbers of workers, pools).
        """
        place = self.market.place_of if pools is None else self.market.place_of[pools]
        up, down = (way[place] for way in self.ideal.ways())
        ready = self.calculation(workers, pools) + up
        return ready, ready + down

    @cached_property
    def leading(self) -> Indices:
        """Pools of which no other one in their place is as fast and no dearer: the first to be
        paid, and the first to be ready. All pools where some of them must be used.
        """
        market = self.market
        if self.required:
            return np.arange(len(market.pools))
        if "leading" not in market.kept:  # the same for every strategy
            market.kept["leading"] = leading(market.place_of, market.usd, market.speed)
        built: Indices = market.kept["leading"]
        return built

    def passing(self, rows: HubRows) -> Array:
        """Return the seconds until all gradients have passed through the hub, in and out, after the
        first calculation has ended; shape (rows,).
        """
        through: Array = self.soonest[rows.workers] + rows.aggregate + 2 * rows.shared
        return through

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
    """List the machines of which no other one in their place is as fast and no dearer, the cheapest
    of each place first; of equal ones the first.
    """
    order = np.lexsort((-speed, usd, place))
    # Ranks are whole numbers, so that the running maximum of one place ends where the next begins.
    rank = np.searchsorted(np.sort(speed), speed)[order] + place[order] * (len(speed) + 1)
    before = np.concatenate([[-1], np.maximum.accumulate(rank)[:-1]])
    first = np.concatenate([[True], np.diff(place[order]) > 0])
    built: Indices = order[(rank > before) | first]
    return built
