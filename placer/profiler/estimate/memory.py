"""Memory of a training step by component, and the GPUs that have it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from placer.market.catalog import Catalog
from placer.profiler.estimate.counting import Counts
from placer.profiler.estimate.optimizer_state import OptimizerState
from placer.units import GIB

HALF = ("fp16", "bf16")
ACTIVATIONS_OF_FP32 = {"fp32": 1.0, "tf32": 1.0, "fp16": 0.6, "bf16": 0.6}
"""Saved activations under autocast over those in FP32: half, and some (normalisation, softmax,
loss) stay in FP32. Assumed, from 0.53 of a ResNet and 0.62 of a BERT under autocast on a CPU
(tests/profiler/test_estimate_memory.py).
"""
CONTEXT_BYTES = 0.75e9
"""CUDA context with the kernels of cuBLAS, cuDNN and PyTorch, and cuBLAS's workspace: assumed; 0.4
to 1 GB by version and device.
"""
FRAGMENTS = 0.1
"""Share that the caching allocator holds beyond what is in use: assumed."""
RESULTS_AT_ONCE = 2
"""Largest results alive beside the saved activations in backward: a gradient that comes in and one
that goes out.
"""
MOST = 2**20
"""Microbatches above are not looked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """Part of a device's memory in bytes: ``bytes`` at the microbatch asked for, of which
    ``per_sample`` grow with each sample.
    """

    name: str
    bytes: float
    per_sample: float
    basis: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """Whether a microbatch fits on a GPU.

    Parameters
    ----------
    gpu, memory_bytes
        The device and what a program can use of it.
    needed_bytes
        At the microbatch asked for.
    largest_microbatch
        Most samples that fit, 0 if not even one does.
    """

    gpu: str
    memory_bytes: float
    needed_bytes: float
    largest_microbatch: int

    @property
    def fits(self) -> bool:
        """Whether the microbatch asked for fits."""
        return self.needed_bytes <= self.memory_bytes


def components(
    counts: Counts, microbatch: int, precision: str, gradient_bytes: int, optimizer: OptimizerState
) -> tuple[Component, ...]:
    """List what lies in the memory of a device at the peak of a step; all of it at once, which no
    step quite reaches.
    """
    half = 1.0 if counts.half else ACTIVATIONS_OF_FP32[precision]
    each, fixed = counts.per_sample, counts.per_step
    copies = 2.0 * counts.matrix_elements if precision in HALF else 0.0
    activations = "tensors that autograd saves, on the meta device" + (
        f"; {half:g} of FP32 under autocast, assumed" if half < 1 else ""
    )
    parts = [
        _fixed(
            "weights",
            counts.parameter_bytes + counts.buffer_bytes,
            "exact",
            "parameters and buffers",
        ),
        _fixed("gradients", gradient_bytes, "exact", "one for each trainable parameter"),
        _fixed("optimizer", optimizer.bytes, optimizer.basis, optimizer.source),
        _fixed(
            "half-precision weights",
            copies,
            "estimated",
            "autocast keeps a copy of each matrix until backward is done",
        ),
        _growing(
            "activations",
            fixed.activation_bytes * half,
            each.activation_bytes * half,
            microbatch,
            "estimated",
            activations,
        ),
        _growing(
            "workspace",
            RESULTS_AT_ONCE * fixed.largest_bytes,
            RESULTS_AT_ONCE * each.largest_bytes,
            microbatch,
            "assumed",
            "twice the largest result of a kernel",
        ),
    ]
    total = (
        sum(c.bytes - microbatch * c.per_sample for c in parts),
        sum(c.per_sample for c in parts),
    )
    spare = f"{FRAGMENTS:.0%} of the above, held by the allocator"
    return (
        *(c for c in parts if c.bytes),
        _growing(
            "fragmentation",
            FRAGMENTS * total[0],
            FRAGMENTS * total[1],
            microbatch,
            "assumed",
            spare,
        ),
        _fixed("framework", CONTEXT_BYTES, "assumed", "CUDA context and libraries"),
    )


def fits(parts: tuple[Component, ...], microbatch: int, catalog: Catalog) -> tuple[Fit, ...]:
    """Compare the components with each GPU of a catalog, smallest memory first."""
    fixed = sum(c.bytes - microbatch * c.per_sample for c in parts)
    each = sum(c.per_sample for c in parts)
    rows = []
    for gpu in sorted(
        (g for g in catalog.gpus.values() if g.kind == "gpu"), key=lambda g: (g.memory_gib, g.gpu)
    ):
        memory = gpu.memory_gib * GIB
        largest = (
            0
            if memory < fixed + each
            else MOST
            if each * MOST <= memory - fixed
            else math.floor((memory - fixed) / each)
        )
        rows.append(
            Fit(
                gpu=gpu.gpu,
                memory_bytes=memory,
                needed_bytes=fixed + microbatch * each,
                largest_microbatch=largest,
            )
        )
    return tuple(rows)


def _fixed(name: str, size: float, basis: str, source: str) -> Component:
    return Component(name=name, bytes=float(size), per_sample=0.0, basis=basis, source=source)


def _growing(
    name: str, fixed: float, each: float, microbatch: int, basis: str, source: str
) -> Component:
    return Component(
        name=name, bytes=fixed + microbatch * each, per_sample=each, basis=basis, source=source
    )
