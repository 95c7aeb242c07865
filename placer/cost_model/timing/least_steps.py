"""Least seconds of a step of several workers, by how one of them takes part in exchanges."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from placer.cost_model.timing.services import (
    aggregate_seconds,
    server_sum_seconds,
    summing_vcpus,
    worker_transfer_seconds,
)
from placer.cost_model.timing.site_groups import (
    hidden_seconds,
    most_calculation_seconds,
    overlap_window,
)
from placer.cost_model.timing.transfers import class_seconds
from placer.market.network.graph import IDEAL
from placer.market.network.link_model import Array
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import traits
from placer.problem.problem import Problem
from placer.records import replace
from placer.workload.constants import RINGS


class LeastSteps:
    """Bounds from below on the seconds of a step of some workers, whatever exchange they take.

    They err low, for each looks at one worker alone: all average no faster than its class does, and
    what it sends takes at least as long as from the best place for it. What exchanges only every
    few steps, or beside the calculation, counts as free, and so does every exchange where workers
    are unlike.

    Mutable: exchanges are timed once for each class of averaging, for all numbers of workers.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self._apart = problem, problem.requirements.min_regions > 1
        self._known: dict[tuple[str, int, bool], list[list[float]]] = {}
        self._known_fastest: dict[str, tuple[float, float]] = {}

    def step_s(
        self,
        part_s: float,
        host: str,
        workers: int,
        machines: int,
        *,
        apart: bool = False,
        free_share: float = 1.0,
    ) -> float:
        """Return the seconds of a step at least.

        part_s: Seconds in which a worker does its part of the step.
        host: Its class of averaging.
        machines: Of the worker.
        apart: Whether no region holds all workers.
        free_share: Largest share of the time behind which an exchange may hide that any worker
            leaves to it.
        """
        exchanges = self._exchanges(host, workers, machines, apart=apart)
        least_s: float = part_s + min(_left_s(part_s, exchanges, free_share))
        return least_s

    def steps_s(
        self,
        part_s: Array,
        host: str,
        workers: Array,
        machines: int,
        *,
        apart: bool = False,
        free_share: float = 1.0,
    ) -> Array:
        """Return `step_s` of some numbers of workers, each with its own part; shape (numbers,)."""
        if not self._ways:
            return part_s
        exchanges = self._each(host, np.maximum(workers, 2), machines, apart=apart)
        left_s = np.minimum.reduce([*_left_s(part_s, exchanges, free_share)])
        return part_s + np.where(workers > 1, left_s, 0.0)

    def most_part_s(self, step_s: float, host: str, workers: int, machines: int) -> float:
        """Return the most seconds that a part of a step takes which lasts so long; of workers of
        several regions, where the question asks for them.
        """
        most_s: float = max(
            most_calculation_seconds(step_s, seconds, window)
            for seconds, window in self._exchanges(host, workers, machines, apart=self._apart)
        )
        return most_s

    def _exchanges(
        self, host: str, workers: int, machines: int, *, apart: bool
    ) -> Iterator[tuple[float, float]]:
        """Yield the least seconds of each exchange, and the share of a part that may hide it."""
        if workers < 2 or not self._ways:
            return iter([(0.0, 0.0)])
        key = host, machines, apart
        known = self._known.get(key, [[]])
        if workers - 2 >= len(known[0]):
            numbers = np.arange(2, max(workers, self.problem.requirements.max_workers) + 1)
            timed = self._each(host, numbers, machines, apart=apart)
            known = [np.broadcast_to(row, numbers.shape).tolist() for row, _ in timed]
            self._known[key] = known
        return zip((row[workers - 2] for row in known), self._windows, strict=True)

    def _each(
        self, host: str, workers: Any, machines: int, *, apart: bool
    ) -> list[tuple[Any, float]]:
        return [
            (self.exchange_s(transport, host, workers, machines, apart=apart), window)
            for transport, window in self._ways
        ]

    def exchange_s(
        self,
        transport: str,
        host: str,
        workers: Any,
        machines: int = 1,
        *,
        apart: bool = False,
        between_s: Any = 0.0,
    ) -> Any:
        """Return the seconds of one exchange of a transport at least, of two workers or more: a
        number or an array.

        between_s: Seconds that links between regions take at least: of a whole exchange among
            workers, or of one gradient to a server.
        """
        problem, size = self.problem, self.problem.gradient_bytes
        machine_bytes_per_s, link_bytes_per_s = self.fastest(host)
        if transport == "server":
            moved_s = np.maximum(size / machine_bytes_per_s, between_s)
            return 2 * moved_s + server_sum_seconds(workers, summing_vcpus(None), problem)
        if transport in ("store", "regional-stores"):
            services, streams = problem.calibration.services, problem.requirements.streams
            link = replace(IDEAL, bytes_per_second=link_bytes_per_s, cap=link_bytes_per_s)
            gradients = workers if transport == "store" else 2
            return 2 * worker_transfer_seconds(size, link, services, streams) + aggregate_seconds(
                size, gradients, IDEAL, IDEAL, services
            )
        # In each of two phases the leader of each region sends at least half a gradient to others,
        # and in a ring over regions a worker of the smallest one does, by all its machines at best.
        leaders, tensors, across_s = transport == "leaders", problem.profile.tensors, 0.0
        if apart or leaders:
            sent_bytes_per_s = machine_bytes_per_s if leaders else self.fastest("")[0]
            across_s = size / (machines * sent_bytes_per_s)
        together = 2 if leaders else workers
        across_s = np.maximum(across_s, between_s)
        return across_s + class_seconds(host, size, together, tensors, problem.calibration)

    @cached_property
    def _windows(self) -> list[float]:
        return [window for _, window in self._ways]

    @cached_property
    def _ways(self) -> tuple[tuple[str, float], ...]:
        """Transport and window of each exchange; empty where some exchange counts as free."""
        problem, ways = self.problem, []
        if problem.mixes_workers or problem.transport not in RINGS:
            return ()
        for name, local_steps in problem.modes:
            exchange = exchange_for(name, 1, problem, local_steps=local_steps)
            if local_steps > 1 or exchange.overlap:
                return ()
            ways.append((traits(name).transport, overlap_window(exchange)))
        return tuple(ways)

    def fastest(self, host: str) -> tuple[float, float]:
        """Return the bytes/s of the fastest machine, and of the fastest link from or to one, of the
        places with workers of a class of averaging; of all places where that is not known.
        """
        if host not in self._known_fastest:
            places = self._places.get(host) if host else None
            network, places = self.problem.network, places or self.problem.catalog.rows_by_place
            links = network.fastest_links(self.problem.requirements.streams)
            self._known_fastest[host] = (
                max(map(network.machine_bytes_per_s, places)),
                max(map(links.__getitem__, places)),
            )
        return self._known_fastest[host]

    @cached_property
    def _places(self) -> Mapping[str, Collection[str]]:
        """Places of the workers of each class of averaging, where workers are machines."""
        if self.problem.island_question is not None:
            return {}
        pools = self.problem.pools
        (place_of, names), (host_of, _) = pools.places, pools.by_kind(lambda pool: pool.host)
        hosts = [*dict.fromkeys(pool.host for pool in pools.kinds)]
        cells = dict.fromkeys(zip(host_of.tolist(), place_of.tolist(), strict=True))
        found: dict[str, list[str]] = {host: [] for host in hosts}
        for host, place in cells:
            found[hosts[host]].append(names[place])
        return found


def _left_s(
    part_s: Any, exchanges: Iterable[tuple[Any, float]], free_share: float
) -> Iterator[Any]:
    """Yield what each exchange adds to a part of a step that hides some of it."""
    for seconds, window in exchanges:
        yield seconds - hidden_seconds(part_s, seconds, free_share * window)
