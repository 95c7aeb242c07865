"""Least seconds of a step, and what it sends, of alike workers in each mode of a question."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from placer.cost_model.timing.least_steps import LeastSteps
from placer.cost_model.timing.site_groups import hidden_seconds, overlap_window
from placer.cost_model.timing.transfers import class_seconds, share_seconds
from placer.market.network.link_model import Array
from placer.problem.exchange import edge_bytes, pair_bytes, ring_messages, traits
from placer.problem.kept_answers import Recent
from placer.problem.placement import Exchange
from placer.problem.workers.pools import Pools
from placer.workload.constants import RINGS

KEPT = 64
"""Sets of places for which a network keeps what lies between them."""


class Between(Struct, frozen=True, kw_only=True):
    """The best of what lies between two of some places: seconds of a round trip, USD of a byte
    there and back, and bytes/s.

    ``out_bytes_per_s``: of the fastest link out of each place, the fastest first. ``ranked``: of
    the fastest link of some place to another one, of the second fastest ..., both ways.
    """

    rtt_s: float
    usd_per_byte: float
    out_bytes_per_s: Array
    ranked: Array


class AlikeWorkers(Struct, frozen=True, kw_only=True):
    """Numbers of alike workers, the seconds in which each does its part of a step, and the regions
    that hold them at least; shape (numbers,) each. One of the workers is of a class of averaging.
    """

    workers: Array
    part_s: Array
    regions: Array
    host: str


class LeastModes:
    """Bounds from below on a step of some alike workers of one machine each, whatever places they
    are at. What services of other places take, and what is sent to these, counts as free.

    ``steps``: bounds of all workers of the question. ``exchanges``: one for each mode of it.
    """

    def __init__(self, steps: LeastSteps, pools: Pools, exchanges: Sequence[Exchange]) -> None:
        self.steps, self.pools, self.exchanges = steps, pools, exchanges
        problem = self.problem = steps.problem
        self._size = problem.gradient_bytes

    def of(self, part_s: Array, host: str, workers: Array) -> tuple[Array, Array]:
        """Return the seconds of a step at least, and the USD of what it sends between regions, in
        each mode; shape (modes, numbers) each. Infinite where too few regions hold the workers.

        part_s: Seconds in which each of so many workers does its part; shape (numbers,).
        host: Class of averaging of one of them.
        workers: Their numbers, two or more; shape (numbers,).
        """
        held = np.searchsorted(self._capacity, workers) + 1
        held = np.maximum(held, self.problem.requirements.min_regions)
        seconds = np.full((len(self.exchanges), len(workers)), np.inf)
        usd = np.zeros(seconds.shape)
        for strategy, rows in self._rows.items():
            regions = np.maximum(held, traits(strategy).least_regions)
            able = regions <= self._most_regions
            if able.any():
                each = {"workers": workers[able], "part_s": part_s[able], "regions": regions[able]}
                alike = AlikeWorkers(**each, host=host)
                every = np.array([[self.exchanges[row].local_steps] for row in rows])
                exchange, at = self.exchanges[rows[0]], (np.array(rows)[:, None], able.nonzero()[0])
                seconds[at] = self._step_s(exchange, alike, every)
                usd[at] = self._sent_usd(exchange, alike) / every
        return seconds, usd

    @cached_property
    def _rows(self) -> dict[str, list[int]]:
        """Return the modes of each strategy, which differ in their local steps."""
        rows: dict[str, list[int]] = {}
        for row, exchange in enumerate(self.exchanges):
            rows.setdefault(exchange.strategy, []).append(row)
        return rows

    @cached_property
    def _most_regions(self) -> int:
        return min(len(self.pools.places[1]), self.problem.requirements.max_regions)

    @cached_property
    def _capacity(self) -> Array:
        """Most workers of one region, of two ...; shape (places,)."""
        pools, (place_of, places) = self.pools, self.pools.places
        bucket, most = pools.bucket_of, pools.figures(lambda pool: pool.max_count)
        quota = np.zeros(int(bucket.max(initial=-1)) + 1)
        np.maximum.at(quota, bucket, pools.figures(lambda pool: pool.gpu_quota // pool.gpus))
        held, place = np.minimum(np.bincount(bucket, most), quota), np.zeros(len(quota), np.intp)
        place[bucket] = place_of
        built: Array = np.sort(np.bincount(place, held, len(places)))[::-1].cumsum()
        return built

    @cached_property
    def _between(self) -> Between:
        """What lies between the places of the workers, of which there are two at least."""
        streams, places = self.problem.requirements.streams, self.pools.places[1]
        known: Recent[Between] = self.problem.network.memo.setdefault("between", Recent(KEPT))
        return known.get((streams, places), self._found_between)

    def _found_between(self) -> Between:
        network, places = self.problem.network, self.pools.places[1]
        speeds = network.speeds(places, self.problem.requirements.streams)
        rtts_s, prices = network.rtts_s(places), network.prices(places)
        np.fill_diagonal(speeds, 0.0)
        np.fill_diagonal(rtts_s, np.inf)
        np.fill_diagonal(prices, np.inf)
        return Between(
            rtt_s=float(rtts_s.min()),
            # A region sends to one other at least, and one other sends to it.
            usd_per_byte=float((prices.min(axis=1) + prices.min(axis=0)).min()),
            out_bytes_per_s=np.sort(speeds.max(axis=1))[::-1],
            ranked=np.sort(np.minimum(speeds, speeds.T), axis=1)[:, ::-1].max(axis=0),
        )

    def _step_s(self, exchange: Exchange, alike: AlikeWorkers, every: Array) -> Array:
        """Return the seconds of a step with an exchange after ``every`` so many; shape (modes,
        numbers).
        """
        if self.problem.transport not in RINGS:
            return alike.part_s
        transport = traits(exchange.strategy).transport
        if transport == "region-hub":
            return self._region_hub_s(alike, every)
        if transport == "region-gossip":
            return self._gossip_s(alike, every)
        apart = alike.regions > 1
        between_s = np.where(apart, self._between_s(exchange, alike), 0.0) if apart.any() else 0.0
        each_s: Array = self.steps.exchange_s(
            transport, alike.host, alike.workers, between_s=between_s
        )
        each_s = each_s / every
        if exchange.overlap:
            return np.maximum(alike.part_s, each_s)
        hidden_s = hidden_seconds(alike.part_s, each_s, overlap_window(exchange))
        built: Array = alike.part_s + each_s - hidden_s
        return built

    def _between_s(self, exchange: Exchange, alike: AlikeWorkers) -> Any:
        """Return the seconds that links between regions, or the busiest machine, take at least."""
        transport, size, between = traits(exchange.strategy).transport, self._size, self._between
        regions = np.maximum(alike.regions, 2)
        if transport == "server" and self.problem.requirements.aggregator is None:
            return self._sent_s
        factor = self.problem.calibration.line_factor(exchange.transport, "", "", rtt_s=0.0)
        if transport == "butterfly":
            carried = (edge_bytes if exchange.in_ring else pair_bytes)(size, alike.workers)
            messages = ring_messages(size, exchange) if exchange.in_ring else 0
            links_s = factor * carried / between.out_bytes_per_s[regions - 1]
            return links_s + messages * regions * between.rtt_s
        if transport == "leaders":
            counts = np.arange(2, self._most_regions + 1)
            # The slowest of the links from one region to all others carries its pair of leaders.
            links_s = factor * pair_bytes(size, counts) / between.ranked[: len(counts)]
            loads_s = edge_bytes(size, counts) / self.steps.fastest(alike.host)[0]
            able = (counts >= regions[:, None]) & (counts <= alike.workers[:, None])
            return np.where(able, np.maximum(links_s, loads_s), np.inf).min(axis=1)
        return 0.0

    def _region_hub_s(self, alike: AlikeWorkers, every: Array) -> Array:
        """Return the seconds of a step that the largest region averages, and after which models go
        to a hub and back.
        """
        moved_s = 2 * self._sent_s / every
        largest = -(-alike.workers // self._most_regions)
        averaging_s = np.where(largest > 1, self._averaging_s(np.maximum(largest, 2)), 0.0)
        built: Array = alike.part_s + averaging_s + moved_s
        return built

    def _gossip_s(self, alike: AlikeWorkers, every: Array) -> Array:
        """Return the seconds of a step of regions at their own pace: none is faster than its sends,
        and where each holds one worker, none averages.
        """
        return np.maximum(alike.part_s, self._sent_s / every)

    @cached_property
    def _sent_s(self) -> float:
        """Seconds of a gradient from region to region over plain streams."""
        fastest = float(self._between.out_bytes_per_s[0])
        return self._between.rtt_s / 2 + share_seconds(self._size, fastest)

    def _averaging_s(self, workers: Any) -> Any:
        """Return the seconds of an average inside a region, of the fastest class."""
        tensors, fitted = self.problem.profile.tensors, self.problem.calibration
        hosts = {pool.host for pool in self.pools.kinds}
        each = [class_seconds(host, self._size, workers, tensors, fitted) for host in hosts]
        return np.minimum.reduce(each)

    def _sent_usd(self, exchange: Exchange, alike: AlikeWorkers) -> Any:
        """Return the USD of what workers send to other regions in an exchange at least; 0 where a
        hub may be at another place.
        """
        transport, size = traits(exchange.strategy).transport, self._size
        away = transport == "server" and self.problem.requirements.aggregator is not None
        if away or transport in ("store", "regional-stores") or alike.regions[-1] < 2:
            return 0.0
        both_ways = {
            # Each region has an edge that leaves it and one that comes to it.
            "butterfly": edge_bytes(size, alike.workers) * alike.regions / 2,
            "leaders": size * alike.regions / 2,
            "region-gossip": size * alike.regions / 2,
            "region-hub": size * (alike.regions - 1),
            "server": size * np.maximum(alike.workers - self._capacity[0], 1),
        }[transport]
        return np.where(alike.regions > 1, both_ways, 0.0) * self._between.usd_per_byte
