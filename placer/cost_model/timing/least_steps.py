"""Least seconds of a step of several workers, by how one of them takes part in exchanges."""

from __future__ import annotations

from functools import cached_property

from placer.cost_model.timing.services import aggregate_seconds, server_sum_seconds, summing_vcpus
from placer.cost_model.timing.site_groups import (
    hidden_seconds,
    most_calculation_seconds,
    overlap_window,
)
from placer.cost_model.timing.transfers import averaging_seconds
from placer.market.network.graph import IDEAL
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import traits
from placer.problem.problem import Problem
from placer.workload.constants import RINGS


class LeastSteps:
    """Bounds from below on the seconds of a step of some workers, whatever exchange they take.

    They err low, for each looks at one worker alone: all average no faster than its class does, and
    no link takes time but the network of its machines. What exchanges only every few steps, or
    beside the calculation, counts as free, and so does every exchange where workers are unlike.

    Mutable: exchanges are timed once for each class of averaging and number of workers.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self._apart = problem, problem.requirements.min_regions > 1
        self._known: dict[tuple[str, int, int, bool], tuple[tuple[float, float], ...]] = {}

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
        least_s: float = part_s + min(
            seconds - hidden_seconds(part_s, seconds, free_share * window)
            for seconds, window in self._exchanges(host, workers, machines, apart=apart)
        )
        return least_s

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
    ) -> tuple[tuple[float, float], ...]:
        """Return the least seconds of each exchange, and the share of a part that may hide it."""
        key = host, workers, machines, apart
        if key not in self._known:
            free = workers < 2 or not self._ways
            self._known[key] = ((0.0, 0.0),) if free else self._timed(*key)
        return self._known[key]

    def _timed(
        self, host: str, workers: int, machines: int, apart: bool
    ) -> tuple[tuple[float, float], ...]:
        timed = [
            (self.exchange_s(transport, host, workers, machines, apart=apart), window)
            for transport, window in self._ways
        ]
        # Of two exchanges the one that is shorter and hides no less is enough.
        return tuple(
            (seconds, window)
            for seconds, window in set(timed)
            if not any(
                s <= seconds and w >= window for s, w in timed if (s, w) != (seconds, window)
            )
        )

    def exchange_s(
        self, transport: str, host: str, workers: int, machines: int = 1, *, apart: bool = False
    ) -> float:
        """Return the seconds of one exchange of a transport at least."""
        problem, size = self.problem, self.problem.gradient_bytes
        if transport == "server":
            return float(server_sum_seconds(workers, summing_vcpus(None), problem))
        if transport in ("store", "regional-stores"):
            gradients = workers if transport == "store" else 2
            return aggregate_seconds(size, gradients, IDEAL, IDEAL, problem.calibration.services)
        # In a ring over regions, and among leaders of regions, a worker of each region sends at
        # least half a gradient to other regions in each of two phases, by all its machines at best.
        leaders, tensors = transport == "leaders", problem.profile.tensors
        across_s = size / (machines * self._fastest_machine) if apart or leaders else 0.0
        together = 2 if leaders else workers
        return across_s + averaging_seconds([host], size, together, tensors, problem.calibration)

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

    @cached_property
    def _fastest_machine(self) -> float:
        """Bytes/s of the fastest network that a machine of any place has."""
        network, places = self.problem.network, self.problem.catalog.rows_by_place
        return max(network.machine_bytes_per_s(place) for place in places)
