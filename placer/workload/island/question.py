"""What is asked of an island, and the plans that come into question."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from placer.workload.architecture import Architecture
from placer.workload.inner_plan import CHECKPOINTING, SHARDINGS, TENSOR_DEGREES, InnerPlan
from placer.workload.island.hardware import Hardware
from placer.workload.island.memory import Memory, memory
from placer.workload.island.precision import usual_precision
from placer.workload.island.transports import Transport
from placer.workload.island.wishes import PlanWishes, undivided_width


class Candidate(NamedTuple):
    """A plan with a microbatch of one sequence, and what it needs on each device."""

    plan: InnerPlan
    memory: Memory
    total_bytes: float


class Question(Struct, frozen=True, kw_only=True):
    """A model, some machines, wishes, sequences of one step, and what runs inside the island."""

    architecture: Architecture
    hardware: Hardware
    wishes: PlanWishes
    batch: int
    via: Transport

    @property
    def precision(self) -> str:
        """The format that the user asks for, else the usual one of the device."""
        return self.wishes.precision or usual_precision(self.hardware.gpu)

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
        )
        for degree in _degrees(architecture, gpu_count, wishes)
        for sharding in _shardings(gpu_count // degree, machines, wishes)
        for checkpointing in ([wishes.checkpointing] if wishes.checkpointing else CHECKPOINTING)
    ]
    needs = [memory(architecture, plan, gpu_count, machines) for plan in plans]
    return tuple(Candidate(plan, need, need.total) for plan, need in zip(plans, needs, strict=True))


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
