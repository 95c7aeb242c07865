"""Search of regions that work at their own pace and send to each other in turn."""

from __future__ import annotations

from collections.abc import Iterator

from placer.solving.allowance import StoppedError

from .._market.market import Market
from .._mode import Mode
from .._target import Target
from .gossip.pricing import SHRINKS
from .gossip.root import GossipRoot, Slice
from .regions_search import RegionSearch

Limits = tuple[float, ...]
"""What an improvement must keep, as `Target.limits` has it: the speed first."""
KEPT = 32
"""Limits without an improvement that a mode keeps."""


class GossipSearch(RegionSearch):
    """Branch and bound over numbers of regions, slices of speed, classes of regions, and regions.

    Parameters
    ----------
    market, target, mode
        As of `RegionSearch`; the strategy is asynchronous SGD between the regions.

    Notes
    -----
    Requests that the bounds of `GossipTree` do not know well are searched as by `RegionSearch`.
    """

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        super().__init__(market, target, mode)
        self.root = GossipRoot(self.relaxation, self.ranges)
        self._excluded: list[Limits] = []
        self._opened: Limits | None = None
        self._proved: tuple[float, Limits] | None = None

    def turns(self) -> Iterator[None]:
        """Search all numbers of regions that are open; raises StoppedError if it is stopped."""
        if self.ranges.empty or not self._root_allows():
            return
        if self.target.short or not self._tree_applies():
            yield from super().turns()
            return
        from .gossip.tree import GossipTree  # short searches do without

        limits, slices = self.target.limits, self._slices(rounds=1)
        tree = GossipTree(self.root, self._offer)
        try:
            for pause in tree.turns(slices):
                self._lower(max(tree.proved, limits[0]), limits)
                yield pause
        except StoppedError:
            self._lower(max(tree.proved, limits[0]), limits)
            raise
        self._exclude(self.target.limits)

    def proved(self) -> float | None:
        """Return samples/s that no placement within the limits exceeds, by what is left open of a
        tree; None if nothing is known, or something else is wanted.
        """
        limits, asked, proved = self.target.limits, self.target.objective.name, self._proved
        if asked != "throughput" or proved is None or proved[1][1:] != limits[1:]:
            return None
        return proved[0]

    def gradual(self) -> bool:
        """Return whether a tree is searched, the node with the best bound first."""
        return not self.target.short and not self.ranges.empty and self._tree_applies()

    def relaxed(self) -> float | None:
        """Return samples/s that no placement exceeds by the bound of the whole mode alone; None
        where it does not apply.
        """
        limits, asked = self.target.limits, self.target.objective.name
        if asked != "throughput" or limits[0] <= 0 or self.ranges.empty or not self.root.applies:
            return None
        return max([limits[0], *(value for value, _ in self._slices())])

    def _tree_applies(self) -> bool:
        """Return whether the tree knows all that the request limits, and follows what it wants."""
        wish = self.problem.requirements
        free = not (wish.counts_carbon or wish.used or wish.required_places)
        free = free and not self.problem.joint_limits
        fastest = self.target.objective.name == "throughput"
        return self.root.applies and self.target.min_speed > 0 and free and fastest

    def _may_improve(self, fewest: int) -> bool:
        return super()._may_improve(fewest) and self._root_allows()

    def _root_allows(self) -> bool:
        """Return whether the bound of the whole mode leaves an improvement open."""
        limits, proved, opened = self.target.limits, self._proved, self._opened
        if self.target.short or not self.root.applies or limits[0] <= 0:
            return True
        if any(_within(limits, known) for known in self._excluded):
            return False
        if proved is not None and proved[1][1:] == limits[1:] and proved[0] < limits[0]:
            return False
        if opened is not None and opened[1:] == limits[1:] and limits[0] <= opened[0]:
            return True  # what asks for less speed is open too
        if self.target.rough:
            return True
        if self.root.allows():
            self._opened = limits
            return True
        self._exclude(limits)
        return False

    def _slices(self, rounds: int = len(SHRINKS)) -> list[tuple[float, Slice]]:
        """List the slices that are open, with what no placement in them exceeds, after so many
        rounds of refinement.
        """
        slices = self.root.slices()
        reached = self.root.reached(slices, rounds).tolist() if slices else []
        least = self.target.min_speed
        both = zip(reached, slices, strict=True)
        return [(value, each) for value, each in both if value >= least]

    def _lower(self, value: float, limits: Limits) -> None:
        """Note that no placement within some limits exceeds so many samples/s: what is open of a
        tree bounds the whole mode at any time.
        """
        known = self._proved
        if known is None or known[1][1:] != limits[1:] or value < known[0]:
            self._proved = value, limits

    def _exclude(self, limits: Limits) -> None:
        """Note that there is no improvement within some limits."""
        self._excluded = [*self._excluded[1 - KEPT :], limits]


def _within(limits: Limits, others: Limits) -> bool:
    """Return whether what keeps some limits keeps others too."""
    least, most = others[0], others[1:]
    return limits[0] >= least and all(a <= b for a, b in zip(limits[1:], most, strict=True))
