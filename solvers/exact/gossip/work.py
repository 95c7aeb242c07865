"""The Lagrangian bound of one node, and which crews it rules out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placer.records import replace

from ..._market.arrays import Array, Indices, Mask
from .crews import Crews
from .node import Box, Node
from .pricing import SPEED

STEPS = np.array([0.0, 1.0, 0.3, 0.1, 0.03, 0.01, -0.01, -0.03, -0.1, -0.3, -1.0])
"""Steps of one price that are tried at once: none, then towards higher and lower ones."""
CYCLES = 4
"""How often each price is looked at."""
GAINED = 0.03
"""Prices are looked at once more where that took so much of what a bound is above what is
needed.
"""
DOUBLINGS = 1.5
"""How often the price of a dollar is doubled in the longest step."""
LOWEST = -2.0
"""Price of a samples/s at least: below 0, each one more than the fewest is worth something."""


@dataclass(kw_only=True)
class Work:
    """A node with what its crews are worth at most, while its prices are improved.

    Notes
    -----
    ``weight`` and ``usd`` are what a samples/s of each crew is worth at most and what the crew pays
    besides its machines at least; shape (crews,).
    """

    node: Node
    crews: Crews
    kinds: tuple[Indices, Indices]
    weight: Array
    usd: Array
    most_usd: float
    reached: float = np.inf

    def __post_init__(self) -> None:
        """Find where the crews of each place begin."""
        self.starts = np.flatnonzero(np.diff(self.crews.place, prepend=-1))
        self.places = self.crews.place[self.starts]
        self.forced = self.node.forced[self.places]
        self.prices = self.node.prices

    def improve(self, needed: float, cycles: int = CYCLES) -> None:
        """Try prices around the best ones so far until the bound is below what is needed.

        Notes
        -----
        The price of a dollar alone, then that of a samples/s where a dollar goes on buying as much,
        then that of a samples/s alone: with weights that are nearly equal, neither gains while the
        other one stays (the bound is linear along the second of the three).
        """
        most = max(float(self.weight.max(initial=0.0)), 1e-9)
        for _ in range(cycles):
            before = self.reached
            for along in range(3):
                dollar, speed = self.prices
                speed = min(speed, SPEED * most)
                speeds = np.full(len(STEPS), speed)
                if along:
                    speeds = np.clip(speed + STEPS, LOWEST * most, SPEED * most)
                factors = (
                    2.0 ** (DOUBLINGS * STEPS),
                    (most - speeds) / (most - speed),
                    np.ones(len(STEPS)),
                )
                self._try(dollar * factors[along], speeds)
                if self.reached < needed:
                    return
            if before - self.reached < GAINED * (self.reached - needed):
                return

    def _try(self, dollars: Array, speeds: Array) -> None:
        """Take the prices with the least bound, if it is less than so far."""
        reached = self.bounds(dollars, speeds)
        at = int(np.argmin(reached))
        if reached[at] < self.reached:
            self.reached = float(reached[at])
            self.prices = float(dollars[at]), float(speeds[at])

    def look(self) -> None:
        """Take the bound at the prices at hand."""
        dollar, speed = (np.array([price]) for price in self.prices)
        self.reached = float(self.bounds(dollar, speed)[0])

    def values(self, dollars: Array, speeds: Array) -> Array:
        """Return what each crew is worth at some prices; shape (prices, crews)."""
        weight = np.maximum(0.0, self.weight - speeds[:, None])
        price = dollars[:, None]
        built: Array = self.crews.values(weight, price) - price * self.usd
        return built

    def limits(self, dollars: Array, speeds: Array) -> Array:
        """Return what both limits are worth at some prices; shape (prices,)."""
        fewest, most = self.node.speeds
        limits = speeds * np.where(speeds < 0, fewest, most)
        return limits + dollars * self.most_usd if self.most_usd < np.inf else limits

    def bounds(self, dollars: Array, speeds: Array) -> Array:
        """Return the bound at some prices; shape (prices,)."""
        worth = np.maximum.reduceat(self.values(dollars, speeds), self.starts, axis=1)
        return self.within(worth, dollars, speeds)

    def within(self, worth: Array, dollars: Array, speeds: Array) -> Array:
        """Return the bound at some prices, with what each place is worth; shape (prices,)."""
        base = self.limits(dollars, speeds)
        built = np.full(len(base), np.inf)
        for kinds, box in self.boxes():
            top = _top(worth, kinds[self.places], box, self.forced, self.node.regions)
            built = np.minimum(built, base + top)
        return built

    def boxes(self) -> list[tuple[Indices, Box]]:
        """List the boxes that say something, one at least."""
        both = list(zip(self.kinds, self.node.boxes, strict=True))
        most = self.node.regions[1]
        some = [
            (kinds, box)
            for kinds, box in both
            if box.low.any() or np.any(box.high < np.minimum(most, np.bincount(kinds)))
        ]
        return some or both[:1]

    def reduced(self, needed: float) -> Node | None:
        """Return the node without crews that no improvement has, with the places that each has;
        None if there is none.
        """
        dollar, speed = (np.array([price]) for price in self.prices)
        values = self.values(dollar, speed)[0]
        worth = np.maximum.reduceat(values, self.starts)
        base = float(self.limits(dollar, speed)[0]) + worth[self.forced].sum()
        free = np.flatnonzero(~self.forced)
        order = free[np.argsort(-worth[free], kind="stable")]
        ranked = worth[order]
        fewest = max(0, self.node.regions[0] - int(self.forced.sum()))
        most = min(self.node.regions[1] - int(self.forced.sum()), len(ranked))
        if fewest > most:
            return None
        taken = max(fewest, int((ranked[:most] > 0).sum()))
        total = base + ranked[:taken].sum()
        within = np.zeros(len(worth), dtype=bool)
        within[order[:taken]] = True
        # One more place among the others: in place of the worst of them, or besides.
        worst = ranked[taken - 1] if taken else 0.0
        full = taken == most or (taken == fewest and worst <= 0)
        other = total - (worst if taken and full else 0.0)
        impossible = most == 0
        # With a crew of a place in it, this is what the rest reaches.
        rest = np.where(self.forced | within, total - worth, other)
        if impossible:
            rest = np.where(self.forced, rest, -np.inf)
        kept = rest[self.rank()] + values >= needed
        # Without a place, the next one takes its part.
        following = ranked[taken] if taken < len(ranked) else -np.inf
        instead = following if taken == fewest else max(0.0, following if taken == most else 0.0)
        must = within & (total - worth + instead < needed)
        forced = self.node.forced.copy()
        forced[self.places[must]] = True
        if not kept.any():
            return None
        return replace(self.node, crews=self.node.crews[kept], forced=forced, prices=self.prices)

    def rank(self) -> Indices:
        """Return which of the places each crew is of; shape (crews,)."""
        rank = np.zeros(len(self.crews.place), dtype=np.intp)
        rank[self.starts[1:]] = 1
        ranks: Indices = np.cumsum(rank)
        return ranks

    def best(self) -> Indices:
        """Return the crews that the bound chooses, one a place; shape (regions,)."""
        dollar, speed = (np.array([price]) for price in self.prices)
        values = self.values(dollar, speed)[0]
        worth = np.maximum.reduceat(values, self.starts)
        first, last = self.node.regions
        used = int(np.clip((worth > 0).sum(), first, last))
        places = self._within_boxes(worth)[:used]
        ends = np.append(self.starts[1:], len(values))
        found = [self.starts[p] + int(np.argmax(values[self.starts[p] : ends[p]])) for p in places]
        return np.array(found, dtype=np.intp)

    def _within_boxes(self, worth: Array) -> Indices:
        """Rank the places: those that are forced, then as many of each class as there must be, then
        all that the boxes have room for.
        """
        order = np.argsort(-np.where(self.forced, np.inf, worth), kind="stable")
        first = self.forced.copy()
        for kinds, box in zip(self.kinds, self.node.boxes, strict=True):
            own = kinds[self.places[order]]
            for kind in np.flatnonzero(box.low).tolist():
                first[order[own == kind][: box.low[kind]]] = True
        left = [box.high.copy() for box in self.node.boxes]
        ranked = []
        for at in [*order[first[order]].tolist(), *order[~first[order]].tolist()]:
            mine = [kinds[self.places[at]] for kinds in self.kinds]
            if all(room[kind] > 0 for room, kind in zip(left, mine, strict=True)):
                ranked.append(at)
                for room, kind in zip(left, mine, strict=True):
                    room[kind] -= 1
        return np.array(ranked, dtype=np.intp)


def _top(worth: Array, kinds: Indices, box: Box, forced: Mask, regions: tuple[int, int]) -> Array:
    """Return the most that so many places are worth within a box; shape (prices,)."""
    none = np.full(len(worth), -np.inf)
    built = worth[:, forced].sum(axis=1)
    fewest, most = (each - int(forced.sum()) for each in regions)
    rest = []
    for kind in range(len(box.low)):
        here = kinds == kind
        inside, own = int((here & forced).sum()), worth[:, here & ~forced]
        low = max(0, int(box.low[kind]) - inside)
        high = min(int(box.high[kind]) - inside, own.shape[1])
        if high < low or high < 0:
            return none
        if high == 0:
            continue
        if low == 0 and (high == own.shape[1] or high >= most):
            rest.append(own)
            continue
        ranked = -np.sort(-own, axis=1)
        built = built + ranked[:, :low].sum(axis=1)
        fewest, most = fewest - low, most - low
        rest.append(ranked[:, low:high])
    fewest = max(fewest, 0)
    if most < 0:
        return none
    if most == 0 or (not rest and fewest == 0):
        return np.asarray(built)
    if not rest:
        return none
    ranked = -np.sort(-np.concatenate(rest, axis=1), axis=1)[:, :most]
    if ranked.shape[1] < fewest:
        return none
    result: Array = (
        built + ranked[:, :fewest].sum(axis=1) + np.maximum(0.0, ranked[:, fewest:]).sum(axis=1)
    )
    return result
