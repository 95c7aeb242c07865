"""Best all-reduce placement: counts of workers, then sets of regions, then machines, each pruned by its bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer import timing
from placer.estimate import exchange_for
from placer.exchange.allreduce import pair_bytes
from placer.placement import Placement
from placer.solvers._market import Array, Indices, Market, suffix_sums
from placer.solvers._target import Target
from placer.solvers.exhaustive import groups_of


@dataclass(frozen=True)
class Node:
    """Regions that are used, regions that may join, and the worker counts that are still open."""

    used: tuple[int, ...]
    joining: tuple[int, ...]
    workers: Indices
    wan_s_per_pair_byte: float


@dataclass(frozen=True)
class Family:
    """Placements whose slowest host is of one class: the pools they may use and their averaging time by N."""

    pools: Indices
    averaging_s: Array


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
        self._cheapest: dict[tuple[int, ...], float] = {}

    def run(self) -> None:
        """Search all families; raises OutOfTimeError when the time is up."""
        if self.first > self.most:
            return
        for family in self.families():
            everywhere = tuple(np.unique(self.market.place_of[family.pools]))
            root = Node((), everywhere, np.arange(self.first, self.most + 1), 0.0)
            alive = self._alive(root, family)
            if len(alive) == 0:
                continue
            self._seed(family)
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
            within = {h for h, other in seconds.items() if np.all(other <= own)}
            crossing = any(not np.all(other <= own) and not np.all(other >= own) for other in seconds.values())
            chosen = np.array([i for i, h in enumerate(hosts) if crossing or h in within], dtype=np.intp)
            built.append(Family(chosen, np.minimum.reduce(list(seconds.values())) if crossing else own))
        return sorted(built, key=lambda f: len(f.pools))

    def may_improve(self) -> bool:
        """Whether the bound of all placements together still allows an improvement."""
        if self.first > self.most:
            return False
        workers = np.arange(self.first, self.most + 1)
        families = ((f, tuple(np.unique(self.market.place_of[f.pools]))) for f in self.families())
        return any(len(self._alive(Node((), places, workers, 0.0), family)) > 0 for family, places in families)

    def _seed(self, family: Family) -> None:
        """Offer equal machines of the most promising pools, so that the search starts with an incumbent."""
        if self.fewest_regions > 1:
            return
        market = self.market
        ranked = family.pools[np.argsort(-market.values[:, family.pools], axis=1, kind="stable")[:, :3]]
        for i in dict.fromkeys(int(i) for i in ranked.ravel()):
            most = min(int(market.cap[i]), self.most)
            for n in sorted({k for k in (2, 3, 4, 6, 8, most) if self.first <= k <= most}):
                groups = groups_of([market.pools[i]], [n])
                self.target.offer(Placement(groups=groups, exchange=exchange_for("all-reduce", n, self.problem)))

    def _single_regions(self, places: tuple[int, ...], alive: Indices, family: Family) -> None:
        """Best-bound order over (place, N): the most promising first."""
        nodes = [Node((place,), (), alive, 0.0) for place in places]
        scored = []
        for node in nodes:
            sums = self.market.best_sums(self._pools(node, family), self.most)
            margins = self._margins(node, family, sums)
            scored += [(-margin, node.used[0], int(n)) for n, margin in zip(alive, margins, strict=True) if margin >= 0]
        for _, place, n in sorted(scored):
            self._leaf(Node((place,), (), np.array([n]), 0.0), family)

    def _several_regions(self, node: Node, family: Family) -> None:
        """Grow sets of regions one by one; a set whose superset bound cannot improve is cut."""
        for at, place in enumerate(node.joining):
            self.target.tick()
            used = (*node.used, place)
            wan = max([node.wan_s_per_pair_byte, *(self._pair_wan(place, other) for other in node.used)])
            child = Node(used, node.joining[at + 1 :], node.workers[node.workers >= len(used)], wan)
            alive = self._alive(child, family)
            if len(alive) == 0:
                continue
            if self.fewest_regions <= len(used) and len(used) > 1:
                exact_set = Node(used, (), alive, wan)
                for n in self._alive(exact_set, family):
                    self._leaf(Node(used, (), np.array([n]), wan), family)
            if len(used) < self.most_regions:
                slack = self._wan_slack(child, alive, family)
                joining = tuple(j for j in child.joining if self._pair_wan(place, j) <= slack)
                if joining:
                    self._several_regions(Node(used, joining, alive, wan), family)

    def _wan_slack(self, node: Node, alive: Indices, family: Family) -> float:
        """Seconds per pair byte that a further region may cost at most, over all open worker counts."""
        sums = self.market.best_sums(self._pools(node, family), self.most)
        low, high = node.wan_s_per_pair_byte, max(self._slowest_pair, node.wan_s_per_pair_byte)
        for _ in range(12):
            middle = (low + high) / 2
            fits = bool(np.any(self._margins(Node(node.used, node.joining, alive, middle), family, sums) >= 0))
            low, high = (middle, high) if fits else (low, middle)
        return high

    def _alive(self, node: Node, family: Family) -> Indices:
        """Worker counts at which some improvement may exist."""
        pools = self._pools(node, family)
        if len(pools) == 0 or len(node.workers) == 0:
            return np.array([], dtype=np.intp)
        sums = self.market.best_sums(pools, self.most)
        return node.workers[self._margins(node, family, sums) >= 0]

    def _margins(self, node: Node, family: Family, sums: Array) -> Array:
        """Smallest margin of the bound over its thresholds, per open worker count; negative is cut."""
        needed = self._thresholds(node, family)
        reached = sums[:, node.workers]
        with np.errstate(invalid="ignore"):
            margin = np.where(reached == -np.inf, -np.inf, np.where(needed == np.inf, -np.inf, reached - needed))
        scale = np.maximum(np.abs(np.where(np.isfinite(needed), needed, 1.0)), 1e-9)
        lowest: Array = np.min(margin / scale, axis=0)
        return lowest

    def _thresholds(self, node: Node, family: Family) -> Array:
        n = node.workers
        shard = np.array([pair_bytes(self.problem.gradient_bytes, int(k)) for k in n])
        communication = family.averaging_s[n] + node.wan_s_per_pair_byte * shard
        open_places = (*node.used, *node.joining)
        data = min(self.market.data_usd[p] for p in open_places)
        egress = shard * np.array([self._least_pair_usd(node, int(k)) for k in n])
        return self.target.thresholds(self.market.weights, communication, egress, data)

    def _least_pair_usd(self, node: Node, workers: int) -> float:
        """Least sum of egress prices over ordered pairs of workers, if every used region has one worker at least.

        Notes
        -----
        One region that takes all but one worker per other region has the fewest pairs that cross.
        """
        used = node.used
        if len(used) == 1 and not node.joining:
            return workers * (workers - 1) * self._pair_usd(used[0], used[0])
        if len(used) < 2:
            return 0.0
        crossing = workers**2 - (workers - len(used) + 1) ** 2 - (len(used) - 1)
        return crossing * self._cheapest_pair_usd((*used, *node.joining))

    def _cheapest_pair_usd(self, places: tuple[int, ...]) -> float:
        found = self._cheapest.get(places)
        if found is None:
            found = self._cheapest[places] = min(self._pair_usd(a, b) for a in places for b in places if a != b)
        return found

    def _pools(self, node: Node, family: Family) -> Indices:
        inside = np.isin(self.market.place_of[family.pools], (*node.used, *node.joining))
        return family.pools[inside]

    def _pair_usd(self, a: int, b: int) -> float:
        places = self.market.places
        return self.problem.network.usd_per_byte(places[a], places[b], same_zone=self.problem.requirements.same_zone)

    def _pair_wan(self, a: int, b: int) -> float:
        """Seconds that a pair of regions adds for each byte of a pair of workers, slower direction."""
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
        """Enumerate the machines of one set of regions and one N that may improve."""
        pools, workers = self._pools(node, family), int(node.workers[0])
        sums = self.market.best_sums(pools, self.most)
        if self._margins(node, family, sums)[0] < 0:
            return
        for counts in LeafSearch(self, node, family, pools, sums).improvements():
            chosen = [self.market.pools[i] for i in pools]
            self.target.offer(Placement(groups=groups_of(chosen, counts), exchange=exchange_for("all-reduce", workers, self.problem)))


class LeafSearch:
    """Depth-first enumeration of counts at fixed regions and N, cut by the tightest rows of the bound."""

    def __init__(self, search: ButterflySearch, node: Node, family: Family, pools: Indices, sums: Array) -> None:
        self.search, self.node, self.family = search, node, family
        market, self.workers = search.market, int(node.workers[0])
        needed = search._thresholds(node, family)[:, 0]
        finite = np.where(np.isfinite(needed), np.abs(needed), 1.0)
        margin = np.where(np.isfinite(needed), (sums[:, self.workers] - needed) / np.maximum(finite, 1e-9), np.inf)
        tightest = int(np.argmin(margin))
        self.rows = sorted({0, tightest, len(needed) - 1})
        self.order = pools[np.lexsort((market.usd[pools], -market.values[tightest, pools]))]
        self.back = {int(pool): at for at, pool in enumerate(pools)}
        self.caps = [int(market.cap[i]) for i in self.order]
        self.value = [[float(market.values[row, i]) for row in self.rows] for i in self.order]
        self.suffix = [suffix_sums([v[k] for v in self.value], self.caps, self.workers) for k in range(len(self.rows))]
        self.pool_count = len(pools)

    def improvements(self) -> Iterator[list[int]]:
        """Yield counts (in the order of the pools) that reach every threshold, which tightens as the incumbent improves."""
        self.needed = self._needed()
        yield from self._descend(0, self.workers, [0.0] * len(self.rows), [0] * len(self.order), {})

    def _needed(self) -> list[float]:
        column = self.search._thresholds(self.node, self.family)[:, 0]
        return [float(column[row]) for row in self.rows]

    def _descend(self, at: int, left: int, reached: list[float], counts: list[int], quota: dict[tuple[str, str, str], int]) -> Iterator[list[int]]:
        self.search.target.tick()
        if left == 0:
            if self._every_region(counts):
                ordered = [0] * self.pool_count
                for pool, count in zip(self.order, counts, strict=True):
                    ordered[self.back[int(pool)]] = count
                yield ordered
                self.needed = self._needed()
            return
        if at == len(self.order):
            return
        pool = self.search.market.pools[self.order[at]]
        used = quota.get(pool.bucket, 0)
        most = min(self.caps[at], left, (pool.gpu_quota - used) // pool.offer.gpu_count)
        for count in range(most, -1, -1):
            now = [r + v * count for r, v in zip(reached, self.value[at], strict=True)]
            if all(now[k] + self.suffix[k][at + 1][left - count] >= self.needed[k] for k in range(len(self.rows))):
                counts[at] = count
                quota[pool.bucket] = used + count * pool.offer.gpu_count
                yield from self._descend(at + 1, left - count, now, counts, quota)
                quota[pool.bucket] = used
                counts[at] = 0

    def _every_region(self, counts: list[int]) -> bool:
        present = {int(self.search.market.place_of[i]) for i, n in zip(self.order, counts, strict=True) if n}
        return present == set(self.node.used)
