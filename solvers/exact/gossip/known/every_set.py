"""All sets of regions of a node side by side: where few regions are chosen among few places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb

import numpy as np

from placer.records import replace
from placer.solving import allowance

from ...._market.arrays import Array, Indices
from ..crews import Crews
from ..knapsack import Knapsack, Terms, best_items
from ..node import Node
from ..packing import HULL, Machines, Packing

MOST = 130_000
"""Sets of regions that are looked at."""
REGIONS = 12
"""Regions of such a set: with more of them a machine is a small part of the budget, and so is what
each of them may lose to a cell.
"""
AT_ONCE = 1_000_000
"""Pairs of a crew and a partner that are looked at side by side."""
CREWS = 5_000
"""Crews of all these sets that count as one node: they take about as long."""
CELLS = 800
"""Cells of the budget."""
PRICES = (1.0, 0.85, 1.18, 0.7, 1.4)
"""Prices of a dollar that are tried, over that of the node."""
ROOM = 1e-9
"""Relative room for rounding."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an improvement keeps: ``needed`` samples/s that count, at most ``most_usd``."""

    needed: float
    most_usd: float


@dataclass(frozen=True, kw_only=True)
class Sends:
    """Seconds of a send, over those of a round without any exchange, and USD/h if a place were the
    only partner; shape (places, places). ``home_usd`` is what each crew pays inside its region, and
    ``own`` how long its own round takes; shape (crews,).
    """

    waits: Array
    usd: Array
    home_usd: Array
    own: Array

    def among(self, crews: Indices) -> Sends:
        """Return those of some crews."""
        return replace(self, home_usd=self.home_usd[crews], own=self.own[crews])


@dataclass(frozen=True, kw_only=True)
class Open:
    """A set of regions that may hold an improvement: its places, what it reaches at most in
    samples/s that count, and machines by pool that come close.
    """

    places: Indices
    reached: float
    machines: dict[int, int]


def count_of(node: Node, places: Indices) -> int:
    """Return how many sets of regions a node has; more than `MOST` where the number of regions is
    open or above `REGIONS`.
    """
    forced = int(node.forced.sum())
    if node.regions[0] != node.regions[1] or node.regions[0] > REGIONS:
        return MOST + 1
    return comb(len(places) - forced, node.regions[0] - forced)


@dataclass(frozen=True, kw_only=True)
class Sets:
    """Sets of regions with their crews one after the other: of each set, of each of its places.

    Notes
    -----
    ``places`` has shape (sets, regions), ``left`` is what is left for machines in USD/h, shape
    (sets,). ``begins`` is where the crews of each place begin, shape (sets, regions); ``crew``,
    ``case`` and ``weight`` are those crews, their sets, and what a samples/s of them counts there.
    """

    places: Indices
    left: Array
    begins: Indices
    crew: Indices
    case: Indices
    weight: Array

    def among(self, chosen: Indices) -> Sets:
        """Return some of the sets, in a given order."""
        ends = np.append(self.begins[1:, 0], len(self.crew))
        first, many = self.begins[chosen, 0], (ends - self.begins[:, 0])[chosen]
        begins = np.cumsum(many) - many
        at = np.repeat(first - begins, many) + np.arange(int(many.sum()))
        return Sets(
            places=self.places[chosen],
            left=self.left[chosen],
            begins=self.begins[chosen] - (first - begins)[:, None],
            crew=self.crew[at],
            case=np.repeat(np.arange(len(chosen)), many),
            weight=self.weight[at],
        )


