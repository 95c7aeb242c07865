"""Memory of a training step by component, what an optimizer keeps, and the GPUs that have it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from placer.errors import unknown
from placer.market.catalog import Catalog
from placer.profiler.estimate.counting import FP32_BYTES, Counts, said_plainly
from placer.profiler.estimate.throughput import HALF
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import Workload, twin_on
from placer.units import GIB, counted

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
STATES = {
    "sgd": 0,
    **dict.fromkeys(("momentum", "rmsprop", "adagrad", "lion"), 1),
    **dict.fromkeys(("adam", "adamw", "nadam", "lamb"), 2),
}
"""FP32 figures that common optimizers keep for each trainable parameter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerState:
    """What an optimizer keeps: its name, bytes, how they are known (``exact`` or ``assumed``) and
    where they come from.
    """

    name: str
    bytes: int
    source: str
    basis: str = "exact"


@dataclass(frozen=True, slots=True)
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

    largest_microbatch: Most samples that fit, 0 if not even one does.
    """

    gpu: str
    memory_bytes: float
    needed_bytes: float
    largest_microbatch: int

    @property
    def fits(self) -> bool:
        """Whether the microbatch asked for fits."""
        return self.needed_bytes <= self.memory_bytes


def optimizer_state(workload: Workload, trainable: int, name: str | None = None) -> OptimizerState:
    """Count the bytes of an optimizer's state after its first step. An optimizer that looks at
    values (Adafactor, LBFGS) cannot take a step there: then as many figures as Adam keeps are
    assumed. Raises `PlacerError` if there is no such optimizer.

    workload: Its own optimizer takes a step on the meta device, where nothing is computed.
    name: Takes the place of the workload's optimizer: one of `STATES`.
    """
    if name is not None:
        short = name.lower()
        if short not in STATES:
            raise unknown("optimizer", name, STATES)
        words = f"{short}: {counted(STATES[short], 'FP32 figure')} for each trainable parameter"
        size = FP32_BYTES * STATES[short] * trainable
        return OptimizerState(name=short, bytes=size, source=words)
    torch = load_torch()
    with said_plainly(workload):
        twin = twin_on(workload.module, "meta")
        wanted = [p for p in twin.parameters() if p.requires_grad]
        optimizer = workload.optimizer(wanted)
    kind = type(optimizer).__name__
    try:
        for parameter in wanted:
            parameter.grad = torch.empty_like(parameter)
        optimizer.step()
    except Exception:  # whatever an optimizer does that the meta device cannot
        words = (
            f"taken as 2 FP32 figures for each trainable parameter, as Adam: {kind} takes no "
            f"step on the meta device"
        )
        size = 2 * FP32_BYTES * trainable
        return OptimizerState(name=kind, bytes=size, source=words, basis="assumed")
    values = [value for state in optimizer.state.values() for value in state.values()]
    size = sum(int(v.numel()) * v.element_size() for v in values if isinstance(v, torch.Tensor))
    return OptimizerState(name=kind, bytes=size, source=f"a step of {kind} on the meta device")


def components(
    counts: Counts, microbatch: int, precision: str, gradient_bytes: int, optimizer: OptimizerState
) -> tuple[Component, ...]:
    """List what lies in the memory of a device at the peak of a step; all of it at once, which no
    step quite reaches.
    """
    share = 1.0 if counts.half else ACTIVATIONS_OF_FP32[precision]
    each, fixed = counts.per_sample, counts.per_step
    copies = 2.0 * counts.matrix_elements if precision in HALF else 0.0
    activations = "tensors that autograd saves, on the meta device" + (
        f"; {share:g} of FP32 under autocast, assumed" if share < 1 else ""
    )

    def part(name: str, size: float, grows: float, basis: str, source: str) -> Component:
        return Component(name, size + microbatch * grows, grows, basis, source)

    weights, results = counts.parameter_bytes + counts.buffer_bytes, RESULTS_AT_ONCE
    copied = "autocast keeps a copy of each matrix until backward is done"
    kept, grown = fixed.activation_bytes * share, each.activation_bytes * share
    large, larger = results * fixed.largest_bytes, results * each.largest_bytes
    parts = [
        part("weights", weights, 0.0, "exact", "parameters and buffers"),
        part("gradients", gradient_bytes, 0.0, "exact", "one for each trainable parameter"),
        part("optimizer", optimizer.bytes, 0.0, optimizer.basis, optimizer.source),
        part("half-precision weights", copies, 0.0, "estimated", copied),
        part("activations", kept, grown, "estimated", activations),
        part("workspace", large, larger, "assumed", "twice the largest result of a kernel"),
    ]
    spare = f"{FRAGMENTS:.0%} of the above, held by the allocator"
    of_fixed = FRAGMENTS * sum(c.bytes - microbatch * c.per_sample for c in parts)
    of_each = FRAGMENTS * sum(c.per_sample for c in parts)
    return (
        *(c for c in parts if c.bytes),
        part("fragmentation", of_fixed, of_each, "assumed", spare),
        part("framework", CONTEXT_BYTES, 0.0, "assumed", "CUDA context and libraries"),
    )


def fits(parts: tuple[Component, ...], microbatch: int, catalog: Catalog) -> tuple[Fit, ...]:
    """Compare the components with each GPU of a catalog, smallest memory first."""
    fixed = sum(c.bytes - microbatch * c.per_sample for c in parts)
    each = sum(c.per_sample for c in parts)

    def fit(gpu: str, memory: float) -> Fit:
        room = memory - fixed
        largest = 0 if room < each else MOST if each * MOST <= room else math.floor(room / each)
        needed = fixed + microbatch * each
        return Fit(gpu=gpu, memory_bytes=memory, needed_bytes=needed, largest_microbatch=largest)

    gpus = sorted((g.memory_gib, g.gpu) for g in catalog.gpus.values() if g.kind == "gpu")
    return tuple(fit(gpu, memory_gib * GIB) for memory_gib, gpu in gpus)
