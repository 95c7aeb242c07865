"""Machines of one set of regions and one number of workers: first the split over regions, then the
counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placer.problem.exchange.allreduce import pair_bytes
from placer.problem.placement import WorkerGroup
from placer.problem.problem import groups_of

from ..._market.arrays import Array, Indices
from ..._market.increments import suffix_sums
from ..._market.required_machines import Owed
from ..bounds.relaxation import Family, Node, Relaxation, margin
from .fronts import Fronts, speed_and_price_decide

SLACK = 1e-9
"""Relative slack of a bound against rounding."""
MOST_SPLITS = 200_000
"""A set of regions with more open splits of workers than this is skipped, and nothing is proved."""


class Leaf:
    """Enumeration of one leaf: exact egress and exchange time, regions and N fixed.

    Parameters
    ----------
    relaxation
        Bounds of the market.
    node
        The regions, all used, and one number of workers.
    family
        Class of hosts.
    """

    def __init__(self, relaxation: Relaxation, node: Node, family: Family) -> None:
        self.relaxation, self.node, self.family = relaxation, node, family
        self.market, self.target = relaxation.market, relaxation.target
        self.workers = int(node.workers[0])

    def improvements(self) -> Iterator[tuple[WorkerGroup, ...]]:
        """Yield groups that may improve, the most promising split of workers over regions first."""
        used = np.array(self.node.used, dtype=np.intp)
        sums = [
            self.market.total_sums(used[k : k + 1], self.family.hosts, self.workers, used)
            for k in range(len(used))
        ]
        splits, reached = self._splits(sums)
        if len(splits) == 0:
            return
        margins = margin(reached, self.thresholds(splits))
        for at in np.argsort(-margins, kind="stable"):
            if margins[at] < 0:
                return
            split = splits[at : at + 1]
            if margin(reached[:, [at]], self.thresholds(split))[0] >= 0:
                yield from self.machines(
                    split, [part[:, int(n)] for part, n in zip(sums, split[0], strict=True)]
                )

    def machines(self, split: Indices, sums: list[Array]) -> Iterator[tuple[WorkerGroup, ...]]:
        """Yield the machines of a known split that may improve; ``sums`` are the best of each
        region at its count.
        """
        if speed_and_price_decide(self.relaxation.problem, self.relaxation.mode.strategy):
            egress_usd = float(self.egress_usd(split)[0])
            for hosts in self.host_runs(split):
                yield from Fronts(self, hosts, split, egress_usd).improvements()
        elif self._has_forced(split, sums):
            yield from Machines(self, split, sums).improvements()

    def _has_forced(self, split: Indices, sums: list[Array]) -> bool:
        """Whether a split may improve with the machines that must be used."""
        if not self.market.forced.rules:
            return True
        total = self.market.total_sums(
            np.array(self.node.used, dtype=np.intp), self.family.hosts, self.workers
        )[:, [self.workers]]
        return bool(
            margin(np.minimum(np.sum(sums, axis=0)[:, None], total), self.thresholds(split))[0] >= 0
        )

    def _splits(self, sums: list[Array]) -> tuple[Indices, Array]:
        """Workers per region that may improve, region after region; shapes (splits, regions) and
        (rows, splits).
        """
        workers, rooms = self.workers, self.relaxation.room(self.family)
        room = [min(int(rooms[p]), workers) for p in self.node.used]
        splits, reached = np.zeros((1, 0), dtype=np.intp), np.zeros((len(self.market.weights), 1))
        used = np.array(self.node.used, dtype=np.intp)
        total = self.market.total_sums(used, self.family.hosts, workers)[:, [workers]]
        for k in range(len(self.node.used)):
            self.target.tick()
            self.target.check_time()
            if len(splits) * (room[k] + 1) > MOST_SPLITS:
                self.target.skipped = True
                return splits[:0], reached[:, :0]
            left = workers - splits.sum(axis=1)
            later = len(self.node.used) - k - 1
            parent, count = np.nonzero(np.ones((len(splits), room[k] + 1)))
            after = left[parent] - count
            keep = (count >= 1) & (after >= later) & (after <= sum(room[k + 1 :]))
            parent, count, after = parent[keep], count[keep], after[keep]
            splits = np.column_stack([splits[parent], count])
            reached = reached[:, parent] + sums[k][:, count]
            rest = self.market.total_sums(used[k + 1 :], self.family.hosts, workers, used)
            open_ = (
                margin(np.minimum(reached + rest[:, after], total), self.thresholds(splits)) >= 0
            )
            open_ &= sums[k][0, count] >= self.needed_speed(k)
            splits, reached = splits[open_], reached[:, open_]
        return splits, reached

    def needed_speed(self, region: int) -> float:
        """Samples/s that the data which stays in a region needs there for an improvement."""
        share = float(self.market.stay_share[self.node.used[region]])
        mode = self.relaxation.mode
        return (
            (1 - SLACK) * share * mode.samples / mode.seconds_at(self.target.min_speed)
            if share
            else 0.0
        )

    def thresholds(self, splits: Indices) -> Array:
        """Thresholds at known workers of the first regions, where egress is exact; shape (rows,
        splits).

        Notes
        -----
        Workers that are not placed yet pay at least the cheapest price to and from the placed ones.
        """
        workers, shard = (
            self.workers,
            pair_bytes(self.relaxation.problem.gradient_bytes, self.workers),
        )
        communication = np.full(
            len(splits), self.family.averaging_s[workers] + self.node.wan_s_per_pair_byte * shard
        )
        data = min(self.market.data_usd[p] for p in self.node.used)
        longest = (
            communication
            - self.family.averaging_s[workers]
            + self.family.slowest_averaging_s[workers]
            + self.relaxation.most_load_s
        )
        slowest = self.relaxation.slowest(self.node, np.full(len(splits), workers), longest)
        return self.target.thresholds(
            self.relaxation.mode,
            self.market.weights,
            communication,
            self.egress_usd(splits),
            data,
            slowest,
        )

    def host_runs(self, split: Indices) -> list[tuple[frozenset[str], ...]]:
        """Hosts by region such that in each run the slowest of them decides."""
        return [
            (hosts,) * split.shape[1]
            for hosts in self.relaxation.host_steps(self.family, self.workers)
        ]

    def egress_usd(self, splits: Indices) -> Array:
        """Egress of one exchange at known workers of the first regions, exact if these are all;
        shape (splits,).
        """
        known = splits.shape[1]
        price = self.market.prices[np.ix_(self.node.used, self.node.used)]
        placed = price[:known, :known]
        pairs = np.einsum("si,ij,sj->s", splits, placed, splits) - splits @ np.diag(placed)
        if known < len(self.node.used):
            outward = price[:known, known:].min(axis=1) + price[known:, :known].min(axis=0)
            pairs = pairs + (splits @ outward) * (self.workers - splits.sum(axis=1))
        built: Array = pair_bytes(self.relaxation.problem.gradient_bytes, self.workers) * pairs
        return built


class Machines:
    """Depth-first enumeration of machines at a known number of workers per region, cut by the
    tightest rows.
    """

    def __init__(self, leaf: Leaf, split: Indices, sums: list[Array]) -> None:
        self.leaf, self.split = leaf, split
        market, node, needed = leaf.market, leaf.node, leaf.thresholds(split)[:, 0]
        margins = np.array(
            [
                margin(np.array([[r]]), np.array([[t]]))[0]
                for r, t in zip(np.sum(sums, axis=0), needed, strict=True)
            ]
        )
        self.rows = sorted({0, int(np.argmin(margins)), len(needed) - 1})
        worth = market.values[int(np.argmin(margins))]
        pools = leaf.relaxation.pools(node, leaf.family).tolist()
        rank = {place: k for k, place in enumerate(node.used)}
        later = {i: not first for i, first in zip(pools, market.forced.first(pools), strict=True)}
        self.order = sorted(
            pools, key=lambda i: (rank[int(market.place_of[i])], later[i], -worth[i], market.usd[i])
        )
        self.region = [rank[int(market.place_of[i])] for i in self.order]
        self.later = [
            [float(sum(part[row] for part in sums[k + 1 :])) for row in self.rows]
            for k in range(len(sums))
        ]
        self.pools = [market.pools[i] for i in self.order]
        self.buckets = [pool.bucket for pool in self.pools]
        self.caps = [int(market.cap[i]) for i in self.order]
        self.value = [[float(market.values[row, i]) for row in self.rows] for i in self.order]
        joint = zip(
            market.joint[:, self.order].tolist(),
            market.problem.requirements.joint_quotas,
            strict=True,
        )
        self.joint = [(taken, row.gpus) for taken, row in joint]
        self.owed = Owed(market.forced, self.order, self.caps)
        self.suffix = self._suffixes()
        self.smallest = self._smallest()

    def improvements(self) -> Iterator[tuple[WorkerGroup, ...]]:
        """Yield groups that reach every threshold, which tightens as the incumbent improves."""
        self.needed, self.counts, self.quota = (
            self._needed(),
            [0] * len(self.order),
            dict.fromkeys(self.buckets, 0),
        )
        yield from self._descend(0, int(self.split[0, 0]), [0.0] * len(self.rows))

    def _suffixes(self) -> list[list[list[float]]]:
        """Best sums of m machines among the pools of the same region from each position on; one
        list per row.
        """
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

    def _needed(self) -> list[float]:
        column = self.leaf.thresholds(self.split)[:, 0]
        return [float(column[row]) for row in self.rows]

    def _descend(
        self, at: int, left: int, reached: list[float], before: float = 0.0
    ) -> Iterator[tuple[WorkerGroup, ...]]:
        """Choose the count of pool ``at``; ``left`` workers of its region are still to be placed,
        which began at speed ``before``.
        """
        self.leaf.target.tick()
        if left == 0:
            before, following = reached[0], self.region[at - 1] + 1
            if following == self.split.shape[1]:
                yield groups_of(self.pools, self.counts)
                self.needed = self._needed()
                return
            at = self.region.index(following)
            left = int(self.split[0, following])
        pool, bucket, later = self.pools[at], self.buckets[at], self.later[self.region[at]]
        last = at + 1 == len(self.order) or self.region[at + 1] != self.region[at]
        most = min(
            self.caps[at], left, (pool.gpu_quota - self.quota[bucket]) // pool.offer.gpu_count
        )
        for count in range(most, -1, -1):
            rest = left - count
            if last and rest:
                return
            now = [r + v * count for r, v in zip(reached, self.value[at], strict=True)]
            ahead = [0.0] * len(self.rows) if last else [rows[at + 1][rest] for rows in self.suffix]
            enough = now[0] - before + ahead[0] >= self.leaf.needed_speed(self.region[at])
            worth = enough and all(
                n + a + more >= needed
                for n, a, more, needed in zip(now, ahead, later, self.needed, strict=True)
            )
            if worth and self.owed.allows(at, count):
                self.counts[at] = count
                self.owed.take(at, count)
                self.quota[bucket] += count * pool.offer.gpu_count
                if rest <= self._room(at + 1, self.region[at]) and self._within_joint():
                    yield from self._descend(at + 1, rest, now, before)
                self.quota[bucket] -= count * pool.offer.gpu_count
                self.owed.take(at, -count)
                self.counts[at] = 0

    def _within_joint(self) -> bool:
        """Whether the machines so far keep the joint quotas."""
        return all(
            sum(count * each for count, each in zip(self.counts, taken, strict=True) if count)
            <= most
            for taken, most in self.joint
        )

    def _room(self, at: int, region: int) -> int:
        """Most machines that the quotas left over allow among the pools of a region from a position
        on.
        """
        if at == len(self.order) or self.region[at] != region:
            return 0
        return sum(
            (quota - self.quota[bucket]) // smallest
            for bucket, (quota, smallest) in self.smallest[at].items()
        )

    def _smallest(self) -> list[dict[tuple[str, str, str], tuple[int, int]]]:
        """Quota and least devices per machine of each bucket, among the pools of the same region
        from each position on.
        """
        built: list[dict[tuple[str, str, str], tuple[int, int]]] = []
        for at in range(len(self.order) - 1, -1, -1):
            same = bool(built) and self.region[at] == self.region[at + 1]
            row, pool = dict(built[-1]) if same else {}, self.pools[at]
            size = min(pool.offer.gpu_count, row.get(pool.bucket, (0, pool.offer.gpu_count))[1])
            row[pool.bucket] = (pool.gpu_quota, size)
            built.append(row)
        return built[::-1]
