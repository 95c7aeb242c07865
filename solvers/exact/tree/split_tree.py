"""Branch and bound over how many workers each region of an all-reduce has: groups of regions are
split until every region is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer.records import replace
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array
from ..bounds.dendrogram import Dendrogram
from ..bounds.meeting import Meeting
from ..bounds.relaxation import Node, margin
from ..bounds.spread import Frame, Spread
from .interleaving import Tree
from .leaf import Leaf
from .tree_bound import TreeBound

PAUSE = 50
"""Nodes after which other trees may have their turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parted:
    """Groups whose number of workers is known.

    Notes
    -----
    ``counts`` are the workers of the places that are known, by place, and ``groups`` those of the
    groups that are not: at least one each. ``total`` is what they reach at most in each row. By
    group: ``dearer`` is what a byte each way with all known workers costs above the prices of the
    dendrogram, ``far`` the slowest pair with a known place that any worker there has at least.
    ``wan`` is the slowest pair.
    """

    counts: dict[int, int]
    groups: dict[int, int]
    total: Array
    dearer: Array
    far: Array
    wan: float


class SplitTree:
    """Branch and bound for one number of workers and one level of the slowest pair.

    Parameters
    ----------
    spread
        Bounds of the family of hosts.
    meeting
        How many workers meet, in how many regions.
    frame
        Places and the level.
    leaf
        Builds the enumeration of the machines of some regions.

    Notes
    -----
    A node splits the workers of a group over its two parts; the best sums of all groups are known,
    so with one row a node is only reached if some split below it reaches the threshold with the
    prices of the dendrogram. Known places correct these prices: each worker elsewhere pays the
    cheapest true pair of its group with them.
    """

    def __init__(
        self, spread: Spread, meeting: Meeting, frame: Frame, leaf: Callable[[Node], Leaf]
    ) -> None:
        self.spread, self.meeting, self.frame, self.leaf = spread, meeting, frame, leaf
        self.relaxation = spread.relaxation
        self.market, self.target = spread.market, spread.relaxation.target
        self.nodes = 0
        self._limits: tuple[float, ...] = ()
        self._needed: dict[float, Array] = {}

    def improvements(self) -> Tree:
        """Yield groups that may improve."""
        required = {*self.market.problem.requirements.required_places}
        if not required <= {*self.market.places} or len(self.frame.places) < 2:
            return
        self.target.check_time()
        self.bound = TreeBound(self.relaxation, self.spread.grid, self.meeting)
        self.wan = self.relaxation.wan_matrix[np.ix_(self._places, self._places)]
        self.tree = Dendrogram(self.market.both_ways[np.ix_(self._places, self._places)])
        self._measure()
        workers, last = self.meeting.workers, len(self.reached) - 1
        if self.reached[last].shape[1] <= workers:
            return
        root = Parted(
            counts={},
            groups={last: workers},
            total=self.reached[last][:, workers],
            dearer=np.zeros(len(self.reached)),
            far=np.zeros(len(self.reached)),
            wan=max(self.frame.below, self.relaxation.fastest_pair),
        )
        yield from self._grow(root)

    @cached_property
    def _places(self) -> Array:
        return np.array(self.frame.places, dtype=np.intp)

    def _measure(self) -> None:
        """Work out what each group reaches, and the least of its pairs with each place."""
        bound, workers = self.bound, np.array([self.meeting.workers])
        rounds_per_hour = (
            SECONDS_PER_HOUR * bound.mode.multiplier / bound.mode.samples * self.target.min_speed
        )
        self.charge = bound.weights[:, 1] * (rounds_per_hour * self.meeting.pair_bytes)
        known, inside = {int(p): at for at, p in enumerate(self.spread.places)}, np.ones(1, bool)
        needed = self._least(max(self.frame.below, self.relaxation.fastest_pair))
        leaves = [
            self.spread.leaf(
                bound.rows, workers, self.charge[:, None], needed[:, None], known[place], inside
            )[:, 0]
            for place in self.frame.places
        ]
        self.reached = self.tree.best(leaves, self.charge, self.meeting.workers)
        places = len(self.frame.places)
        members = [np.array([at]) for at in range(places)]
        prices = np.zeros((places, places))
        near, cheap = [*self.wan.T], [*self.tree.usd.T]
        self.across = [0.0] * places
        for merge in self.tree.merges:
            one, other = members[merge.one], members[merge.other]
            prices[np.ix_(one, other)] = prices[np.ix_(other, one)] = merge.usd
            self.across.append(float(near[merge.other][one].min()))
            near.append(np.minimum(near[merge.one], near[merge.other]))
            cheap.append(np.minimum(cheap[merge.one], cheap[merge.other]))
            members.append(np.concatenate([one, other]))
        self.near = np.array(near).T
        first = np.array([group[0] for group in members])
        self.above = np.maximum(np.array(cheap).T - prices[:, first], 0.0)

    def _least(self, wan: float) -> Array:
        """Return the thresholds of an improvement whose slowest pair takes so long at least; shape
        (rows,).
        """
        if self.target.limits != self._limits:
            self._limits, self._needed = self.target.limits, {}
        if wan not in self._needed:
            seconds = float(self.spread.family.averaging_s[self.meeting.workers])
            self._needed[wan] = self.bound.needed(
                self.bound.weights,
                np.array([seconds + self.meeting.wan_s(wan)]),
                np.zeros(1),
            )[:, 0]
        return self._needed[wan]

    def _grow(self, node: Parted) -> Tree:
        """Split a group, the most promising way first."""
        self.target.tick()
        self.nodes += 1
        if self.nodes % PAUSE == 0:
            yield None
        if not self._may_improve(node):  # the incumbent may be a better one by now
            return
        if not node.groups:
            yield from self._machines(node)
            return
        for child in self._children(node):
            yield from self._grow(child)

    def _may_improve(self, node: Parted) -> bool:
        regions, meeting = len(node.counts) + len(node.groups), self.meeting
        if regions > meeting.most or (not node.groups and regions < meeting.fewest):
            return False
        wan = max([node.wan, *(float(node.far[group]) for group in node.groups)])
        if wan > self.frame.level:
            return False
        return bool(margin(node.total[:, None], self._least(wan)[:, None])[0] >= 0)

    def _children(self, node: Parted) -> Iterator[Parted]:
        """Yield the ways to split the largest group."""
        group = max(node.groups, key=lambda name: (node.groups[name], name))
        workers, merge = node.groups[group], self.tree.merges[group - len(self.frame.places)]
        one, other = self.reached[merge.one], self.reached[merge.other]
        counts = np.arange(max(0, workers - other.shape[1] + 1), min(workers, one.shape[1] - 1) + 1)
        rest = workers - counts
        pairs = (
            merge.usd * counts * rest
            + node.dearer[merge.one] * counts
            + node.dearer[merge.other] * rest
            - node.dearer[group] * workers
        )
        before = (node.total - self.reached[group][:, workers])[:, None]
        total = before + one[:, counts] + other[:, rest] - self.charge[:, None] * pairs
        far_one, far_other = float(node.far[merge.one]), float(node.far[merge.other])
        both = max(far_one, far_other, self.across[group])
        wans = np.where(counts == 0, far_other, np.where(rest == 0, far_one, both))
        wans = np.maximum(wans, node.wan)
        needed = np.stack([self._least(wan) for wan in wans.tolist()], axis=1)
        margins = np.where(wans <= self.frame.level, margin(total, needed), -np.inf)
        left = {name: count for name, count in node.groups.items() if name != group}
        for at in np.argsort(-margins, kind="stable").tolist():
            if margins[at] < 0:
                return
            parts = {merge.one: int(counts[at]), merge.other: int(rest[at])}
            groups = left | {name: count for name, count in parts.items() if count}
            yield self._settled(replace(node, groups=groups, total=total[:, at]))

    def _settled(self, node: Parted) -> Parted:
        """Note the places among the groups of a node as known."""
        for place in [name for name in node.groups if name < len(self.frame.places)]:
            count = node.groups[place]
            groups = {name: workers for name, workers in node.groups.items() if name != place}
            above = count * self.above[place]
            dearer = sum(float(above[name]) * workers for name, workers in groups.items())
            node = Parted(
                counts={**node.counts, place: count},
                groups=groups,
                total=node.total - self.charge * dearer if dearer else node.total,
                dearer=node.dearer + above,
                far=np.maximum(node.far, self.near[place]),
                wan=max(node.wan, float(node.far[place])),
            )
        return node

    def _machines(self, node: Parted) -> Tree:
        """Enumerate the machines of a known split."""
        counts = {int(self._places[at]): count for at, count in node.counts.items()}
        used = tuple(sorted(counts))
        leaf = self.leaf(Node(used, (), np.array([self.meeting.workers]), node.wan))
        yield from leaf.improvements_at([counts[place] for place in used])
