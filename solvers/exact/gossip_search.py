"""Search of regions that work at their own pace and send to each other in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

from placer.solving.allowance import StoppedError

from .._market.arrays import Indices
from .._market.market import Market
from .._mode import Mode
from .._target import Target
from .bounds.relaxation import Family
from .gossip.pricing import SHRINKS
from .gossip.root import GossipRoot, Slice
from .gossip.tree import GossipTree
from .regions_search import RegionSearch

WORTH = 1.03
"""A limit that moved by less changes a bound too little to work it out anew."""

KEPT = 32
"""Proofs of a mode that are kept."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What was proved for improvements within some limits.

    Notes
    -----
    None of them exceeds ``bound`` samples/s, or there are none: None. ``slices`` are still open.
    """

    limits: tuple[float, ...]
    bound: float | None
    slices: tuple[tuple[float, Slice], ...]

    def covers(self, limits: tuple[float, ...]) -> bool:
        """Return whether other limits are within these, but for the speed that is needed."""
        return all(own <= most for own, most in zip(limits[1:], self.limits[1:], strict=True))

    def holds_for(self, limits: tuple[float, ...]) -> bool:
        """Return whether an improvement within other limits is within these."""
        return limits[0] >= self.limits[0] and self.covers(limits)

    def is_near(self, limits: tuple[float, ...]) -> bool:
        """Return whether other limits are hardly tighter."""
        return limits[0] <= self.limits[0] * WORTH and all(
            most <= own * WORTH for own, most in zip(limits[1:], self.limits[1:], strict=True)
        )

    def excludes(self, limits: tuple[float, ...]) -> bool:
        """Return whether there is no improvement within other limits."""
        return self.holds_for(limits) and (self.bound is None or self.bound < limits[0])

    def is_looser(self, limits: tuple[float, ...]) -> bool:
        """Return whether nothing is known of other limits, which ask for less speed."""
        return limits[0] < self.limits[0] and limits[1:] == self.limits[1:]


class GossipSearch(RegionSearch):
    """Branch and bound over sets of R regions, within what the bound of the whole mode leaves
    open.

    Parameters
    ----------
    market, target, mode
        As of `RegionSearch`; the strategy is asynchronous SGD between the regions.
    """

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        super().__init__(market, target, mode)
        self.root = GossipRoot(self.relaxation, self.ranges)
        self._known: list[Known] = []

    def run(self) -> None:
        """Search all numbers of regions that are open; raises StoppedError if it is stopped."""
        if self.ranges.empty or not self._root_allows():
            return
        if not self._tree_applies():
            super().run()
            return
        known = self._worked_out(rounds=1)
        tree = GossipTree(self.root, self._offer)
        try:
            tree.run(list(known.slices))
        except StoppedError:
            self._note(replace(known, bound=tree.proved))
            raise
        self._note(Known(limits=self.target.limits, bound=None, slices=()))

    def proved(self) -> float | None:
        """Return samples/s that no placement within the limits exceeds, as far as that is known or
        soon worked out; None if nothing is, or less of something else is wanted.
        """
        limits, asked = self.target.limits, self.target.objective.name
        if asked != "throughput" or limits[0] <= 0 or self.ranges.empty or not self.root.applies:
            return None
        held = [known for known in self._known if known.covers(limits)]
        if not held:
            self._note(self._worked_out())
            held = self._known[-1:]
        # What asks for less speed than a proof was about does not exceed that speed.
        return min(max(known.limits[0], known.bound or 0.0) for known in held)

    def _tree_applies(self) -> bool:
        """Return whether the tree knows all that the request limits, and follows what it wants."""
        wish = self.problem.requirements
        free = not (wish.counts_carbon or wish.used or wish.required_places)
        free = free and not self.problem.joint_limits
        fastest = self.target.objective.name == "throughput"
        return self.root.applies and self.target.min_speed > 0 and free and fastest

    def _may_improve(self, fewest: int) -> bool:
        return super()._may_improve(fewest) and self._root_allows()

    def _open(self, regions: int, family: Family) -> Indices:
        open_ = super()._open(regions, family)
        known = self._latest()
        if known is None or len(open_) == 0:
            return open_
        within = any(each.regions[0] <= regions <= each.regions[1] for _, each in known.slices)
        return open_ if within else open_[:0]

    def _latest(self) -> Known | None:
        """Return what was proved last that holds for the target."""
        limits = self.target.limits
        return next((known for known in reversed(self._known) if known.holds_for(limits)), None)

    def _root_allows(self) -> bool:
        """Return whether the bound of the whole mode leaves an improvement open."""
        limits = self.target.limits
        if not self.root.applies or limits[0] <= 0:
            return True
        if any(known.excludes(limits) for known in self._known):
            return False
        latest = self._latest()
        if latest is not None and latest.is_near(limits):
            return True
        if any(known.is_looser(limits) for known in self._known) or self.root.allows():
            return True
        self._note(Known(limits=limits, bound=None, slices=()))
        return False

    def _note(self, known: Known) -> None:
        self._known = [*self._known[1 - KEPT :], known]

    def _worked_out(self, rounds: int = len(SHRINKS)) -> Known:
        """Bound all slices, and refine the prices in so many rounds."""
        limits, slices = self.target.limits, self.root.slices()
        reached = self.root.reached(slices, rounds).tolist() if slices else []
        open_ = [
            (value, each) for value, each in zip(reached, slices, strict=True) if value >= limits[0]
        ]
        bound = max((value for value, _ in open_), default=None)
        return Known(limits=limits, bound=bound, slices=tuple(open_))
