"""What goes on inside a worker, in words: plan, memory and software."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from placer.cost_model.estimate import pool_of
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.units import GIB
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import TRANSPORTS, Island
from placer.workload.island.memory import LOSS
from placer.workload.peer import peer_of

SHARDINGS = {
    "none": "plain data parallelism",
    "zero-1": "ZeRO-1 (sharded optimizer states)",
    "zero-2": "ZeRO-2 (sharded gradients and optimizer states)",
    "zero-3": "ZeRO-3 / FSDP (sharded weights, gradients and optimizer states)",
    "hybrid": "FSDP inside a machine, replicas over machines",
}


SHORT_SHARDINGS = {**SHARDINGS, "zero-1": "ZeRO-1", "zero-2": "ZeRO-2", "zero-3": "ZeRO-3 / FSDP"}


def plan_words(inner: InnerPlan) -> str:
    """Describe the plan inside a worker."""
    parts = [SHARDINGS[inner.sharding]]
    if inner.tensor_parallel > 1:
        parts.append(f"tensor parallelism over {inner.tensor_parallel} GPUs")
    if inner.checkpointing != "none":
        parts.append(f"{inner.checkpointing} activation checkpointing")
    count = inner.microbatch
    parts.append(f"microbatch of {count} sequence{'s' if count > 1 else ''}")
    return ", ".join([*parts, inner.precision.upper()])


def brief_plan_words(inner: InnerPlan) -> str:
    """Describe the plan inside a worker by the names of its parts."""
    parts = [SHORT_SHARDINGS[inner.sharding]]
    if inner.tensor_parallel > 1:
        parts.append(f"tensor parallel {inner.tensor_parallel}")
    if inner.checkpointing != "none":
        parts.append(f"{inner.checkpointing} checkpointing")
    return ", ".join([*parts, f"microbatch {inner.microbatch}", inner.precision.upper()])


def inner_lines(
    placement: Placement, problem: Problem, words: Callable[[InnerPlan], str] = plan_words
) -> Iterator[str]:
    """Yield the plan of each kind of worker, with the memory that it takes of each GPU; ``words``
    describes a plan.
    """
    several = len({(group.worker_name, group.inner) for group in placement.groups}) > 1
    told = set()
    for group in placement.groups:
        if group.inner is None or (group.worker_name, group.inner) in told:
            continue
        told.add((group.worker_name, group.inner))
        pool = pool_of(group, problem)
        built = problem.island(pool.offer, group.machines, group.inner, placement.workers)
        text = words(group.inner)
        if isinstance(built, Island):
            room = problem.catalog.gpu(group.gpu).memory_gib
            text += f"; {built.memory.total / GIB:.0f} of {room:g} GiB on each GPU"
            if built.memory.loss != LOSS:
                usual = built.memory.with_loss(LOSS).total / GIB
                text += f" with a {built.memory.loss} loss ({usual:.0f} with a {LOSS} one)"
        yield f"{group.worker_name}: {text}" if several else text


def short_inner_words(placement: Placement, problem: Problem) -> str:
    """Describe the plan that all workers have in few words; empty without one, and where they have
    several.
    """
    lines = list(inner_lines(placement, problem, brief_plan_words))
    return lines[0] if len(lines) == 1 else ""


def software_words(placement: Placement, problem: Problem) -> str:
    """Name the software that averages inside a zone."""
    peers = [peer_of(pool_of(group, problem).host) for group in placement.groups]
    names = {peer.transport for peer in peers if peer is not None} or {"hivemind"}
    return " and ".join(sorted(TRANSPORTS[name].title for name in names))
