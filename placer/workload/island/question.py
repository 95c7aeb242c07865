"""What is asked of an island, and the plans that come into question."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from msgspec import UNSET, Struct

from placer.market.catalog import Gpu
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import CHECKPOINTING, SHARDINGS, TENSOR_DEGREES, InnerPlan
from placer.workload.island.hardware import Hardware
from placer.workload.island.memory import Memory, host_bytes, memory
from placer.workload.island.precision import usual_precision
from placer.workload.island.transformer_speed import calculation_seconds
from placer.workload.island.transports import Transport
from placer.workload.island.wishes import PlanWishes, undivided_width


class Candidate(NamedTuple):
    """A plan with a microbatch of one sequence, and what it needs on each device and host."""

    plan: InnerPlan
    memory: Memory
    total_bytes: float
    host_bytes: float


class Question(Struct, frozen=True, kw_only=True):
    """A model, some machines, wishes, the sequences of a step that fall to these machines (to the
    fullest and the emptiest of several islands), whether an exchange between islands follows, and
    what runs inside.
    """

    architecture: Architecture
    hardware: Hardware
    wishes: PlanWishes
    sequences: int
    fewest: int
    joined: bool
    via: Transport

    @property
    def precision(self) -> str:
        """The format that the user asks for, else the usual one of the device."""
        return self.wishes.precision or usual_precision(self.hardware.gpu)

    def ranks(self, plan: InnerPlan) -> int:
        """Count the data-parallel ranks of a plan, each of which takes sequences of its own."""
        return self.hardware.gpus // plan.tensor_parallel

    def room_bytes(self, microbatch: int) -> float:
        """Return the bytes of a device that a microbatch may fill: of one sequence all."""
        free = self.wishes.headroom if microbatch > 1 else 0.0
        return (1 - free) * self.hardware.gpu.memory_gib * GIB

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Plans that wishes and machines admit, with a microbatch of one; simple ones first."""
        return candidates(
            self.architecture,
            self.hardware.gpu_count,
            self.hardware.machines,
            self.wishes,
            self.precision,
        )


@lru_cache(maxsize=2048)
def candidates(
    architecture: Architecture, gpu_count: int, machines: int, wishes: PlanWishes, precision: str
) -> tuple[Candidate, ...]:
    """List the plans that wishes admit on machines of ``gpu_count`` devices, simple ones first."""
    plans = [
        InnerPlan(
            sharding=sharding,
            tensor_parallel=degree,
            checkpointing=checkpointing,
            precision=precision,
            software=wishes.software or UNSET,
        )
        for degree in _degrees(architecture, gpu_count, wishes)
        for sharding in _shardings(gpu_count // degree, machines, wishes)
        for checkpointing in ([wishes.checkpointing] if wishes.checkpointing else CHECKPOINTING)
    ]
    needs = [memory(architecture, plan, gpu_count, machines, wishes.loss) for plan in plans]
    return tuple(
        Candidate(plan, need, need.total, host_bytes(architecture, plan, gpu_count, machines))
        for plan, need in zip(plans, needs, strict=True)
    )


@lru_cache(maxsize=2048)
def least_sequence_seconds(
    architecture: Architecture, gpu: Gpu, gpu_count: int, machines: int, wishes: PlanWishes
) -> tuple[tuple[int, float], ...]:
    """Return the seconds in which a rank calculates a sequence at least, by tensor parallel degree:
    by any plan that fits the memory of some machines.

    Notes
    -----
    A bound from below for so many machines and fewer, which hold no less each. It leaves out
    exchanges and launches.
    """
    precision = wishes.precision or usual_precision(gpu)
    least: dict[int, float] = {}
    for candidate in candidates(architecture, gpu_count, machines, wishes, precision):
        plan, degree = candidate.plan, candidate.plan.tensor_parallel
        if candidate.total_bytes <= gpu.memory_gib * GIB:
            seconds = calculation_seconds(architecture, gpu, plan, 1)
            least[degree] = min(seconds, least.get(degree, math.inf))
    return tuple(least.items())


def _degrees(architecture: Architecture, gpu_count: int, wishes: PlanWishes) -> tuple[int, ...]:
    if wishes.tensor_parallel is not None:
        return (wishes.tensor_parallel,)
    return tuple(
        degree
        for degree in TENSOR_DEGREES
        if gpu_count % degree == 0 and not undivided_width(architecture, degree)
    )


def _shardings(ranks: int, machines: int, wishes: PlanWishes) -> tuple[str, ...]:
    """List the shardings that differ from simpler ones, for some ranks a machine; a wished one
    stays as it is.
    """
    if wishes.sharding is not None:
        return (wishes.sharding,)
    if machines == 1:
        return SHARDINGS[:-1] if ranks > 1 else ("none",)
    return SHARDINGS if ranks > 1 else SHARDINGS[:-1]
