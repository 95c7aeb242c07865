"""Best all-reduce placement: counts of workers, then sets of regions, then machines, each pruned by its bound."""

from __future__ import annotations

import numpy as np

from placer.exchanges import exchange_for
from placer.placement import Placement, WorkerGroup

from ._leaf import Leaf
from ._market import Indices, Market
from ._mode import Mode
from ._relaxation import Family, Node, Relaxation
from ._seeds import Seeds
from ._target import Target


class ButterflySearch:
    """Branch and bound over all-reduce placements of one market.

    Parameters
    ----------
    market
        Pools that may be used.
    target
        Incumbent and limits; improved in place.
    mode
        All-reduce in every step, or every H steps.
    """

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        self.market, self.target, self.mode, self.problem = market, target, mode, market.problem
        wish = self.problem.requirements
        self.fewest_regions, self.most_regions = market.fewest_regions, wish.max_regions
        self.most = min(wish.max_workers, int(market.cap.sum()))
        self.first = max(2, wish.min_workers)
        self.relaxation = Relaxation(market, target, mode, self.first, self.most)

    def aim(self, target: Target) -> None:
        """Search for another target in the same market."""
        self.target = self.relaxation.target = target

    def run(self) -> None:
        """Search all families; raises OutOfTimeError when the time is up."""
        if self.first > self.most or self.fewest_regions > self.most_regions:
            return
        families = self.relaxation.families()
        Seeds(self.relaxation, self._offer).run([family for family in families if len(self._open(family))], self.fewest_regions)
        for family in families:
            everywhere, alive = self.relaxation.places(family), self._open(family)
            if len(alive) and self.fewest_regions <= 1:
                self._single_regions(everywhere, alive, family)
            if len(alive) and self.most_regions > 1:
                self._several_regions(Node((), self._by_promise(everywhere, family), alive, 0.0, max(2, self.fewest_regions)), family)

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
        if self.first > self.most or self.fewest_regions > self.most_regions:
            return False
        return any(len(self._open(family)) > 0 for family in self.relaxation.families())

    def _offer(self, groups: tuple[WorkerGroup, ...]) -> None:
        workers = sum(group.count for group in groups)
        exchange = exchange_for(self.mode.strategy, workers, self.problem, local_steps=self.mode.local_steps)
        placement = Placement(groups=groups, exchange=exchange)
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
            self._offer(groups)
