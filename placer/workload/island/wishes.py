"""What a user fixes of the plan inside an island, and the degrees that are tried of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from placer.workload.architecture import Architecture
from placer.workload.inner_plan import SHARDINGS, TENSOR_DEGREES, check_parts
from placer.workload.island.divisions import stage_layers, stage_shape
from placer.workload.island.memory import LOSS

HEADROOM = 0.05
"""Share of a device's memory that a chosen microbatch leaves free; assumed.

The count of bytes is an estimate, and a smaller microbatch costs little.
"""


class PlanWishes(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Fixed parts of an inner plan; None leaves a part free.

    virtual_stages, expert_parallel, context_parallel: As in `InnerPlan`. A free precision is the
        usual one of the device: BF16 from Ampere on, FP16 before, FP32 on CPUs.
    gradient_bytes_per_parameter: Bytes of each trainable parameter that an exchange of gradients
        sends.
    loss: How the software calculates the loss: a key of
        `placer.workload.island.memory.LOGIT_BYTES`.
    headroom: Share of a device's memory that microbatches of more than one sequence leave free. A
        plan that somebody runs needs none.
    hybrid: Whether a free sharding may be hybrid.
    """

    sharding: str | None = None
    tensor_parallel: int | None = None
    checkpointing: str | None = None
    microbatch: int | None = None
    precision: str | None = None
    software: str | None = None
    pipeline: int | None = None
    virtual_stages: int | None = None
    expert_parallel: int | None = None
    context_parallel: int | None = None
    gradient_bytes_per_parameter: float = 2.0
    loss: str = LOSS
    headroom: float = HEADROOM
    hybrid: bool = True

    def __post_init__(self) -> None:
        """Refuse unknown words and counts that no plan has."""
        check_parts(self)


FREE = PlanWishes()
"""Nothing is fixed."""


def degrees(architecture: Architecture) -> tuple[int, ...]:
    """List the tensor parallel degrees that divide the widths of a model."""
    return tuple(d for d in TENSOR_DEGREES if not undivided_width(architecture, d))


def undivided_width(architecture: Architecture, degree: int) -> str:
    """Name the first width that a tensor parallel degree does not divide, or quantized weights, of
    which no software gives each GPU a part of the columns; empty if it divides all.
    """
    if degree > 1 and architecture.has_adapters and architecture.frozen_bytes_per_parameter < 2:
        return "weights of 4 bits"
    widths = (
        ("the width", architecture.width),
        ("the width of keys", architecture.kv_width),
        ("the width of the feed-forward part", architecture.mlp_width),
    )
    return next((f"{name}, {value:,}" for name, value in widths if value % degree), "")


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
        if (
            split.pipeline > architecture.layers
            or shape is None
            or shape[0] % (split.tensor_parallel * split.context_parallel)
        ):
            continue
        for experts in _expert_degrees(architecture, split, shape[0] * shape[1], wishes):
            for pieces in _pieces(architecture, split, wishes):
                if pieces > max(stage_layers(architecture, split.pipeline)):
                    continue  # a piece has a layer, but for some of stages with fewer layers
                yield split._replace(virtual_stages=pieces, expert_parallel=experts)


def rank_splits(
    architecture: Architecture, gpu_count: int, machines: int, wishes: PlanWishes
) -> Iterator[Split]:
    """Yield the degrees of a rank that some machines or fewer may have."""
    fitting = (d for d in degrees(architecture) if gpu_count % d == 0)
    most = min(gpu_count * machines, architecture.layers)
    pipelines = _wished(wishes.pipeline, (1, *(p for p in PIPELINES if p <= most)))
    for tensor in _wished(wishes.tensor_parallel, fitting):
        contexts = _contexts(architecture, gpu_count // tensor)
        for context in _wished(wishes.context_parallel, contexts):
            for pipeline in pipelines:
                yield Split(tensor, context, pipeline)


def _wished(degree: int | None, usual: Iterable[int]) -> tuple[int, ...]:
    """Return the degree that somebody fixed alone, else the usual ones."""
    return tuple(usual) if degree is None else (degree,)


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


def _contexts(architecture: Architecture, gpus: int) -> tuple[int, ...]:
    """List the degrees by which a sequence is divided, two parts for each GPU, so that the causal
    mask gives all the same work.
    """
    tokens = architecture.sequence_length
    if tokens < LONG_SEQUENCE:
        return (1,)
    return (1, *(c for c in CONTEXTS if gpus % c == 0 and tokens % (2 * c) == 0))


def _expert_degrees(
    architecture: Architecture, split: Split, gpus: int, wishes: PlanWishes
) -> tuple[int, ...]:
    """List the degrees by which a stage of some GPUs divides its experts."""
    fitting = tuple(
        degree
        for degree in _wished(wishes.expert_parallel, EXPERT_DEGREES)
        if degree > 1
        and gpus % degree == 0
        and architecture.experts % degree == 0
        and degree % split.tensor_parallel == 0
    )
    return (1, *fitting) if wishes.expert_parallel in (None, 1) else fitting


def _pieces(architecture: Architecture, split: Split, wishes: PlanWishes) -> tuple[int, ...]:
    """List the pieces of a stage that are tried: one, and as many as leave each a layer."""
    most = min(MOST_PIECES, architecture.layers // split.pipeline)
    usual = (1,) if split.pipeline == 1 or most < 2 else (1, most)
    return _wished(wishes.virtual_stages, usual)
