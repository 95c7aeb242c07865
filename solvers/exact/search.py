"""The protocol of the searches of `exact`, and the numbers of workers and regions they search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from placer.problem.exchange import traits

from .._market.market import Market
from .._mode import Mode
from .._target import Target


class Search(Protocol):
    """Branch and bound over the placements of one mode.

    A search is built once for a market, a target and a mode. It offers to the target every
    placement that may be an improvement, so that the target holds the best one when ``turns`` ends.
    Targets that differ in objective, budget and floor alone are searched one after the other with
    the same object, because its tables depend on none of these.
    """

    market: Market
    mode: Mode

    def aim(self, target: Target) -> None:
        """Search for another target in the same market from now on."""

    def may_improve(self) -> bool:
        """Return whether the relaxation of the whole mode allows an improvement.

        False is a proof that no placement of the mode is an improvement; True proves nothing.
        Raises OutOfTimeError when the time limit is reached.
        """

    def turns(self) -> Iterator[None]:
        """Offer every placement of the mode that may be an improvement; yield now and then, so that
        another search may have its turn.

        Raises StoppedError if the time or the nodes are up, or the target wants no more than one
        placement.
        """


class Ranges(Struct, frozen=True, kw_only=True):
    """Numbers of workers and of regions among which a mode is searched, both ends included."""

    fewest_workers: int
    most_workers: int
    fewest_regions: int
    most_regions: int

    @staticmethod
    def of(market: Market, mode: Mode) -> Ranges:
        """Return what the request, the strategy and the machines of the market allow.

        Two workers at least, because single machines are searched apart, and as many as regions,
        because each region that is used has a worker.
        """
        wish = market.problem.requirements
        most_workers = min(
            wish.max_workers,
            int(market.cap.sum()),
            market.problem.batch,
            *(
                row.most // int(each.min())
                for row, each in zip(market.problem.joint_limits, market.joint, strict=True)
                if each.min(initial=1) > 0
            ),
        )
        fewest_regions = max(market.fewest_regions, traits(mode.strategy).least_regions)
        return Ranges(
            fewest_workers=max(2, fewest_regions, wish.min_workers),
            most_workers=most_workers,
            fewest_regions=fewest_regions,
            most_regions=min(wish.max_regions, len(market.places), most_workers),
        )

    @property
    def empty(self) -> bool:
        """Whether no number of workers or of regions is left."""
        return self.fewest_workers > self.most_workers or self.fewest_regions > self.most_regions

    @property
    def regions(self) -> range:
        """Numbers of regions, the fewest first."""
        return range(self.fewest_regions, self.most_regions + 1)
