"""The plans that some machines can run, with a microbatch of one."""

from __future__ import annotations

from functools import lru_cache

from placer.workload.architecture import Architecture
from placer.workload.inner_plan import CHECKPOINTING, SHARDINGS, TENSOR_DEGREES, InnerPlan
from placer.workload.island.memory import Memory, memory
from placer.workload.island.wishes import PlanWishes, undivided_width


@lru_cache(maxsize=2048)
def candidates(
    architecture: Architecture, gpu_count: int, machines: int, wishes: PlanWishes, precision: str
) -> tuple[tuple[InnerPlan, Memory], ...]:
    """List the plans that wishes admit on machines of ``gpu_count`` devices, simple ones first,
    with what they need of each device.
    """
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
    return tuple((plan, memory(architecture, plan, gpu_count, machines)) for plan in plans)


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
