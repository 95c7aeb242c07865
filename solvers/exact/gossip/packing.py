"""The bound of one node that takes whole machines: one choice of machines of each region."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from placer.solving import allowance

from ..._market.arrays import Array, Indices, Mask
from ..._market.market import Market
from .crews import Crews
from .knapsack import Items, Knapsack, Terms, best_items
from .work import Work

HULL = 3
"""Machines of a crew from which on choices are taken along its hull."""
PIECES = 24
"""Pieces of such a hull."""
NEAR = 0.05
"""Nodes whose bound is not more than this above what is needed are packed: others have to be cut
first.
"""
MOST = 400
"""Sums of one front."""
ROOM = 1e-9
"""Relative room for rounding."""
CUTS = (0.0, 0.003, 0.01)
"""Shares of the budget that are left for sends which cost more than the bound knows."""
ITEMS = 60
"""Choices of one place at most; a node with more of them is left as it is."""


@dataclass(frozen=True, kw_only=True)
class Machines:
    """Choices of machines of a crew: samples/s and USD/h, shape (choices,), and up to two pools of
    which they are, -1 for none or for a piece of a hull; shape (choices, 2).
    """

    speed: Array
    usd: Array
    pools: Indices

    def among(self, chosen: Indices | Mask) -> Machines:
        """Return some of the choices."""
        return Machines(speed=self.speed[chosen], usd=self.usd[chosen], pools=self.pools[chosen])


@dataclass(frozen=True)
class Packed:
    """What no placement of a node exceeds in samples/s that count, minus infinity where none has
    what is needed; and machines by pool that come close.
    """

    reached: float
    machines: list[dict[int, int]]


class Packing:
    """Bounds of nodes by a knapsack over their regions.

    Parameters
    ----------
    market, crews
        Pools, and all crews that are made of them.
    tick
        Called now and then; ends a bound that takes too long.

    Notes
    -----
    The bound of `Work` may buy a part of a machine with what is left of the budget: with machines
    of a tenth of it, that is some percent. Here the budget is kept by whole machines; the total
    speed and the number of regions keep their prices.
    """

    def __init__(self, market: Market, crews: Crews, tick: Callable[[], None]) -> None:
        self.market, self.crews, self.tick = market, crews, tick
        self._of_crew: dict[int, Machines] = {}

    def packed(self, work: Work, needed: float) -> Packed | None:
        """Return what no placement of a node exceeds; None where that is not worked out."""
        dollar, speed = work.prices
        if not 0 < work.most_usd < np.inf:
            return None
        weight, least = self._least(work, needed)
        parts = [
            self.machines(int(crew), each, dollar, float(own))
            for crew, each, own in zip(work.node.crews, weight.tolist(), least, strict=True)
        ]
        owner = np.repeat(np.arange(len(parts)), [len(part.usd) for part in parts])
        usd = np.concatenate([part.usd for part in parts]) + work.usd[owner]
        each = np.concatenate([part.speed for part in parts])
        gain = weight[owner] * each
        place = work.rank()[owner]
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        worth = gain - dollar * usd
        best = np.maximum.reduceat(worth, starts)
        theta, fixed = _price_of_a_region(work, best)
        own = np.where(work.forced, 0.0, theta)
        gain, worth, best = gain - own[place], worth - own[place], best - own
        best = np.where(work.forced, best, np.maximum(0.0, best))
        fixed += speed * work.node.speeds[0 if speed < 0 else 1]
        spare = fixed + dollar * work.most_usd + float(best.sum()) - needed
        if spare < 0:
            return Packed(-np.inf, [])
        kept = worth >= (best - spare)[place]
        ends = np.append(starts[1:], len(place))
        every: list[tuple[Items, Indices]] = []
        for k, (first, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            allowance.check()
            at = first + np.flatnonzero(kept[first:end])
            gains, costs = gain[at], usd[at]
            if not work.forced[k] and best[k] <= spare:  # it may be left out
                at = np.append(at, -1)
                gains, costs = np.append(gains, 0.0), np.append(costs, 0.0)
            items, which = best_items(gains, costs)
            if len(which) > ITEMS:
                return None
            every.append((items, at[which]))
        # Places with one choice do not make fronts longer: they come last, where fronts begin.
        every.sort(key=lambda found: -len(found[1]))
        terms = Terms(needed=needed - fixed, most_usd=work.most_usd * (1 + ROOM), dollar=dollar)
        knapsack = Knapsack([items for items, _ in every], terms, self.tick, MOST, spare)
        used = np.concatenate([part.pools for part in parts])
        found = []
        for share in CUTS if np.isfinite(knapsack.reached) else ():
            chosen = knapsack.best(work.most_usd * (1 - share))
            if chosen is not None:
                rows = np.array([which[k] for k, (_, which) in zip(chosen, every, strict=True)])
                pools = used[rows[rows >= 0]]
                own, count = np.unique(pools[pools >= 0], return_counts=True)
                found.append(dict(zip(own.tolist(), count.tolist(), strict=True)))
        return Packed(knapsack.reached + fixed, found)

    @staticmethod
    def _least(work: Work, needed: float) -> tuple[Array, Array]:
        """Return what a samples/s of each crew counts above its price, and the worth of its
        machines before sends that an improvement has at least; shape (crews,) each.
        """
        dollar, speed = work.prices
        weight = np.maximum(0.0, work.weight - speed)
        worth = work.crews.values(weight, np.array(dollar))
        best = np.maximum.reduceat(worth - dollar * work.usd, work.starts)
        theta, fixed = _price_of_a_region(work, best)
        own = np.where(work.forced, best, np.maximum(0.0, best - theta))
        fixed += speed * work.node.speeds[0 if speed < 0 else 1] + dollar * work.most_usd
        return weight, best[work.rank()] + dollar * work.usd - (fixed + float(own.sum()) - needed)

    def machines(self, crew: int, weight: float, dollar: float, least: float) -> Machines:
        """Return the machines that a crew may be, at least those that are worth so much."""
        if int(self.crews.most_machines[crew]) >= HULL:
            allowance.check()
            return _along_hull(self.crews, crew, weight, dollar, least)
        if crew not in self._of_crew:
            allowance.check()
            self._of_crew[crew] = self._found(crew)
        return self._of_crew[crew]

    def _found(self, crew: int) -> Machines:
        crews, market = self.crews, self.market
        count = int(crews.most_machines[crew])
        hosts = crews.hosts[int(crews.host[crew])]
        here = (market.place_of == crews.place[crew]) & market.pools_of_hosts(hosts)
        pools = np.flatnonzero(here)
        if count == 1:
            chosen = pools[:, None]
        else:
            one, other = np.triu_indices(len(pools))
            chosen = np.column_stack([pools[one], pools[other]])
            chosen = chosen[[self._allowed(*each) for each in chosen.tolist()]]
        speed, usd = market.speed[chosen].sum(axis=1), market.usd[chosen].sum(axis=1)
        items, kept = best_items(speed, usd)
        built = np.full((len(kept), 2), -1)
        built[:, :count] = chosen[kept]
        return Machines(speed=items.gain, usd=items.usd, pools=built)

    def _allowed(self, one: int, other: int) -> bool:
        """Return whether a machine of each of two pools may be used, or two of the same."""
        first, second = self.market.pools[one], self.market.pools[other]
        if one == other and self.market.cap[one] < 2:
            return False
        return first.bucket != second.bucket or first.gpus + second.gpus <= first.gpu_quota


def _price_of_a_region(work: Work, best: Array) -> tuple[float, float]:
    """Return the price of a region that is not forced, and what all that may be used are worth at
    it.
    """
    forced = int(work.forced.sum())
    ranked = -np.sort(-best[~work.forced])
    fewest, most = (max(0, each - forced) for each in work.node.regions)
    most = min(most, len(ranked))
    if most < len(ranked) and (most == 0 or ranked[most - 1] > 0 or fewest == most):
        low = ranked[most] if fewest == most else max(0.0, float(ranked[most]))
        high = ranked[most - 1] if most else low
        theta = float(low + max(high, low)) / 2
        return theta, theta * most
    if fewest and ranked[fewest - 1] < 0:
        theta = float(ranked[fewest - 1])
        return theta, theta * fewest
    return 0.0, 0.0


def _along_hull(crews: Crews, crew: int, weight: float, dollar: float, least: float) -> Machines:
    """Return choices of which one is as fast and as cheap as each choice under the hull of a crew
    that is worth so much.
    """
    first = int(crews.row[crew]) * len(crews.prices)
    own = slice(first, first + len(crews.prices))
    usd = np.maximum.accumulate(crews.tables[1][own][::-1])
    speed = np.maximum.accumulate(crews.tables[0][own][::-1])
    # Worth is concave along the hull: from the corner before these to the one after them.
    within = np.flatnonzero(weight * speed - dollar * usd >= least)
    low, high = (
        within[[0, -1]] if len(within) else 2 * [int(np.argmax(weight * speed - dollar * usd))]
    )
    some = slice(max(0, low - 1), high + 2)
    usd, speed = usd[some], speed[some]
    ends = np.unique(np.concatenate([usd, np.linspace(usd[0], usd[-1], PIECES)]))
    reached = np.interp(ends, usd, speed)
    return Machines(
        speed=np.append(reached[1:], speed[-1]) * (1 + ROOM),
        usd=ends * (1 - ROOM),
        pools=np.full((len(ends), 2), -1),
    )
