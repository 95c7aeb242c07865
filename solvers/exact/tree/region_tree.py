"""Branch and bound over regions with their numbers of workers, the largest region first."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..._market.arrays import Array
from ..._market.grid import Grid
from ..bounds.exchange_pattern import ExchangePattern
from ..bounds.relaxation import Node, Relaxation
from .children import Children, Placed
from .leaf import Leaf
from .leaf_bound import Tree
from .tree_bound import TreeBound

if TYPE_CHECKING:
    from ..gossip.paces import Paces

PAUSE = 50
"""Nodes after which other trees may have their turn."""
FIRST_LOOK = 3
"""Fewest regions of which more are bounded together: two have an exchange of their own."""


class RegionTree:
    """Branch and bound for one number of workers.

    ``leaf``: builds the enumeration of the machines of some regions. Egress between regions is
    quadratic in their workers, so a bound that only knows which regions are used is weak. With the
    largest region and its count known, every other worker pays at least its pairs with that region:
    linear, hence part of a partial sort. Counts fall along a path, so each split of workers over
    regions is reached once.
    """

    def __init__(
        self,
        relaxation: Relaxation,
        grid: Grid,
        exchange_pattern: ExchangePattern,
        leaf: Callable[[Node], Leaf],
        paces: Paces | None = None,
    ) -> None:
        self.relaxation = relaxation
        self.grid = grid
        self.exchange_pattern = exchange_pattern
        self.leaf = leaf
        self.paces = paces
        self.market, self.target = relaxation.market, relaxation.target
        self.nodes = 0

    @cached_property
    def bound(self) -> TreeBound:
        """Rows and sums of the whole tree."""
        return TreeBound(self.relaxation, self.grid, self.exchange_pattern, paces=self.paces)

    def improvements(self) -> Tree:
        """Yield groups that may improve."""
        if not {*self.market.problem.requirements.required_places} <= {*self.market.places}:
            return
        if not self.close_at_once():
            yield from self._grow(self._root(self.bound))

    def close_at_once(self) -> bool:
        """Return whether a first look at the root closes the tree."""
        # Two rows close nearly every tree whose root is closed by all of them, for half the work.
        glance = TreeBound(
            self.relaxation, self.grid, self.exchange_pattern, paces=self.paces, few=True
        )
        self.target.check_time()
        closed = not Children(glance, self._root(glance)).open.any()
        if closed:
            self.target.tick()
        return closed

    def _root(self, bound: TreeBound) -> Placed:
        """Return the node at which nothing is placed."""
        places = len(self.market.places)
        able = np.zeros(places, dtype=bool)
        able[list(self.market.family_places(self.grid.hosts))] = True
        return Placed(
            regions=(),
            counts=(),
            left=self.exchange_pattern.workers,
            most=self.exchange_pattern.workers - max(1, self.exchange_pattern.fewest - 1),
            after=-1,
            pairs_usd=0.0,
            own_s=0.0,
            wan=0.0,
            base=np.zeros(len(bound.weights)),
            open=able,
            far=np.zeros(places),
            ways_s=np.zeros((2, places)),
            toward=np.zeros(places),
        )

    def _grow(self, node: Placed) -> Tree:
        """Place the next region, the most promising first."""
        self.target.tick()
        self.target.check_time()
        self.nodes += 1
        if self.nodes % PAUSE == 0:
            yield None
        children = Children(self.bound, node)
        for place, count in children.promising():
            # Two tests, the cheaper one first: the incumbent may have improved since the list was
            # made.
            if children.still_open(place, count) and children.own_bound_allows(place, count):
                child = self._child(node, place, count, children.open)
                if child.left:
                    yield from self._grow(child)
                else:
                    yield from self._machines(child)

    def _child(self, node: Placed, place: int, count: int, still_open: Array) -> Placed:
        open_, wan = still_open.copy(), self.relaxation.wan_matrix[place]
        open_[place] = False
        load = 0.0
        if not self.exchange_pattern.by_region:
            load = float(self.relaxation.machine_wan[place]) * (
                self.exchange_pattern.workers - count
            )
        leaders = int(self.exchange_pattern.leaders(np.array(count)))
        return Placed(
            regions=(*node.regions, place),
            counts=(*node.counts, count),
            left=node.left - count,
            most=count,
            after=place,
            pairs_usd=node.pairs_usd + leaders * float(node.toward[place]),
            own_s=max(node.own_s, float(self.exchange_pattern.own_s[place, count])),
            wan=max(
                node.wan, float(node.far[place]), 0.0 if self.exchange_pattern.by_region else load
            ),
            base=node.base if self.paces else node.base + self.bound.sums[:, place, count],
            open=open_,
            far=np.maximum(node.far, wan),
            ways_s=self._ways_s(node, place),
            toward=node.toward + leaders * self.relaxation.pair_usd[place],
        )

    def _ways_s(self, node: Placed, place: int) -> Array:
        hub = self.exchange_pattern.hub
        return node.ways_s if hub is None else np.maximum(node.ways_s, hub.seconds[:, place])

    def _machines(self, node: Placed) -> Tree:
        """Enumerate the machines of a known split."""
        order = np.argsort(node.regions).tolist()
        used = tuple(int(node.regions[k]) for k in order)
        leaf = self.leaf(Node(used, (), np.array([self.exchange_pattern.workers]), node.wan))
        yield from leaf.improvements([node.counts[k] for k in order])


class FewerRegions:
    """Trees by number of workers and regions, where the root of so many regions bounds more.

    ``tree``: returns the tree of so many workers over so many regions, whose root bounds up to as
    many as it is told. ``most_regions``: as many as there may be.
    """

    def __init__(self, tree: Callable[[int, int, int], RegionTree], most_regions: int) -> None:
        self.tree, self.most_regions = tree, most_regions
        # By number of workers: from how many regions on all trees are closed, and from how many on
        # another look is worth its time.
        self._closed: dict[int, int] = {}
        self._next_look: dict[int, int] = {}

    def improvements(self, workers: int, regions: int) -> Tree:
        """Yield groups that may improve, of so many workers over so many regions."""
        known, most = self._closed.get(workers, math.inf), min(workers, self.most_regions)
        if self._next_look.get(workers, FIRST_LOOK) <= regions < min(known, most):
            self._next_look[workers] = 2 * regions
            if self.tree(workers, regions, most).close_at_once():
                known = self._closed[workers] = regions
        if regions >= known:
            return iter(())
        return self.tree(workers, regions, regions).improvements()
