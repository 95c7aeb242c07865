"""Seconds that a device calculates for a transformer: FLOPs over the utilisation it reaches."""

from __future__ import annotations

import math
from functools import lru_cache

from placer.market.catalog import Gpu
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import slowest_share
from placer.workload.island.hardware import precision_rate
from placer.workload.island.memory import ELEMENT_BYTES, Memory
from placer.workload.software import software

A100_FLOPS_PER_BYTE = 271.2e12 / 1800e9
"""Measured rate of matrix products over memory bandwidth, between the A100 of 40 and of 80 GB."""
RECOMPUTED = {"none": 0.0, "selective": 0.1, "full": 0.5}
"""Forward passes of the layers that checkpointing adds; for selective, share of the whole step.
Full costs half of a forward pass: fitted together with u0, on which the rest falls.
"""
LATE_DEVICES = ("H100", "H20", "GH200", "B", "GB", "MI3")
"""Hopper, its contemporaries and successors, by the start of their names."""
A100_ATTENTION_TFLOPS, A100_TFLOPS, H100_TFLOPS = 230.0, 271.2, 794.5
"""Rates of fused attention on A100 (FlashAttention-2, Dao, 2023) and of matrix products: late
devices have less attention for their products than an A100, whose ratio of both is taken as 1.
"""
PRESSED_SHARE = 0.45
"""Share of the device's memory above which states can make the allocator slow."""
PRESSED_TOKENS = 8192
"""Most tokens of a microbatch for which that was seen."""
PRESSED_SLOWDOWN = 1 / 0.92
"""Multiple of the calculation then: MPT-13B on 8 x A100-40 took 1.19 times as long as elsewhere,
MPT-30B on 8 x A100-80 as long (but with 8,192 tokens a sequence 1.38 times).
"""


UTILISATION, HALF_WIDTH = 0.766, 350.0
"""Share of the attainable rate of matrix products that a very wide transformer reaches, u0 in the
formulas; and the width at which all else takes as long as matrix products on an A100. Fitted to 139
runs of MPT-125M to 70B on 8 to 128 A100 under FSDP (MosaicML llm-foundry,
scripts/train/benchmarking/README.md).
"""


@lru_cache(maxsize=4096)
def flops_per_token(architecture: Architecture, checkpointing: str) -> tuple[float, float]:
    """Return the FLOPs of one token in weights and in attention, forward and backward. 6 N' + 12 L
    d T: N' counts computed parameters, attention is counted in full, or as far back as it sees.
    Frozen weights have no gradient of their own, so that 4 of 6 are left. Checkpointing calculates
    layers again, the output layer never.
    """
    computed = architecture.computed_parameters
    trained = min(computed, architecture.trainable_parameters)
    weights = 4.0 * computed + 2.0 * trained
    attention = 12.0 * architecture.layers * architecture.attention_width
    attention *= architecture.attended_tokens
    if checkpointing == "selective":
        factor = 1 + RECOMPUTED["selective"]
        return factor * weights, factor * attention
    layers = max(0, computed - architecture.vocabulary * architecture.width)
    again = RECOMPUTED[checkpointing]
    return weights + again * 2 * layers, attention * (1 + again / 3)


def token_seconds(architecture: Architecture, gpu: Gpu, plan: InnerPlan) -> float:
    """Return the seconds that one device calculates for one token; a tensor parallel group divides
    them. Matrix products take FLOPs / (u0 x attainable rate). All else moves bytes: on an A100 as
    long as products of `HALF_WIDTH`, on other devices in proportion to the FLOPs that
    they do while they read a byte. Tensor parallelism makes matrices narrower; the geometric mean
    of both widths is taken (assumed).
    """
    weights, attention = flops_per_token(architecture, plan.checkpointing)
    rate = UTILISATION * gpu.attainable_tflops * 1e12
    products = weights / precision_rate(gpu, plan.precision)
    fused = attention / attention_rate(gpu, plan)
    balance = gpu.attainable_tflops * 1e12 / (gpu.memory_gb_per_s * 1e9) / A100_FLOPS_PER_BYTE
    width = architecture.width / math.sqrt(plan.tensor_parallel)
    moved = (weights + attention) / rate * HALF_WIDTH / width * balance
    return (products + fused) / rate + moved * ELEMENT_BYTES[plan.precision] / 2


def attention_rate(gpu: Gpu, plan: InnerPlan) -> float:
    """Return the rate of fused attention over that of matrix products in half precision."""
    late = 1.0
    if is_late(gpu):
        kernel = software(plan.software).attention_tflops / A100_ATTENTION_TFLOPS
        late = kernel / (H100_TFLOPS / A100_TFLOPS)
    return late * min(1.0, precision_rate(gpu, plan.precision))


def is_late(gpu: Gpu) -> bool:
    """Tell whether a device is of the time of Hopper or later."""
    return gpu.gpu.startswith(LATE_DEVICES)


def attention_share(architecture: Architecture, gpu: Gpu, plan: InnerPlan) -> float:
    """Return the share of the calculation that fused attention takes."""
    _, attention = flops_per_token(architecture, plan.checkpointing)
    seconds = attention / attention_rate(gpu, plan) / UTILISATION
    return seconds / (gpu.attainable_tflops * 1e12) / token_seconds(architecture, gpu, plan)


def calculation_seconds(
    architecture: Architecture, gpu: Gpu, plan: InnerPlan, sequences: int
) -> float:
    """Return the seconds that a device of the slowest stage calculates in a step of a rank."""
    tokens = sequences * architecture.sequence_length / plan.context_parallel
    whole = tokens * token_seconds(architecture, gpu, plan) / plan.tensor_parallel
    return whole * slowest_share(architecture, plan.pipeline)


def is_pressed(memory: Memory, capacity_bytes: float, tokens: int) -> bool:
    """Tell whether the allocator slows a device down: large states and a small microbatch."""
    return memory.states > PRESSED_SHARE * capacity_bytes and tokens <= PRESSED_TOKENS
