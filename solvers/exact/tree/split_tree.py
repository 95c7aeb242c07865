"""Branch and bound over how many workers each region of an all-reduce has: groups of regions are
split until every region is known.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer.records import replace
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array
from ..bounds.dendrogram import Dendrogram
from ..bounds.meeting import Meeting
from ..bounds.relaxation import Node, margin
from ..frames.group_fronts import GroupFronts, Question, most_usd_per_speed, within_budget
from ..frames.place_fronts import PlaceFront
from ..frames.spread import ROUNDING, Frame, Spread
from ..leaves.interleaving import BREATH, Groups, Tree
from ..leaves.leaf import Leaf
from .tree_bound import TreeBound

PAUSE = 50
"""Nodes after which other trees may have their turn."""
TIGHT = 4
"""Rows with which whole machines are chosen, beside those of speed and price alone."""
FRONT_NODES = 3
"""Nodes that take as long as the whole machines of one place."""
OFFERED = 20
"""Choices of whole machines that are priced, the fastest first."""


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
        if (yield from self._excluded()):
            return
        root = Parted(
            counts={},
            groups={last: workers},
            total=self.reached[last][:, workers],
            dearer=np.zeros(len(self.reached)),
            far=np.zeros(len(self.reached)),
            wan=self._first_wan,
        )
        yield from self._grow(root)

    def _excluded(self) -> Generator[Groups | None, None, bool]:
        """Yield choices of whole machines that may improve; return whether there are none.

        Notes
        -----
        Asked again while one of them does improve, since a better incumbent asks for more.
        """
        if not self.bound.mode.speed_and_price_decide:
            return False
        if self.target.tied is not None:  # what breaks a tie is rare, and its nodes are counted
            return False
        while self.reached[-1].shape[1] > self.meeting.workers:
            self.target.tick()
            self.target.tables += FRONT_NODES * len(self.frame.places)
            limits = self.target.limits
            fronts = self._fronts()
            choices = None if fronts is None else fronts.choices()
            if fronts is None or choices is None:
                return False
            open_ = np.flatnonzero(
                within_budget(choices, self.target, self.bound.mode, self._longest_s())
            )
            if len(open_) == 0:
                return True
            best = np.argsort(-choices.speed[open_], kind="stable")[:OFFERED]
            for choice in open_[best].tolist():
                yield fronts.machines(choice)
            yield BREATH
            if self.target.limits == limits:
                return False
            self._measure()
        return True

    def _fronts(self) -> GroupFronts | None:
        """Return the whole machines of all groups with the rows that have least to spare, and those
        of speed and price alone; None where no row says anything.
        """
        workers, weights = self.meeting.workers, self.bound.weights
        needed, total = self._least(self._first_wan), self.reached[-1][:, workers]
        with np.errstate(invalid="ignore"):
            spare = (total - needed) / np.maximum(np.abs(needed), 1e-9)
        ends = (weights[:, 0] == 0) | (weights[:, 1] == 0)
        says = np.isfinite(needed) & ~np.any(weights[:, 2:] > 0, axis=1)
        tight = [at for at in np.argsort(spare, kind="stable").tolist() if says[at]][:TIGHT]
        rows = np.array(list(dict.fromkeys([*tight, *np.flatnonzero(ends & says).tolist()])))
        if len(rows) == 0:
            return None
        usd = self._rounds_per_hour * self.meeting.pair_bytes
        hosts = self.spread.grid.hosts
        counts, price = np.arange(workers + 1), self.market.prices
        fronts = []
        for place in self.frame.places:
            home = np.zeros(workers + 1)
            home[2:] = usd * float(price[place, place]) * (counts * (counts - 1))[2:]
            fronts.append(PlaceFront(self.market, place, hosts, heads=counts, egress=home))
        question = Question(
            weights=weights[rows],
            needed=needed[rows],
            charge=self.charge[rows],
            pair_usd=usd,
            inside=[reached[rows] for reached in self.reached],
            heads=workers,
            usd_per_speed=most_usd_per_speed(
                self.target,
                weights,
                needed,
                self.spread.grid.everywhere[self.bound.rows, workers],
            ),
        )
        return GroupFronts(self.market, self.tree, fronts, question)

    def _longest_s(self) -> float:
        """Return the most seconds of an exchange of the frame."""
        workers = self.meeting.workers
        between = float(self.meeting.wan_s(self.frame.level))
        between *= float(self.relaxation.most_growth(np.array([workers]))[0])
        own = float(self.spread.family.slowest_averaging_s[workers])
        waiting = self.relaxation.mode.least_period_s
        return own + waiting + max(between, self.relaxation.most_load_s)

    @cached_property
    def _first_wan(self) -> float:
        return max(self.frame.below, self.relaxation.fastest_pair)

    @property
    def _rounds_per_hour(self) -> float:
        """Least rounds per hour of an improvement."""
        mode = self.bound.mode
        return SECONDS_PER_HOUR * mode.multiplier / mode.samples * self.target.min_speed

    @cached_property
    def _places(self) -> Array:
        return np.array(self.frame.places, dtype=np.intp)

    def _measure(self) -> None:
        """Work out what each group reaches, and the least of its pairs with each place."""
        bound, workers = self.bound, np.array([self.meeting.workers])
        self.charge = bound.weights[:, 1] * (self._rounds_per_hour * self.meeting.pair_bytes)
        level = self.frame.level
        known, inside = {int(p): at for at, p in enumerate(self.spread.places)}, np.ones(1, bool)
        needed = self._least(self._first_wan)
        leaves = [
            self.spread.leaf(
                bound.rows,
                workers,
                self.charge[:, None],
                needed[:, None],
                known[place],
                inside,
                level,
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
                wan=max(node.wan, float(node.far[place]), self._load(place, count)),
            )
        return node

    def _load(self, place: int, count: int) -> float:
        """Return what a worker of a place takes to send a byte to each worker elsewhere."""
        if not self.relaxation.flat:
            return 0.0
        each = float(self.relaxation.machine_wan[self._places[place]])
        return (1 - ROUNDING) * (self.meeting.workers - count) * each

    def _machines(self, node: Parted) -> Tree:
        """Enumerate the machines of a known split."""
        counts = {int(self._places[at]): count for at, count in node.counts.items()}
        used = tuple(sorted(counts))
        leaf = self.leaf(Node(used, (), np.array([self.meeting.workers]), node.wan))
        yield from leaf.improvements_at([counts[place] for place in used])
