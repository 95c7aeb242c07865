"""Places where gradients meet: one function and store, stores of regions with a global one, or a server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placer import cost
from placer.exchange import strategy, traits
from placer.exchange.central import memory_gib
from placer.exchanges import needs_quota, server_at
from placer.network import Link
from placer.placement import Exchange
from placer.problem import Problem
from placer.timing import store as stores
from placer.timing.direct import direct_seconds, seconds_over, share_seconds
from placer.timing.transfer import sum_seconds

from ._market import Array, Market
from ._mode import Mode
from ._tables import rtt_table, speed_table

IDEAL = Link(src="", dst="", bytes_per_second=math.inf, low=math.inf, high=math.inf, cap=math.inf, rtt_s=0.0, basis="", source="")
"""A link that no real one beats, for bounds."""
NEVER_S = 1e30
"""Way from a place where no worker may be: longer than any limit, and finite for arithmetic."""
WORKER, HUB = "worker", "hub"
"""Stand for any places in the phases of an exchange."""


@dataclass(frozen=True)
class Hub:
    """One place, or pair of places, where gradients meet; all figures are lower bounds, per round.

    Parameters
    ----------
    market, mode
        Pools and strategy.
    aggregator, storage
        Places of function and store; of the server, storage is empty. None: a hub that no real one beats.
    """

    market: Market
    mode: Mode
    aggregator: str | None
    storage: str | None

    @property
    def problem(self) -> Problem:
        """The question."""
        return self.market.problem

    @property
    def size(self) -> float:
        """Bytes of one gradient."""
        return self.problem.gradient_bytes

    @property
    def transport(self) -> str:
        """Transport of the strategy."""
        return traits(self.mode.strategy).transport

    def link(self, src: str | None, dst: str | None) -> Link:
        """Find a link; the ideal one where an end is not known."""
        return IDEAL if src is None or dst is None else self.problem.network.link(src, dst)

    def able(self, workers: int) -> bool:
        """Whether memory and time suffice for so many workers."""
        if self.aggregator is None:
            return True
        if self.transport == "server":
            return workers <= self._most_workers and server_at(self.aggregator, workers, self.problem) is not None
        offer = self.problem.function(self.aggregator)
        gradients = workers if self.transport == "store" else 2
        return memory_gib(self.size, gradients) <= offer.max_memory_gib and self.aggregate(workers) <= offer.max_seconds

    def aggregate(self, workers: int) -> float:
        """Seconds between the last gradient and the result."""
        if self.transport == "server":
            return sum_seconds(self.size, workers)
        gradients = workers if self.transport == "store" else 2
        fetch, put = self.link(self.storage, self.aggregator), self.link(self.aggregator, self.storage)
        return stores.aggregate_seconds(self.size, gradients, fetch, put)

    def shared(self, workers: int) -> float:
        """Seconds in which all gradients pass through the hub's own network, one way."""
        if self.transport != "server":
            return 0.0
        return share_seconds(workers * self.size, self._fastest_machine)

    @cached_property
    def _fastest_machine(self) -> float:
        """Bytes/s of the machine with the best network where the server may be."""
        places = self.market.places if self.aggregator is None else (self.aggregator,)
        return max(self.problem.network.machine_bytes_per_s(place) for place in places)

    @cached_property
    def ways(self) -> tuple[Array, Array]:
        """Seconds from a worker to the hub and back, by place; shapes (places,)."""
        places = self.market.places
        if self.transport == "server" and self.aggregator in places:  # every place may have one: out of tables, not one by one
            at, rtt = places.index(self.aggregator), rtt_table(self.problem, places)
            alone = self.size / speed_table(self.problem, places, self.mode.streams)
            away = np.where(self._open_places, 0.0, NEVER_S)
            return seconds_over(rtt[:, at], alone[:, at]) + away, seconds_over(rtt[at], alone[at]) + away
        return np.array([self._up(place) for place in places]), np.array([self._down(place) for place in places])

    @property
    def _open_places(self) -> NDArray[np.bool_]:
        """Which places may have workers: where those that need one are as many as there may be regions, no others; shape (places,)."""
        full = len(self.required) >= self.problem.requirements.max_regions
        return np.array([not full or place in self.required for place in self.market.places], dtype=bool)

    @cached_property
    def _most_workers(self) -> float:
        """Machines that the places hold which may have workers."""
        return float(self.market.room[self._open_places].sum())

    def _up(self, place: str) -> float:
        if self.transport == "server":
            return direct_seconds(self.size, self.link(place, self.aggregator), self.mode.streams)
        if self.transport == "store":
            return stores.worker_transfer_seconds(self.size, self.link(place, self.storage), self.mode.streams)
        home = self.link(place, place)
        forward = stores.aggregate_seconds(self.size, 1, home, self.link(place, self.storage))
        return stores.worker_transfer_seconds(self.size, home, self.mode.streams) + forward

    def _down(self, place: str) -> float:
        if self.transport == "server":
            return direct_seconds(self.size, self.link(self.aggregator, place), self.mode.streams)
        if self.transport == "store":
            return stores.worker_transfer_seconds(self.size, self.link(self.storage, place), self.mode.streams)
        home = self.link(place, place)
        return stores.copy_seconds(self.size, self.link(self.storage, place), home) + stores.worker_transfer_seconds(
            self.size, home, self.mode.streams
        )

    @cached_property
    def egress(self) -> tuple[Array, Array]:
        """Egress of each worker and of each region that is used, by place; what no region adds is left out; shapes (places,)."""
        if self.aggregator is None:
            return np.zeros(len(self.market.places)), np.zeros(len(self.market.places))
        if self.transport == "server" and self.aggregator in self.market.places:
            return self._server_egress(self.market.places.index(self.aggregator)), np.zeros(len(self.market.places))
        network, same_zone = self.problem.network, self.problem.requirements.same_zone
        exchange = Exchange(strategy=self.mode.strategy, compression="none", aggregator=self.aggregator, storage=self.storage or "")
        phases = strategy(self.mode.strategy).phases
        put = 0.0 if self.transport == "server" else self.size * network.usd_per_byte(self.aggregator, self.storage or "")
        worker, region = [], []
        for place in self.market.places:
            one, two = (cost.egress_usd(phases([(place, k)], self.size, exchange), network, same_zone=same_zone) for k in (1, 2))
            worker.append(two - one)
            region.append(max(0.0, 2 * one - two - put))
        return np.array(worker), np.array(region)

    def _server_egress(self, hub: int) -> Array:
        """What one worker of each place and its server send each other, as `cost.egress_usd` prices the phases; shape (places,)."""
        exchange = Exchange(strategy=self.mode.strategy, compression="none", aggregator=HUB, storage="")
        prices = self.market.prices
        total: Array = np.zeros(len(prices))
        for phase in strategy(self.mode.strategy).phases([(WORKER, 1)], self.size, exchange):
            for t in phase.transfers:
                total = total + t.bytes * t.count * (prices[:, hub] if t.src == WORKER else prices[hub])
        return total

    def fixed_usd(self, workers: int) -> float:
        """What a round pays beside workers and regions: one result into the store, one run of the function."""
        if self.aggregator is None or self.transport == "server":
            return 0.0
        gradients = workers if self.transport == "store" else 1
        run = cost.function_usd(self.problem.function(self.aggregator), memory_gib(self.size, gradients), self.aggregate(workers))
        return run + self.size * self.problem.network.usd_per_byte(self.aggregator, self.storage or "")

    def usd_per_hour(self, workers: int) -> float:
        """Price of the server."""
        if self.aggregator is None or self.transport != "server":
            return 0.0
        offer = server_at(self.aggregator, workers, self.problem)
        return math.inf if offer is None else offer.usd_per_hour

    def taken(self, workers: int) -> dict[tuple[str, str, str], int]:
        """GPUs of the quota that the server itself takes."""
        offer = server_at(self.aggregator, workers, self.problem) if self.transport == "server" and self.aggregator else None
        return {} if offer is None or not needs_quota(offer, self.problem) else {(offer.place, offer.gpu, offer.market): offer.gpu_count}

    @property
    def required(self) -> frozenset[str]:
        """Places that need a worker: those of the request, and a server's own place unless the user wants it elsewhere."""
        wish = self.problem.requirements
        beside = self.transport == "server" and wish.aggregator is None and self.aggregator is not None
        return frozenset(wish.required_places) | (frozenset({str(self.aggregator)}) if beside else frozenset())
