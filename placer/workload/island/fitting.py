"""Plans that fit some machines, and bounds on the time that they take."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import NamedTuple

from placer.market.catalog import Gpu
from placer.records import replace
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.island.hardware import Hardware
from placer.workload.island.parallel.experts import LAYER_S, expert_layers
from placer.workload.island.precision import lacks_precision, usual_precision
from placer.workload.island.question import Candidate, all_candidates
from placer.workload.island.step import Step, step, step_seconds
from placer.workload.island.transformer_speed import (
    PRESSED_SLOWDOWN,
    calculation_seconds,
    is_pressed,
)
from placer.workload.island.transports import Transport
from placer.workload.island.wishes import PlanWishes

ROUNDING = 1e-9
"""Relative slack of a bound, so that sums in another order are not cut off."""


class Fit(NamedTuple):
    """A plan that fits the devices, before its microbatch is known.

    ``number`` orders plans of equal time, simple ones first. Each of ``ranks`` takes ``most``
    sequences at once at most, calculates one in ``sequence_s``, and takes ``least_s`` for it at
    least, on any network.
    """

    number: int
    candidate: Candidate
    ranks: int
    most: int
    sequence_s: float
    least_s: float


@lru_cache(maxsize=2**13)
def fitting(
    architecture: Architecture, gpu: Gpu, gpu_count: int, machines: int, wishes: PlanWishes
) -> tuple[Fit, ...]:
    """List the plans that fit the memory of some machines of ``gpu_count`` devices, those first
    that calculate a sequence fastest with all devices.

    Notes
    -----
    Experts add a fixed time to each microbatch, so that the largest one takes least for a sequence.
    """
    precision, room = wishes.precision or usual_precision(gpu), gpu.memory_gib * GIB
    free = (1 - wishes.headroom) * room
    seconds: dict[tuple[object, ...], float] = {}
    fits = []
    for number, candidate in enumerate(
        all_candidates(architecture, gpu, gpu_count, machines, wishes, precision)
    ):
        plan, need, total, _ = candidate
        if total > room:
            continue
        each = need.activations + need.logits
        most = max(1, int((free - (total - each)) / each))
        key = plan.tensor_parallel, plan.pipeline, plan.context_parallel, plan.checkpointing
        if key not in seconds:
            seconds[key] = calculation_seconds(architecture, gpu, plan, 1)
        fixed = expert_layers(architecture) / plan.pipeline * LAYER_S / most
        ranks = gpu_count * machines // plan.rank_gpus
        fits.append(Fit(number, candidate, ranks, most, seconds[key], seconds[key] + fixed))
    return tuple(sorted(fits, key=lambda fit: fit.least_s / fit.ranks))


class Bounds:
    """Bounds from below on the seconds of plans on some machines, whatever their share of a step.

    Notes
    -----
    Mutable: each plan is timed once, with its largest microbatch, when somebody asks for it. No
    smaller microbatch takes less for a sequence: what a microbatch takes beside its sequences is
    spread over fewer.
    """

    def __init__(
        self,
        architecture: Architecture,
        hardware: Hardware,
        wishes: PlanWishes,
        via: Transport,
        *,
        joined: bool,
    ) -> None:
        self.architecture, self.hardware, self.wishes = architecture, hardware, wishes
        self.via, self.joined = via, joined
        self._timed: dict[int, tuple[float, Step]] = {}

    @cached_property
    def fits(self) -> list[Fit]:
        """Plans that fit devices and hosts; none without a network, or in a format that the device
        lacks.
        """
        hardware, wanted = self.hardware, self.wishes.precision
        if not hardware.is_connected or (wanted and lacks_precision(hardware.gpu, wanted)):
            return []
        kind = self.architecture, hardware.gpu, hardware.gpu_count, hardware.machines
        host = hardware.host_gib * GIB
        return [fit for fit in fitting(*kind, self.wishes) if fit.candidate.host_bytes <= host]

    def reach(self, sequences: int, fewest: int, longest_s: float) -> bool:
        """Tell whether some plan may do a share of a step in some seconds."""
        for fit in self.fits:
            if sequences * fit.least_s > longest_s * fit.ranks:
                return False
            share = -(-sequences // fit.ranks)
            if (
                fit.ranks <= fewest
                and share * fit.least_s <= longest_s
                and self.least_s(fit, share) <= longest_s
            ):
                return True
        return False

    def least_s(self, fit: Fit, share: int) -> float:
        """Return the seconds that a plan takes at least for the sequences of its fullest rank."""
        known = self._timed.get(fit.number)
        if known is None:
            known = self._timed[fit.number] = self._largest(fit)
        each_s, timed = known
        plan = fit.candidate.plan
        if plan.virtual_stages > 1:  # a multiple of the stages
            share = max(share, plan.pipeline)
        work_s = each_s * (share + (plan.pipeline - 1) / plan.virtual_stages)
        least_s = step_seconds(work_s + timed.latency_s, timed.reduction_s, timed.network_s)
        return max(share * fit.least_s, least_s * (1 - ROUNDING))

    def _largest(self, fit: Fit) -> tuple[float, Step]:
        """Time one microbatch of a plan, the largest; return its seconds for a sequence too."""
        plan, count = replace(fit.candidate.plan, microbatch=fit.most), fit.most
        capacity = self.hardware.gpu.memory_gib * GIB
        tokens = count * self.architecture.sequence_length
        pressed = is_pressed(fit.candidate.memory, capacity, tokens)
        timed = step(
            self.architecture,
            self.hardware,
            plan,
            1,
            count * fit.sequence_s * (PRESSED_SLOWDOWN if pressed else 1.0),
            self.via,
            self.wishes.gradient_bytes_per_parameter,
            joined=self.joined,
        )
        # More calculation hides more of what a divided sequence sends: it is left out.
        is_plain = plan.context_parallel == 1
        return timed.work_s / count if is_plain else fit.least_s, timed
