"""Best all-reduce placement: counts of workers, then sets of regions, then machines, each pruned by its bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer import timing
from placer.estimator import exchange_for
from placer.exchange.allreduce import pair_bytes
from placer.placement import Placement, WorkerGroup

from ._market import Array, Indices, Market, suffix_sums
from ._target import OutOfTimeError, Target
from .exhaustive import groups_of

SEED_PLACES = 40
"""Places from which a first placement over several regions is grown."""
MOST_SPLITS = 500_000
"""More open splits of workers over regions than this end the search like a time limit."""


@dataclass(frozen=True)
class Node:
    """Regions that are used, regions that may join, and the worker counts that are still open."""

    used: tuple[int, ...]
    joining: tuple[int, ...]
    workers: Indices
    wan_s_per_pair_byte: float


@dataclass(frozen=True)
class Family:
    """Placements whose slowest host is of one class: the classes they may use and their averaging time by N."""

    hosts: frozenset[str]
    averaging_s: Array


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What the placements of a node reach at best, and what they pay at least, per open worker count."""

    target: Target
    weights: Array
    sums: Array
    averaging_s: Array
    pair_bytes: Array
    egress_usd: Array
    data_usd: float
    slowest: Array

    def margins(self, wan_s_per_pair_byte: float) -> Array:
        """Smallest margin over the thresholds of an improvement; negative is cut; shape (workers,)."""
        communication_s = self.averaging_s + wan_s_per_pair_byte * self.pair_bytes
        return _margin(self.sums, self.target.thresholds(self.weights, communication_s, self.egress_usd, self.data_usd, self.slowest))


