"""Search of regions that work at their own pace and send to each other in turn."""

from __future__ import annotations

from collections.abc import Iterator

from .._market.market import Market
from .._mode import Mode
from .._target import Target
from .gossip.root import GossipRoot
from .regions_search import RegionSearch

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

    def turns(self) -> Iterator[None]:
        """Search all numbers of regions that are open; raises StoppedError if it is stopped."""
        if not self.ranges.empty and self._root_allows():
            yield from super().turns()

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


def _within(limits: Limits, others: Limits) -> bool:
    """Return whether what keeps some limits keeps others too."""
    least, most = others[0], others[1:]
    return limits[0] >= least and all(a <= b for a, b in zip(limits[1:], most, strict=True))
