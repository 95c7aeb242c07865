"""First placements, so that a search has an incumbent before its tree begins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placer.problem.placement import WorkerGroup
from placer.problem.problem import groups_of

from ..._market.arrays import Array, Indices
from ..._market.required_start import RequiredStart
from ..bounds.relaxation import Family, Node, Relaxation

SEED_COUNTS = ((1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (4, 4), (8, 8))
"""Machines on either side of such a pair."""
AROUND = (1, 2, 4, 8)
"""Machines of one more kind beside those that must be used."""
SEED_PLACES = 40
"""Places from which a first placement over several regions is grown."""


class FirstPlacements:
    """Offers of promising placements.

    Parameters
    ----------
    relaxation
        The market and its worker counts.
    offer
        Called with the groups of each placement.
    """

    def __init__(
        self, relaxation: Relaxation, offer: Callable[[tuple[WorkerGroup, ...]], None]
    ) -> None:
        self.relaxation, self.market, self.target, self.offer = (
            relaxation,
            relaxation.market,
            relaxation.target,
            offer,
        )
        self.first, self.most = relaxation.first, relaxation.most

    def run(self, families: list[Family], fewest_regions: int) -> None:
        """Give the search an incumbent, from whichever class of hosts, before any of them is
        searched; where a value is known already, the equal machines alone.
        """
        unknown = self.target.beat is None
        if families and self.market.required_machines.rules:
            self._around(families)
        for family in families:
            if fewest_regions <= 1:
                self._equal(family)
        for family in families:
            if unknown and fewest_regions > 1 and self.target.best is None:
                self._pairs(family)
        for family in families:
            if unknown and self.target.best is None:
                self._near(family)

    def _around(self, families: list[Family]) -> None:
        """Offer the machines that must be used, alone and with a few of the best kinds of their
        places and of a neighbour.
        """
        bases = RequiredStart(self.market, self.relaxation.pair_wan)
        for base in bases.all():
            own = list(dict.fromkeys(int(self.market.place_of[i]) for i in base))
            around = [
                (family, place)
                for family in families
                for place in self.relaxation.places(family)
                if place in own
            ]
            near = [
                (family, other)
                for family, place in around
                for other in self._neighbours(place, self.relaxation.places(family))
            ]
            kinds = list(
                dict.fromkeys(
                    i for family, place in (*around, *near) for i in self._best_pools(place, family)
                )
            )
            for more in ({}, *({i: n} for i in kinds for n in AROUND)):
                counts = {
                    i: base.get(i, 0) + more.get(i, 0)
                    for i in (*base, *(i for i in more if i not in base))
                }
                if self.first <= sum(counts.values()) <= self.most and all(
                    n <= self.market.cap[i] for i, n in counts.items()
                ):
                    self.offer(
                        groups_of([self.market.pools[i] for i in counts], list(counts.values()))
                    )

    def _equal(self, family: Family) -> None:
        """Offer equal machines of the most promising pools."""
        market = self.market
        pools = self.relaxation.pools(
            Node((), self.relaxation.places(family), np.array([]), 0.0), family
        )
        ranked = pools[_best_three(market.values[:, pools])]
        self.target.check_time()
        multiplier = self.relaxation.mode.multiplier
        for i in dict.fromkeys(int(i) for i in ranked.ravel()):
            most, pool = min(int(market.cap[i]), self.most), market.pools[i]
            speed, usd = float(market.speed[i]) / multiplier, pool.usd_per_hour
            for n in sorted({k for k in (2, 3, 4, 6, 8, most) if self.first <= k <= most}):
                if self.target.may_beat_best(n * speed, n * usd):  # as if exchanges were free
                    self.offer(groups_of([pool], [n]))

    def _near(self, family: Family) -> None:
        """Offer the fewest workers that are allowed, filled from each place outwards to its nearest
        ones.
        """
        market, places = self.market, self.relaxation.places(family)
        pools = self.relaxation.pools(Node((), places, np.array([]), 0.0), family)
        value = market.usd[pools] / market.speed[pools]
        size = np.array([market.pools[i].gpus for i in pools.tolist()])
        home = market.place_of[pools]
        for place in places[:SEED_PLACES]:
            self.target.check_time()
            away = self.relaxation.wan_matrix[place, home]
            for keys in ((pools, value, away), (pools, value, size, away)):
                near = pools[np.lexsort(keys)].tolist()
                counts = self._filled(near)
                if counts is not None:
                    self.offer(groups_of([market.pools[i] for i in near[: len(counts)]], counts))

    def _pairs(self, family: Family) -> None:
        """Offer pairs of neighbouring places, a few machines of their best kinds on either side."""
        market, places = self.market, self.relaxation.places(family)
        best = {place: self._best_pools(place, family) for place in places}
        for place in places:
            self.target.check_time()
            others = self._neighbours(place, places)
            for a, b in ((a, b) for other in others for a in best[place] for b in best[other]):
                for n, m in SEED_COUNTS:
                    if (
                        self.first <= n + m <= self.most
                        and n <= market.cap[a]
                        and m <= market.cap[b]
                    ):
                        usd = n * market.usd[a] + m * market.usd[b]
                        # Machines alone above the limit: not worth pricing. First placements prove
                        # nothing, so any of them may be left out.
                        if usd <= self.target.max_usd_per_hour:
                            self.offer(groups_of([market.pools[a], market.pools[b]], [n, m]))

    def _neighbours(self, place: int, places: tuple[int, ...]) -> list[int]:
        """Return the nearest place of the same provider, whose traffic is cheap, and nearest of
        another one.
        """
        provider = [name.split("/")[0] for name in self.market.places]
        others = sorted(
            (p for p in places if p != place), key=lambda p: (self.relaxation.pair_wan(place, p), p)
        )
        same = [p for p in others if provider[p] == provider[place]]
        return same[:1] + [p for p in others if provider[p] != provider[place]][:1]

    def _best_pools(self, place: int, family: Family) -> list[int]:
        """Return the fastest pool of a place that half the budget pays, and the one with the best
        value.
        """
        market = self.market
        pools = self.relaxation.pools(Node((place,), (), np.array([]), 0.0), family).tolist()
        payable = [i for i in pools if market.usd[i] <= self.target.max_usd_per_hour / 2]
        rankings = (
            sorted(payable, key=lambda i: (-market.speed[i], i)),
            sorted(payable, key=lambda i: (market.usd[i] / market.speed[i], i)),
        )
        return list(dict.fromkeys(ranked[0] for ranked in rankings if ranked))

    def _filled(self, order: list[int]) -> list[int] | None:
        """Return the counts that place the fewest workers on pools in their order, up to the last
        one that is needed; None if the quotas do not hold them.
        """
        left, used, counts = self.first, dict[tuple[str, ...], int](), list[int]()
        for i in order:
            pool = self.market.pools[i]
            taken = used.get(pool.bucket, 0)
            count = min(left, int(self.market.cap[i]), (pool.gpu_quota - taken) // pool.gpus)
            used[pool.bucket] = taken + count * pool.gpus
            left -= count
            counts.append(count)
            if not left:
                return counts
        return None if left else counts


def _best_three(values: Array) -> Indices:
    """Return the positions of the three largest values of each row, the first of equal ones first;
    shape (rows, at most 3).
    """
    left, chosen = values.copy(), []
    for _ in range(min(3, values.shape[1])):
        chosen.append(left.argmax(axis=1))
        left[np.arange(len(left)), chosen[-1]] = -np.inf
    return np.array(chosen, dtype=np.intp).reshape(-1, len(values)).T
