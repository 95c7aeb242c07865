"""Leaves: the machines of one set of regions and one number of workers, first the split over
regions, then the counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._market.arrays import Array, Indices
from ..bounds.relaxation import margin
from .fronts import Fronts
from .interleaving import Tree
from .leaf_bound import LeafBound
from .machines import MachineTree

MOST_SPLITS = 200_000
"""A set of regions with more open splits of workers than this is skipped, and nothing is proved."""


class Leaf:
    """Enumeration of one leaf: exact egress and exchange time, regions and N fixed.

    Parameters
    ----------
    bound
        Regions, number of workers and hosts, with what a placement of them must reach.

    Attributes
    ----------
    prices
        The tightest prices of a dollar, where somebody has looked for them.
    """

    def __init__(self, bound: LeafBound) -> None:
        self.bound, self.node, self.family, self.workers = (
            bound,
            bound.node,
            bound.family,
            bound.workers,
        )
        self.relaxation, self.market, self.target = bound.relaxation, bound.market, bound.target
        self.prices: Array | None = None

    def improvements(self) -> Tree:
        """Yield groups that may improve, the most promising split of workers over regions first."""
        used = np.array(self.node.used, dtype=np.intp)
        sums = [
            self.market.total_sums(used[k : k + 1], self.family.hosts, self.workers, used)
            for k in range(len(used))
        ]
        splits, reached = self._splits(sums)
        if len(splits) == 0:
            return
        margins = margin(reached, self.bound.thresholds(splits))
        for at in np.argsort(-margins, kind="stable"):
            if margins[at] < 0:
                return
            split = splits[at : at + 1]
            if margin(reached[:, [at]], self.bound.thresholds(split))[0] >= 0:
                yield from self.machines(
                    split, [part[:, int(n)] for part, n in zip(sums, split[0], strict=True)]
                )

    def improvements_at(self, counts: Sequence[int]) -> Tree:
        """Yield groups that may improve with so many workers in each of the regions."""
        used, split = np.array(self.node.used, dtype=np.intp), np.array([counts])
        sums = [
            self.market.total_sums(np.array([place]), self.family.hosts, self.workers, used)
            for place in self.node.used
        ]
        parts = [part[:, int(n)] for part, n in zip(sums, counts, strict=True)]
        if margin(np.sum(parts, axis=0)[:, None], self.bound.thresholds(split))[0] >= 0:
            yield from self.machines(split, parts)

    def machines(self, split: Indices, sums: list[Array]) -> Tree:
        """Yield the machines of a known split that may improve; ``sums`` are the best of each
        region at its count.
        """
        for family in self.relaxation.parts_at(self.family, self.node):
            yield from self._machines_of(self.bound.of_family(family), split, sums)

    def _machines_of(self, bound: LeafBound, split: Indices, sums: list[Array]) -> Tree:
        if (
            self.relaxation.mode.speed_and_price_decide
            and self.market.way_usd(self.node.used) is not None
        ):
            egress_usd = float(bound.egress_usd(split)[0])
            for hosts in bound.host_runs(split):
                yield from Fronts(bound, hosts, split, egress_usd, self.prices).improvements()
        elif self._allows_required(split, sums):
            yield from MachineTree(bound, split, sums).improvements()

    def _allows_required(self, split: Indices, sums: list[Array]) -> bool:
        """Return whether a split may improve with the machines that must be used."""
        if not self.market.required_machines.rules:
            return True
        total = self.market.total_sums(
            np.array(self.node.used, dtype=np.intp), self.family.hosts, self.workers
        )[:, [self.workers]]
        return bool(
            margin(np.minimum(np.sum(sums, axis=0)[:, None], total), self.bound.thresholds(split))[
                0
            ]
            >= 0
        )

    def _splits(self, sums: list[Array]) -> tuple[Indices, Array]:
        """Return the workers per region that may improve, region after region; shapes (splits,
        regions) and (rows, splits).
        """
        if len(self.node.used) == 1:
            return self._alone(sums[0])
        workers, rooms = self.workers, self.relaxation.room(self.family)
        room = [min(int(rooms[p]), workers) for p in self.node.used]
        splits, reached = np.zeros((1, 0), dtype=np.intp), np.zeros((len(self.market.weights), 1))
        used = np.array(self.node.used, dtype=np.intp)
        total = self.market.total_sums(used, self.family.hosts, workers)[:, [workers]]
        for k in range(len(self.node.used)):
            self.target.tick()
            self.target.check_time()
            # Too many to list. The search goes on, but says that it has proved nothing.
            if len(splits) * (room[k] + 1) > MOST_SPLITS:
                self.target.skipped = True
                return splits[:0], reached[:, :0]
            left = workers - splits.sum(axis=1)
            later = len(self.node.used) - k - 1
            parent, count = np.nonzero(np.ones((len(splits), room[k] + 1)))
            after = left[parent] - count
            keep = (count >= 1) & (after >= later) & (after <= sum(room[k + 1 :]))
            parent, count, after = parent[keep], count[keep], after[keep]
            splits = np.column_stack([splits[parent], count])
            reached = reached[:, parent] + sums[k][:, count]
            # Machines of the regions to come at their best, and never above the best of all
            # together.
            rest = self.market.total_sums(used[k + 1 :], self.family.hosts, workers, used)
            open_ = (
                margin(np.minimum(reached + rest[:, after], total), self.bound.thresholds(splits))
                >= 0
            )
            open_ &= sums[k][0, count] >= self.bound.needed_speed(k)
            splits, reached = splits[open_], reached[:, open_]
        return splits, reached

    def _alone(self, sums: Array) -> tuple[Indices, Array]:
        """Return `_splits` of one region: all workers, or nothing."""
        self.target.tick()
        self.target.check_time()
        split, reached = np.array([[self.workers]], dtype=np.intp), sums[:, [self.workers]]
        room = self.relaxation.room(self.family)[self.node.used[0]]
        if room < self.workers or reached[0, 0] < self.bound.needed_speed(0):
            return split[:0], reached[:, :0]
        return split, reached