class ButterflySearch:
    """Branch and bound over all-reduce placements of one market.

    Parameters
    ----------
    market
        Pools that may be used.
    target
        Incumbent and limits; improved in place.
    regions
        Least and most regions that a placement may use.
    """

    def __init__(self, market: Market, target: Target, regions: tuple[int, int] = (1, 1_000)) -> None:
        self.market = market
        self.target = target
        self.fewest_regions, self.most_regions = regions
        self.problem = market.problem
        wish = self.problem.requirements
        self.most = min(wish.max_workers, int(market.cap.sum()))
        self.first = max(2, wish.min_workers)
        self._wan: dict[tuple[int, int], float] = {}
        self._rooms: dict[frozenset[str], Indices] = {}

    def run(self) -> None:
        """Search all families; raises OutOfTimeError when the time is up."""
        if self.first > self.most:
            return
        for family in self.families():
            everywhere = self._places(family)
            root = Node((), everywhere, np.arange(self.first, self.most + 1), 0.0)
            alive = self._alive(root, family)
            if len(alive) == 0:
                continue
            self._seed(family)
            if self.target.best is None:
                self._seed_near(family)
            if self.fewest_regions <= 1:
                self._single_regions(everywhere, alive, family)
            if self.most_regions > 1:
                self._several_regions(Node((), everywhere, alive, 0.0), family)

    def families(self) -> list[Family]:
        """One family per class of host; the pools of a family have hosts that are no slower, at any N."""
        n = np.arange(self.most + 1)
        hosts = self.market.host_of
        size, tensors = self.problem.gradient_bytes, self.problem.profile.tensors
        seconds = {h: np.array([timing.averaging_seconds([h], size, int(k), tensors) for k in n]) for h in sorted(set(hosts))}
        built = []
        for own in seconds.values():
            below = {h: (other <= own)[self.first :] for h, other in seconds.items()}
            within = {h for h, smaller in below.items() if np.all(smaller)}
            crossing = any(np.any(smaller) and not np.all(smaller) for smaller in below.values())
            chosen = frozenset(seconds) if crossing else frozenset(within)
            built.append(Family(chosen, np.minimum.reduce(list(seconds.values())) if crossing else own))
        return sorted(built, key=lambda f: (len(f.hosts), sorted(f.hosts)))

    def may_improve(self) -> bool:
        """Whether the bound of all placements together still allows an improvement."""
        if self.first > self.most:
            return False
        workers = np.arange(self.first, self.most + 1)
        return any(len(self._alive(Node((), self._places(f), workers, 0.0), f)) > 0 for f in self.families())

    def _places(self, family: Family) -> tuple[int, ...]:
        return tuple(sorted({int(p) for p, host in zip(self.market.place_of, self.market.host_of, strict=True) if host in family.hosts}))

    def _seed(self, family: Family) -> None:
        """Offer equal machines of the most promising pools, so that the search starts with an incumbent."""
        market = self.market
        pools = self._pools(Node((), self._places(family), np.array([]), 0.0), family)
        ranked = pools[np.argsort(-market.values[:, pools], axis=1, kind="stable")[:, :3]]
        for i in dict.fromkeys(int(i) for i in ranked.ravel()):
            most = min(int(market.cap[i]), self.most)
            for n in sorted({k for k in (2, 3, 4, 6, 8, most) if self.first <= k <= most}):
                self._offer(groups_of([market.pools[i]], [n]), n)

    def _seed_near(self, family: Family) -> None:
        """Offer the fewest workers that are allowed, filled from each place outwards to its nearest ones."""
        market, pools = self.market, self._pools(Node((), self._places(family), np.array([]), 0.0), family).tolist()
        for place in self._places(family)[:SEED_PLACES]:
            self.target.tick()
            near = sorted(pools, key=lambda i: (self._pair_wan(place, int(market.place_of[i])), market.usd[i] / market.speed[i], i))
            counts, used, left = dict.fromkeys(near, 0), dict.fromkeys((market.pools[i].bucket for i in near), 0), self.first
            for i in near:
                pool = market.pools[i]
                counts[i] = min(left, int(market.cap[i]), (pool.gpu_quota - used[pool.bucket]) // pool.offer.gpu_count)
                used[pool.bucket] += counts[i] * pool.offer.gpu_count
                left -= counts[i]
            if left == 0:
                groups = groups_of([market.pools[i] for i in near], list(counts.values()))
                self._offer(groups, self.first)

    def _offer(self, groups: tuple[WorkerGroup, ...], workers: int) -> None:
        placement = Placement(groups=groups, exchange=exchange_for("all-reduce", workers, self.problem))
        if self.fewest_regions <= len(placement.places) <= self.most_regions:
            self.target.offer(placement)

    def _single_regions(self, places: tuple[int, ...], alive: Indices, family: Family) -> None:
        """Best-bound order over (place, N): the most promising first."""
        scored = []
        for place in places:
            margins = self._bound(Node((place,), (), alive, 0.0), family).margins(0.0)
            scored += [(-margin, place, int(n)) for n, margin in zip(alive, margins, strict=True) if margin >= 0]
        for _, place, n in sorted(scored):
            self._leaf(Node((place,), (), np.array([n]), 0.0), family)

    def _several_regions(self, node: Node, family: Family) -> None:
        """Grow sets of regions one by one; a set whose superset bound cannot improve is cut."""
        for at, place in enumerate(node.joining):
            self.target.tick()
            used = (*node.used, place)
            wan = max([node.wan_s_per_pair_byte, *(self._pair_wan(place, other) for other in node.used)])
            child = Node(used, node.joining[at + 1 :], node.workers[node.workers >= len(used)], wan)
            bound = self._bound(child, family)
            alive = child.workers[bound.margins(wan) >= 0]
            if len(alive) == 0:
                continue
            if self.fewest_regions <= len(used) and len(used) > 1:
                for n in self._alive(Node(used, (), alive, wan), family):
                    self._leaf(Node(used, (), np.array([n]), wan), family)
            if len(used) < self.most_regions:
                slack = self._wan_slack(bound, wan)
                joining = tuple(j for j in child.joining if self._pair_wan(place, j) <= slack)
                if joining:
                    self._several_regions(Node(used, joining, alive, wan), family)

    def _wan_slack(self, bound: Bound, known: float) -> float:
        """Seconds per pair byte that a further region may cost at most, over all open worker counts."""
        low, high = known, max(self._slowest_pair, known)
        for _ in range(8):
            middle = (low + high) / 2
            low, high = (middle, high) if np.any(bound.margins(middle) >= 0) else (low, middle)
        return high

    def _alive(self, node: Node, family: Family) -> Indices:
        """Worker counts at which some improvement may exist."""
        return node.workers[self._bound(node, family).margins(node.wan_s_per_pair_byte) >= 0]

    def _bound(self, node: Node, family: Family) -> Bound:
        n, places = node.workers, np.array((*node.used, *node.joining), dtype=np.intp)
        shard = np.array([pair_bytes(self.problem.gradient_bytes, int(k)) for k in n])
        return Bound(
            target=self.target,
            weights=self.market.weights,
            sums=self.market.best_sums(places, family.hosts, self.most)[:, n],
            averaging_s=family.averaging_s[n],
            pair_bytes=shard,
            egress_usd=shard * self._least_pair_usd(node, family),
            data_usd=min(self.market.data_usd[p] for p in places),
            slowest=self._slowest(node, n, family.averaging_s[n] + self._slowest_wan(node) * shard),
        )

    def _slowest_wan(self, node: Node) -> float:
        """Seconds per pair byte of the slowest pair that the node may come to use."""
        if not node.joining:
            return node.wan_s_per_pair_byte
        return self._slowest_pair if node.used else np.inf

    def _slowest(self, node: Node, workers: Indices, communication_s: Array) -> Array:
        """Samples/s of as many of the slowest machines, with the slowest exchange; 0 where that is not known."""
        places = (*node.used, *node.joining)
        speed = min(self._slowest_machine[p] for p in places)
        return self.problem.batch / (self.problem.batch / (workers * speed) + communication_s)

    @cached_property
    def _slowest_machine(self) -> Array:
        """Least samples/s of one machine at each place; shape (places,)."""
        least = np.full(len(self.market.places), np.inf)
        np.minimum.at(least, self.market.place_of, self.market.speed)
        return least

    def _least_pair_usd(self, node: Node, family: Family) -> Array:
        """Least sum of egress prices over ordered pairs of workers, for each open worker count.

        Notes
        -----
        Both directions of a pair of regions carry the same bytes, so the mean of their prices counts.
        Two bounds: every pair that must cross at the cheapest price; every pair of a used region at
        its own cheapest price.
        """
        n, used = node.workers, node.used
        if not used:
            return np.zeros(len(n))
        if len(used) == 1 and not node.joining:
            return n * (n - 1) * float(self._prices[used[0], used[0]])
        places = np.array((*used, *node.joining), dtype=np.intp)
        mutual = (self._prices[np.ix_(places, places)] + self._prices[np.ix_(places, places)].T) / 2
        np.fill_diagonal(mutual, np.inf)
        room = self._room(family)
        least = np.asarray(_fewest_crossing_pairs(n, room[places], len(used)) * float(mutual.min()), dtype=np.float64)
        if len(used) > 1:
            for at, place in enumerate(used):
                most = np.minimum(room[place], n - (len(used) - 1))
                own = 2.0 * np.minimum(n - 1, most * (n - most)) * float(mutual[at].min())
                least = np.maximum(least, own, dtype=np.float64)
        return least

    @cached_property
    def _prices(self) -> Array:
        """Egress price in USD per byte between the places of the market; shape (places, places)."""
        network, places, same_zone = self.problem.network, self.market.places, self.problem.requirements.same_zone
        return np.array([[network.usd_per_byte(a, b, same_zone=same_zone) for b in places] for a in places])

    def _room(self, family: Family) -> Indices:
        """Machines that each place can hold; shape (places,)."""
        found = self._rooms.get(family.hosts)
        if found is None:
            market = self.market
            inside = [int(market.place_of[i]) for i in market.units[1] if market.host_of[i] in family.hosts]
            found = self._rooms[family.hosts] = np.bincount(inside, minlength=len(market.places))
        return found

    def _pools(self, node: Node, family: Family) -> Indices:
        market, open_places = self.market, {*node.used, *node.joining}
        return np.array(
            [i for i, host in enumerate(market.host_of) if host in family.hosts and int(market.place_of[i]) in open_places], dtype=np.intp
        )

    def _pair_wan(self, a: int, b: int) -> float:
        """Seconds that a pair of regions adds for each byte of a pair of workers, slower direction."""
        if a == b:
            return 0.0
        key = (min(a, b), max(a, b))
        found = self._wan.get(key)
        if found is None:
            network, (src, dst) = self.problem.network, (self.market.places[key[0]], self.market.places[key[1]])
            slowest = max(timing.transfer_seconds(1.0, network.link(src, dst)), timing.transfer_seconds(1.0, network.link(dst, src)))
            found = self._wan[key] = timing.KAPPA[0] * slowest
        return found

    @cached_property
    def _slowest_pair(self) -> float:
        n = len(self.market.places)
        return max((self._pair_wan(a, b) for a in range(n) for b in range(a)), default=0.0)

    def _leaf(self, node: Node, family: Family) -> None:
        """Enumerate the machines of one set of regions and one N that may improve, split by split."""
        workers = int(node.workers[0])
        sums = [self.market.best_sums(np.array([place]), family.hosts, workers) for place in node.used]
        splits, reached = self._splits(node, family, sums)
        if len(splits) == 0:
            return
        margins = _margin(reached, self._split_thresholds(node, family, splits))
        for at in np.argsort(-margins, kind="stable"):
            if margins[at] < 0:
                return
            split = splits[at : at + 1]
            if _margin(reached[:, [at]], self._split_thresholds(node, family, split))[0] >= 0:
                search = LeafSearch(self, node, family, split, [part[:, int(n)] for part, n in zip(sums, split[0], strict=True)])
                for groups in search.improvements():
                    self._offer(groups, workers)

    def _splits(self, node: Node, family: Family, sums: list[Array]) -> tuple[Indices, Array]:
        """Workers per region that may improve, region after region; shapes (splits, regions) and (rows, splits)."""
        workers, room = int(node.workers[0]), [min(int(self._room(family)[p]), int(node.workers[0])) for p in node.used]
        splits, reached = np.zeros((1, 0), dtype=np.intp), np.zeros((len(self.market.weights), 1))
        for k in range(len(node.used)):
            self.target.tick()
            left = workers - splits.sum(axis=1)
            later = len(node.used) - k - 1
            parent, count = np.nonzero(np.ones((len(splits), room[k] + 1)))
            after = left[parent] - count
            keep = (count >= 1) & (after >= later) & (after <= sum(room[k + 1 :]))
            parent, count, after = parent[keep], count[keep], after[keep]
            splits = np.column_stack([splits[parent], count])
            reached = reached[:, parent] + sums[k][:, count]
            rest = self.market.best_sums(np.array(node.used[k + 1 :], dtype=np.intp), family.hosts, workers)
            open_ = _margin(reached + rest[:, after], self._split_thresholds(node, family, splits)) >= 0
            splits, reached = splits[open_], reached[:, open_]
            if len(splits) > MOST_SPLITS:
                raise OutOfTimeError
        return splits, reached

    def _split_thresholds(self, node: Node, family: Family, splits: Indices) -> Array:
        """Thresholds at known workers of the first regions, where egress is exact; shape (rows, splits).

        Notes
        -----
        Workers that are not placed yet pay at least the cheapest price to and from the placed ones.
        """
        workers, known = int(node.workers[0]), splits.shape[1]
        price = self._prices[np.ix_(node.used, node.used)]
        placed = price[:known, :known]
        pairs = np.einsum("si,ij,sj->s", splits, placed, splits) - splits @ np.diag(placed)
        if known < len(node.used):
            outward = price[:known, known:].min(axis=1) + price[known:, :known].min(axis=0)
            pairs = pairs + (splits @ outward) * (workers - splits.sum(axis=1))
        shard = pair_bytes(self.problem.gradient_bytes, workers)
        communication = np.full(len(splits), family.averaging_s[workers] + node.wan_s_per_pair_byte * shard)
        data = min(self.market.data_usd[p] for p in node.used)
        slowest = self._slowest(node, np.full(len(splits), workers), communication)
        return self.target.thresholds(self.market.weights, communication, shard * pairs, data, slowest)


def _fewest_crossing_pairs(workers: Indices, room: Indices, used: int) -> Array:
    """Least ordered pairs of workers in different regions: fill the roomiest regions, one worker in each other used one.

    Examples
    --------
    >>> _fewest_crossing_pairs(np.array([10]), np.array([8, 8, 8]), 1)  # 8 and 2 workers: 100 - 64 - 4
    array([32.])
    >>> _fewest_crossing_pairs(np.array([8]), np.array([8, 8]), 2)  # 7 and 1
    array([14.])
    """
    left, together = workers.copy(), np.zeros(len(workers))
    for opened, places in enumerate(np.sort(room)[::-1], start=1):
        inside = np.where(left > 0, np.minimum(places, np.maximum(left - max(used - opened, 0), 1)), 0)
        together += inside.astype(float) ** 2
        left -= inside
        if not np.any(left > 0):
            break
    pairs: Array = np.maximum(workers.astype(float) ** 2 - together, 0.0)
    return pairs


def _margin(reached: Array, needed: Array) -> Array:
    """Smallest margin of the rows over their thresholds, relative to the threshold; negative is cut."""
    with np.errstate(invalid="ignore"):
        margin = np.where((reached == -np.inf) | (needed == np.inf), -np.inf, reached - needed)
    scale = np.maximum(np.abs(np.where(np.isfinite(needed), needed, 1.0)), 1e-9)
    lowest: Array = np.min(margin / scale, axis=0)
    return lowest


class LeafSearch:
    """Depth-first enumeration of machines at a known number of workers per region, cut by the tightest rows."""

    def __init__(self, search: ButterflySearch, node: Node, family: Family, split: Indices, sums: list[Array]) -> None:
        self.search, self.node, self.family, self.split = search, node, family, split
        market, needed = search.market, search._split_thresholds(node, family, split)[:, 0]
        margins = np.array([_margin(np.array([[r]]), np.array([[t]]))[0] for r, t in zip(np.sum(sums, axis=0), needed, strict=True)])
        self.rows = sorted({0, int(np.argmin(margins)), len(needed) - 1})
        worth = market.values[int(np.argmin(margins))]
        pools = search._pools(node, family).tolist()
        rank = {place: k for k, place in enumerate(node.used)}
        self.order = sorted(pools, key=lambda i: (rank[int(market.place_of[i])], -worth[i], market.usd[i]))
        self.region = [rank[int(market.place_of[i])] for i in self.order]
        self.later = [[float(sum(part[row] for part in sums[k + 1 :])) for row in self.rows] for k in range(len(sums))]
        self.pools = [market.pools[i] for i in self.order]
        self.buckets = [pool.bucket for pool in self.pools]
        self.caps = [int(market.cap[i]) for i in self.order]
        self.value = [[float(market.values[row, i]) for row in self.rows] for i in self.order]
        self.suffix = self._suffixes()

    def improvements(self) -> Iterator[tuple[WorkerGroup, ...]]:
        """Yield groups that reach every threshold, which tightens as the incumbent improves."""
        self.needed, self.counts, self.quota = self._needed(), [0] * len(self.order), dict.fromkeys(self.buckets, 0)
        yield from self._descend(0, int(self.split[0, 0]), [0.0] * len(self.rows))

    def _suffixes(self) -> list[list[list[float]]]:
        """Best sums of m machines among the pools of the same region from each position on; one list per row."""
        built = []
        for k in range(len(self.rows)):
            rows: list[list[float]] = []
            for region, most in enumerate(self.split[0]):
                at = [i for i, r in enumerate(self.region) if r == region]
                rows += suffix_sums([self.value[i][k] for i in at], [self.caps[i] for i in at], int(most))[:-1]
            built.append(rows)
        return built

    def _needed(self) -> list[float]:
        column = self.search._split_thresholds(self.node, self.family, self.split)[:, 0]
        return [float(column[row]) for row in self.rows]

    def _descend(self, at: int, left: int, reached: list[float]) -> Iterator[tuple[WorkerGroup, ...]]:
        """Choose the count of pool ``at``; ``left`` workers of its region are still to be placed."""
        self.search.target.tick()
        if left == 0:
            following = self.region[at - 1] + 1
            if following == self.split.shape[1]:
                yield groups_of(self.pools, self.counts)
                self.needed = self._needed()
                return
            at = self.region.index(following)
            left = int(self.split[0, following])
        pool, bucket, later = self.pools[at], self.buckets[at], self.later[self.region[at]]
        last = at + 1 == len(self.order) or self.region[at + 1] != self.region[at]
        most = min(self.caps[at], left, (pool.gpu_quota - self.quota[bucket]) // pool.offer.gpu_count)
        for count in range(most, -1, -1):
            rest = left - count
            if last and rest:
                return
            now = [r + v * count for r, v in zip(reached, self.value[at], strict=True)]
            ahead = [0.0] * len(self.rows) if last else [rows[at + 1][rest] for rows in self.suffix]
            if all(n + a + more >= needed for n, a, more, needed in zip(now, ahead, later, self.needed, strict=True)):
                self.counts[at] = count
                self.quota[bucket] += count * pool.offer.gpu_count
                yield from self._descend(at + 1, rest, now)
                self.quota[bucket] -= count * pool.offer.gpu_count
                self.counts[at] = 0
