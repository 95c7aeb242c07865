"""Search of regions that work at their own pace and send to each other in turn."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from placer.cost_model.limits import TOLERANCE

from .._market.arrays import Array, Indices
from .._market.market import Market
from .._mode import Mode
from .._target import Target
from .bounds.region_rounds import RegionRounds
from .bounds.relaxation import Family, Node
from .gossip.paces import Paces, shares_of
from .gossip.root import GossipRoot
from .regions_search import RegionSearch
from .tree.leaf import Leaf
from .tree.leaf_bound import RegionLeafBound

Limits = tuple[float, ...]
"""What an improvement must keep, as `Target.limits` has it: the speed first."""
KEPT = 32
"""Limits without an improvement that a mode keeps."""


class GossipSearch(RegionSearch):
    """Region by region, with a bound of the whole mode that knows how long sends take."""

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        super().__init__(market, target, mode)
        self.root = GossipRoot(self.relaxation, self.ranges)
        self._excluded: list[Limits] = []
        self._opened: Limits | None = None
        self._kept_averages: dict[frozenset[str], Array] = {}

    def turns(self) -> Iterator[None]:
        """Search all numbers of regions that are open; raises StoppedError if it is stopped."""
        if not self.ranges.empty and self._root_allows():
            yield from super().turns()

    def paces(self, workers: int, regions: int, family: Family) -> Paces | None:
        """Return how long regions wait for their sends at least."""
        if not self.needed:
            return None
        places = np.array(self.relaxation.places(family), dtype=np.intp)
        averages, sends = self.averages(family), self.root.sends.seconds
        least = self.least(np.full(len(places), workers), places)
        return Paces(self.needed, float(least.min()), sends, averages, places, regions)

    def least(self, workers: Indices, places: Indices) -> Array:
        """Return the samples/s of so many machines in some places at least, over the samples of a
        round; shape (places,).
        """
        speed = workers * self.relaxation.slowest_machine[places] * (1 - TOLERANCE)
        return np.minimum(speed, self.problem.least_loaded_samples_per_s) / self.mode.samples

    def averages(self, family: Family) -> Array:
        """Return the least seconds that averages add to a round of a region; shape (places,
        machines).
        """
        if family.hosts not in self._kept_averages:
            built = np.zeros((len(self.market.places), self.most + 1))
            for place in self.relaxation.places(family):
                built[place] = self.rounds.fastest_averaging((place,), family)
            built[:, :2] = 0.0  # one machine averages with none
            self._kept_averages[family.hosts] = self.mode.local_steps * built
        return self._kept_averages[family.hosts]

    @property
    def needed(self) -> float:
        """Samples/s that count of an improvement, over those of a round; 0 where others count."""
        problem, mode = self.problem, self.mode
        if not self.root.applies or problem.most_loaded_samples_per_s < math.inf:
            return 0.0
        if problem.requirements.least_speed is not None:
            return 0.0
        return mode.multiplier * self.target.min_speed * (1 - TOLERANCE) / mode.samples

    def _leaf(self, family: Family, node: Node) -> Leaf:
        return Leaf(GossipLeafBound(self.rounds, node, family, self))

    def relaxed(self) -> float | None:
        """Return samples/s that no placement exceeds; None where the bound does not apply."""
        limits, asked = self.target.limits, self.target.objective.name
        if asked != "throughput" or limits[0] <= 0 or self.ranges.empty or not self.root.applies:
            return None
        return max(limits[0], self.root.bound())

    def may_improve(self) -> bool:
        """Return whether both bounds of the whole mode still allow an improvement."""
        return super().may_improve() and self._root_allows()

    def _root_allows(self) -> bool:
        """Return whether the bound of the whole mode leaves an improvement open."""
        limits, opened = self.target.limits, self._opened
        if self.target.short or not self.root.applies or limits[0] <= 0:
            return True
        if any(_within(limits, known) for known in self._excluded):
            return False
        if opened is not None and opened[1:] == limits[1:] and limits[0] <= opened[0]:
            return True  # what asks for less speed is open too
        if self.target.rough:
            return True
        if self.root.allows():
            self._opened = limits
            return True
        self._excluded = [*self._excluded[1 - KEPT :], limits]
        return False


class GossipLeafBound(RegionLeafBound):
    """Thresholds of a leaf whose regions wait for their sends."""

    def __init__(
        self, rounds: RegionRounds, node: Node, family: Family, search: GossipSearch
    ) -> None:
        super().__init__(rounds, node, family)
        self.search = search
        self.sends = search.root.sends.seconds[np.ix_(node.used, node.used)]

    def shares(self, split: Indices) -> Array | None:
        """Return what share of its speed each region does at most; None: all of it."""
        needed, averages = self.search.needed, self.search.averages(self.family)
        used = np.array(self.node.used, dtype=np.intp)
        least = float(self.search.least(split[0], used).sum())
        return shares_of(needed, least, self.sends, averages[used, split[0]]) if needed else None


def _within(limits: Limits, others: Limits) -> bool:
    """Return whether what keeps some limits keeps others too."""
    least, most = others[0], others[1:]
    return limits[0] >= least and all(a <= b for a, b in zip(limits[1:], most, strict=True))
