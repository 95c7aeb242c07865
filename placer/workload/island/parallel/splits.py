"""The degrees by which the devices of an island divide a model, as far as they are tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from placer.workload.architecture import Architecture
from placer.workload.inner_plan import SHARDINGS, TENSOR_DEGREES
from placer.workload.island.parallel.stages import stage_shape
from placer.workload.island.wishes import PlanWishes, undivided_width

PIPELINES = (2, 4, 8, 16)
EXPERT_DEGREES = (8, 16, 32, 64)
"""Fewer save little memory and exchange as much."""
CONTEXTS = (2, 4, 8)
LONG_SEQUENCE = 16_384
"""Tokens from which a sequence is divided: below, attention hides too little."""
MOST_PIECES = 8


def never_tried(architecture: Architecture) -> str:
    """Name the plans inside a worker that no search tries for a model, as parts of a sentence."""
    parts = ["unequal stages", "stages of several devices"]
    if architecture.experts == 1:
        parts.append("stages on fast networks or of small models")
    else:
        parts.append(f"experts over other than {EXPERT_DEGREES[0]} to {EXPERT_DEGREES[-1]} GPUs")
    if architecture.sequence_length < LONG_SEQUENCE:
        parts.append(f"cp under {LONG_SEQUENCE:,} tokens")
    return ", ".join(parts)


class Split(NamedTuple):
    """Degrees of a plan, as `InnerPlan` takes them."""

    tensor_parallel: int
    context_parallel: int
    pipeline: int
    virtual_stages: int = 1
    expert_parallel: int = 1


def splits(
    architecture: Architecture, gpu_count: int, machines: int, wishes: PlanWishes, *, stages: bool
) -> Iterator[Split]:
    """Yield degrees, simple ones first: those with stages that nobody asked for, or the others."""
    if stages and wishes.pipeline is not None:
        return
    for split in rank_splits(architecture, gpu_count, machines, wishes):
        if wishes.pipeline is None and (split.pipeline > 1) != stages:
            continue
        shape = stage_shape(gpu_count, machines, split.pipeline)
        if shape is None or shape[0] % (split.tensor_parallel * split.context_parallel):
            continue
        for experts in _expert_degrees(architecture, split, shape[0] * shape[1], wishes):
            for pieces in _pieces(architecture, split, wishes):
                if split.pipeline * pieces > architecture.layers:
                    continue  # a piece has a layer at least
                yield split._replace(virtual_stages=pieces, expert_parallel=experts)


def rank_splits(
    architecture: Architecture, gpu_count: int, machines: int, wishes: PlanWishes
) -> Iterator[Split]:
    """Yield the degrees of a rank that some machines or fewer may have."""
    for tensor in _tensor_degrees(architecture, gpu_count, wishes):
        for context in _contexts(architecture, gpu_count // tensor, wishes):
            for pipeline in _pipelines(architecture, gpu_count * machines, wishes):
                yield Split(tensor, context, pipeline)


def shardings(split: Split, gpu_count: int, machines: int, wishes: PlanWishes) -> tuple[str, ...]:
    """List the shardings that differ from simpler ones for a plan's degrees; a wished one stays as
    it is. With stages no weights are sharded, which each microbatch would gather again.
    """
    usual = _usual_shardings(split, gpu_count, machines)
    if not wishes.hybrid:
        usual = tuple(name for name in usual if name != "hybrid")
    if wishes.sharding is None:
        return usual
    # Others of a plan with stages or divided experts are timed where somebody writes them.
    is_tried = wishes.pipeline is not None or split.pipeline == split.expert_parallel == 1
    return (wishes.sharding,) if is_tried or wishes.sharding in usual else ()


def _usual_shardings(split: Split, gpu_count: int, machines: int) -> tuple[str, ...]:
    if split.pipeline > 1:
        return ("zero-1",)
    if split.expert_parallel > 1:
        return ("zero-1", "zero-3")
    ranks = gpu_count // split.tensor_parallel
    if machines == 1:
        return SHARDINGS[:-1] if ranks > 1 else ("none",)
    return SHARDINGS if ranks > 1 else SHARDINGS[:-1]


def _tensor_degrees(
    architecture: Architecture, gpu_count: int, wishes: PlanWishes
) -> tuple[int, ...]:
    if wishes.tensor_parallel is not None:
        return (wishes.tensor_parallel,)
    return tuple(
        degree
        for degree in TENSOR_DEGREES
        if gpu_count % degree == 0 and not undivided_width(architecture, degree)
    )


def _contexts(architecture: Architecture, gpus: int, wishes: PlanWishes) -> tuple[int, ...]:
    """List the degrees by which a sequence is divided, two parts for each GPU, so that the causal
    mask gives all the same work.
    """
    if wishes.context_parallel is not None:
        return (wishes.context_parallel,)
    tokens = architecture.sequence_length
    if tokens < LONG_SEQUENCE:
        return (1,)
    return (1, *(c for c in CONTEXTS if gpus % c == 0 and tokens % (2 * c) == 0))


def _pipelines(architecture: Architecture, gpus: int, wishes: PlanWishes) -> tuple[int, ...]:
    if wishes.pipeline is not None:
        return (wishes.pipeline,)
    return (1, *(p for p in PIPELINES if p <= min(gpus, architecture.layers)))


def _expert_degrees(
    architecture: Architecture, split: Split, gpus: int, wishes: PlanWishes
) -> tuple[int, ...]:
    """List the degrees by which a stage of some GPUs divides its experts."""
    tried = EXPERT_DEGREES if wishes.expert_parallel is None else (wishes.expert_parallel,)
    fitting = tuple(
        degree
        for degree in tried
        if degree > 1
        and gpus % degree == 0
        and architecture.experts % degree == 0
        and degree % split.tensor_parallel == 0
    )
    return (1, *fitting) if wishes.expert_parallel in (None, 1) else fitting


def _pieces(architecture: Architecture, split: Split, wishes: PlanWishes) -> tuple[int, ...]:
    """List the pieces of a stage that are tried: one, and as many as leave each a layer."""
    if wishes.virtual_stages is not None:
        return (wishes.virtual_stages,)
    most = min(MOST_PIECES, architecture.layers // split.pipeline)
    return (1,) if split.pipeline == 1 or most < 2 else (1, most)
