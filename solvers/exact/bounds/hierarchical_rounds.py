"""Least seconds and egress of a round of regions that synchronise inside and meet through one
machine each.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from placer.cost_model.timing.transfers import share_seconds
from placer.problem.exchange import traits

from ..._market.arrays import Array, Indices
from .leader_pairs import LeaderPairs
from .relaxation import Family, Relaxation


class RegionRounds:
    """Bounds of a round inside the regions and between them.

    Parameters
    ----------
    relaxation
        Market, target and strategy.

    Notes
    -----
    All seconds and dollars are lower bounds: fastest hosts, fastest machine network and cheapest
    place of the regions that a node may still use. A set of regions that misses an improvement by
    them therefore misses it in truth.
    """

    def __init__(self, relaxation: Relaxation) -> None:
        self.relaxation, self.mode = relaxation, relaxation.mode
        self.market, self.problem = relaxation.market, relaxation.problem
        self.transport, self.size = (
            traits(self.mode.strategy).transport,
            self.problem.gradient_bytes,
        )
        self.leader_pairs = LeaderPairs(self.market, relaxation, self.mode)
        self._fastest: dict[tuple[tuple[int, ...], frozenset[str]], Array] = {}

    def thresholds(
        self,
        used: tuple[int, ...],
        joining: tuple[int, ...],
        workers: Indices,
        largest: Indices,
        averaging: Array,
        regions: int,
        family: Family,
        weights: Array | None = None,
    ) -> Array:
        """Return the thresholds of an improvement, for the rows of the market or other ones;
        ``largest`` is how many workers some region has, ``averaging`` what one average takes, at
        least.
        """
        weights = self.market.weights if weights is None else weights
        seconds, usd = self.leader_pairs.least(used, joining, regions)
        # No hub is allowed among these regions, or too few are open.
        if seconds == np.inf:
            return np.full((len(weights), len(workers)), np.inf)
        places = np.array((*used, *joining), dtype=np.intp)
        inside_usd = self.home_usd(places, workers - regions)
        communication = self.inside_s(largest, averaging, regions, family) + seconds
        data = min(self.market.data_usd[p] for p in places)
        return self.relaxation.target.thresholds(
            self.mode,
            weights,
            communication,
            usd + inside_usd,
            data,
            np.zeros(len(workers)),
        )

    def inside_s(
        self, largest: Indices, averaging: Array, regions: Indices | int, family: Family
    ) -> Array:
        """Return the least seconds of a round inside the regions.

        Notes
        -----
        Without a barrier a region of one worker goes ahead alone, so nothing is certain there.
        Where data has its place, the region with the longest calculation may average among few.
        """
        if self.transport == "region-gossip":
            return np.zeros(len(largest))
        # The largest region has at least `largest` workers; its leader sends to all others through
        # the fastest network that any machine has.
        spread = share_seconds(1.0, self._fastest_machine) * (largest - 1) * self.size
        among = family.averaging_s[regions] if self.transport == "leaders" else 0.0
        if self.transport == "region-hub" and self.problem.requirements.datasets:
            return np.asarray(spread)
        built: Array = self.mode.local_steps * averaging + spread + among
        return built

    def home_usd(self, places: Indices, followers: Indices | int) -> Array:
        """Return the least egress inside the regions of so many workers that are no leaders."""
        # The cheapest place of the node for all followers: none of them can pay less.
        home = float(self.market.prices[places, places].min())
        if home == np.inf:  # a network that carries nothing there
            return np.where(np.asarray(followers) > 0, np.inf, 0.0)
        built: Array = (
            np.asarray(followers)
            * self.size
            * (2 * self.mode.local_steps + self._broadcasts)
            * home
        )
        return built

    def fastest_averaging(self, places: tuple[int, ...], family: Family) -> Array:
        """Return the least seconds of one average in any of some places, by workers: of the fastest
        hosts that can be there.
        """
        key = places, family.hosts
        seconds = self._fastest.get(key)
        if seconds is None:
            hosts = (
                frozenset[str]().union(*(self.market.hosts_at[place] for place in places))
                & family.hosts
            )
            seconds = self._fastest[key] = np.minimum.reduce(
                [family.averaging_by_host[h] for h in sorted(hosts)]
            )
        return seconds

    @property
    def _broadcasts(self) -> int:
        return 0 if self.transport == "region-gossip" else 1

    @cached_property
    def _fastest_machine(self) -> float:
        """Bytes/s of the machine with the best network."""
        network, lanes = self.problem.network, self.problem.lanes
        return max(network.machine_bytes_per_s(place, lanes) for place in self.market.places)
