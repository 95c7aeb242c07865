"""Least seconds and egress of a round between regions that meet through one machine each."""

from __future__ import annotations

import numpy as np

from placer.problem.exchange import traits

from ..._market.arrays import Array
from ..._market.market import Market
from ..._mode import Mode
from .exchange_pattern import Partners
from .hub_star import HubStar
from .relaxation import Relaxation


class LeaderPairs:
    """Least seconds and egress between regions.

    Parameters
    ----------
    market, relaxation
        Prices and links.
    mode
        Hierarchical all-reduce, or servers of regions.
    """

    def __init__(self, market: Market, relaxation: Relaxation, mode: Mode) -> None:
        self.market, self.relaxation, self.transport = (
            market,
            relaxation,
            traits(mode.strategy).transport,
        )
        self.size = market.problem.gradient_bytes
        self.star = HubStar(market, mode)
        self._ranked: dict[tuple[int, ...], tuple[Array, Partners]] = {}
        self._nearest: dict[tuple[tuple[int, ...], int], tuple[float, Array]] = {}

    def least(
        self, used: tuple[int, ...], joining: tuple[int, ...], regions: int
    ) -> tuple[float, float]:
        """Return the least seconds and egress of a round between the regions."""
        if used:
            return self._least(used, joining, regions)
        # The root asks for every number of regions, for each number of local steps again.
        wish = self.market.problem.requirements
        key = (
            *(self.transport, wish.streams, self.star.mode.lanes, self.size),
            *(wish.aggregator, regions, joining),
        )
        kept = self.market.least_rounds
        if key not in kept:
            kept[key] = self._least(used, joining, regions)
        return kept[key]

    def _least(
        self, used: tuple[int, ...], joining: tuple[int, ...], regions: int
    ) -> tuple[float, float]:
        if self.transport == "region-hub":
            return self.star.least(used, joining, regions)
        pair = self.pair_bytes(regions)
        if not used:
            # No region is known yet: the regions with the nearest partners, and the cheapest ones,
            # which need not be the same regions.
            slowest, each = self.nearest(joining, regions)
            return (slowest * pair if self.transport == "leaders" else 0.0), float(
                np.sort(each)[:regions].sum()
            ) * pair
        here = np.array(used, dtype=np.intp)
        # Only the pairs that are known; those to come can only add dollars and a slower link.
        usd = float(self.market.both_ways[np.ix_(here, here)].sum()) / 2
        slowest = max(
            (self.relaxation.pair_wan(a, b) for a in used for b in used if a < b), default=0.0
        )
        return (slowest * pair if self.transport == "leaders" else 0.0), usd * pair

    def pair_bytes(self, regions: int) -> float:
        """Return the bytes that two regions send each other in a round, each way: of a butterfly of
        leaders, or to a partner in turn.
        """
        return 2 * self.size / regions if self.transport == "leaders" else self.size / (regions - 1)

    def nearest(self, places: tuple[int, ...], regions: int) -> tuple[float, Array]:
        """Return the least slowest pair of so many regions, and least price of a byte over the
        pairs of one of each place's leaders.
        """
        key = places, regions
        if key not in self._nearest:
            if places not in self._ranked:
                at = np.array(places, dtype=np.intp)
                apart = self.relaxation.wan_matrix[np.ix_(at, at)] + np.diag(
                    np.full(len(at), np.inf)
                )
                self._ranked[places] = (
                    np.sort(apart, axis=1).min(axis=0),
                    Partners(self.market.both_ways[np.ix_(at, at)] / 2),
                )
            slowest, partners = self._ranked[places]
            self._nearest[key] = float(slowest[regions - 2]), partners.usd(regions - 1, 1)
        return self._nearest[key]
