"""Machines that keep the rules on what must be used: first placements and drafts are built around
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from .arrays import Array
from .market import Market
from .required_machines import Rule

Away = Callable[[int, int], float]
"""How far two places are from each other, in any unit."""


class RequiredStart:
    """Smallest sets of machines that keep the rules, and what a draft lacks of them.

    Parameters
    ----------
    market
        Its rules on machines that must be used.
    away
        Distance of two places, by their positions.
    """

    def __init__(self, market: Market, away: Away) -> None:
        self.market, self.away = market, away
        self.rules = sorted(market.required_machines.rules, key=lambda rule: int(rule.owns.sum()))
        self.rankings: tuple[Array, ...] = (market.usd / market.speed, market.usd, -market.speed)

    def all(self) -> list[dict[int, int]]:
        """Return the fewest machines that keep the rules: by value, by price, by speed; near each
        other, or the best anywhere.
        """
        starts: dict[tuple[tuple[int, int], ...], dict[int, int]] = {}
        for ranking in self.rankings if self.rules else ():
            for near in (True, False):
                base = self.completed({}, ranking, near=near)
                if base:
                    starts[tuple(sorted(base.items()))] = base
        return list(starts.values())

    def completed(
        self, counts: Mapping[int, int], ranking: Array | None = None, *, near: bool = True
    ) -> dict[int, int] | None:
        """Return the counts with what they lack of the rules added, at their own places or the
        nearest ones; None if there is no room.
        """
        made = dict(counts)
        ranked = self.rankings[0] if ranking is None else ranking
        for rule in self.rules:
            lacking = rule.count - sum(n for i, n in made.items() if rule.owns[i])
            if lacking <= 0:
                continue
            for i in self._candidates(rule, made, ranked, near):
                count = min(lacking, self._room(made, i))
                if count > 0:
                    made[i] = made.get(i, 0) + count
                    lacking -= count
                if lacking == 0:
                    break
            if lacking:
                return None
        return made

    def _candidates(
        self, rule: Rule, counts: Mapping[int, int], ranking: Array, near: bool
    ) -> Iterator[int]:
        """Yield pools of a rule, best first; those of the places that are used, then of the nearest
        ones, go before.
        """
        pools = np.flatnonzero(rule.owns)
        places = self.market.place_of[pools]
        km = np.zeros(len(pools))
        if counts and near:
            used = list(dict.fromkeys(int(self.market.place_of[i]) for i in counts))
            distance = {
                int(p): min(self.away(int(p), q) for q in used) if int(p) not in used else -1.0
                for p in np.unique(places)
            }
            km = np.array([distance[int(p)] for p in places])
        yield from pools[np.lexsort((pools, ranking[pools], km))].tolist()

    def _room(self, counts: Mapping[int, int], pool: int) -> int:
        """List the machines of a pool that its quota and number still allow beside some counts."""
        market, bucket = self.market, self.market.pools[pool].bucket
        used = sum(
            n * market.pools[i].gpus for i, n in counts.items() if market.pools[i].bucket == bucket
        )
        free = (market.pools[pool].gpu_quota - used) // market.pools[pool].gpus
        for row in market.problem.joint_limits:
            each = row.taken(market.pools[pool])
            if each:
                taken = sum(n * row.taken(market.pools[i]) for i, n in counts.items())
                free = min(free, (row.most - taken) // each)
        return max(0, min(free, int(market.cap[pool]) - counts.get(pool, 0)))
