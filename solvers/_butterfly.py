"""Best all-reduce placement: counts of workers, then sets of regions, then machines, each pruned by its bound."""

from __future__ import annotations

import numpy as np

from placer.estimator import exchange_for
from placer.placement import Placement, WorkerGroup

from ._leaf import Leaf
from ._market import Indices, Market
from ._relaxation import Family, Node, Relaxation
from ._target import Target
from .exhaustive import groups_of

SEED_COUNTS = ((1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (4, 4), (8, 8))
"""Machines on either side of such a pair."""
SEED_PLACES = 40
"""Places from which a first placement over several regions is grown."""


class ButterflySearch:
    """Branch and bound over all-reduce placements of one market.

    Parameters
    ----------
    market
        Pools that may be used.
    target
        Incumbent and limits; improved in place.
    """

    def __init__(self, market: Market, target: Target) -> None:
        self.market = market
        self.target = target
        self.problem = market.problem
        wish = self.problem.requirements
        self.fewest_regions, self.most_regions = wish.min_regions, wish.max_regions
        self.most = min(wish.max_workers, int(market.cap.sum()))
        self.first = max(2, wish.min_workers)
        self.relaxation = Relaxation(market, target, self.first, self.most)

    def run(self) -> None:
        """Search all families; raises OutOfTimeError when the time is up."""
        if self.first > self.most:
            return
        families = self.relaxation.families()
        self._seed_all([family for family in families if len(self._open(family))])
        for family in families:
            everywhere, alive = self.relaxation.places(family), self._open(family)
            if len(alive) and self.fewest_regions <= 1:
                self._single_regions(everywhere, alive, family)
            if len(alive) and self.most_regions > 1:
                self._several_regions(Node((), self._by_promise(everywhere, family), alive, 0.0, max(2, self.fewest_regions)), family)

    def _seed_all(self, families: list[Family]) -> None:
        """Give the search an incumbent, from whichever class of hosts, before any of them is searched."""
        for family in families:
            self._seed(family)
        for family in families:
            if self.fewest_regions > 1:
                self._seed_pairs(family)
        for family in families:
            if self.target.best is None:
                self._seed_near(family)

    def _by_promise(self, places: tuple[int, ...], family: Family) -> tuple[int, ...]:
        """Places with the most speed for their room first: sets of regions are grown in this order."""
        sums = {place: self.market.best_sums(np.array([place]), family.hosts, self.most)[0] for place in places}
        reach = {place: float(np.max(sums[place][np.isfinite(sums[place])])) for place in places}
        return tuple(sorted(places, key=lambda place: (-reach[place], place)))

    def _open(self, family: Family) -> Indices:
        """Worker counts at which some placement of a family may be an improvement."""
        workers = np.arange(self.first, self.most + 1)
        wan = self.relaxation.fastest_pair if self.fewest_regions > 1 else 0.0
        return self.relaxation.alive(Node((), self.relaxation.places(family), workers, wan, self.fewest_regions), family)

    def may_improve(self) -> bool:
        """Whether the bound of all placements together still allows an improvement."""
        if self.first > self.most:
            return False
        return any(len(self._open(family)) > 0 for family in self.relaxation.families())

    def _seed(self, family: Family) -> None:
        """Offer equal machines of the most promising pools, so that the search starts with an incumbent."""
        market = self.market
        pools = self.relaxation.pools(Node((), self.relaxation.places(family), np.array([]), 0.0), family)
        ranked = pools[np.argsort(-market.values[:, pools], axis=1, kind="stable")[:, :3]]
        for i in dict.fromkeys(int(i) for i in ranked.ravel()):
            most = min(int(market.cap[i]), self.most)
            for n in sorted({k for k in (2, 3, 4, 6, 8, most) if self.first <= k <= most}):
                self._offer(groups_of([market.pools[i]], [n]), n)

    def _seed_near(self, family: Family) -> None:
        """Offer the fewest workers that are allowed, filled from each place outwards to its nearest ones."""
        market, pools = self.market, self.relaxation.pools(Node((), self.relaxation.places(family), np.array([]), 0.0), family).tolist()
        for place in self.relaxation.places(family)[:SEED_PLACES]:
            self.target.check_time()
            away = {i: self.relaxation.pair_wan(place, int(market.place_of[i])) for i in pools}
            value = {i: market.usd[i] / market.speed[i] for i in pools}
            size = {i: market.pools[i].offer.gpu_count for i in pools}
            for near in (sorted(pools, key=lambda i: (away[i], value[i], i)), sorted(pools, key=lambda i: (away[i], size[i], value[i], i))):
                counts = self._filled(near)
                if counts is not None:
                    self._offer(groups_of([market.pools[i] for i in near], counts), self.first)

    def _seed_pairs(self, family: Family) -> None:
        """Offer pairs of neighbouring places, a few machines of their best kinds on either side."""
        market, places = self.market, self.relaxation.places(family)
        best = {place: self._best_pools(place, family) for place in places}
        for place in places:
            self.target.check_time()
            others = self._neighbours(place, places)
            for a, b in ((a, b) for other in others for a in best[place] for b in best[other]):
                for n, m in SEED_COUNTS:
                    if self.first <= n + m <= self.most and n <= market.cap[a] and m <= market.cap[b]:
                        usd = n * market.usd[a] + m * market.usd[b]
                        if usd <= self.target.max_usd_per_hour:
                            self._offer(groups_of([market.pools[a], market.pools[b]], [n, m]), n + m)

    def _neighbours(self, place: int, places: tuple[int, ...]) -> list[int]:
        """Nearest place of the same provider, whose traffic is cheap, and nearest of another one."""
        provider = [name.split("/")[0] for name in self.market.places]
        others = sorted((p for p in places if p != place), key=lambda p: (self.relaxation.pair_wan(place, p), p))
        same = [p for p in others if provider[p] == provider[place]]
        return same[:1] + [p for p in others if provider[p] != provider[place]][:1]

    def _best_pools(self, place: int, family: Family) -> list[int]:
        """The fastest pool of a place that half the budget pays, and the one with the best value."""
        market = self.market
        pools = self.relaxation.pools(Node((place,), (), np.array([]), 0.0), family).tolist()
        payable = [i for i in pools if market.usd[i] <= self.target.max_usd_per_hour / 2]
        rankings = (
            sorted(payable, key=lambda i: (-market.speed[i], i)),
            sorted(payable, key=lambda i: (market.usd[i] / market.speed[i], i)),
        )
        return list(dict.fromkeys(ranked[0] for ranked in rankings if ranked))

    def _filled(self, order: list[int]) -> list[int] | None:
        """Counts that place the fewest workers on pools in their order; None if the quotas do not hold them."""
        left, used, counts = self.first, dict.fromkeys((self.market.pools[i].bucket for i in order), 0), []
        for i in order:
            pool = self.market.pools[i]
            count = min(left, int(self.market.cap[i]), (pool.gpu_quota - used[pool.bucket]) // pool.offer.gpu_count)
            used[pool.bucket] += count * pool.offer.gpu_count
            left -= count
            counts.append(count)
        return None if left else counts

    def _offer(self, groups: tuple[WorkerGroup, ...], workers: int) -> None:
        placement = Placement(groups=groups, exchange=exchange_for("all-reduce", workers, self.problem))
        if self.fewest_regions <= len(placement.places) <= self.most_regions:
            self.target.offer(placement)

    def _single_regions(self, places: tuple[int, ...], alive: Indices, family: Family) -> None:
        """Best-bound order over (place, N): the most promising first."""
        scored = []
        for place in places:
            margins = self.relaxation.bound(Node((place,), (), alive, 0.0), family).margins(0.0)
            scored += [(-margin, place, int(n)) for n, margin in zip(alive, margins, strict=True) if margin >= 0]
        for _, place, n in sorted(scored):
            self._leaf((place,), n, 0.0, family)

    def _several_regions(self, node: Node, family: Family) -> None:
        """Grow sets of regions one by one; a set whose superset bound cannot improve is cut."""
        for at, place in enumerate(node.joining):
            self.target.tick()
            self.target.check_time()
            used = (*node.used, place)
            joining = node.joining[at + 1 :]
            if len(used) + len(joining) < node.least_regions:
                return
            wan = max([node.wan_s_per_pair_byte, *(self.relaxation.pair_wan(place, other) for other in node.used)])
            child = Node(used, joining, node.workers[node.workers >= max(len(used), node.least_regions)], wan, node.least_regions)
            nearest = min((self.relaxation.pair_wan(place, other) for other in joining), default=0.0) if len(used) == 1 else 0.0
            bound = self.relaxation.bound(child, family)
            alive = child.workers[bound.margins(max(wan, nearest)) >= 0]
            if len(alive) == 0:
                continue
            if self.fewest_regions <= len(used) and len(used) > 1:
                for n in self.relaxation.alive(Node(used, (), alive, wan), family):
                    self._leaf(used, int(n), wan, family)
            if len(used) < self.most_regions:
                slack = self.relaxation.wan_slack(bound, wan)
                near = tuple(j for j in joining if self.relaxation.pair_wan(place, j) <= slack)
                if near:
                    self._several_regions(Node(used, near, alive, wan, node.least_regions), family)

    def _leaf(self, used: tuple[int, ...], workers: int, wan: float, family: Family) -> None:
        """Offer the placements of one set of regions and one N that may improve."""
        for groups in Leaf(self.relaxation, Node(used, (), np.array([workers]), wan), family).improvements():
            self._offer(groups, workers)
