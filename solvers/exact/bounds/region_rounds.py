"""Least seconds and egress of a round of regions that synchronise inside and meet through one
machine each, at a hub or in pairs.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from placer.cost_model.timing.transfers import seconds_over, share_seconds
from placer.problem.exchange import traits
from placer.solving import allowance

from ..._market.arrays import Array, Indices, Mask
from ..._market.market import Market
from ..._mode import Mode
from .exchange_pattern import HubWays, Partners
from .relaxation import Family, Relaxation


class LeaderPairs:
    """Least seconds and egress between regions, in pairs or through a hub that is any of them."""

    def __init__(self, market: Market, relaxation: Relaxation, mode: Mode) -> None:
        self.market, self.relaxation, self.mode = market, relaxation, mode
        self.transport = traits(mode.strategy).transport
        self.size = market.problem.gradient_bytes
        self._ranked: dict[tuple[int, ...], tuple[Array, Partners]] = {}
        self._through: dict[tuple[int, ...], tuple[Array, Array]] = {}
        self._ways: dict[tuple[int, ...], HubWays] = {}

    def least(self, places: tuple[int, ...], regions: int) -> tuple[float, float]:
        """Return the least seconds and egress of a round of so many of some regions."""
        wish = self.market.problem.requirements
        key = (
            *(self.transport, wish.streams, self.mode.lanes, self.size),
            *(wish.aggregator, regions, places),
        )
        kept = self.market.least_rounds
        if key not in kept:
            kept[key] = self._least(places, regions)
        return kept[key]

    def _least(self, places: tuple[int, ...], regions: int) -> tuple[float, float]:
        if self.transport == "region-hub":
            if places not in self._through:
                self._through[places] = self._through_hub(places)
            seconds, usd = self._through[places]
            return float(seconds[regions - 1]), float(usd[regions - 1])
        # The regions with the nearest partners, and the cheapest ones, need not be the same.
        slowest, partners = self._nearest(places)
        cheapest = np.sort(partners.usd(regions - 1, 1))[:regions]
        return self._round(float(slowest[regions - 2]), float(cheapest.sum()), regions)

    def exact(self, used: tuple[int, ...]) -> tuple[float, float]:
        """Return the seconds and egress of a round of known regions, with the best hub for each."""
        if self.transport == "region-hub":
            seconds, usd = self._through_hub(used)
            return float(seconds[-1]), float(usd[-1])
        here = np.ix_(used, used)
        slowest = float(self.relaxation.wan_matrix[here].max())
        return self._round(slowest, float(self.market.both_ways[here].sum()) / 2, len(used))

    def _round(self, slowest: float, usd: float, regions: int) -> tuple[float, float]:
        pair = self.pair_bytes(regions)
        return (slowest * pair if self.transport == "leaders" else 0.0), usd * pair

    def _through_hub(self, places: tuple[int, ...]) -> tuple[Array, Array]:
        """Return least seconds and egress over 1, 2, ... of some regions, infinite where none may
        be the hub; shape (regions,).

        The best hub for the seconds and the best for the dollars need not be the same: both err
        low.
        """
        allowance.check()
        hubs = [p for p in places if self._may_be_hub[p]]
        pairs = np.ix_(np.array(places, dtype=np.intp), np.array(hubs, dtype=np.intp))
        seconds = sum(np.sort(each[pairs], axis=0) for each in (self.direct, self.direct.T))
        egress = self.size * np.cumsum(np.sort(self.market.both_ways[pairs], axis=0), axis=0)
        return np.min(seconds, axis=1, initial=np.inf), egress.min(axis=1, initial=np.inf)

    @cached_property
    def _may_be_hub(self) -> Mask:
        """Which places may be the hub; shape (places,)."""
        wanted = self.market.problem.requirements.aggregator
        return np.array([wanted in (None, place) for place in self.market.places])

    def hub_ways(self, places: tuple[int, ...]) -> HubWays:
        """Return the ways of some places to a hub among them."""
        if places not in self._ways:
            usd, seconds = self.size * self.market.both_ways, np.stack([self.direct, self.direct.T])
            self._ways[places] = HubWays(usd, seconds, np.array(places), self._may_be_hub)
        return self._ways[places]

    @cached_property
    def direct(self) -> Array:
        """Seconds of one gradient from place to place, 0 to itself; shape (places, places)."""
        problem, places = self.market.problem, self.market.places
        streams = problem.requirements.streams
        alone = self.size / problem.network.speeds(places, streams, self.mode.lanes)
        built: Array = seconds_over(problem.network.rtts_s(places), alone)
        np.fill_diagonal(built, 0.0)
        return built

    def pair_bytes(self, regions: int) -> float:
        """Return the bytes that two regions send each other in a round, each way."""
        return 2 * self.size / regions if self.transport == "leaders" else self.size / (regions - 1)

    def _nearest(self, places: tuple[int, ...]) -> tuple[Array, Partners]:
        """Return the least slowest pair of 2, 3, ... of some regions, and partners of each."""
        if places not in self._ranked:
            at = np.array(places, dtype=np.intp)
            apart = self.relaxation.wan_matrix[np.ix_(at, at)] + np.diag(np.full(len(at), np.inf))
            self._ranked[places] = (
                np.sort(apart, axis=1).min(axis=0),
                Partners(self.market.both_ways[np.ix_(at, at)] / 2),
            )
        return self._ranked[places]


class RegionRounds:
    """Bounds of a round inside the regions and between them.

    All seconds and dollars are lower bounds: fastest hosts, fastest machine network and cheapest
    place of the regions that a node may still use. A set of regions that misses an improvement by
    them therefore misses it in truth.
    """

    def __init__(self, relaxation: Relaxation) -> None:
        self.relaxation, self.mode = relaxation, relaxation.mode
        self.market, self.problem = relaxation.market, relaxation.problem
        self.transport = traits(self.mode.strategy).transport
        self.size = self.problem.gradient_bytes
        self.leader_pairs = LeaderPairs(self.market, relaxation, self.mode)
        self._fastest: dict[tuple[tuple[int, ...], frozenset[str]], Array] = {}

    def thresholds(
        self,
        used: tuple[int, ...],
        workers: Indices,
        largest: Indices,
        averaging: Array,
        family: Family,
        weights: Array | None = None,
    ) -> Array:
        """Return the thresholds of an improvement in some regions, for the rows of the market or
        other ones; ``largest`` is how many workers some region has, ``averaging`` what one average
        takes, at least.
        """
        weights, regions = self.market.weights if weights is None else weights, len(used)
        seconds, usd = self.leader_pairs.exact(used)
        if seconds == np.inf:  # no hub is allowed among these regions
            return np.full((len(weights), len(workers)), np.inf)
        egress = usd + self.home_usd(np.array(used, dtype=np.intp), workers - regions)
        waiting = seconds + self.inside_s(largest, averaging, regions, family)
        data, zero = min(self.market.data_usd[p] for p in used), np.zeros(len(workers))
        return self.relaxation.target.thresholds(self.mode, weights, waiting, egress, data, zero)

    def inside_s(
        self, largest: Indices, averaging: Array, regions: Indices | int, family: Family
    ) -> Array:
        """Return the least seconds of a round inside the regions.

        Without a barrier a region of one worker goes ahead alone, so nothing is certain there.
        Where data has its place, the region with the longest calculation may average among few.
        """
        if self.transport == "region-gossip":
            return np.zeros(len(largest))
        # The largest region has at least `largest` workers.
        spread = self._spread_s(largest)
        among = family.averaging_s[regions] if self.transport == "leaders" else 0.0
        if self.transport == "region-hub" and self.problem.requirements.datasets:
            return spread
        return self.mode.local_steps * averaging + spread + among

    def waiting_s(self, place: int, counts: Indices, between_s: float, family: Family) -> Array:
        """Return the seconds of a round beside the calculation of a region with so many workers, at
        least, where data has its place; shape of ``counts``.

        Known where the regions meet at a hub: each region averages after each of its steps, and
        what is sent follows the last of them.
        """
        if self.transport != "region-hub":
            return np.zeros(len(counts))
        averaging = self.fastest_averaging((place,), family)[counts]
        return np.asarray(self.mode.local_steps * averaging + self._spread_s(counts) + between_s)

    def _spread_s(self, workers: Indices) -> Array:
        """Return the seconds in which a leader sends to the other workers of its region at least,
        through the fastest network that any machine has; shape of ``workers``.
        """
        return np.asarray(share_seconds(1.0, self._fastest_machine) * (workers - 1) * self.size)

    def home_usd(self, places: Indices, followers: Indices | int) -> Array:
        """Return the least egress inside the regions of so many workers that are no leaders."""
        # The cheapest place of the node for all followers: none of them can pay less.
        home = float(self.market.prices[places, places].min())
        if home == np.inf:  # a network that carries nothing there
            return np.where(np.asarray(followers) > 0, np.inf, 0.0)
        return (
            np.asarray(followers)
            * self.size
            * (2 * self.mode.local_steps + self._broadcasts)
            * home
        )

    def fastest_averaging(self, places: tuple[int, ...], family: Family) -> Array:
        """Return the least seconds of an average in any of some places, by workers."""
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
