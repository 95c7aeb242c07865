"""Leaves: the machines of one set of regions and one number of workers, first the split over
regions, then the counts: by Pareto fronts, or one by one where speed and price alone do not decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from placer.problem.workers.pool import groups_of

from ..._market.arrays import Array, Indices
from ..._market.increments import suffix_sums
from ..._market.required_machines import Owed, best_sum
from ..bounds.relaxation import Family, margin
from .fronts import Fronts, units_at
from .leaf_bound import BREATH, LeafBound, Tree

PAUSE = 256
"""Nodes after which another mode may have its turn."""


class MachineTree:
    """Depth-first enumeration of machines at a known number of workers per region, cut by the
    tightest rows.

    ``split``: workers by region; shape (1, regions). ``sums``: best weighted sums of each region at
    its count, by row. ``shares``: what its machines count at most; shape (regions,).
    """

    def __init__(
        self, bound: LeafBound, split: Indices, sums: list[Array], shares: Array | None
    ) -> None:
        self.bound, self.split = bound, split
        market, node, needed = bound.market, bound.node, bound.thresholds(split)[:, 0]
        tightest = int(np.argmin(margin(np.sum(sums, axis=0)[None, :], needed[None, :])))
        self.rows = sorted({0, tightest, len(needed) - 1})
        pools = bound.relaxation.pools(node, bound.family)
        rank = np.zeros(len(market.places), dtype=np.intp)
        rank[list(node.used)] = np.arange(len(node.used))
        region = rank[market.place_of[pools]]
        later = ~np.array(market.required_machines.first(pools.tolist()), dtype=bool)
        at = np.lexsort((market.usd[pools], -market.values[tightest, pools], later, region))
        self.order: list[int] = pools[at].tolist()
        self.region: list[int] = region[at].tolist()
        self.later = [
            [float(sum(part[row] for part in sums[k + 1 :])) for row in self.rows]
            for k in range(len(sums))
        ]
        self.pools = [market.pools[i] for i in self.order]
        self.buckets = [pool.bucket for pool in self.pools]
        self.gpus = [pool.gpus for pool in self.pools]
        self.quotas = [pool.gpu_quota for pool in self.pools]
        self.caps: list[int] = market.cap[self.order].astype(np.intp).tolist()
        values = market.values[np.ix_(self.rows, self.order)]
        if shares is not None:
            lost = (1 - shares[self.region]) * market.speed[self.order]
            values = values - market.weights[self.rows, :1] * lost
        self.value: list[list[float]] = values.T.tolist()
        joint = zip(market.joint[:, self.order].tolist(), market.problem.joint_limits, strict=True)
        self.joint = [(taken, row.most) for taken, row in joint]
        self.owed = Owed(market.required_machines, self.order, self.caps)
        self.nodes = 0

    def improvements(self) -> Tree:
        """Yield groups that reach every threshold, which tightens as the incumbent improves."""
        self._aim()
        self.counts = [0] * len(self.order)
        self.quota = dict.fromkeys(self.buckets, 0)
        yield from self._descend(0, int(self.split[0, 0]), [0.0] * len(self.rows))

    @cached_property
    def suffix(self) -> list[list[list[float]]]:
        """Best sums of m machines of the same region from each position on, by row."""
        built = []
        for k in range(len(self.rows)):
            rows: list[list[float]] = []
            for region, most in enumerate(self.split[0]):
                at = [i for i, r in enumerate(self.region) if r == region]
                rows += suffix_sums(
                    [self.value[i][k] for i in at], [self.caps[i] for i in at], int(most)
                )[:-1]
            built.append(rows)
        return built

    def _aim(self) -> None:
        """Take what an improvement of the incumbent needs: of all machines, and of each region."""
        column = self.bound.thresholds(self.split)[:, 0]
        self.needed = [float(column[row]) for row in self.rows]
        self.speeds = self.bound.needed_speeds(self.split)

    def _descend(self, at: int, left: int, reached: list[float], before: float = 0.0) -> Tree:
        """Choose the count of pool ``at``; ``left``, ``before``: of its region."""
        self.bound.target.tick()
        self.nodes += 1
        if self.nodes % PAUSE == 0:
            yield BREATH
        if left == 0:
            before, following = reached[0], self.region[at - 1] + 1
            if following == self.split.shape[1]:
                yield groups_of(self.pools, self.counts)
                self._aim()
                return
            at = self.region.index(following)
            left = int(self.split[0, following])
        gpus, bucket, later = self.gpus[at], self.buckets[at], self.later[self.region[at]]
        last = at + 1 == len(self.order) or self.region[at + 1] != self.region[at]
        most = min(self.caps[at], left, (self.quotas[at] - self.quota[bucket]) // gpus)
        for count in range(most, -1, -1):
            rest = left - count
            if last and rest:
                return
            now = [r + v * count for r, v in zip(reached, self.value[at], strict=True)]
            # Best sums of the rest of this region and of all later ones, each by itself: errs high.
            ahead = [0.0] * len(self.rows) if last else [rows[at + 1][rest] for rows in self.suffix]
            enough = now[0] - before + ahead[0] >= self.speeds[self.region[at]]
            worth = enough and all(
                n + a + more >= needed
                for n, a, more, needed in zip(now, ahead, later, self.needed, strict=True)
            )
            if worth and self.owed.allows(at, count):
                self.counts[at] = count
                self.owed.take(at, count)
                self.quota[bucket] += count * gpus
                if self._fit(rest, at + 1, self.region[at]) and self._within_joint():
                    yield from self._descend(at + 1, rest, now, before)
                self.quota[bucket] -= count * gpus
                self.owed.take(at, -count)
                self.counts[at] = 0

    def _within_joint(self) -> bool:
        """Return whether the machines so far keep the joint quotas."""
        return all(
            sum(count * each for count, each in zip(self.counts, taken, strict=True) if count)
            <= most
            for taken, most in self.joint
        )

    def _fit(self, machines: int, at: int, region: int) -> bool:
        """Return whether quotas allow so many machines in a region from a position on."""
        if machines == 0:
            return True
        if at == len(self.order) or self.region[at] != region:
            return False
        for bucket, (quota, smallest) in self.smallest[at].items():
            machines -= (quota - self.quota[bucket]) // smallest
            if machines <= 0:
                return True
        return False

    @cached_property
    def smallest(self) -> list[dict[tuple[str, ...], tuple[int, int]]]:
        """Quota and least devices of each bucket of a region from each position on."""
        built: list[dict[tuple[str, ...], tuple[int, int]]] = []
        for at in range(len(self.order) - 1, -1, -1):
            same = bool(built) and self.region[at] == self.region[at + 1]
            row, pool = dict(built[-1]) if same else {}, self.pools[at]
            size = min(pool.gpus, row.get(pool.bucket, (0, pool.gpus))[1])
            row[pool.bucket] = (pool.gpu_quota, size)
            built.append(row)
        return built[::-1]


class Leaf:
    """Enumeration of the machines of known regions with their numbers of workers."""

    def __init__(self, bound: LeafBound) -> None:
        self.bound = bound
        self.node = bound.node
        self.family = bound.family
        self.workers = bound.workers
        self.relaxation, self.market, self.target = bound.relaxation, bound.market, bound.target
        self.prices: Array | None = None

    def improvements(self, counts: Sequence[int]) -> Tree:
        """Yield groups that may improve with so many workers in each of the regions."""
        split = np.array([counts])
        shares = self.bound.shares(split)
        if shares is None:
            whole = self._sums(self.family, counts)
        else:
            paced = zip(self.node.used, counts, shares.tolist(), strict=True)
            whole = [self._paced(place, int(count), share) for place, count, share in paced]
        if not _reaches(whole, self.bound, split):
            return
        for family in self.relaxation.parts_at(self.family, self.node):
            bound, sums = self.bound.of_family(family), whole
            if family is not self.family and shares is None:
                sums = self._sums(family, counts)
                if not _reaches(sums, bound, split):
                    continue
            yield from self._machines(bound, split, sums, shares)

    def _sums(self, family: Family, counts: Sequence[int]) -> list[Array]:
        """Return the best weighted sums of each region's machines of some hosts; by row."""
        best = self.market.best_sums
        return [
            best.of(np.array([place]), family.hosts, self.workers)[:, int(count)]
            for place, count in zip(self.node.used, counts, strict=True)
        ]

    def _paced(self, place: int, count: int, share: float) -> Array:
        """Return the best weighted sums of machines that do a share of their speed; by row."""
        units, weights = units_at(self.market, place, self.family.hosts), self.market.weights
        lost = (1 - share) * weights[:, :1] * self.market.speed[units.pools]
        values = self.market.values_at(weights, units.pools) - lost
        each, machines = units.increments(values, count)
        return best_sum(each, count, machines)

    def _machines(
        self, bound: LeafBound, split: Indices, sums: list[Array], shares: Array | None
    ) -> Tree:
        """Yield the machines of a split; ``sums``: each region's best at its count."""
        if (
            self.relaxation.mode.speed_and_price_decide
            and self.market.way_usd(self.node.used) is not None
        ):
            egress_usd = float(bound.paid_usd(split)[0])
            for hosts in bound.host_runs(split):
                yield from Fronts(bound, hosts, split, egress_usd, self.prices).improvements()
        else:
            yield from MachineTree(bound, split, sums, shares).improvements()


def _reaches(sums: list[Array], bound: LeafBound, split: Indices) -> bool:
    """Return whether the best machines of all regions reach every threshold."""
    return bool(margin(np.sum(sums, axis=0)[:, None], bound.thresholds(split))[0] >= 0)
