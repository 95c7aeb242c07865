"""How the machines of one worker share a model: sharding, tensor parallelism, checkpointing,
microbatch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from msgspec import Struct, field

from placer.errors import PlacerError, unknown
from placer.records import Count, Natural, one_of
from placer.workload.software import SOFTWARE

SHARDINGS = ("none", "zero-1", "zero-2", "zero-3", "hybrid")
"""What each GPU holds a share of: nothing, optimizer states, also gradients, also weights (FSDP);
``hybrid`` shards inside a machine and replicates over machines.
"""
CHECKPOINTING = ("none", "selective", "full")
"""Which activations are recomputed in the backward pass."""
PRECISIONS = ("bf16", "fp16", "tf32", "fp32", "fp8")
TENSOR_DEGREES = (1, 2, 4, 8)
"""GPUs that share each matrix; they are in one machine."""
MOST_MICROBATCH = 2**20
DEGREES = (
    ("pipeline", "pp", 1024),
    ("virtual_stages", "vp", 1024),
    ("expert_parallel", "ep", 4096),
    ("context_parallel", "cp", 64),
)
"""Further degrees: field, key of a plan's text, largest."""
COUNTS = {"tp": "tensor_parallel", "mb": "microbatch", "layers": "layers"} | {
    key: name for name, key, _ in DEGREES
}


class InnerPlan(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, dict=True
):
    """How the GPUs of one worker work together.

    sharding: What each GPU holds a share of.
    tensor_parallel: GPUs of one machine that share each matrix.
    checkpointing: Which activations are recomputed in the backward pass.
    microbatch: Sequences that each data-parallel rank takes at once.
    precision: Number format of the products.
    software: What trains, if somebody said so; a key of `SOFTWARE`.
    pipeline, virtual_stages: Stages, each with some of the layers, and the pieces of each: 1F1B
        with one, interleaved with more.
    expert_parallel: GPUs of a stage that divide the experts among each other.
    context_parallel: GPUs of one machine that divide each sequence.
    layers: Layers of the model that these GPUs have, where others have the rest; 0: all.
    """

    # The first five are written even where they are the default, as in all documents before.
    sharding: Annotated[str, one_of(*SHARDINGS)] = field(default_factory=lambda: "none")
    tensor_parallel: Annotated[int, one_of(*TENSOR_DEGREES)] = field(default_factory=lambda: 1)
    checkpointing: Annotated[str, one_of(*CHECKPOINTING)] = field(default_factory=lambda: "none")
    microbatch: Natural = field(default_factory=lambda: 1)
    precision: Annotated[str, one_of(*PRECISIONS)] = field(default_factory=lambda: "bf16")
    software: Annotated[str, one_of("", *SOFTWARE)] = ""
    pipeline: Natural = 1
    virtual_stages: Natural = 1
    expert_parallel: Natural = 1
    context_parallel: Natural = 1
    layers: Count = 0

    def __post_init__(self) -> None:
        """Refuse unknown words and counts below one."""
        check_parts(self)
        if (
            self.pipeline
            == self.expert_parallel
            == self.context_parallel
            == 1
            == self.virtual_stages
        ):
            return
        for name, key, most in DEGREES:
            if not 1 <= getattr(self, name) <= most:
                raise PlacerError(f"inner plan {key}={getattr(self, name)}", f"give 1 to {most}")
        if self.virtual_stages > 1 and self.pipeline == 1:
            raise PlacerError(
                f"inner plan vp={self.virtual_stages} without stages", "give pp=2 or more with it"
            )

    @property
    def rank_gpus(self) -> int:
        """Count the GPUs of one data-parallel rank, which take the same sequences."""
        return self.tensor_parallel * self.pipeline * self.context_parallel

    @property
    def divides_more(self) -> bool:
        """Return whether GPUs divide stages, experts or sequences, beside matrices."""
        return self.rank_gpus > self.tensor_parallel or self.expert_parallel > 1

    @property
    def spec(self) -> str:
        """Return the plan as it follows a group of machines: ``+zero-3+tp=2+ckpt=full+mb=4``."""
        parts = [
            self.sharding,
            *([f"tp={self.tensor_parallel}"] if self.tensor_parallel > 1 else []),
            *(
                f"{key}={getattr(self, name)}"
                for name, key, _ in DEGREES
                if getattr(self, name) > 1
            ),
            *([f"layers={self.layers}"] if self.layers else []),
            *([f"ckpt={self.checkpointing}"] if self.checkpointing != "none" else []),
            f"mb={self.microbatch}",
            *([self.precision] if self.precision != "bf16" else []),
            *([self.software] if self.software else []),
        ]
        return "".join(f"+{part}" for part in parts)


WORDS: Mapping[str, Collection[str]] = {
    "sharding": SHARDINGS,
    "checkpointing": CHECKPOINTING,
    "precision": PRECISIONS,
    "software": SOFTWARE,
}


def check_parts(plan: Any) -> None:
    """Refuse unknown words, and counts that no plan has, in a plan or what is fixed of one."""
    words = plan.sharding, plan.checkpointing, plan.precision, plan.software
    for value, (kind, known) in zip(words, WORDS.items(), strict=True):
        if value and value not in known:
            raise unknown(kind, value, known)
    if plan.tensor_parallel not in (None, *TENSOR_DEGREES):
        raise PlacerError(
            f"tensor parallel degree {plan.tensor_parallel}", "give 1, 2, 4 or 8 GPUs"
        )
    if plan.microbatch is not None and not 1 <= plan.microbatch <= MOST_MICROBATCH:
        raise PlacerError(
            f"microbatch {plan.microbatch}", "give a whole number of sequences from 1"
        )


def written_parts(text: str) -> dict[str, Any]:
    """Read the fields of `InnerPlan` from what follows a group of machines. Raises `PlacerError` if
    a part is not known.

    >>> written_parts("+zero-3+tp=2+mb=4")
    {'sharding': 'zero-3', 'tensor_parallel': 2, 'microbatch': 4}
    """
    values: dict[str, Any] = {}
    for part in filter(None, text.split("+")):
        key, equals, value = part.partition("=")
        if part in SHARDINGS:
            values["sharding"] = part
        elif part in PRECISIONS:
            values["precision"] = part
        elif part in SOFTWARE:
            values["software"] = part
        elif equals and key == "ckpt":
            values["checkpointing"] = value
        elif equals and key in COUNTS and value.isdecimal() and len(value) < 8:
            values[COUNTS[key]] = int(value)
        else:
            raise PlacerError(
                f"inner plan part '{part}' is not known",
                "write +SHARDING, +tp=N, +pp=N, +vp=N, +ep=N, +cp=N, +ckpt=none|selective|full, "
                "+mb=N, a precision or a software, such as +zero-3+mb=4",
            )
    return values
