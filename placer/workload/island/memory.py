"""Bytes that a plan needs on each device and on each machine's host."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from placer.records import replace
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import (
    expert_divisor,
    kept_microbatches,
    stage_layers,
    stage_shape,
)
from placer.workload.software import software

GATHERED_LAYERS = 2
"""Layers whose weights are whole at once under zero-3: the one at work and the next."""
LOGIT_BYTES = {"plain": 14.0, "fused": 4.0}
"""Bytes of each logit by the loss of the software.

``plain`` is PyTorch's cross-entropy: BF16 logits (2), and a copy, the softmax and its gradient in
FP32 (4 each). torchtitan's nine published figures of 2024 without pipelines are 0.78 to 1.22 times
what follows (benchmarks/llama3_h100_202412_torchtitan.md). ``fused`` keeps one copy, in place or
compiled: all 139 runs of llm-foundry on A100 fit so, and torchtitan's of June 2025, which compile
the loss, are 0.77 and 0.78 times of it.
"""
LOSS = "plain"
"""Loss of a plan whose software nobody named: the one that needs more."""
FIXED_BYTES, MANY_GROUPS_BYTES = 1.5e9, 2.5e9
"""CUDA context, NCCL buffers and the allocator's slack; with stages or experts more groups have
buffers.
"""
ELEMENT_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 2.0, "tf32": 4.0, "fp32": 4.0}
"""Bytes of an activation and of a computed weight; fp8 keeps both in BF16."""
HOST_SHARE = 1.5
"""Host memory over a machine's share of the states: a checkpoint passes through the host."""
LOADER_BYTES = 4 * 2**30
"""Host memory of the data loader and of the processes; assumed."""
SHARDED_PARTS = {
    "none": (),
    "zero-1": ("optimizer",),
    "zero-2": ("optimizer", "gradients"),
    "zero-3": ("optimizer", "gradients", "weights"),
    "hybrid": ("optimizer", "gradients", "weights"),
}
"""What the devices of a sharding group divide among each other."""


class Memory(Struct, frozen=True, kw_only=True):
    """Bytes on one device, by what they hold.

    states: Optimizer states, weights in FP32 and gradients of what is trained, and frozen weights.
    gathered: Weights that are whole while they are used.
    embedding: The embedding, which zero-3 gathers as a unit of its own.
    activations, logits: What backward needs of one microbatch.
    fixed: Context, buffers, slack.
    loss: A key of `LOGIT_BYTES`.
    """

    states: float
    gathered: float
    embedding: float
    activations: float
    logits: float
    fixed: float = FIXED_BYTES
    loss: str = LOSS

    def of_room(self, room_gib: float) -> str:
        """Say how much of a device it is, and what software without a fused loss would take."""
        text = f"{self.total / GIB:.0f} of {room_gib:g} GiB on each GPU"
        if self.loss == LOSS:
            return text
        plain = LOGIT_BYTES[LOSS] / LOGIT_BYTES[self.loss] * self.logits
        usual = replace(self, logits=plain).total / GIB
        return f"{text} with a {self.loss} loss ({usual:.0f} with a {LOSS} one)"

    @property
    def total(self) -> float:
        """Bytes of all parts."""
        parts = (self.states, self.gathered, self.embedding, self.activations, self.logits)
        return sum(parts) + self.fixed

    def of_microbatch(self, count: int) -> Memory:
        """Return what a microbatch of ``count`` sequences needs where this is one sequence's."""
        if count == 1:
            return self
        return replace(self, activations=count * self.activations, logits=count * self.logits)


