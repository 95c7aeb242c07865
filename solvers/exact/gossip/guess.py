"""Machines of the crews that a relaxation chooses: a guess at a placement."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..._market.arrays import Indices
from ..._market.market import Market
from .crews import Crews
from .node import Chosen

FEWER = 3
"""Placements that are tried with the least regions left out one after the other."""


class Guess:
    """Greedy choice of machines of some crews.

    Parameters
    ----------
    market
        Pools and quotas.
    """

    def __init__(self, market: Market) -> None:
        self.market = market
        self.pools = [np.flatnonzero(market.place_of == p) for p in range(len(market.places))]

    def placements(self, crews: Crews, chosen: Chosen, most_usd: float) -> Iterator[dict[int, int]]:
        """Yield machines by pool of some crews, one a place: those that are worth most as long as
        they are paid for, then fewer of them.
        """
        market, dollar = self.market, chosen.dollar
        found: list[tuple[float, float, dict[int, int]]] = []
        for at, place in enumerate(crews.place.tolist()):
            pools = self.pools[place]
            worth = chosen.weight[at] * market.speed[pools] - dollar * market.usd[pools]
            taken = self._taken(pools[np.argsort(-worth, kind="stable")], int(crews.machines[at]))
            usd = sum(n * float(market.usd[i]) for i, n in taken.items()) + float(chosen.usd[at])
            speed = sum(n * float(market.speed[i]) for i, n in taken.items())
            found.append((float(chosen.weight[at]) * speed - dollar * usd, usd, taken))
        found.sort(key=lambda part: -part[0])
        kept: list[dict[int, int]] = []
        paid = 0.0
        for _, usd, taken in found:
            if paid + usd <= most_usd:
                kept.append(taken)
                paid += usd
        for fewer in range(FEWER):
            some = kept[: len(kept) - fewer]
            if len(some) < 2:
                return
            yield {i: n for taken in some for i, n in taken.items()}

    def _taken(self, pools: Indices, machines: int) -> dict[int, int]:
        """Take so many machines of the first pools that caps and quotas allow."""
        taken: dict[int, int] = {}
        quota: dict[tuple[str, ...], int] = {}
        for i in pools.tolist():
            pool = self.market.pools[i]
            left = pool.gpu_quota - quota.get(pool.bucket, 0)
            count = min(machines, int(self.market.cap[i]), left // pool.gpus)
            if count > 0:
                taken[i] = count
                quota[pool.bucket] = quota.get(pool.bucket, 0) + count * pool.gpus
                machines -= count
            if machines == 0:
                break
        return taken
