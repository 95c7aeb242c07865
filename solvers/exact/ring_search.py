"""Search of placements that average in a ring: within a region as any average among all, over
several ones by their number, then regions, then machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from .._market.arrays import Array, Indices
from .._market.grid import grid_of
from .._market.market import Market
from .._mode import Mode
from .._target import Target
from .allreduce_search import ButterflySearch
from .bounds.exchange_pattern import ExchangePattern
from .bounds.relaxation import Family, Node
from .bounds.ring import ANY_WAYS, PAIR, RingRelaxation, longer
from .tree.leaf import Leaf
from .tree.leaf_bound import LeafBound, interleave
from .tree.region_tree import FewerRegions, RegionTree


class RingLeafBound(LeafBound):
    """Thresholds of a leaf whose regions a ring passes, all edges known."""

    def __init__(self, relaxation: RingRelaxation, node: Node, family: Family) -> None:
        super().__init__(relaxation, node, family)
        self.rings = relaxation

    def between_s(self) -> tuple[float, float]:
        """Return the least and the most seconds between the regions."""
        seconds = self.rings.between_s(self.node.used, self.workers)
        return seconds, longer(seconds)

    def egress_usd(self, splits: Indices) -> Array:
        """Return the egress of one exchange; shape (splits,)."""
        return self.rings.ring_usd(self.node.used, splits)


class RingSearch(ButterflySearch):
    """Branch and bound over placements that average in a ring."""

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        super().__init__(market, target, mode)
        self.relaxation: RingRelaxation = RingRelaxation(
            market, target, mode, self.first, self.most
        )
        self._of_regions: dict[tuple[int, int], RingRelaxation] = {}

    def aim(self, target: Target) -> None:
        """Search for another target in the same market."""
        super().aim(target)
        for relaxation in self._of_regions.values():
            relaxation.target = target

    def _rings(self, regions: int, most: int) -> RingRelaxation:
        """Return the bounds of rings over so many regions, up to so many."""
        if (regions, most) not in self._of_regions:
            self._of_regions[regions, most] = self.relaxation.of_regions(regions, most)
        return self._of_regions[regions, most]

    def _ring_margins(self, family: Family) -> list[tuple[float, int, int]]:
        """List margin, number of regions and number of workers of rings over several regions."""
        built: list[tuple[float, int, int]] = []
        places = self.relaxation.places(family)
        fewest = max(PAIR, self.fewest_regions)
        if not self._any_ring(places, fewest, family):
            return built
        for regions in range(fewest, self.ranges.most_regions + 1):
            workers = np.arange(max(self.first, regions), self.most + 1)
            if len(places) < regions or len(workers) == 0:
                break
            self.target.check_time()
            rings = self._rings(regions, regions)
            node = Node((), places, workers, rings.fastest_pair, regions)
            margins = rings.bound(node, family).margins(node.wan_s_per_pair_byte)
            margins[~rings.awaited(workers, family)] = -np.inf
            # From here on more regions mean more edges over the same ways: no bound gets better.
            if regions > ANY_WAYS and not np.any(margins >= 0):
                break
            rows = zip(margins.tolist(), workers.tolist(), strict=True)
            built += [(margin, regions, n) for margin, n in rows]
        return built

    def _any_ring(self, places: tuple[int, ...], fewest: int, family: Family) -> bool:
        """Return whether a ring over any number of regions may be an improvement: over more of them
        no way is faster than one of any number of edges, and no fewer edges are paid for.
        """
        workers = np.arange(max(self.first, fewest), self.most + 1)
        if len(places) < fewest or len(workers) == 0:
            return False
        self.target.check_time()
        more = max(fewest, ANY_WAYS + 1)
        rings = self._rings(more, more)
        node = Node((), places, workers, rings.fastest_pair, fewest)
        margins = rings.bound(node, family).margins(node.wan_s_per_pair_byte)
        return bool(np.any(margins[rings.awaited(workers, family)] >= 0))

    def _spread_margins(self, family: Family) -> list[tuple[int, float]]:
        """Return numbers of workers with their margins over several regions."""
        return [(n, margin) for margin, _, n in self._ring_margins(family)]

    def _several_regions(self, family: Family) -> Iterator[None]:
        """Search a tree for each number of regions and of workers, the most promising first."""
        open_ = sorted(
            (-margin, r, n) for margin, r, n in self._ring_margins(family) if margin >= 0
        )
        trees = FewerRegions(partial(self._ring_tree, family), self.ranges.most_regions)
        yield from interleave(
            (partial(trees.improvements, n, regions) for _, regions, n in open_), self._offer
        )

    def _ring_tree(self, family: Family, workers: int, regions: int, most: int) -> RegionTree:
        """Return the tree of so many workers over so many regions.

        With more regions allowed, up to ``most``, its root bounds them too: each region pays for
        its two edges whatever their number is, so more of them pay more; no way is faster than with
        the most of them, and fewest edges are at home then.
        """
        rings = self._rings(regions, most)
        home = rings.home_usd(rings.places(family), workers - most)
        pattern = ExchangePattern(
            workers=workers,
            fewest=regions,
            most=regions,
            by_region=True,
            pair_bytes=rings.pair_bytes(workers),
            own_s=np.full((len(self.market.places), workers + 1), family.averaging_s[workers]),
            home_usd=rings.pair_bytes(workers) * home,
        )
        grid = grid_of(self.market, family.hosts, self.most)
        return RegionTree(rings, grid, pattern, partial(self._ring_leaf, rings, family))

    def _ring_leaf(self, rings: RingRelaxation, family: Family, node: Node) -> Leaf:
        return Leaf(RingLeafBound(rings, node, family))
