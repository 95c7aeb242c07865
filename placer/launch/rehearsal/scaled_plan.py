"""A scaled plan: bytes and calculation are divided by one factor, links and exchange stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from placer.cost_model.estimate import Estimate, estimate
from placer.documents.manifest import build_manifest
from placer.errors import PlacerError
from placer.launch.rehearsal.island_hosts import host_rates
from placer.launch.runtime.run_plan import plan_from
from placer.launch.shaped_network import Shape
from placer.market.catalog import Catalog, MeasuredLink
from placer.market.network.link_grid import GBPS
from placer.problem.exchange import traits
from placer.problem.exchange.streaming_diloco import fragments
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.workload.constants import Calibration, HostConstants, ServiceConstants
from placer.workload.profile import COMPRESSION_BYTES, Rate

ROUND_S = 4.0
"""A round is scaled to about so many seconds: what this machine itself adds is small beside it."""
MOST_WIRE_BYTES = 24e6
"""Largest gradient of a rehearsal as it travels."""
LEAST_ELEMENTS = 10_000
SAMPLES_PER_WORKER = 64
"""Samples of a worker in one step: enough for uneven shares, and drawn in no time."""
MOST_MACHINES = 24
"""Processes on one machine."""
NOTHING = Calibration(
    name="this machine left out",
    hosts={},
    kappa=(1.0, 1.0, 1.0),
    averaging_spread=(1.0, 1.0, 1.0),
    services=ServiceConstants(
        start_s=0.0,
        round_trips=0.0,
        stream_bytes_per_s=1e15,
        function_bytes_per_s=1e15,
        sum_bytes_per_s=1e15,
        server_sum_bytes_per_s=None,
    ),
)
"""Links alone: hosts, stores and functions that take no time."""
FREE_HOST = HostConstants(0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A scaled plan.

    Parameters
    ----------
    problem, placement
        The question with its model made small, and the plan.
    scale
        Bytes and seconds of calculation over those of the plan.
    elements
        Parameters that travel.
    """

    problem: Problem
    placement: Placement
    scale: float
    elements: int

    def calibrated(self, calibration: Calibration) -> Scaled:
        """Return the same plan with other times of hosts, stores and functions."""
        return replace(self, problem=replace(self.problem, calibration=calibration))

    @property
    def always_overlaps(self) -> bool:
        """Return whether the exchange cannot be run in turn."""
        return traits(self.placement.exchange.strategy).always_overlaps

    @property
    def exchanges_per_round(self) -> int:
        """Return the number of exchanges from round to round: of fragments, else one."""
        return fragments(self.placement.exchange.local_steps) if self.always_overlaps else 1

    def in_turn(self) -> Scaled:
        """Return the same plan with the exchange after the calculation, where it may be in turn."""
        if self.always_overlaps:
            return self
        problem = replace(
            self.problem, requirements=replace(self.problem.requirements, overlap=False)
        )
        exchange = replace(self.placement.exchange, overlap=False)
        return replace(self, problem=problem, placement=replace(self.placement, exchange=exchange))

    @property
    def estimate(self) -> Estimate:
        """Return the estimate of the cost model."""
        return estimate(self.placement, self.problem)

    def manifest(self) -> dict[str, Any]:
        """Build the manifest of the scaled plan; its expected figures are the prediction."""
        return build_manifest(self.problem, self.placement, self.estimate, "feasible", None)

    @property
    def machines(self) -> tuple[str, ...]:
        """List the places of the processes by rank, then of the object stores; see
        `placer.launch.runtime.run_plan.RunPlan.machines`.
        """
        return plan_from(self.manifest(), "rehearsal").machines

    @property
    def shapes(self) -> list[Shape]:
        """List the links between all places, and inside each."""
        places = sorted(set(self.machines))
        links = (self.problem.network.link(src, dst) for src, dst in product(places, places))
        return [
            Shape(
                src=link.src,
                dst=link.dst,
                stream_bytes_per_s=link.bytes_per_second,
                pair_bytes_per_s=max(link.cap, link.bytes_per_second),
                rtt_s=link.rtt_s,
            )
            for link in links
        ]


def fewer(placement: Placement, per_group: int | None) -> Placement:
    """Cut each group of the plan to at most so many workers.

    Raises
    ------
    PlacerError
        If even so there are too many processes for one machine.
    """
    if per_group is not None:
        placement = replace(
            placement,
            groups=tuple(replace(g, count=min(g.count, per_group)) for g in placement.groups),
        )
    if placement.workers > MOST_MACHINES:
        raise PlacerError(
            f"the plan has {placement.workers} workers, a rehearsal at most {MOST_MACHINES}",
            "rehearse fewer of each group: --per-group 2",
        )
    return placement


