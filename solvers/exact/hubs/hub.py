"""Places where gradients meet: one function and store, stores of regions with a global one, or a
server.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from placer.cost_model import dollars as cost
from placer.cost_model.timing import services as stores
from placer.cost_model.timing.services import server_sum_seconds, summing_vcpus
from placer.cost_model.timing.transfers import direct_seconds, share_seconds
from placer.market.catalog import VmOffer
from placer.market.network.graph import IDEAL, Link
from placer.problem.admitted_exchanges import holds, needs_quota, servers_at
from placer.problem.exchange import memory_gib, strategy, traits
from placer.problem.placement import Exchange

from ..._market.arrays import Array, Indices, Mask
from ..._market.market import Market
from ..._mode import Mode

Ways = dict[int, tuple[float, float]]
"""Seconds to the place where gradients meet and back, by position of the place."""


class Hub:
    """One place, or pair of places, where gradients meet; all figures are lower bounds, per round.

    ``aggregator``, ``storage``: places of function and store; of the server, storage is empty.
    None: a hub that no real one beats. ``meetings``: ways to each place where gradients meet, which
    hubs of one store share.
    """

    def __init__(
        self,
        market: Market,
        mode: Mode,
        hub: tuple[str | None, str | None],
        meetings: dict[str | None, Ways],
    ) -> None:
        self.market, self.mode, self.problem = market, mode, market.problem
        self.aggregator, self.storage = hub
        self.meetings = meetings
        self._sent: dict[int, tuple[float, float]] = {}
        self.size, self.streams = self.problem.gradient_bytes, self.problem.requirements.streams
        self.services = self.problem.calibration.services
        self.transport = traits(mode.strategy).transport

    def link(self, src: str | None, dst: str | None) -> Link:
        """Find a link; the ideal one where an end is not known."""
        return IDEAL if src is None or dst is None else self.problem.network.link(src, dst)

    def gradients(self, workers: Any) -> Any:
        """Return how many gradients one function sums at least."""
        return workers if self.transport == "store" else 2

    def able(self, memory: Array, aggregate: Array) -> Array:
        """Return whether a function can have so many GiB for so many seconds."""
        if self.aggregator is None or self.transport == "server":
            return np.full(aggregate.shape, True)
        offer = self.problem.function(self.aggregator)
        return (memory <= offer.max_memory_gib) & (aggregate <= offer.max_seconds)

    def aggregate(self, workers: Any) -> Any:
        """Return the seconds between the last gradient and the result."""
        if self.transport == "server":
            return server_sum_seconds(workers, self._vcpus(workers), self.problem)
        fetch = self.link(self.storage, self.aggregator)
        put = self.link(self.aggregator, self.storage)
        return stores.aggregate_seconds(
            self.size, self.gradients(workers), fetch, put, self.services
        )

    def _vcpus(self, workers: Any) -> Any:
        """Return the vCPUs that sum in the server of some numbers of workers."""
        vcpus = np.full(np.shape(workers), summing_vcpus(None))
        for offer in reversed(self._servers):
            vcpus = np.where(holds(offer, workers, self.problem), summing_vcpus(offer), vcpus)
        return vcpus

    def shared(self, workers: Any) -> Any:
        """Return the seconds in which all gradients pass the hub's network, one way."""
        if self.transport != "server":
            return 0.0
        return share_seconds(workers * self.size, self._fastest_machine)

    @cached_property
    def _fastest_machine(self) -> float:
        """Bytes/s of the machine with the best network where the server may be."""
        places = self.market.places if self.aggregator is None else (self.aggregator,)
        return max(self.problem.network.machine_bytes_per_s(place) for place in places)

    def ways(self, places: Indices | None = None) -> tuple[Array, Array]:
        """Return the seconds to the hub and back, infinite but at some places; shape (places,)."""
        met = self.aggregator if self.transport == "server" else self.storage
        known, names = self.meetings.setdefault(met, {}), self.market.places
        wanted = list(range(len(names))) if places is None else places.tolist()
        for place in wanted:
            if place not in known:
                known[place] = self._up(names[place]), self._down(names[place])
        built = np.full((2, len(names)), math.inf)
        built[:, wanted] = np.array([known[place] for place in wanted]).reshape(-1, 2).T
        return built[0], built[1]

    def _up(self, place: str) -> float:
        if self.transport == "server":
            return direct_seconds(self.size, self.link(place, self.aggregator), self.streams)
        if self.transport == "store":
            return stores.worker_transfer_seconds(
                self.size, self.link(place, self.storage), self.services, self.streams
            )
        home = self.link(place, place)
        forward = stores.aggregate_seconds(
            self.size, 1, home, self.link(place, self.storage), self.services
        )
        return (
            stores.worker_transfer_seconds(self.size, home, self.services, self.streams) + forward
        )

    def _down(self, place: str) -> float:
        if self.transport == "server":
            return direct_seconds(self.size, self.link(self.aggregator, place), self.streams)
        if self.transport == "store":
            return stores.worker_transfer_seconds(
                self.size, self.link(self.storage, place), self.services, self.streams
            )
        home = self.link(place, place)
        return stores.copy_seconds(
            self.size, self.link(self.storage, place), home, self.services
        ) + stores.worker_transfer_seconds(self.size, home, self.services, self.streams)

    def egress(self, places: Indices) -> tuple[Array, Array]:
        """Return the egress of each worker and of each region beside; shape (places,)."""
        for place in places.tolist():
            if place not in self._sent:
                self._sent[place] = self._sent_usd(1, place), self._sent_usd(2, place)
        one, two = np.array([self._sent[place] for place in places.tolist()]).reshape(-1, 2).T
        network = self.problem.network
        put = (
            0.0
            if self.transport == "server"
            else self.size * network.usd_per_byte(self.aggregator or "", self.storage or "")
        )
        # Linear in the workers of a region: the slope is what one adds, the rest is what the region
        # adds once. The result that goes into the store once is priced apart.
        return two - one, np.maximum(0.0, 2 * one - two - put)

    def _sent_usd(self, workers: int, place: int) -> float:
        """Return the egress with all workers at one place."""
        exchange = Exchange(
            strategy=self.mode.strategy,
            compression="none",
            aggregator=self.aggregator,
            storage=self.storage or "",
        )
        sent = [(self.market.places[place], workers)]
        phases = strategy(self.mode.strategy).phases(sent, self.size, exchange)
        same_zone = self.problem.requirements.same_zone
        return cost.egress_usd(phases, self.problem.network, same_zone=same_zone)

    def fixed_usd(self, workers: int) -> float:
        """Price what a round pays once: one put, one run of the function."""
        if self.aggregator is None or self.transport == "server":
            return 0.0
        gradients = workers if self.transport == "store" else 1
        # Charged for the sum alone: waiting for gradients only makes the run longer.
        run = cost.function_usd(
            self.problem.function(self.aggregator),
            memory_gib(self.size, gradients),
            self.aggregate(workers),
        )
        return run + self.size * self.problem.network.usd_per_byte(
            self.aggregator, self.storage or ""
        )

    def usd_per_hour(self, workers: Array) -> Array:
        """Price of the server for some numbers of workers; infinite where none fits."""
        needed = self.transport == "server" and self.aggregator is not None
        usd = np.full(workers.shape, math.inf if needed else 0.0)
        for offer in reversed(self._servers):
            usd[holds(offer, workers, self.problem)] = offer.usd_per_hour
        return usd

    @cached_property
    def _servers(self) -> tuple[VmOffer, ...]:
        """Machines that may be the server, in the order in which they are taken."""
        return (
            servers_at(self.aggregator, self.problem)
            if self.transport == "server" and self.aggregator
            else ()
        )

    def taken(self, workers: int) -> dict[tuple[str, ...], int]:
        """Count the GPUs of the quota that the server itself takes."""
        offer = next(
            (offer for offer in self._servers if holds(offer, workers, self.problem)), None
        )
        return (
            {}
            if offer is None or not needs_quota(offer, self.problem)
            else {(offer.place, offer.gpu, offer.market): offer.gpu_count}
        )

    @cached_property
    def open_places(self) -> Mask:
        """Where workers may be, of places; shape (places,)."""
        full = len(self.required) >= self.problem.requirements.max_regions
        return np.array(
            [not full or place in self.required for place in self.market.places], dtype=bool
        )

    @cached_property
    def required(self) -> frozenset[str]:
        """Places that need a worker; a server's own among them unless it is named."""
        wish = self.problem.requirements
        beside = (
            self.transport == "server" and wish.aggregator is None and self.aggregator is not None
        )
        return frozenset(wish.required_places) | (
            frozenset({str(self.aggregator)}) if beside else frozenset()
        )
