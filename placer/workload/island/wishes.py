"""What a user fixes of the plan inside an island; the rest is chosen."""

from __future__ import annotations

from msgspec import Struct

from placer.errors import PlacerError, unknown
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import (
    CHECKPOINTING,
    MOST_MICROBATCH,
    PRECISIONS,
    SHARDINGS,
    TENSOR_DEGREES,
)
from placer.workload.island.memory import LOSS
from placer.workload.software import SOFTWARE

HEADROOM = 0.05
"""Share of a device's memory that a chosen microbatch leaves free; assumed.

The count of bytes is an estimate, and a smaller microbatch costs little.
"""


class PlanWishes(Struct, frozen=True, kw_only=True):
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
        """Refuse unknown words and counts below one."""
        for kind, value, known in (
            ("sharding", self.sharding, SHARDINGS),
            ("checkpointing", self.checkpointing, CHECKPOINTING),
            ("precision", self.precision, PRECISIONS),
            ("software", self.software, SOFTWARE),
        ):
            if value is not None and value not in known:
                raise unknown(kind, value, known)
        if self.tensor_parallel is not None and self.tensor_parallel not in TENSOR_DEGREES:
            raise PlacerError(
                f"tensor parallel degree {self.tensor_parallel}", "give 1, 2, 4 or 8 GPUs"
            )
        if self.microbatch is not None and not 1 <= self.microbatch <= MOST_MICROBATCH:
            raise PlacerError(
                f"microbatch {self.microbatch}", "give a whole number of sequences from 1"
            )


FREE = PlanWishes()
"""Nothing is fixed."""


def check_wishes(architecture: Architecture, wishes: PlanWishes) -> None:
    """Refuse a tensor parallel degree that does not divide a width of the model."""
    degree = wishes.tensor_parallel
    if degree is not None and (width := undivided_width(architecture, degree)):
        raise PlacerError(
            f"tensor parallel degree {degree} does not divide {width}",
            f"give one of {', '.join(str(d) for d in degrees(architecture))}",
        )


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