def without_hosts(problem: Problem) -> Problem:
    """Return the question with hosts, stores and functions that take no time: links and devices
    alone.
    """
    hosts = {gpu.host: FREE_HOST for gpu in problem.catalog.gpus.values()}
    return replace(problem, calibration=replace(NOTHING, hosts=hosts))


def usual_scale(problem: Problem, placement: Placement) -> float:
    """Return the scale that makes a round about `ROUND_S` seconds long, with at most
    `MOST_WIRE_BYTES`; never above 1.
    """
    step = estimate(placement, without_hosts(problem)).step
    least = LEAST_ELEMENTS * COMPRESSION_BYTES[problem.compression] / problem.gradient_bytes
    return min(1.0, max(least, min(ROUND_S / step.total, MOST_WIRE_BYTES / problem.gradient_bytes)))


def scaled(
    problem: Problem,
    placement: Placement,
    scale: float,
    most_bytes_per_s: float,
    elements: int | None = None,
) -> Scaled:
    """Make a plan small.

    Parameters
    ----------
    scale
        Of bytes and of calculation; 1 leaves them.
    most_bytes_per_s
        What links can carry here; faster ones are cut to it, for the prediction as well.
    elements
        Parameters that travel, where a user's own model says it.

    Raises
    ------
    PlacerError
        If so small a scale leaves next to nothing that travels.

    Notes
    -----
    Calculation is made shorter by smaller batches: B' samples take ``scale`` times as long as B
    where all speeds are multiplied by B' / (B scale).
    """
    if elements is None:
        whole = problem.profile.gradient_bytes_fp32 / COMPRESSION_BYTES["none"]
        elements = round(whole * scale)
        if elements < min(LEAST_ELEMENTS, int(whole)):
            words = (
                f"scale {scale:.3g} leaves {elements:,} of {whole:,.0f} parameters, fewer than "
                f"{LEAST_ELEMENTS:,}"
            )
            raise PlacerError(
                words,
                f"{LEAST_ELEMENTS / whole:.2g} is about the smallest: headers are more than data "
                f"below it",
            )
    batch = min(problem.batch, SAMPLES_PER_WORKER * placement.workers)
    faster = batch / (problem.batch * scale)
    profile = replace(
        problem.profile,
        parameters=elements,
        gradient_bytes_fp32=elements * int(COMPRESSION_BYTES["none"]),
        tensors=1,
        target_batch_size=batch,
        microbatch=batch,
        rates=tuple(_faster(rate, faster) for rate in host_rates(problem, placement)),
        architecture=None,
    )
    small = Problem(
        profile=profile,
        catalog=_carried(problem, placement, most_bytes_per_s),
        requirements=replace(
            problem.requirements,
            target_batch_size=batch,
            batch_range=None,
            quorum=None,  # all workers answer here
            grace_s=None,
            compression=problem.compression,
        ),
        calibration=problem.calibration,
    )
    return Scaled(problem=small, placement=placement, scale=scale, elements=elements)


def _faster(rate: Rate, factor: float) -> Rate:
    return replace(rate, value=rate.value * factor, low=rate.low * factor, high=rate.high * factor)


def _carried(problem: Problem, placement: Placement, most_bytes_per_s: float) -> Catalog:
    """Return the book with a row for each link between places of the plan, none above what is
    carried here.
    """
    exchange = placement.exchange
    places = sorted({*placement.places, *filter(None, (exchange.aggregator, exchange.storage))})
    links = [problem.network.link(src, dst) for src, dst in product(places, places)]
    most = most_bytes_per_s / GBPS
    rows: Mapping[tuple[str, str], MeasuredLink] = {
        (link.src, link.dst): MeasuredLink(
            src=link.src,
            dst=link.dst,
            gbps_one_stream=min(most, link.bytes_per_second / GBPS),
            gbps_low=None,
            gbps_high=None,
            rtt_ms=link.rtt_s * 1e3,
            basis=link.basis,
            source=link.source,
            as_of="",
            gbps_many_streams=min(most, max(link.cap, link.bytes_per_second) / GBPS),
        )
        for link in links
    }
    return replace(problem.catalog, links=tuple(rows.values()))
