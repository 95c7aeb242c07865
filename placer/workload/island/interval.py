"""How far the rate of an island may be from its estimate."""

from __future__ import annotations

import math

from msgspec import Struct

from placer.market.catalog import Gpu
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.hardware import Hardware, has_bf16
from placer.workload.island.step import Step, kernel_seconds
from placer.workload.island.transformer_speed import attention_share, calculation_seconds, is_late
from placer.workload.island.transports import Transport
from placer.workload.software import EIGHT_BIT, FASTEST_ATTENTION, TUNED, software

WITHOUT_REMOTE_MEMORY = 1.5
"""Multiple of the slow end of a collective over Ethernet without remote memory access; assumed."""
FITTED_DEVICES = ("A100-40", "A100-80", "A800")


class Doubt(Struct, frozen=True, kw_only=True):
    """One reason for error: multiples of the rate, and what it is."""

    low: float
    high: float
    reason: str = ""


FIT = Doubt(low=0.87, high=1.1)
"""Five of a hundred runs each lie below and above, where a model is left out of the fit."""
OTHER_DEVICE = Doubt(low=0.8, high=1.1, reason="fitted on A100 only")
OLD_DEVICE = Doubt(low=0.7, high=1.05, reason="kernels of today are written for later devices")
NOT_MEASURED = Doubt(low=0.85, high=1.1, reason="matrix products estimated from the data sheet")
PRESSED = Doubt(low=0.85, high=1.1, reason="memory nearly full")
PARALLEL_MATRICES = Doubt(low=0.8, high=1.1, reason="tensor parallelism not measured")
OTHER_SHARDING = Doubt(low=0.95, high=1.05, reason="fitted on zero-3 only")
OTHER_PRECISION = Doubt(low=0.75, high=1.15, reason="precision not measured")
NO_NVLINK = Doubt(low=0.8, high=1.1, reason="devices joined by PCIe")
PROCESSOR = Doubt(low=0.5, high=1.6, reason="CPUs assumed to reach the utilisation of GPUs")
EXPERTS = Doubt(low=1 / 1.6, high=1.6, reason="mixture of experts assumed")
GATHERED_EXPERTS = Doubt(low=1 / 2, high=1.6, reason="mixture of gathered experts assumed")
"""Qwen3-30B-A3B on 64 H100 under FSDP attains 0.53 of it (mlc-ai/pith-train, pull request 40)."""
FASTER_SOFTWARE = Doubt(low=1.0, high=1.22, reason="software may be faster than llm-foundry's")
"""Compiled kernels: fms-fsdp and torchtune on A100 and H100 are up to 1.28 times as fast."""
STAGES = Doubt(low=0.85, high=1.2, reason="stages fitted to no run")
DIVIDED = Doubt(low=0.85, high=1.05, reason="divided sequences measured once")


def rate_interval(
    architecture: Architecture, hardware: Hardware, plan: InnerPlan, step: Step, via: Transport
) -> tuple[Doubt, str]:
    """Return the multiples of a rate between which it is expected, and the basis of the rate.
    Reasons are taken as independent: their logarithms add as squares.
    """
    gpu = hardware.gpu
    experts = EXPERTS if plan.expert_parallel > 1 else GATHERED_EXPERTS
    doubts = [
        FIT,
        *([OTHER_DEVICE] if gpu.gpu not in FITTED_DEVICES else []),
        *([OLD_DEVICE] if gpu.kind == "gpu" and not has_bf16(gpu) else []),
        *([NOT_MEASURED] if gpu.attainable_basis != "measured" else []),
        *([PRESSED] if step.is_pressed else []),
        *([PARALLEL_MATRICES] if plan.tensor_parallel > 1 else []),
        *([OTHER_SHARDING] if plan.sharding != "zero-3" else []),
        *([_adapters(architecture, hardware, plan, step)] if architecture.has_adapters else []),
        *([OTHER_PRECISION] if plan.precision not in ("bf16", "fp16") else []),
        *([NO_NVLINK] if hardware.gpu_count > 1 and not gpu.nvlink_gb_per_s else []),
        *([experts] if architecture.is_sparse else []),
        *([FASTER_SOFTWARE] if _may_be_compiled(architecture, gpu, plan) else []),
        *([STAGES] if plan.pipeline > 1 else []),
        *([DIVIDED] if plan.context_parallel > 1 else []),
        _exchange(step, hardware, via),
        *([_attention(architecture, hardware, plan)] if is_late(gpu) else []),
        *([PROCESSOR] if gpu.kind != "gpu" else []),
    ]
    low = math.exp(-math.hypot(*(math.log(d.low) for d in doubts)))
    high = math.exp(math.hypot(*(math.log(d.high) for d in doubts)))
    reasons = "; ".join(d.reason for d in doubts if d.reason)
    is_assumed = architecture.is_sparse or gpu.kind != "gpu"
    return Doubt(low=low, high=high, reason=reasons), "assumed" if is_assumed else "estimated"


def _may_be_compiled(architecture: Architecture, gpu: Gpu, plan: InnerPlan) -> bool:
    named = plan.software.removesuffix(EIGHT_BIT)
    is_free = named in ("", "torch-compiled", "torchtune") and not architecture.has_adapters
    return is_free and gpu.kind == "gpu"


def _exchange(step: Step, hardware: Hardware, via: Transport) -> Doubt:
    """Return what the error of the collectives means for the rate."""
    share, slow = step.exposed_s / step.seconds, via.slow
    if hardware.machines > 1 and hardware.fabric == "ethernet":
        slow *= WITHOUT_REMOTE_MEMORY
    return Doubt(low=1 / (1 + share * (slow - 1)), high=1 / (1 + share * (via.fast - 1)))


def _attention(architecture: Architecture, hardware: Hardware, plan: InnerPlan) -> Doubt:
    """Return what the fastest kernel would gain on its share, where nobody names another."""
    slowest = software(plan.software).attention_tflops
    named = plan.software.removesuffix(EIGHT_BIT)
    fastest = slowest if named in ("torch-2023", "torch-compiled") else FASTEST_ATTENTION
    share = attention_share(architecture, hardware.gpu, plan)
    return Doubt(low=1.0, high=1 / (1 - share * (1 - slowest / fastest)))


def _adapters(architecture: Architecture, hardware: Hardware, plan: InnerPlan, step: Step) -> Doubt:
    """Return the error of steps with adapters; where nobody names the software, up to the fastest
    that runs them.
    """
    runs = software(plan.software, has_adapters=True).adapters
    if plan.software:
        return Doubt(low=runs.low, high=runs.high)
    calculated = calculation_seconds(
        architecture, hardware.gpu, plan, plan.microbatch * step.microbatches
    )
    tuned = replace(plan, software="torch-compiled")
    faster = kernel_seconds(architecture, tuned, step.microbatches, calculated)
    gain = step.seconds / (step.seconds - step.calculation_s + faster)
    return Doubt(
        low=runs.low, high=max(runs.high, gain * TUNED.high), reason="software of adapters unknown"
    )
