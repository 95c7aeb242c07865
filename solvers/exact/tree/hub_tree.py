"""Branch and bound over placements whose regions meet at a hub: hub, number of regions, workers of
the largest one, level of the slowest way, then regions.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from placer.records import replace
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices, Mask
from ..._target import Target
from ..bounds.hub_levels import HubLevels
from ..bounds.relaxation import margin, priced_rows
from ..leaves.interleaving import Tree

ALIKE = 0.001
"""Ranges that differ by at most this share of a round are not cut further."""
PAUSE = 20
"""Nodes after which another mode may have its turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """Placements around one hub.

    Notes
    -----
    ``regions`` and ``largest``, the workers of the largest region, are ranges with both ends
    included; the slowest way to the hub and back takes more than ``below`` seconds and at most
    ``level``. ``used`` are the regions that every placement has beside the hub, ``able`` those that
    some may have; shape (places,) each.
    """

    hub: int
    regions: tuple[int, int]
    largest: tuple[int, int]
    below: float
    level: float
    used: Mask
    able: Mask


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounded:
    """A node whose regions are settled as far as its bound tells, with the worth of each place in
    the row that has least to spare; shape (places,).
    """

    margin: float
    node: Node
    worth: Array


class HubTree:
    """Best-first branch and bound over the hubs of one family of hosts.

    Parameters
    ----------
    levels
        Worth of the places, ways and prices to each hub.
    target
        What an improvement must reach.
    leaf
        Enumerates the machines of some regions, by index of their places.

    Notes
    -----
    Where hub, level and largest region are known, the rest is a knapsack with one item a region and
    a threshold that is nearly exact: its relaxation either closes a node or has few choices left. A
    set of regions that several hubs leave open is enumerated once, with all hubs.
    """

    def __init__(
        self, levels: HubLevels, target: Target, leaf: Callable[[tuple[int, ...]], Tree]
    ) -> None:
        self.levels, self.target, self.leaf = levels, target, leaf
        self.mode, self.grid = levels.mode, levels.grid
        self._limits: tuple[float, ...] = ()
        self._done: set[tuple[int, ...]] = set()
        self._inside: dict[int, float] = {}
        self._data_usd = min(levels.market.data_usd[p] for p in levels.places)

    def improvements(self, regions: Indices) -> Tree:
        """Yield groups that may improve, over the numbers of regions that are given."""
        number, nodes = count(), 0
        heap: list[tuple[float, int, Node]] = []
        for found, node in self._first(regions):
            heapq.heappush(heap, (-found, next(number), node))
        while heap:
            _, _, node = heapq.heappop(heap)
            self.target.tick()
            nodes += 1
            if nodes % PAUSE == 0:
                yield None
            bounded = self._bounded(node)
            if bounded is None:
                continue
            children = self._children(bounded)
            if children is None:
                yield from self._machines(bounded.node)
                continue
            for child in children:
                heapq.heappush(heap, (-bounded.margin, next(number), child))

    def _first(self, regions: Indices) -> Iterator[tuple[float, Node]]:
        """Yield what is open of every hub and level, with its margin."""
        levels, most = self.levels, int(regions.max())
        none = np.zeros(len(levels.places), dtype=bool)
        for frames in levels.frames(self.target):
            self.target.check_time()
            margins = levels.margins(frames, self.target, most)[:, regions - 1]
            # A hub that stays alone has no way.
            for at in np.flatnonzero((margins >= 0).any(axis=1)).tolist():
                open_ = regions[margins[at] >= 0]
                able = frames.near[at].copy()
                able[levels.hubs[at]] = False
                node = Node(
                    hub=at,
                    regions=(int(open_.min()), int(open_.max())),
                    largest=(frames.fewest, frames.most),
                    below=frames.least_s,
                    level=frames.most_s,
                    used=none,
                    able=able,
                )
                yield float(margins[at].max()), node

    def _aim(self) -> None:
        """Work out what depends on the target alone."""
        target = self.target
        if target.limits == self._limits:
            return
        self._limits = target.limits
        limited = np.flatnonzero(np.any(self.grid.weights[:, 2:] > 0, axis=1))
        rows = np.union1d(priced_rows(self.grid.weights, self.mode, target), limited)
        self._rows, self._weights = rows, self.grid.weights[rows]
        self._paid = self._weights[:, 1] * (
            SECONDS_PER_HOUR * self.mode.multiplier / self.mode.samples * target.min_speed
        )
        self._round_s = self.mode.seconds_at(target.min_speed)
        self._each: dict[tuple[int, int], Array] = {}

    def _worth(self, hub: int, most: int) -> Array:
        """Return what each place is worth less its egress; shape (rows, places)."""
        if (hub, most) not in self._each:
            usd, paid = self.levels.usd[hub], self._paid[:, None]
            with np.errstate(invalid="ignore"):
                charge = np.where(paid > 0, paid * usd, 0.0)
            self._each[hub, most] = self.levels.worth(most)[self._rows] - charge
        return self._each[hub, most]

    def _inside_s(self, largest: int) -> float:
        if largest not in self._inside:
            self._inside[largest] = self.levels.inside_s(largest)
        return self._inside[largest]

    def _seconds(self, node: Node, regions: int) -> float:
        """Return the least seconds of a round beside the calculation."""
        load = 2 * float(self.levels.load_s[self.levels.hubs[node.hub]]) * (regions - 1)
        ways = self.levels.ways[node.hub][node.used]
        way = max(node.below, float(ways.max(initial=0.0)), load)
        return self._inside_s(node.largest[0]) + way

    def _bounded(self, node: Node) -> Bounded | None:
        """Return a node without places that no improvement has, and with those that each has; None
        if there is none.
        """
        self._aim()
        node = replace(node, able=node.able & (self.levels.ways[node.hub] <= node.level))
        while True:
            used = int(node.used.sum()) + 1
            fewest = max(node.regions[0] - used, 0)
            most = min(node.regions[1] - used, int(node.able.sum()))
            if fewest > most:
                return None
            node = replace(node, regions=(fewest + used, most + used))
            each = self._worth(node.hub, node.largest[1])
            needed = self.target.thresholds(
                self.mode,
                self._weights,
                np.full(1, self._seconds(node, fewest + used)),
                np.zeros(1),
                self._data_usd,
                np.zeros(1),
            )
            own = each[:, self.levels.hubs[node.hub]] + each[:, node.used].sum(axis=1)
            at = np.flatnonzero(node.able)
            free = each[:, at]
            ranked = -np.sort(-free, axis=1)
            taken = np.clip((ranked > 0).sum(axis=1), fewest, most)
            sums = np.concatenate([np.zeros((len(ranked), 1)), np.cumsum(ranked, axis=1)], axis=1)
            rows = np.arange(len(ranked))
            reached = own + sums[rows, taken]
            found = float(margin(reached[:, None], needed)[0])
            if found < 0:
                return None
            out, must = settled(reached - needed[:, 0], free, ranked, taken, (fewest, most))
            if not out.any() and not must.any():
                scale = np.maximum(np.abs(np.where(np.isfinite(needed), needed, 1.0)), 1e-9)[:, 0]
                with np.errstate(invalid="ignore"):
                    tightest = int(np.nanargmin((reached - needed[:, 0]) / scale))
                return Bounded(margin=found, node=node, worth=each[tightest])
            able, kept = node.able.copy(), node.used.copy()
            able[at[out | must]] = False
            kept[at[must & ~out]] = True
            if (out & must).any():
                return None
            node = replace(node, able=able, used=kept)

    def _children(self, bounded: Bounded) -> list[Node] | None:
        """Return the parts of a node; None if its regions are known."""
        node = bounded.node
        if not node.able.any():
            return None
        alike = ALIKE * self._round_s
        low, high = node.largest
        if low < high and self._inside_s(high) - self._inside_s(low) > alike:
            middle = (low + high) // 2
            return [replace(node, largest=(low, middle)), replace(node, largest=(middle + 1, high))]
        first, last = node.regions
        if self._seconds(node, last) - self._seconds(node, first) > alike:
            middle = (first + last) // 2
            return [
                replace(node, regions=(first, middle)),
                replace(node, regions=(middle + 1, last)),
            ]
        ways = np.unique(self.levels.ways[node.hub][node.able | node.used])
        now = self._seconds(node, first) - self._inside_s(low)
        ways = ways[(ways > now) & (ways <= node.level)]
        if len(ways) > 1 and ways[-1] - now > alike:
            way = float(ways[(len(ways) - 1) // 2])
            return [replace(node, level=way), replace(node, below=way)]
        at = np.flatnonzero(node.able)
        place = int(at[np.argmax(bounded.worth[at])])
        able, used = node.able.copy(), node.used.copy()
        able[place], used[place] = False, True
        return [replace(node, able=able, used=used), replace(node, able=able)]

    def _machines(self, node: Node) -> Tree:
        """Enumerate the machines of regions that are known, once."""
        chosen = node.used.copy()
        chosen[self.levels.hubs[node.hub]] = True
        places = tuple(sorted(self.levels.places[chosen].tolist()))
        if places not in self._done:
            self._done.add(places)
            yield from self.leaf(places)


def settled(
    spare: Array, free: Array, ranked: Array, taken: Indices, range_: tuple[int, int]
) -> tuple[Mask, Mask]:
    """Return which free places no improvement has, and which each has: by what a row loses if one
    joins or stays away; shape (free,) each.

    Parameters
    ----------
    spare
        What each row reaches above its threshold; shape (rows,).
    free, ranked
        Worth of the places, and the same from the best down; shape (rows, free).
    taken
        How many of the best are chosen; shape (rows,).
    range_
        Fewest and most that may be.
    """
    if free.shape[1] == 0:
        none = np.zeros(0, dtype=bool)
        return none, none
    fewest, most = range_
    rows = np.arange(len(ranked))
    # The least worth that is chosen, and the most worth that is not; none is as good as free.
    last = np.where(taken > 0, ranked[rows, np.maximum(taken - 1, 0)], np.inf)
    beyond = taken < ranked.shape[1]
    further = np.where(beyond, ranked[rows, np.minimum(taken, ranked.shape[1] - 1)], -np.inf)
    chosen = (free >= last[:, None]) & (taken > 0)[:, None]
    with np.errstate(invalid="ignore"):
        # It joins in place of the last one, or beside it where there is room.
        room = np.where((taken < most)[:, None], 0.0, np.inf)
        loss = np.where(taken[:, None] > 0, np.minimum(last[:, None], room), room)
        joined = np.where(chosen, spare[:, None], spare[:, None] + free - loss)
        # It stays away, and the next one joins if that is better or one must.
        instead = np.maximum(further, np.where(taken > fewest, 0.0, -np.inf))
        away = np.where(chosen, spare[:, None] - free + instead[:, None], spare[:, None])
    out = np.nan_to_num(joined, nan=0.0, posinf=0.0, neginf=-1.0).min(axis=0) < 0
    must = np.nan_to_num(away, nan=0.0, posinf=0.0, neginf=-1.0).min(axis=0) < 0
    return out, must