def memory(
    architecture: Architecture, plan: InnerPlan, gpu_count: int, machines: int, loss: str = LOSS
) -> Memory:
    """Return the bytes that a plan needs on each device. 16 bytes a trainable parameter,
    Rajbhandari et al. (2020), or what the software keeps. Activations of a layer with fused
    attention: 34 bytes a token and unit of width in a plain GPT, Korthikanti et al. (2022), here
    counted for its widths.
    """
    degree = plan.tensor_parallel
    gpu_count, machines = stage_shape(gpu_count, machines, plan.pipeline) or (gpu_count, machines)
    group = sharding_group(plan, gpu_count, machines)
    element = ELEMENT_BYTES[plan.precision]
    dense, experts = stage_parameters(architecture, plan.pipeline)
    whole = element * (dense / degree + experts / expert_divisor(plan))
    layer = GATHERED_LAYERS * element * _layer_parameters(architecture, plan)
    layers = min(layer, whole)
    embedding = 0.0
    if plan.sharding in ("zero-3", "hybrid") and group > 1:
        stored = min(whole, state_bytes(architecture, plan, 1, "weights"))
        others = stored * (1 - 1 / group)
        gathered = min(layers, others)
        table = element * architecture.vocabulary * architecture.width / degree
        embedding = min(table, others - gathered)
    elif architecture.has_adapters:
        gathered = layers if architecture.frozen_bytes_per_parameter < element else 0.0
    else:
        gathered = whole if element < software(plan.software).master_bytes else 0.0
    tokens = plan.microbatch * architecture.sequence_length / plan.context_parallel
    kept = tokens * activation_bytes(architecture, plan)
    logits = LOGIT_BYTES[loss] * tokens * architecture.vocabulary / degree
    if plan.pipeline > 1:  # the last stage keeps one microbatch, the first as many as stages
        logits = max(0.0, logits + kept / plan.pipeline - kept)
    return Memory(
        states=state_bytes(architecture, plan, group),
        gathered=gathered,
        embedding=embedding,
        activations=kept * kept_microbatches(plan),
        logits=logits,
        fixed=FIXED_BYTES if plan.pipeline == plan.expert_parallel == 1 else MANY_GROUPS_BYTES,
        loss=loss,
    )


def sharding_group(plan: InnerPlan, gpu_count: int, machines: int) -> int:
    """Count the devices of a stage that divide the states of one replica."""
    ranks = gpu_count // plan.tensor_parallel
    if plan.sharding == "none":
        return 1
    return ranks if plan.sharding == "hybrid" else ranks * machines


@lru_cache(maxsize=1024)
def stage_parameters(architecture: Architecture, stages: int) -> tuple[float, float]:
    """Return the parameters of the fullest stage outside and inside of experts; the first has the
    embedding and the last the output layer.
    """
    experts = architecture.expert_parameters
    if stages == 1:
        return architecture.parameters - experts, experts
    table = architecture.vocabulary * architecture.width
    tables = table * (1 if architecture.tied else 2)
    most = max(stage_layers(architecture, stages)) / architecture.layers
    return (architecture.parameters - experts - tables) * most + table, experts * most


def state_bytes(architecture: Architecture, plan: InnerPlan, group: int, part: str = "") -> float:
    """Return the bytes of states and frozen weights on one device, or of one part of them."""
    parts: tuple[str, ...] = SHARDED_PARTS[plan.sharding]
    if parts and software(plan.software).shards_masters:
        parts = (*parts, *(() if "weights" in parts else ("weights",)))
    shared, whole = _bytes_per_parameter(architecture, parts, part, plan.software)
    dense, experts = stage_parameters(architecture, plan.pipeline)
    degree = plan.tensor_parallel
    total = dense / degree * (shared / group + whole)
    if experts:
        cut = expert_divisor(plan)
        # GPUs that hold the same experts divide their states; without expert parallelism all do.
        total += experts / cut * (shared / max(1.0, group * degree / cut) + whole)
    return total


def least_bytes(architecture: Architecture, precision: str, software_name: str, gpus: int) -> float:
    """Return the bytes that any plan needs at least on the fullest of some devices: its share of
    states that all of them divide, and what is fixed.
    """
    divided = InnerPlan(sharding="zero-3", precision=precision, software=software_name)
    return state_bytes(architecture, divided, gpus) + min(FIXED_BYTES, MANY_GROUPS_BYTES)


