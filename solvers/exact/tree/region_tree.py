"""Several regions: they are placed one after the other with their numbers of workers, the largest
first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..._market.arrays import Array
from ..._market.grid import Grid
from ..bounds.meeting import Meeting
from ..bounds.relaxation import Node, Relaxation, margin
from .children import Children
from .interleaving import Tree
from .leaf import Leaf

PAUSE = 50
"""Nodes after which other trees may have their turn."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Regions whose number of workers is known.

    Notes
    -----
    ``left`` workers have no region yet; no region to come has more than ``most``, and one with as
    many comes after ``after``. ``pairs_usd`` is the price of a byte over all pairs of heads that
    are placed, ``own_s`` the longest averages inside a region, ``wan`` the slowest pair (seconds
    per pair byte), ``base`` the best sums of the placed regions by row. By place: ``open`` may
    still be used, ``far`` is its slowest pair with a placed region, ``toward`` the price of a byte
    of one head with all placed ones.
    """

    regions: tuple[int, ...]
    counts: tuple[int, ...]
    left: int
    most: int
    after: int
    pairs_usd: float
    own_s: float
    wan: float
    base: Array
    open: Array
    far: Array
    toward: Array


class LargestFirst:
    """Branch and bound for one number of workers.

    Parameters
    ----------
    relaxation
        Bounds of the market.
    grid
        Best sums of the hosts that may be used.
    meeting
        How the regions meet.
    leaf
        Builds the enumeration of the machines of some regions.

    Notes
    -----
    Egress between regions is quadratic in their workers, so a bound that only knows which regions
    are used is weak. With the largest region and its count known, every other worker pays at least
    its pairs with that region: linear, hence part of a partial sort. Counts fall along a path, so
    each split of workers over regions is reached once. ``least`` has the places that must be used,
    with their fewest machines: a node that has no room for them is cut.
    """

    def __init__(
        self, relaxation: Relaxation, grid: Grid, meeting: Meeting, leaf: Callable[[Node], Leaf]
    ) -> None:
        self.relaxation, self.meeting, self.leaf = relaxation, meeting, leaf
        self.market, self.target, self.mode = relaxation.market, relaxation.target, relaxation.mode
        self.data_usd = min(self.market.data_usd)
        self.nodes = 0
        least_s = float(np.nanmin(meeting.own_s[:, -(-meeting.workers // meeting.most) :]))
        rows = grid.rows(
            self.needed(grid.weights, np.full(1, least_s), np.full(1, meeting.home_usd))[:, 0],
            meeting.workers,
        )
        self.rows, self.grid, self.hosts = rows, grid, grid.hosts
        self.weights = grid.weights[rows]
        self.sums, self.steps = (
            grid.sums[rows, :, : meeting.workers + 1],
            grid.steps[rows, :, : meeting.workers],
        )
        self.least = grid.least

    def needed(self, weights: Array, communication_s: Array, egress_usd: Array) -> Array:
        """Thresholds of an improvement; infinite where the egress is; shape (rows, communication)."""
        finite = np.where(np.isfinite(egress_usd), egress_usd, 0.0)
        built = self.target.thresholds(
            self.mode,
            weights,
            communication_s,
            finite,
            self.data_usd,
            np.zeros(len(communication_s)),
        )
        return np.where(np.isfinite(egress_usd), built, np.inf)

    def improvements(self) -> Tree:
        """Yield groups that may improve."""
        if not {*self.market.problem.requirements.required_places} <= {*self.market.places}:
            return
        places = len(self.market.places)
        able = np.zeros(places, dtype=bool)
        able[list(self.market.family_places(self.hosts))] = True
        root = Placed(
            regions=(),
            counts=(),
            left=self.meeting.workers,
            most=self.meeting.workers - max(1, self.meeting.fewest - 1),
            after=-1,
            pairs_usd=0.0,
            own_s=0.0,
            wan=0.0,
            base=np.zeros(len(self.weights)),
            open=able,
            far=np.zeros(places),
            toward=np.zeros(places),
        )
        yield from self._grow(root)

    def _grow(self, node: Placed) -> Tree:
        """Place the next region, the most promising first."""
        self.target.tick()
        self.target.check_time()
        self.nodes += 1
        if self.nodes % PAUSE == 0:
            yield None
        children = Children(self, node)
        for place, count in children.promising():
            if children.still(place, count) and children.glimpse(place, count):
                child = self._child(node, place, count, children.open)
                if child.left:
                    yield from self._grow(child)
                else:
                    yield from self._machines(child)

    def _child(self, node: Placed, place: int, count: int, still_open: Array) -> Placed:
        open_, wan = still_open.copy(), self.relaxation.wan_matrix[place]
        open_[place] = False
        heads = int(self.meeting.heads(np.array(count)))
        return Placed(
            regions=(*node.regions, place),
            counts=(*node.counts, count),
            left=node.left - count,
            most=count,
            after=place,
            pairs_usd=node.pairs_usd + heads * float(node.toward[place]),
            own_s=max(node.own_s, float(self.meeting.own_s[place, count])),
            wan=max(node.wan, float(node.far[place])),
            base=node.base + self.sums[:, place, count],
            open=open_,
            far=np.maximum(node.far, wan),
            toward=node.toward + heads * self.market.both_ways[place],
        )

    def _machines(self, node: Placed) -> Tree:
        """Enumerate the machines of a known split."""
        order = np.argsort(node.regions)
        used = tuple(int(node.regions[k]) for k in order)
        among = np.array(used, dtype=np.intp)
        split = np.array([[node.counts[k] for k in order]])
        leaf = self.leaf(Node(used, (), np.array([self.meeting.workers]), node.wan))
        sums = [
            self.market.total_sums(np.array([place]), self.hosts, self.meeting.workers, among)
            for place in used
        ]
        parts = [part[:, int(n)] for part, n in zip(sums, split[0], strict=True)]
        if margin(np.sum(parts, axis=0)[:, None], leaf.thresholds(split))[0] >= 0:
            yield from leaf.machines(split, parts)
