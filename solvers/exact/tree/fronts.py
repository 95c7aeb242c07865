"""Pareto fronts of the machines of a known split of workers over regions: speed against price,
region by region.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from placer.problem.exchange import traits
from placer.problem.placement import WorkerGroup
from placer.problem.problem import Problem, groups_of
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices
from ..._market.market import Market
from ..bounds.relaxation import margin
from .leaf_bound import LeafBound

TIGHT = 5
"""Rows of the bound that prune partial choices."""


@dataclass(frozen=True, kw_only=True)
class States:
    """Choices of machines, not yet complete: how many, their speed, their price, where they came
    from; shapes (states,).

    Notes
    -----
    ``parent`` is the state of the stage before, ``choice`` what was added to it.
    """

    machines: Indices
    speed: Array
    usd: Array
    parent: Indices
    choice: Indices

    def at(self, chosen: Indices) -> States:
        """Select some of the states."""
        return States(
            machines=self.machines[chosen],
            speed=self.speed[chosen],
            usd=self.usd[chosen],
            parent=self.parent[chosen],
            choice=self.choice[chosen],
        )


NONE = np.zeros(1, dtype=np.intp)
NOTHING = States(machines=NONE, speed=np.zeros(1), usd=np.zeros(1), parent=NONE, choice=NONE)


def speed_and_price_decide(problem: Problem, strategy: str) -> bool:
    """Return whether, for known counts by region, a placement that is faster and not dearer is at
    least as good.

    Notes
    -----
    It is, unless parts are equal, regions go at their own pace, data has its place or a price by
    place, or machines are asked for by name.
    """
    wish, chosen = problem.requirements, traits(strategy)
    two = not (wish.counts_carbon or wish.joint_quotas)  # else a third figure counts
    free = not wish.datasets and wish.data_store is None and not wish.used and two
    return (
        free
        and chosen.transport in ("butterfly", "leaders", "region-hub")
        and chosen.division != "equal"
    )


class Fronts:
    """All choices of machines of one split that nothing beats, the best first.

    Parameters
    ----------
    bound
        Regions, number of workers, and thresholds of an improvement.
    split
        Workers by region; shape (1, regions).
    hosts
        Classes of hosts that may be used in each region; the slowest that each has decides the
        averaging time.
    egress_usd
        Egress of one exchange, which the split fixes.

    Notes
    -----
    Nemhauser and Ullmann (1969) with bounds: partial choices are kept if no other has at least the
    speed at no higher price; a dollar per hour of price counts with the egress that more speed
    brings along, so that a slower choice that just keeps a budget is not lost. What cannot reach
    the thresholds of an improvement is cut by the best weighted sums of the rest.
    """

    def __init__(
        self, bound: LeafBound, hosts: tuple[frozenset[str], ...], split: Indices, egress_usd: float
    ) -> None:
        self.bound, self.hosts, self.split, self.market = bound, hosts, split, bound.market
        mode = bound.relaxation.mode
        # More speed brings more rounds and more egress. Counting it with the price keeps a slower
        # choice that just stays within a budget.
        self.usd_per_speed = SECONDS_PER_HOUR * egress_usd / mode.samples
        needed = bound.thresholds(split)[:, 0]
        regions = zip(bound.node.used, hosts, split[0].tolist(), strict=True)
        sums = [
            self.market.best_sums(np.array([place]), own, bound.workers)[:, n]
            for place, own, n in regions
        ]
        total = np.sum(sums, axis=0)
        weights = self.market.weights
        with np.errstate(invalid="ignore", divide="ignore"):
            spare = np.where(
                np.isfinite(needed) & (weights[:, 1] > 0),
                (total - needed) / np.maximum(weights[:, 1], 1e-9),
                np.inf,
            )
        self.rows = np.unique(
            [0, len(needed) - 1, *np.argsort(spare, kind="stable")[:TIGHT].tolist()]
        )
        self.rows = self.rows[np.isfinite(needed[self.rows])]
        self.weights, self.needed = weights[self.rows], needed[self.rows]
        self.total, self.sums = total[self.rows], [part[self.rows] for part in sums]

    def improvements(self) -> Iterator[tuple[WorkerGroup, ...]]:
        """Yield groups that may improve, in order of promise."""
        if not np.all(np.isfinite(self.total)):  # these hosts are too few for the split
            return
        whole, trail = NOTHING, []
        for k in range(self.split.shape[1]):
            region = RegionFront(self, k)
            self.bound.target.tick()
            if len(region.states.speed) == 0:
                return
            whole = self._joined(whole, region.states, k)
            trail.append((whole, region))
            if len(whole.speed) == 0:
                return
        for at in self._order(whole):
            reached = (
                self.market.weights[:, 0] * whole.speed[at]
                - self.market.weights[:, 1] * whole.usd[at]
            )
            if margin(reached[:, None], self.bound.thresholds(self.split))[0] >= 0:
                yield self._groups(trail, int(at))

    def _joined(self, whole: States, region: States, k: int) -> States:
        """Combine every choice so far with every choice of a further region, and keep what nothing
        beats.
        """
        n = len(region.speed)
        parent, choice = (
            np.repeat(np.arange(len(whole.speed)), n),
            np.tile(np.arange(n), len(whole.speed)),
        )
        built = States(
            machines=np.zeros(len(parent), dtype=np.intp),
            speed=whole.speed[parent] + region.speed[choice],
            usd=whole.usd[parent] + region.usd[choice],
            parent=parent,
            choice=choice,
        )
        later = (
            np.sum(self.sums[k + 1 :], axis=0)
            if k + 1 < len(self.sums)
            else np.zeros(len(self.rows))
        )
        return self.best(built.at(np.flatnonzero(self.open(built, later[:, None]))))

    def open(self, states: States, ahead: Array) -> np.ndarray:
        """Return which states may still reach every threshold with what lies ahead; ``ahead`` has
        shape (rows, states) or (rows, 1).
        """
        reached = self.weights[:, :1] * states.speed - self.weights[:, 1:2] * states.usd + ahead
        # Loose by rounding: sums of parts differ from the sum of the whole in the last digits.
        slack = 1e-9 * np.maximum(1.0, np.abs(self.needed))
        open_: np.ndarray = np.all(reached >= (self.needed - slack)[:, None], axis=0)
        return open_

    def best(self, states: States) -> States:
        """Keep the states that no other of as many machines beats."""
        if len(states.speed) < 2:
            return states
        key = states.usd + self.usd_per_speed * states.speed
        order = np.lexsort((-states.speed, key, states.machines))
        # Machines are separated by a gap wider than any speed, so that one running maximum compares
        # only states of as many machines.
        lifted = states.speed[order] + states.machines[order] * (
            2.0 * float(states.speed.max()) + 1.0
        )
        before = np.concatenate([[-np.inf], np.maximum.accumulate(lifted)[:-1]])
        return states.at(order[lifted > before])

    def _order(self, whole: States) -> Indices:
        objective = self.bound.target.objective.name
        if objective == "throughput":
            return np.lexsort((whole.usd, -whole.speed))
        return np.argsort(
            whole.usd if objective == "cost" else whole.usd / whole.speed, kind="stable"
        )

    def _groups(self, trail: list[tuple[States, RegionFront]], at: int) -> tuple[WorkerGroup, ...]:
        """List the machines of a complete choice."""
        pools, counts = [], []
        for whole, region in reversed(trail):
            for pool, count in region.machines(int(whole.choice[at])):
                pools.append(self.market.pools[pool])
                counts.append(count)
            at = int(whole.parent[at])
        return groups_of(pools[::-1], counts[::-1])


class RegionFront:
    """Choices of machines of one region that nothing beats."""

    def __init__(self, fronts: Fronts, k: int) -> None:
        bound, market = fronts.bound, fronts.market
        self.count = int(fronts.split[0, k])
        self.buckets = buckets_at(market, int(bound.node.used[k]), fronts.hosts[k])
        others = fronts.total - fronts.sums[k]
        ahead = self._ahead(fronts)
        states, self.trail = NOTHING, []
        for bucket, rest in zip(self.buckets, ahead, strict=True):
            mixes = mixes_of(market, bucket, self.count)
            n = len(mixes.machines)
            parent, choice = (
                np.repeat(np.arange(len(states.speed)), n),
                np.tile(np.arange(n), len(states.speed)),
            )
            machines = states.machines[parent] + mixes.machines[choice]
            fits = machines <= self.count
            parent, choice, machines = parent[fits], choice[fits], machines[fits]
            states = States(
                machines=machines,
                speed=states.speed[parent] + mixes.speed[choice],
                usd=states.usd[parent] + mixes.usd[choice],
                parent=parent,
                choice=choice,
            )
            open_ = fronts.open(states, rest[:, self.count - states.machines] + others[:, None])
            states = fronts.best(states.at(np.flatnonzero(open_)))
            self.trail.append((states, mixes))
            if len(states.speed) == 0:
                break
        self.states = states

    def _ahead(self, fronts: Fronts) -> list[Array]:
        """Return the best weighted sums of m machines of the buckets after each one; shape (rows,
        count + 1) each.
        """
        market, owner = fronts.market, fronts.market.units[1]
        left = np.zeros((len(fronts.rows), 0))
        built = []
        for bucket in reversed(self.buckets):
            sums = np.full((len(fronts.rows), self.count + 1), -np.inf)
            sums[:, 0] = 0.0
            sums[:, 1 : left.shape[1] + 1] = np.cumsum(left, axis=1)
            built.append(sums)
            own = market.units[0][np.ix_(fronts.rows, np.flatnonzero(owner == bucket[0]))]
            left = -np.sort(-np.concatenate([left, own], axis=1), axis=1)[:, : self.count]
        return built[::-1]

    def machines(self, state: int) -> list[tuple[int, int]]:
        """List the pools and counts of a complete choice."""
        machines = []
        for (states, mixes), bucket in zip(
            reversed(self.trail), reversed(self.buckets), strict=True
        ):
            counts = mixes.counts[int(states.choice[state])]
            machines += [
                (pool, int(count)) for pool, count in zip(bucket, counts, strict=True) if count
            ]
            state = int(states.parent[state])
        return machines


@dataclass(frozen=True, kw_only=True)
class Mixes:
    """Counts of the pools of one quota bucket that its quota holds; shapes (mixes,) and (mixes,
    pools).
    """

    machines: Indices
    speed: Array
    usd: Array
    counts: Indices


def buckets_at(market: Market, place: int, hosts: frozenset[str]) -> list[tuple[int, ...]]:
    """List the pools of each quota bucket of a place, in the order of the market."""
    buckets: dict[tuple[str, str, str], list[int]] = {}
    for i in np.flatnonzero((market.place_of == place) & market.pools_of_hosts(hosts)).tolist():
        buckets.setdefault(market.pools[i].bucket, []).append(i)
    return [tuple(bucket) for bucket in buckets.values()]


def mixes_of(market: Market, bucket: tuple[int, ...], most: int) -> Mixes:
    """List every mix of the machine sizes of a bucket of at most so many machines."""
    counts = np.zeros((1, 0), dtype=np.intp)
    for i in bucket:
        each = np.arange(int(min(market.cap[i], most)) + 1)
        counts = np.column_stack([np.repeat(counts, len(each), axis=0), np.tile(each, len(counts))])
        size = np.array([market.pools[j].gpus for j in bucket[: counts.shape[1]]])
        counts = counts[(counts @ size <= market.pools[i].gpu_quota) & (counts.sum(axis=1) <= most)]
    chosen = list(bucket)
    return Mixes(
        machines=counts.sum(axis=1),
        speed=counts @ market.speed[chosen],
        usd=counts @ market.usd[chosen],
        counts=counts,
    )