@lru_cache(maxsize=1024)
def _bytes_per_parameter(
    architecture: Architecture, sharded: tuple[str, ...], part: str, software_name: str
) -> tuple[float, float]:
    """Return the bytes of each parameter that GPUs divide, and that each GPU has."""
    trained, runs = architecture.trainable_parameters, software(software_name)
    frozen = architecture.frozen_bytes_per_parameter * (architecture.parameters - trained)
    each = {
        "optimizer": runs.optimizer_bytes * trained,
        "gradients": runs.gradient_bytes * trained,
        "weights": runs.master_bytes * trained + frozen,
    }
    shared = whole = 0.0
    for name, size in each.items():
        if part in ("", name):
            if name in sharded:
                shared += size / architecture.parameters
            else:
                whole += size / architecture.parameters
    return shared, whole


def _layer_parameters(architecture: Architecture, plan: InnerPlan) -> float:
    """Return the parameters of one layer on one device while it is whole there."""
    lookups = architecture.vocabulary * architecture.width * (1 if architecture.tied else 2)
    experts = architecture.expert_parameters
    dense = max(0.0, architecture.parameters - experts - lookups)
    cut = experts / expert_divisor(plan)
    return (dense / plan.tensor_parallel + cut) / architecture.layers


@lru_cache(maxsize=4096)
def _activation_bytes(architecture: Architecture, degree: int, kept: str, element: float) -> float:
    width, keys = architecture.width, architecture.kv_width
    hidden = (architecture.mlp_matrices - 1) * active_mlp_width(architecture)
    queries = int(4 * architecture.attention_width)
    copies = 4 * architecture.experts_per_token * width if architecture.experts > 1 else 0
    whole = 10 * width + queries + 4 * keys + 4 * hidden + copies
    products = 4 * width + queries + 4 * keys + 2 * hidden + copies
    layers = architecture.layers
    by_kept = {
        "none": layers * whole,
        "selective": (layers - 1) * products + whole,
        "full": layers * 2 * width + whole,
    }
    return min(by_kept[kept], by_kept["none"]) * element / 2 / degree


def activation_bytes(architecture: Architecture, plan: InnerPlan) -> float:
    """Return the bytes that backward needs for each token of a microbatch. A layer keeps inputs,
    norms and masks (10 bytes a unit of width), queries and the input of the output projection (4),
    keys and values (4 a unit of theirs), and the hidden values of the feed-forward part before and
    after its function (4 each). Selective checkpointing keeps what matrix products made, full
    checkpointing the input of each layer and one layer's work. Tensor parallelism divides all of
    it: sequence parallelism, which torchtitan and Megatron have by default, splits inputs, norms
    and masks by tokens (Korthikanti et al., 2022).
    """
    element = ELEMENT_BYTES[plan.precision]
    if plan.precision == "fp8":
        element *= software(plan.software).fp8_activations
    return _activation_bytes(architecture, plan.tensor_parallel, plan.checkpointing, element)


def active_mlp_width(architecture: Architecture) -> float:
    """Return the hidden width that one token passes through, in all active experts."""
    if not architecture.is_sparse:
        return architecture.mlp_width
    attention = 2 * architecture.width * (architecture.attention_width + architecture.kv_width)
    layers = architecture.computed_parameters - architecture.vocabulary * architecture.width
    width = (layers / architecture.layers - attention) / (
        architecture.mlp_matrices * architecture.width
    )
    return max(float(architecture.mlp_width), width)


def host_bytes(architecture: Architecture, plan: InnerPlan, gpu_count: int, machines: int) -> float:
    """Return the bytes of each host: its share of the states, each once, and the loader."""
    is_divided = plan.pipeline > 1 or plan.expert_parallel > 1
    alone = InnerPlan(sharding="zero-3" if is_divided else plan.sharding, precision=plan.precision)
    whole_group = machines if alone.sharding not in ("none", "hybrid") else 1
    return HOST_SHARE * state_bytes(architecture, alone, whole_group) + LOADER_BYTES
