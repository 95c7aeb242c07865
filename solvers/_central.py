"""Best serverless placement: place of the aggregator, number of workers, then machines, each pruned by its bound."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from placer import cost, timing
from placer.estimator import exchange_for
from placer.exchange import central
from placer.network import Link
from placer.placement import Placement
from placer.units import SECONDS_PER_HOUR

from ._market import Array, Indices, Market, suffix_sums
from ._target import Target
from .exhaustive import groups_of

IDEAL = Link(src="", dst="", bytes_per_second=math.inf, low=math.inf, high=math.inf, rtt_s=0.0, basis="", source="")
"""A link that no real one beats, for bounds."""


class CentralSearch:
    """Branch and bound over serverless placements of one market.

    Parameters
    ----------
    market
        Pools that may be used.
    target
        Incumbent and limits; improved in place.
    """

    def __init__(self, market: Market, target: Target) -> None:
        self.market, self.target, self.problem = market, target, market.problem
        wish = self.problem.requirements
        self.fewest_regions, self.most_regions = wish.min_regions, wish.max_regions
        self.most = min(wish.max_workers, int(market.cap.sum()))
        self.first = max(2, wish.min_workers)
        self.size = self.problem.gradient_bytes
        order = np.argsort(market.usd, kind="stable")
        sizes = np.concatenate([[0.0], np.cumsum(market.cap[order])])
        sums = np.concatenate([[0.0], np.cumsum(market.usd[order] * market.cap[order])])
        self.cheapest: Array = np.interp(np.arange(self.most + 1), sizes, sums)
        self._ways: dict[tuple[str, str], tuple[Array, Array, Array, float]] = {}

    def run(self) -> None:
        """Search all aggregator places and worker counts; raises OutOfTimeError when the time is up."""
        modes = []
        for n in range(self.first, self.most + 1):
            if not self._ideal(n):
                continue
            for function, store in self.problem.aggregator_places:
                offer = self.problem.catalog.function(function)
                aggregate = self._aggregate(function, store, n)
                if central.memory_gib(self.size, n) <= offer.max_memory_gib and aggregate <= offer.max_seconds:
                    modes.append((self._least_seconds(n, aggregate), n, function, store, aggregate))
        for _, n, function, store, aggregate in sorted(modes):
            self.target.check_time()
            if self._open(n, aggregate):
                self._machines(n, function, store)

    def may_improve(self) -> bool:
        """Whether the bound of all placements together still allows an improvement."""
        return bool(self.problem.aggregator_places) and any(self._ideal(n) for n in range(self.first, self.most + 1))

    def _ideal(self, n: int) -> bool:
        return self._open(n, timing.aggregate_seconds(self.size, n, IDEAL, IDEAL))

    def _open(self, n: int, aggregate: float) -> bool:
        """Whether n workers and a function that runs this long could be an improvement."""
        seconds, product = self._least_seconds(n, aggregate), self._least_product(n, aggregate)
        return self._improves(seconds, float(self.cheapest[n]), 0.0, product=product)

    def _aggregate(self, function: str, store: str, n: int) -> float:
        network = self.problem.network
        return timing.aggregate_seconds(self.size, n, network.link(store, function), network.link(function, store))

    def _least_seconds(self, n: int, aggregate: float) -> float:
        """Least step with n workers: the fastest machine that the limit can pay, ideal links."""
        affordable = self.market.usd <= self.target.max_usd_per_hour - self.cheapest[n - 1]
        if not np.any(affordable):
            return math.inf
        return float(self._own_seconds(n, aggregate)[affordable].min())

    def _own_seconds(self, n: int, aggregate: float) -> Array:
        """Least step of n workers if one is of each pool: its calculation, ideal transfers, the function; shape (pools,)."""
        transfer = timing.store_transfer_seconds(self.size, IDEAL, start=True, cap=timing.STORE_STREAM_BYTES_PER_S)
        own: Array = self.problem.batch / n / self.market.speed + aggregate + 2 * transfer
        return own

    def _least_product(self, n: int, aggregate: float) -> float:
        """Least price per hour times seconds of a step of n machines.

        Notes
        -----
        A slow worker makes the step longer for all: each worker pays its price for at least the step
        that it alone would need, so n times the least such product bounds the whole.
        """
        return n * float((self.market.usd * self._own_seconds(n, aggregate)).min())

    def _improves(self, seconds: float, usd_per_hour: float, usd_per_step: float, slowest: float = 0.0, product: float = 0.0) -> bool:
        """Whether a step this short at these prices could be an improvement.

        Notes
        -----
        Seconds, prices and their product are lower bounds; ``slowest`` is the least samples/s, for which
        steps are paid.
        """
        batch, target = self.problem.batch, self.target
        if seconds == math.inf or batch / seconds < target.min_speed:
            return False
        if usd_per_hour + usd_per_step * SECONDS_PER_HOUR * max(target.min_speed, slowest) / batch > target.max_usd_per_hour:
            return False
        step_usd = max(usd_per_hour * seconds, product) / SECONDS_PER_HOUR
        return (step_usd + usd_per_step) / batch <= target.max_usd_per_sample

    def _way(self, function: str, store: str) -> tuple[Array, Array, Array, float]:
        """Upload and download seconds and egress per step by place, and egress per step that no worker adds."""
        found = self._ways.get((function, store))
        if found is not None:
            return found
        network, cap = self.problem.network, timing.STORE_STREAM_BYTES_PER_S
        up, down, usd, fixed = [], [], [], 0.0
        exchange = exchange_for("central", 1, self.problem, function, store)
        for place in self.market.places:
            up.append(timing.store_transfer_seconds(self.size, network.link(place, store), start=True, cap=cap))
            down.append(timing.store_transfer_seconds(self.size, network.link(store, place), start=True, cap=cap))
            one, two = (
                cost.egress_usd(central.phases([(place, k)], self.size, exchange), network, same_zone=self.problem.requirements.same_zone)
                for k in (1, 2)
            )
            usd.append(two - one)
            fixed = max(0.0, 2 * one - two)
        found = self._ways[function, store] = np.array(up), np.array(down), np.array(usd), fixed
        return found

    def _machines(self, n: int, function: str, store: str) -> None:
        """Enumerate the machines of one aggregator place and one n that may improve."""
        market = self.market
        up, down, egress, fixed = self._way(function, store)
        place = market.place_of
        ready = self.problem.batch / n / market.speed + up[place]
        aggregate = self._aggregate(function, store, n)
        seconds = ready + aggregate + down[place]
        longest = self.problem.batch / self.target.min_speed if self.target.min_speed > 0 else math.inf
        affordable = market.usd <= self.target.max_usd_per_hour - self.cheapest[n - 1]
        per_sample = (self.cheapest[n - 1] + market.usd) * seconds / SECONDS_PER_HOUR / self.problem.batch
        chosen = np.flatnonzero((seconds <= longest) & affordable & (per_sample <= self.target.max_usd_per_sample))
        chosen = chosen[np.lexsort((seconds[chosen], market.usd[chosen]))]
        if market.cap[chosen].sum() < n:
            return
        offer = self.problem.catalog.function(function)
        fixed += cost.function_usd(offer, central.memory_gib(self.size, n), aggregate)
        walk = _Walk(self, n, chosen, ready, down[place], egress[place], aggregate, fixed)
        exchange = exchange_for("central", n, self.problem, function, store)
        pools = [market.pools[i] for i in chosen]
        for counts in walk.descend(0, n, (0.0, 0.0, 0.0, 0.0), {}):
            self.target.offer(Placement(groups=groups_of(pools, counts), exchange=exchange))


class _Walk:
    """Depth-first enumeration of counts, cheapest machines first."""

    def __init__(
        self, search: CentralSearch, n: int, chosen: Indices, ready: Array, down: Array, egress: Array, aggregate: float, fixed: float
    ) -> None:
        market = search.market
        self.search, self.n, self.aggregate, self.fixed = search, n, aggregate, fixed
        self.pools = [market.pools[i] for i in chosen]
        self.places = [int(market.place_of[i]) for i in chosen]
        self.caps = [int(market.cap[i]) for i in chosen]
        self.usd, self.egress = market.usd[chosen].tolist(), egress[chosen].tolist()
        self.ready, self.down = ready[chosen].tolist(), down[chosen].tolist()
        self.usd_left = suffix_sums([-u for u in self.usd], self.caps, n)
        self.egress_left = suffix_sums([-e for e in self.egress], self.caps, n)
        self.counts = [0] * len(chosen)
        self.slowest = search.problem.batch / (max(self.ready) + aggregate + max(self.down))

    def descend(
        self, at: int, left: int, so_far: tuple[float, float, float, float], quota: dict[tuple[str, str, str], int]
    ) -> Iterator[list[int]]:
        """Yield counts; ``so_far`` is (last ready, last download, USD/h, egress per step).

        Notes
        -----
        One frame per kind of machine that is used. What is left after pool i can only get dearer as i
        grows, so the first pool from which nothing can improve ends the loop.
        """
        self.search.target.tick()
        if left == 0:
            if (
                self.search.fewest_regions
                <= len({p for p, c in zip(self.places, self.counts, strict=True) if c})
                <= self.search.most_regions
            ):
                yield list(self.counts)
            return
        ready, down, usd, egress = so_far
        for i in range(at, len(self.pools)):
            if not self._open(i, left, so_far):
                return
            pool = self.pools[i]
            used = quota.get(pool.bucket, 0)
            for count in range(min(self.caps[i], left, (pool.gpu_quota - used) // pool.offer.gpu_count), 0, -1):
                now = (max(ready, self.ready[i]), max(down, self.down[i]), usd + count * self.usd[i], egress + count * self.egress[i])
                if self._open(i + 1, left - count, now):
                    self.counts[i] = count
                    quota[pool.bucket] = used + count * pool.offer.gpu_count
                    yield from self.descend(i + 1, left - count, now, quota)
                    quota[pool.bucket] = used
                    self.counts[i] = 0

    def _open(self, at: int, left: int, so_far: tuple[float, float, float, float]) -> bool:
        ready, down, usd, egress = so_far
        if self.usd_left[at][left] == -math.inf:
            return False
        usd_per_hour, usd_per_step = usd - self.usd_left[at][left], egress - self.egress_left[at][left] + self.fixed
        return self.search._improves(ready + self.aggregate + down, usd_per_hour, usd_per_step, self.slowest)
