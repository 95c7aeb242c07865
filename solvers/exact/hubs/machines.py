"""Machines around one hub: counts of each pool, cheapest first, cut by the bounds of a round."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..._market.arrays import Array, Indices
from ..._market.increments import suffix_sums
from ..._market.required_machines import Owed
from ..._target import Target
from ..search import Ranges
from .bounds import could_improve
from .hub import Hub
from .workers import HubWorkers


class HubMachineTree:
    """Depth-first enumeration of counts, cheapest machines first.

    ``workers``, ``target``: market and strategy; incumbent and limits. ``n``, ``hub``: how many
    workers around which hub. ``ranges``: numbers of regions that are allowed. ``chosen``: pools
    that they may be of, cheapest first. ``server_usd``: USD/h of the server. ``egress``: USD that a
    worker of each chosen pool pays a round, and its region beside; shapes (chosen,).
    """

    def __init__(
        self,
        workers: HubWorkers,
        target: Target,
        *,
        n: int,
        hub: Hub,
        ranges: Ranges,
        chosen: Indices,
        server_usd: float,
        egress: tuple[Array, Array],
    ) -> None:
        market, problem, place = workers.market, workers.problem, workers.market.place_of[chosen]
        used = np.flatnonzero(np.bincount(place))  # np.unique would load masked arrays
        up, down = (way[place] for way in hub.ways(used))
        calculation = workers.calculation(np.array([n]), chosen)[0]
        server = (
            hub.transport == "server"
        )  # all pull at once after the last push; from a store each begins when it has the mean
        ready = calculation + up if server else calculation + up + down
        self.target, self.mode, self.n = target, workers.mode, n
        self.problem, self.ranges = problem, ranges
        self.taken = hub.taken(n)
        self.aggregate = float(hub.aggregate(n))
        self.fixed = hub.fixed_usd(n)
        self.server = server_usd
        self.pools = [market.pools[i] for i in chosen]
        self.places = place.tolist()
        self.caps = [int(market.cap[i]) for i in chosen]
        self.usd = market.usd[chosen].tolist()
        self.egress = egress[0].tolist()
        self.region_usd = egress[1].tolist()
        self.ready, self.down = ready.tolist(), (down if server else np.zeros_like(down)).tolist()
        self.shared = float(hub.shared(n))
        self.least_s = float(calculation.min()) + self.aggregate + 2 * self.shared
        self.calculation = calculation.tolist()
        self.soonest = [*np.minimum.accumulate(self.calculation[::-1])[::-1].tolist(), math.inf]
        self.taken_kinds: list[tuple[float, int]] = []
        each = np.repeat(market.usd[chosen], market.cap[chosen].astype(np.intp))
        self.usd_sums = [0.0, *np.cumsum(each).tolist()]
        self.first = [0, *np.cumsum(self.caps).tolist()]
        self.least_egress = [*np.minimum.accumulate(egress[0][::-1])[::-1].tolist(), 0.0]
        self.speed_left = (
            suffix_sums(market.speed[chosen].tolist(), self.caps, n)
            if problem.requirements.datasets
            else []
        )
        self.speed = market.speed[chosen].tolist()
        counted = problem.requirements.counts_carbon
        self.carbon = market.carbon[chosen].tolist()
        self.carbon_left = suffix_sums([-g for g in self.carbon], self.caps, n) if counted else []
        self.least_way_s = float((up + down).min()) + self.aggregate
        self.counts = [0] * len(chosen)
        joint = zip(market.joint[:, chosen].tolist(), problem.joint_limits, strict=True)
        self.joint = [(taken, row.most) for taken, row in joint]
        self.owed = Owed(market.required_machines, chosen.tolist(), self.caps)
        self.required = frozenset(
            place for place, name in enumerate(market.places) if name in hub.required
        )
        # Such workers may be slower together than each by itself.
        held = problem.workers_hold_back
        certain = hub.transport == "store" and not problem.requirements.datasets and not held
        longest = max(self.ready) + self.aggregate + max(self.down)
        self.slowest = workers.mode.samples / workers.mode.multiplier / longest if certain else 0.0

    def run(self) -> Iterator[list[int]]:
        """Yield counts that may improve."""
        yield from self._descend(
            0, self.n, (0.0, 0.0, self.server, self.fixed), dict(self.taken), frozenset()
        )

    def _descend(
        self,
        at: int,
        left: int,
        so_far: tuple[float, float, float, float],
        quota: dict[tuple[str, ...], int],
        used: frozenset[int],
    ) -> Iterator[list[int]]:
        """Choose the next kind of machine; ``so_far`` is (last ready, last pull, USD/h, USD per
        round).

        One frame per kind of machine that is used. What is left after pool i can only get dearer as
        i grows, so the first pool from which nothing can improve ends the loop.
        """
        self.target.tick()
        if left == 0:
            yield list(self.counts)
            return
        ready, down, usd, egress = so_far
        for i in range(at, len(self.pools)):
            if not self._open(i, left, so_far):
                return
            pool, place = self.pools[i], self.places[i]
            if len(used | {place}) > self.ranges.most_regions:
                continue
            taken, charge = quota.get(pool.bucket, 0), 0.0 if place in used else self.region_usd[i]
            spare = left - max(self._missing(used | {place}), self.owed.others(i))
            for count in range(
                min(self.caps[i], spare, (pool.gpu_quota - taken) // pool.gpus), 0, -1
            ):
                paid = egress + count * self.egress[i] + charge
                now = (
                    max(ready, self.ready[i]),
                    max(down, self.down[i]),
                    usd + count * self.usd[i],
                    paid,
                )
                self.counts[i] = count
                self.taken_kinds.append((self.calculation[i], count))
                self.owed.take(i, count)
                if self._open(i + 1, left - count, now):
                    quota[pool.bucket] = taken + count * pool.gpus
                    yield from self._descend(i + 1, left - count, now, quota, used | {place})
                    quota[pool.bucket] = taken
                self.taken_kinds.pop()
                self.owed.take(i, -count)
                self.counts[i] = 0

    def _queued(self, at: int, left: int) -> float:
        """Return the least time until all gradients are through the hub's queue."""
        kinds = sorted([*self.taken_kinds, (self.soonest[at], left)], reverse=True)
        waiting = 0
        latest = 0.0
        for start, count in kinds:
            if count:
                waiting += count
                latest = max(latest, start + waiting * self.shared / self.n)
        return latest

    def _missing(self, used: frozenset[int]) -> int:
        """Return how many regions still need a worker."""
        return max(len(self.required - used), self.ranges.fewest_regions - len(used))

    def _open(self, at: int, left: int, so_far: tuple[float, float, float, float]) -> bool:
        ready, down, usd, egress = so_far
        first = self.first[at]
        if first + left >= len(self.usd_sums) or not self.owed.possible(at):
            return False
        if not self._within_limits(at, left):
            return False
        # Cheapest first: the next machines in order are the cheapest way to fill up.
        usd_per_hour = usd + self.usd_sums[first + left] - self.usd_sums[first]
        # The least egress of any later pool for each worker that is still to come.
        usd_per_round = egress + left * self.least_egress[at]
        # The slowest machine so far decides; later ones can only make the round longer.
        seconds = max(ready + self.aggregate + max(down, self.shared), self.least_s)
        # A server takes one gradient after the other, so late ones queue.
        if self.shared:
            seconds = max(seconds, self._queued(at, left) + self.aggregate + self.shared)
        # With placed data the batch takes at least B / V of all machines at their fastest.
        if self.speed_left:
            placed = sum(
                count * speed for count, speed in zip(self.counts, self.speed, strict=True) if count
            )
            seconds = max(
                seconds,
                self.problem.batch / (placed + self.speed_left[at][left]) + self.least_way_s,
            )
        return bool(
            could_improve(
                self.target, self.mode, seconds, usd_per_hour, usd_per_round, self.slowest
            )
        )

    def _within_limits(self, at: int, left: int) -> bool:
        """Return whether joint quotas and emissions are kept with the cleanest rest."""
        for taken, most in self.joint:
            if (
                sum(count * each for count, each in zip(self.counts, taken, strict=True) if count)
                > most
            ):
                return False
        if not self.carbon_left:
            return True
        emitted = sum(
            count * each for count, each in zip(self.counts, self.carbon, strict=True) if count
        )
        return bool(emitted - self.carbon_left[at][left] <= self.target.max_carbon_g_per_hour)
