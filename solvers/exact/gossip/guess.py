"""Machines of the crews that a relaxation chooses: a guess at a placement."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..._market.arrays import Indices
from ..._market.market import Market
from .crews import Crews
from .knapsack import Terms, best_items, good_choice
from .node import Chosen

SUMS = 400
"""Sums of the machines of some places that are looked at."""
FEWER = 3
"""Placements that are tried with the least regions left out one after the other."""


class Guess:
    """Greedy choice of machines of some crews.

    Parameters
    ----------
    market
        Pools and quotas.
    tick
        Called now and then.
    """

    def __init__(self, market: Market, tick: Callable[[], None]) -> None:
        self.market, self.tick = market, tick
        self.pools = [np.flatnonzero(market.place_of == p) for p in range(len(market.places))]

    def placements(
        self, crews: Crews, chosen: Chosen, most_usd: float, needed: float
    ) -> Iterator[dict[int, int]]:
        """Yield machines by pool of some crews, one a place: those that are worth most as long as
        they are paid for, then fewer of them; then the machines of these places that reach most
        with the sends among them, if that is what an improvement needs.
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
        yield from self._fewer(found, most_usd)
        whole = self._whole(crews, chosen, [part[2] for part in found], most_usd, needed)
        if whole is not None:
            yield whole

    def _whole(
        self,
        crews: Crews,
        chosen: Chosen,
        taken: list[dict[int, int]],
        most_usd: float,
        needed: float,
    ) -> dict[int, int] | None:
        """Return one machine of each place, the machines that are taken there, or none."""
        market, items, which = self.market, [], []
        for at, (place, own) in enumerate(zip(crews.place.tolist(), taken, strict=True)):
            counts, paid = float(chosen.counts[at]), float(chosen.paid[at])
            options = [{int(pool): 1} for pool in self.pools[place]]
            options += [own] if sum(own.values()) > 1 else []
            speed = [sum(n * float(market.speed[i]) for i, n in each.items()) for each in options]
            usd = [sum(n * float(market.usd[i]) for i, n in each.items()) for each in options]
            every = best_items(
                np.append(counts * np.array(speed), 0.0), np.append(paid + np.array(usd), 0.0)
            )
            items.append(every[0])
            which.append([[*options, {}][k] for k in every[1].tolist()])
        terms = Terms(needed=needed, most_usd=most_usd, dollar=chosen.dollar)
        best = good_choice(items, terms, SUMS)
        if best is None:
            return None
        return {i: n for own, k in zip(which, best, strict=True) for i, n in own[k].items()}

    @staticmethod
    def _fewer(
        found: list[tuple[float, float, dict[int, int]]], most_usd: float
    ) -> Iterator[dict[int, int]]:
        """Yield those that are worth most as long as they are paid for, then fewer of them."""
        found = sorted(found, key=lambda part: -part[0])
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