class EverySet:
    """Sets of regions with exactly the sends that they have.

    Parameters
    ----------
    node
        Its sets of regions are looked at.
    crews
        Those of the node.
    sends
        Between the places.
    limits
        What an improvement keeps.
    packing
        Whole machines of the crews.
    tick
        Called now and then; ends a search that takes too long.

    Notes
    -----
    The tree knows what pairs of regions cost each other by prices of pairs, and whole machines by
    the cheapest partners of each region. With few regions a machine is a large part of the budget,
    and neither closes a node. Here a set of regions is known, and so is what each of them waits and
    pays. What is left is one choice of machines of each region: a Lagrangian bound of all sets at
    once, then sums in cells of the budget of those that are left, then a knapsack of each.
    """

    def __init__(
        self,
        node: Node,
        crews: Crews,
        sends: Sends,
        limits: Limits,
        packing: Packing,
        tick: Callable[[], None],
    ) -> None:
        self.node, self.limits, self.tick = node, limits, tick
        self.dollar, self.speed = node.prices
        self.fixed = self.speed * node.speeds[0 if self.speed < 0 else 1]
        every = _machines_of(node, crews, sends, packing)
        kept = np.array([k for k, own in enumerate(every) if len(own.usd)], dtype=np.intp)
        self.machines = [every[k] for k in kept]
        self.crews, self.sends = crews.among(kept), sends.among(kept)

    def open(self) -> Iterator[Open]:
        """Yield the sets that may hold an improvement, those first that reach most."""
        found: list[tuple[float, Sets, int]] = []
        for sets in self._all():
            allowance.check()
            for _ in range(1 + len(sets.crew) // CREWS):
                self.tick()
            left = sets.among(np.flatnonzero(self._reached(sets) >= self.limits.needed))
            if len(left.left):
                reached = self._in_cells(left)
                found += [
                    (float(reached[at]), left, at)
                    for at in np.flatnonzero(reached >= self.limits.needed).tolist()
                ]
        for most, sets, at in sorted(found, key=lambda each: -each[0]):
            one = self._packed(sets.among(np.array([at])), most)
            if one is not None:
                yield one

    def _all(self) -> Iterator[Sets]:
        """Yield all sets of the node, some at a time."""
        node, places = self.node, np.unique(self.crews.place)
        given = node.forced[places]
        if given.sum() < node.forced.sum() or len(places) < node.regions[0]:
            return
        forced, free = np.flatnonzero(given), np.flatnonzero(~given)
        more = node.regions[0] - len(forced)
        rest = np.fromiter(
            chain.from_iterable(combinations(free.tolist(), more)),
            dtype=np.intp,
            count=more * comb(len(free), more),
        ).reshape(comb(len(free), more), more)
        every = np.concatenate([np.broadcast_to(forced, (len(rest), len(forced))), rest], axis=1)
        each = len(self.crews.place) / len(places) * node.regions[0] ** 2
        step = max(1, int(AT_ONCE / each))
        for first in range(0, len(every), step):
            yield self._sets(places[every[first : first + step]])

    def _sets(self, places: Indices) -> Sets:
        crews, sends, regions = self.crews, self.sends, places.shape[1]
        usd = np.zeros(len(places))
        for one in range(regions):
            for other in range(regions):
                if one != other:
                    usd += sends.usd[places[:, one], places[:, other]]
        first = np.searchsorted(crews.place, places)
        many = (np.searchsorted(crews.place, places, side="right") - first).ravel()
        begins = np.cumsum(many) - many
        crew = np.repeat(first.ravel() - begins, many) + np.arange(int(many.sum()))
        case = np.repeat(np.arange(places.size) // regions, many)
        own, place, total = sends.own[crew], crews.place[crew], np.zeros(len(crew))
        for other in range(regions):
            partner = places[case, other]
            wait = np.maximum(own, sends.waits[place, partner])
            total += np.where(partner == place, 0.0, wait)
        return Sets(
            places=places,
            left=self.limits.most_usd - usd / (regions - 1),
            begins=begins.reshape(places.shape),
            crew=crew,
            case=case,
            weight=(regions - 1) / total,
        )

    def _reached(self, sets: Sets) -> Array:
        """Return the Lagrangian bound of each set; shape (sets,)."""
        best = np.where(sets.left > 0, np.inf, -np.inf)
        for factor in PRICES:
            alive = np.flatnonzero(best >= self.limits.needed)
            if len(alive) == 0:
                break
            some = sets if len(alive) == len(best) else sets.among(alive)
            dollar = factor * self.dollar
            value = self._worth(some, dollar).sum(axis=1) + dollar * some.left + self.fixed
            best[alive] = np.minimum(best[alive], value)
        return best

    def _worth(self, sets: Sets, dollar: float) -> Array:
        """Return what each place is worth at a price of a dollar; shape (sets, regions)."""
        counts = np.maximum(0.0, sets.weight - self.speed)
        value = self.crews.among(sets.crew).values(counts, np.array(dollar))
        value -= dollar * self.sends.home_usd[sets.crew]
        built: Array = np.maximum.reduceat(value, sets.begins.ravel()).reshape(sets.begins.shape)
        return built

    def _in_cells(self, sets: Sets) -> Array:
        """Return what whole machines of each set reach, with each price rounded down to a cell of
        the budget; shape (sets,).
        """
        worth = self._worth(sets, self.dollar)
        total = worth.sum(axis=1) + self.dollar * sets.left + self.fixed
        least = worth - (total - self.limits.needed * (1 - ROOM))[:, None]
        cell = self.limits.most_usd / CELLS
        reached = np.zeros((len(sets.left), CELLS + 1))
        for column in range(sets.places.shape[1]):
            for place in np.unique(sets.places[:, column]).tolist():
                allowance.check()
                rows = np.flatnonzero(sets.places[:, column] == place)
                before = reached[rows]
                after = np.full(before.shape, -np.inf)
                first, end = np.searchsorted(self.crews.place, [place, place + 1])
                at = sets.begins[rows, column][:, None] + np.arange(end - first)
                counts = np.maximum(0.0, sets.weight[at] - self.speed)
                enough = float(least[rows, column].min())
                for k, machines in enumerate(self.machines[first:end]):
                    own = self._worthy(machines, float(counts[:, k].max()), enough)
                    for speed, usd in zip(own.speed.tolist(), own.usd.tolist(), strict=True):
                        step = max(0, int(usd / cell * (1 - ROOM)))
                        if step <= CELLS:
                            there = after[:, step:]
                            gain = before[:, : CELLS + 1 - step] + (speed * counts[:, k])[:, None]
                            np.maximum(there, gain, out=there)
                reached[rows] = after
        last = np.minimum(CELLS, np.floor(sets.left / cell * (1 + ROOM)).astype(np.intp))
        best = np.maximum.accumulate(reached, axis=1)[np.arange(len(last)), last]
        built: Array = best + self.fixed
        return built

    def _worthy(self, machines: Machines, weight: float, least: float) -> Machines:
        """Return the machines of a crew that are worth so much at least."""
        return machines.among(weight * machines.speed - self.dollar * machines.usd >= least)

    def _packed(self, one: Sets, reached: float) -> Open | None:
        """Return a set with what its whole machines reach; None if that is too little."""
        left, dollar = float(one.left[0]), self.dollar
        worth = self._worth(one, dollar)[0]
        spare = float(worth.sum()) + dollar * left + self.fixed - self.limits.needed * (1 - ROOM)
        items, which = [], []
        ends = [*one.begins[0, 1:].tolist(), len(one.crew)]
        for first, end, own in zip(one.begins[0].tolist(), ends, worth.tolist(), strict=True):
            gains, costs, pools = [], [], []
            for k in range(first, end):
                crew, counts = int(one.crew[k]), max(0.0, float(one.weight[k]) - self.speed)
                machines = self._worthy(self.machines[crew], counts, own - spare)
                gains.append(counts * machines.speed)
                costs.append(machines.usd)
                pools.append(machines.pools)
            chosen, rows = best_items(np.concatenate(gains), np.concatenate(costs))
            if len(rows) == 0:
                return None
            items.append(chosen)
            which.append(np.concatenate(pools)[rows])
        needed = self.limits.needed * (1 - ROOM) - self.fixed
        terms = Terms(needed=needed, most_usd=left * (1 + ROOM), dollar=dollar)
        knapsack = Knapsack(items, terms, self.tick)
        if knapsack.reached < needed:
            return None
        found = knapsack.best(terms.most_usd)
        machines_by_pool: dict[int, int] = {}
        for own, k in zip(which, found or (), strict=False):
            for pool in own[k][own[k] >= 0].tolist():
                machines_by_pool[pool] = machines_by_pool.get(pool, 0) + 1
        reached = min(reached, knapsack.reached + self.fixed)
        return Open(places=one.places[0], reached=reached, machines=machines_by_pool)


def _machines_of(node: Node, crews: Crews, sends: Sends, packing: Packing) -> list[Machines]:
    """Return the machines of each crew, sends inside included, without those that others of their
    place beat in each set.
    """
    dollar, speed = node.prices
    partners, places = node.regions[0] - 1, np.unique(crews.place)
    waits = np.maximum(sends.own[:, None], sends.waits[np.ix_(crews.place, places)])
    waits[np.arange(len(waits)), np.searchsorted(places, crews.place)] = np.nan
    ranked = np.sort(waits, axis=1)[:, : len(places) - 1]  # without itself
    most, least = (
        np.maximum(0.0, 1 / each.mean(axis=1) - speed)
        for each in (ranked[:, :partners], ranked[:, -partners:])
    )
    every = [
        packing.machines(int(crew), float(weight), dollar, -np.inf)
        for crew, weight in zip(node.crews, most, strict=True)
    ]
    every = [
        replace(own, usd=own.usd + home)
        for own, home in zip(every, sends.home_usd.tolist(), strict=True)
    ]
    found: list[Machines] = []
    for place in places.tolist():
        first, end = np.searchsorted(crews.place, [place, place + 1])
        own = every[first:end]
        usd = np.concatenate([each.usd for each in own])
        high, low = (
            np.concatenate([w * each.speed for w, each in zip(weight[first:end], own, strict=True)])
            for weight in (most, least)
        )
        # Along a hull there are choices that nobody can have: the bound of all sets lacks them.
        real = np.repeat(crews.most_machines[first:end] < HULL, [len(each.usd) for each in own])
        low = np.where(real, low, -np.inf)
        order = np.lexsort((-low, usd))
        before = np.maximum.accumulate(np.concatenate([[-np.inf], low[order]]))[:-1]
        kept = np.zeros(len(usd), dtype=bool)
        kept[order] = high[order] > before
        ends = np.cumsum([len(each.usd) for each in own])
        found += [
            each.among(some) for each, some in zip(own, np.split(kept, ends[:-1]), strict=True)
        ]
    return found
