"""Best placement around a hub: its place, number of workers, then machines, each pruned by its bound."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placer.elastic import needs_place
from placer.exchange import traits
from placer.exchanges import exchanges_of
from placer.placement import Placement
from placer.units import SECONDS_PER_HOUR

from ._hub import Hub
from ._market import Array, Indices, Market
from ._mode import Mode
from ._target import Target
from ._walk import Walk
from .exhaustive import groups_of


class HubSearch:
    """Branch and bound over placements whose workers get equal parts and send them to a hub.

    Parameters
    ----------
    market
        Pools that may be used.
    target
        Incumbent and limits; improved in place.
    mode
        Central or hierarchical serverless, or a parameter server.
    """

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        self.market, self.target, self.mode, self.problem = market, target, mode, market.problem
        wish = self.problem.requirements
        self.fewest_regions, self.most_regions = max(market.fewest_regions, traits(mode.strategy).least_regions), wish.max_regions
        self.most = min(wish.max_workers, int(market.cap.sum()))
        self.first = max(2, wish.min_workers)
        self.cheapest, self.cleanest = self._least(market.usd), self._least(market.carbon)
        self._own: dict[tuple[int, str | None, str | None], Array] = {}
        self._products: dict[tuple[int, str | None, str | None], float] = {}
        self.ideal = Hub(market, mode, None, None)
        self.hubs = [Hub(market, mode, place, storage) for place, storage in self._places()]

    def _least(self, each: Array) -> Array:
        """Least sum of some figure over n machines; shape (workers + 1,)."""
        order = np.argsort(each, kind="stable")
        sizes = np.concatenate([[0.0], np.cumsum(self.market.cap[order])])
        sums = np.concatenate([[0.0], np.cumsum(each[order] * self.market.cap[order])])
        built: Array = np.interp(np.arange(self.most + 1), sizes, sums)
        return built

    def _places(self) -> list[tuple[str, str | None]]:
        """Where the hub may be."""
        wanted = self.problem.requirements.aggregator
        if self.ideal.transport == "server":
            return [(place, None) for place in (self.market.places if wanted is None else (wanted,))]
        return list(self.problem.aggregator_places)

    def aim(self, target: Target) -> None:
        """Search for another target in the same market."""
        self.target = target

    def run(self) -> None:
        """Search all hubs and worker counts; raises OutOfTimeError when the time is up."""
        if self.fewest_regions > self.most_regions:
            return
        modes = []
        for n in range(self.first, self.most + 1):
            if self._open(n, self.ideal):
                modes += [(self._least_seconds(n, hub), n, k) for k, hub in enumerate(self.hubs) if hub.able(n)]
        for _, n, k in sorted(modes):
            self.target.check_time()
            if self._open(n, self.hubs[k]):
                self._machines(n, self.hubs[k])

    def may_improve(self) -> bool:
        """Whether the bound of all placements together still allows an improvement."""
        return (
            bool(self.hubs)
            and self.fewest_regions <= self.most_regions
            and any(self._open(n, self.ideal) for n in range(self.first, self.most + 1))
        )

    def _open(self, n: int, hub: Hub) -> bool:
        """Whether n workers around a hub could be an improvement."""
        if self.cleanest[n] > self.target.max_carbon_g_per_hour:
            return False
        usd = float(self.cheapest[n]) + hub.usd_per_hour(n)
        seconds = max(self._least_seconds(n, hub), self._mean_seconds(n, hub))
        return self.improves(seconds, usd, 0.0, product=self._least_product(n, hub))

    def _mean_seconds(self, n: int, hub: Hub) -> float:
        """Least round with n workers whose speeds together are at most what the limit pays for.

        Notes
        -----
        Equal parts take B / V in the mean, and the k-th of n gradients has n - k + 1 to wait for, half of them in the mean; where data
        has its place, only the slowest part is known to take B / V.
        """
        rows, usd = self.market.weights, self.target.max_usd_per_hour - hub.usd_per_hour(n)
        fit = (rows[:, 0] > 0) & ~np.any(rows[:, 2:] > 0, axis=1) & ((rows[:, 1] == 0) | (usd < math.inf))
        speed = float((self._sums[fit, n] + rows[fit, 1] * (usd if usd < math.inf else 0.0)).min())
        if speed <= 0:
            return math.inf
        up, down = self.ideal.ways
        queue = hub.shared(n) * (0.0 if self.problem.requirements.datasets else 0.5 + 0.5 / n)
        return self.problem.batch / speed + queue + hub.aggregate(n) + float(up[0]) + max(float(down[0]), hub.shared(n))

    @cached_property
    def _sums(self) -> Array:
        """Largest weighted sums of n machines anywhere; shape (rows, workers + 1)."""
        return self.market.best_sums(np.arange(len(self.market.places)), frozenset(self.market.host_of), self.most)

    def _own_seconds(self, n: int, hub: Hub) -> Array:
        """Least round of n workers if one is of each pool: its calculation, ideal transfers, the hub; shape (pools,)."""
        key = n, hub.aggregator, hub.storage
        found = self._own.get(key)
        if found is None:
            up, down = self.ideal.ways
            found = self._seconds(n, hub, np.full(len(self.market.pools), up[0]), np.full(len(self.market.pools), down[0]))
            if hub is self.ideal:  # asked again for every question; each other hub for few
                self._own[key] = found
        return found

    def _seconds(self, n: int, hub: Hub, up: Array, down: Array) -> Array:
        """Least round of n workers if one is of each pool; shape (pools,).

        Notes
        -----
        A worker's own gradient goes up after its calculation, and the results of all come back through the hub; and all
        gradients pass through the hub, in and out, after the first calculation has ended.
        """
        calculation, shared = self._calculation(n), hub.shared(n)
        own: Array = np.maximum(
            calculation + up + hub.aggregate(n) + np.maximum(down, shared), calculation.min() + hub.aggregate(n) + 2 * shared
        )
        return own

    def _calculation(self, n: int) -> Array:
        """Least calculation of one machine of each pool among n workers; shape (pools,).

        Notes
        -----
        Parts are equal; where data stays, each region's workers share its part, and the other regions need a worker each.
        """
        if not self.problem.requirements.datasets:
            equal: Array = self.problem.batch / n / self.market.speed
            return equal
        others = len(needs_place(self.problem.requirements.datasets)) - (self.market.stay_share > 0)
        most = np.maximum(1, np.minimum(self.market.room, n - others))
        placed: Array = (self.market.stay_share / most)[self.market.place_of] * self.problem.batch / self.market.speed
        return placed

    def _least_seconds(self, n: int, hub: Hub) -> float:
        """Least round with n workers: the fastest machine that the limit can pay, ideal links."""
        affordable = self.market.usd <= self.target.max_usd_per_hour - self.cheapest[n - 1]
        return float(self._own_seconds(n, hub)[affordable].min()) if np.any(affordable) else math.inf

    def _least_product(self, n: int, hub: Hub) -> float:
        """Least price per hour times seconds of a round of n machines.

        Notes
        -----
        A slow worker makes the round longer for all: each worker pays its price for at least the round
        that it alone would need, so n times the least such product bounds the whole.
        """
        key = n, hub.aggregator, hub.storage
        if key not in self._products:
            self._products[key] = n * float((self.market.usd * self._own_seconds(n, hub)).min())
        return self._products[key]

    def improves(self, seconds: float, usd_per_hour: float, usd_per_round: float, slowest: float = 0.0, product: float = 0.0) -> bool:
        """Whether a round this short at these prices could be an improvement.

        Notes
        -----
        Seconds, prices and their product are lower bounds; ``slowest`` is the least samples/s, for which
        rounds are paid.
        """
        counted, target = self.mode.samples / self.mode.multiplier, self.target
        if seconds == math.inf or counted / seconds < target.min_speed:
            return False
        if usd_per_hour + usd_per_round * SECONDS_PER_HOUR * max(target.min_speed, slowest) / counted > target.max_usd_per_hour:
            return False
        round_usd = max(usd_per_hour * seconds, product) / SECONDS_PER_HOUR
        return (round_usd + usd_per_round) / counted <= target.max_usd_per_sample

    def _worth(self, n: int, hub: Hub, chosen: Indices, seconds: Array) -> bool:
        """Whether the n cheapest of some machines, in order of price, with the least round and egress of any, could be an improvement."""
        market = self.market
        caps = np.cumsum(market.cap[chosen])
        if len(caps) == 0 or caps[-1] < n:
            return False
        taken = np.diff(np.minimum(caps, n), prepend=0.0)
        usd = float(taken @ market.usd[chosen]) + hub.usd_per_hour(n)
        if not self.improves(float(seconds.min()), usd, hub.fixed_usd(n)):
            return False
        worker_usd = hub.egress[0] + self.problem.batch / n * np.array(market.data_usd)
        egress = n * float(worker_usd[market.place_of[chosen]].min()) + hub.fixed_usd(n)
        return self.improves(float(seconds.min()), usd, egress)

    @cached_property
    def _serverless(self) -> NDArray[np.bool_]:
        """Which pools stand where there is a function and a store; shape (pools,)."""
        able = np.array([place in self.problem.serverless_places for place in self.market.places], dtype=bool)
        return able[self.market.place_of]

    def _machines(self, n: int, hub: Hub) -> None:
        """Enumerate the machines of one hub and one n that may improve."""
        market, (up, down), place = self.market, hub.ways, self.market.place_of
        calculation = self._calculation(n)
        ready = calculation + up[place]
        seconds = self._seconds(n, hub, up[place], down[place])
        server = hub.usd_per_hour(n)
        affordable = market.usd <= self.target.max_usd_per_hour - self.cheapest[n - 1] - server
        counted = self.mode.samples / self.mode.multiplier
        per_sample = (self.cheapest[n - 1] + market.usd + server) * seconds / SECONDS_PER_HOUR / counted
        allowed = (seconds <= self.mode.seconds_at(self.target.min_speed)) & affordable & (per_sample <= self.target.max_usd_per_sample)
        if hub.transport == "regional-stores":
            allowed &= self._serverless
        chosen = np.flatnonzero(allowed)
        chosen = chosen[np.lexsort((seconds[chosen], market.usd[chosen]))]
        if not self._worth(n, hub, chosen, seconds[chosen]):
            return
        pools = [market.pools[i] for i in chosen]
        for counts in Walk(self, n, chosen, ready, hub).run():
            groups = groups_of(pools, counts)
            at = {group.place: 0 for group in groups}
            for group in groups:
                at[group.place] += group.count
            if self.fewest_regions <= len(at) <= self.most_regions:
                for exchange in exchanges_of(self.mode.strategy, 1, self.problem, at):
                    if (exchange.aggregator, exchange.storage) == (hub.aggregator, hub.storage):
                        self.target.offer(Placement(groups=groups, exchange=exchange))
