"""What the timing of one round looks at, and the seconds that it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np
from msgspec import Struct

from placer.cost_model.timing.transfers import (
    DIRECT,
    DIRECT_SPREAD,
    GOODPUT,
    Links,
    averaging_seconds,
    lanes,
    transfer_seconds,
    wan_seconds,
)
from placer.market.catalog import OLD_TRANSPORT
from placer.problem.datasets import shares
from placer.problem.exchange import Phase, traits
from placer.problem.placement import Exchange, Placement
from placer.problem.problem import Problem
from placer.problem.workers.pool import Pool
from placer.records import replace
from placer.workload.constants import RINGS, ServiceConstants
from placer.workload.data_loading import Readers, speeds_within
from placer.workload.engines import ENGINES
from placer.workload.island.transports import BACKWARD_TAIL, HIDDEN_SHARE
from placer.workload.profile import Rate


class FunctionRun(Struct, frozen=True, kw_only=True):
    """One run of a cloud function: where, and for how many seconds (waiting included)."""

    place: str
    seconds: float


class StoreUse(Struct, frozen=True, kw_only=True):
    """One object store in one exchange: gradients that are put, and polls that found nothing."""

    place: str
    gradients: int
    failed_polls: int


class StepSeconds(Struct, frozen=True, kw_only=True):
    """From exchange to exchange in seconds: one optimizer step, or H local ones. ``parts`` names
    what communication consists of; ``hidden`` is how much of it overlaps with the calculation.
    ``waiting`` is how long the first gradient waits for the last. ``functions`` and ``stores`` say
    what is billed by use.
    """

    calculation: float
    communication: float
    parts: tuple[tuple[str, float], ...] = ()
    hidden: float = 0.0
    waiting: float = 0.0
    functions: tuple[FunctionRun, ...] = ()
    stores: tuple[StoreUse, ...] = ()

    @property
    def total(self) -> float:
        """Calculation plus the communication that nothing hides. Erben et al. (2024), logs: without
        overlap the plain sum holds within 0.94 % over 119 runs.
        """
        return self.calculation + self.communication - self.hidden


WINDOWS = (BACKWARD_TAIL, 0.1, 0.6)
"""Share of the calculation beside which gradients travel in buckets: expected, slow, fast. Assumed:
the backward pass of the last microbatch, two thirds of it, of one to several.
"""


def overlap_window(exchange: Exchange, case: int = 0, free_share: float = 1.0) -> float:
    """Return the share of the calculation that hides an exchange without staleness."""
    buckets = exchange.transport in RINGS and traits(exchange.strategy).bucketed
    is_pytorch = buckets and ENGINES["pytorch"].lack(exchange) is None
    return free_share * WINDOWS[case] if is_pytorch else 0.0


def _least(one: Any, other: Any) -> Any:
    """Return the smaller of two numbers, or of each pair of two arrays."""
    if isinstance(one, float) and isinstance(other, float):
        return min(one, other)
    return np.minimum(one, other)


def hidden_seconds(calculation: Any, communication: Any, window: float) -> Any:
    """Return the seconds that a ``window`` of the calculation hides; numbers or arrays."""
    return HIDDEN_SHARE * _least(communication, window * calculation)


def most_calculation_seconds(round_s: Any, communication: Any, window: float) -> Any:
    """Return the longest calculation of a round: the inverse of its length."""
    return _least(
        round_s - (1 - HIDDEN_SHARE) * communication if window else round_s - communication,
        (round_s - communication) / (1 - HIDDEN_SHARE * window),
    )


def overlapped(step: StepSeconds) -> StepSeconds:
    """Return the same step when the exchange runs beside the next one's calculation."""
    return replace(step, hidden=min(step.calculation, step.communication))


def bucketed(step: StepSeconds, window: float) -> StepSeconds:
    """Return the same step when gradients travel in buckets beside their calculation."""
    hidden = float(hidden_seconds(step.calculation, step.communication, window))
    return replace(step, hidden=hidden) if window else step


def gain_bound(granularity: float, factor: float = 2.0) -> float:
    """Return the most that ``factor`` times the workers can multiply the throughput by. Erben et
    al. (2024): calculation shrinks with the workers, communication does not: (1 + g) / (1 + g /
    factor).

    >>> round(gain_bound(1), 2), round(gain_bound(10), 2)
    (1.33, 1.83)
    """
    return (1 + granularity) / (1 + granularity / factor)


EXPECTED, SLOW, FAST = 0, 1, 2


class Round(Struct, frozen=True, kw_only=True, dict=True):
    """What the timing of one round looks at. ``site_group`` holds place, workers and samples/s of
    one worker, by group; ``hosts`` the classes of averaging time and the devices beside them by
    place, ``machines`` those of the smallest worker of each place.
    """

    site_group: tuple[tuple[str, int, float], ...]
    hosts: Mapping[str, frozenset[tuple[str, str]]]
    machines: Mapping[str, int]
    exchange: Exchange
    phases: tuple[Phase, ...]
    problem: Problem
    case: int

    @cached_property
    def network(self) -> Links:
        """Links of the catalog, as workers of several machines use them."""
        direct = traits(self.exchange.strategy).transport in DIRECT
        # Under hivemind each worker is one peer, which sends its parts alone.
        several = direct and self.exchange.transport != OLD_TRANSPORT
        return lanes(self.problem.network, self.machines) if several else self.problem.network

    @property
    def services(self) -> ServiceConstants:
        """What stores, functions and servers take."""
        return self.problem.calibration.services

    @property
    def size(self) -> float:
        """Bytes of one gradient on the wire."""
        return self.problem.gradient_bytes

    @property
    def workers(self) -> int:
        """Machines of all groups."""
        return sum(count for _, count, _ in self.site_group)

    def at_places(self) -> dict[str, int]:
        """Return the machines by place."""
        counts: dict[str, int] = {}
        for place, count, _ in self.site_group:
            counts[place] = counts.get(place, 0) + count
        return counts

    def speeds(self) -> dict[str, float]:
        """Return the samples/s by place."""
        rates: dict[str, float] = {}
        for place, count, rate in self.site_group:
            rates[place] = rates.get(place, 0.0) + count * rate
        return rates

    def shares(self) -> dict[str, float]:
        """Share of each step by place: as the data lies, else as the workers are many or fast."""
        speeds, datasets = self.speeds(), self.problem.requirements.datasets
        if datasets:
            return shares(datasets, speeds)
        if traits(self.exchange.strategy).division == "equal":
            return {place: count / self.workers for place, count in self.at_places().items()}
        total = fsum(speeds.values())
        return {place: speed / total for place, speed in speeds.items()}

    def group_shares(self) -> list[float]:
        """Return the share of each step by group, where no data has a place."""
        if traits(self.exchange.strategy).division == "equal":
            return [count / self.workers for _, count, _ in self.site_group]
        total = fsum(self.speeds().values())
        return [count * speed / total for _, count, speed in self.site_group]

    def averaging(self, workers: int, place: str | None = None) -> float:
        """Return the seconds of one average inside a zone, or inside one place."""
        calibration, tensors = self.problem.calibration, self.problem.profile.tensors
        hosts = frozenset().union(*self.hosts.values()) if place is None else self.hosts[place]
        return max(
            calibration.host_spread(host, gpu, self.case)
            * averaging_seconds([host], self.size, workers, tensors, calibration)
            for host, gpu in hosts
        )

    def latency(self, src: str, dst: str) -> float:
        """Return the seconds until the first byte of a plain stream is there: half a round trip."""
        return DIRECT_SPREAD[self.case] * self.network.link(src, dst).rtt_s / 2

    def streaming(self, src: str, dst: str) -> float:
        """Return the seconds from first to last byte of a gradient, no faster than both ends."""
        machines = min(self.network.machine_bytes_per_s(src), self.network.machine_bytes_per_s(dst))
        alone = max(
            transfer_seconds(
                self.size, self.network.link(src, dst), self.exchange.streams, self.case
            ),
            self.size / machines,
        )
        return DIRECT_SPREAD[self.case] * alone / GOODPUT

    def direct(self, src: str, dst: str) -> float:
        """Return the seconds of one gradient over plain streams."""
        return self.latency(src, dst) + self.streaming(src, dst)

    def forming(self, calculation: float) -> float:
        """Return the seconds that hosts wait after some calculation until they may average again.
        Known of averages among all workers alone; those inside regions are taken to need none.
        Where they overlap it, the wait is whole: it begins where the last average ends, so that a
        shorter calculation never makes a round longer.
        """
        fitted = self.problem.calibration.hosts
        hosts = {host for kinds in self.hosts.values() for host, _ in kinds} & fitted.keys()
        if self.workers < 2 or not hosts:
            return 0.0
        before = 0.0 if self.exchange.overlap else calculation
        return max(0.0, max(fitted[host].least_period_s for host in hosts) - before)

    def wan(self, phases: Sequence[Phase], peers: int) -> float:
        """Return the seconds of the slowest pair between regions in an exchange of some peers."""
        return wan_seconds(
            phases,
            self.network,
            self.problem.calibration,
            self.exchange.streams,
            self.case,
            peers=peers,
            software=self.exchange.transport,
        )

    def named(self, *names: str) -> list[Phase]:
        """Return the phases of the exchange whose name starts with one of some words."""
        return [phase for phase in self.phases if phase.name.startswith(names)]


def site_group_of(
    machines: Sequence[tuple[Pool, int]],
    placement: Placement,
    phases: tuple[Phase, ...],
    problem: Problem,
    case: int,
) -> Round:
    """Gather what the timing of a placement looks at."""
    speeds = loaded_speeds(machines, placement, problem, case)
    hosts: dict[str, frozenset[tuple[str, str]]] = {}
    smallest: dict[str, int] = {}
    for pool, _ in machines:
        smallest[pool.place] = min(pool.machines, smallest.get(pool.place, pool.machines))
        hosts[pool.offer.place] = hosts.get(pool.offer.place, frozenset()) | {
            (pool.host, pool.offer.gpu)
        }
    return Round(
        site_group=tuple(
            (pool.offer.place, n, speed) for (pool, n), speed in zip(machines, speeds, strict=True)
        ),
        hosts=hosts,
        machines=smallest,
        exchange=placement.exchange,
        phases=phases,
        problem=problem,
        case=case,
    )


def loaded_speeds(
    machines: Sequence[tuple[Pool, int]], placement: Placement, problem: Problem, case: int
) -> list[float]:
    """Return the samples/s of one worker of each kind, as all of them share store and lines.
    Workers with a plan have equal parts of a step, and wait for the slowest. A search over numbers
    of workers asks for what each does by itself, which is no slower.
    """
    chosen, wish = traits(placement.exchange.strategy), problem.requirements
    rates = (worker_rate(pool, chosen.framework) for pool, _ in machines)
    speeds = [(rate.value, rate.low, rate.high)[case] for rate in rates]
    waits = problem.island_question is not None and wish.narrowed is None
    if waits and not wish.datasets:
        speeds = [min(speeds)] * len(speeds)
    if problem.data_store is None:  # the data is with the workers, which share nothing
        return speeds
    readers = [
        Readers(
            count=count,
            speed=speed,
            loader=pool.loader,
            site=pool.place,
            line=problem.line_samples_per_s(pool.place, case),
        )
        for (pool, count), speed in zip(machines, speeds, strict=True)
    ]
    return speeds_within(
        readers,
        problem.most_loaded_samples_per_s,
        case,
        equal_parts=waits or chosen.division == "equal",
    )


def worker_rate(pool: Pool, framework: str) -> Rate:
    """Return the speed of one worker while it computes under a framework."""
    return pool.alone if framework == "none" else pool.shared


def samples_per_round(exchange: Exchange, problem: Problem) -> int:
    """Return the samples from one exchange to the next: TBS times local steps."""
    return problem.batch * exchange.local_steps
