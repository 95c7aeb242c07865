"""What a model needs and how fast it may run on GPUs that nobody has at hand, counted on the meta
device: memory of a step by component, what an optimizer keeps, the GPUs that have it, and speeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs, to_builtins

from placer.documents.schemas.measured import EstimateCheck, Fits, Known, MemoryPart
from placer.errors import PlacerError, unknown
from placer.market.catalog import Catalog
from placer.profiler.estimate.counting import FP32_BYTES, Counts, count, count_work, said_plainly
from placer.profiler.estimate.throughput import HALF, Speeds, Work, between, constants_document
from placer.profiler.torch_import import torch
from placer.profiler.workload import (
    SAMPLE_SOURCE,
    USUAL_COMPRESSION,
    USUAL_TARGET_BATCH_SIZE,
    GradientSizes,
    Workload,
    gradient_sizes,
    twin_on,
)
from placer.units import GIB, counted
from placer.version import __version__
from placer.workload.measurement import PRECISIONS
from placer.workload.models.decoder import language_model
from placer.workload.profile import ModelProfile, Rate

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
    basis: Known = "exact"


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
) -> tuple[MemoryPart, ...]:
    """List what lies in the memory of a device at the peak of a step; all of it at once, which no
    step quite reaches.
    """
    share = 1.0 if counts.half else ACTIVATIONS_OF_FP32[precision]
    each, fixed = counts.per_sample, counts.per_step
    copies = 2.0 * counts.matrix_elements if precision in HALF else 0.0
    activations = "tensors that autograd saves, on the meta device" + (
        f"; {share:g} of FP32 under autocast, assumed" if share < 1 else ""
    )

    def part(name: str, size: float, grows: float, basis: Known, source: str) -> MemoryPart:
        return MemoryPart(name, size + microbatch * grows, grows, basis, source)

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


def fits(parts: tuple[MemoryPart, ...], microbatch: int, catalog: Catalog) -> tuple[Fits, ...]:
    """Compare the components with each GPU of a catalog, smallest memory first."""
    fixed = sum(c.bytes - microbatch * c.per_sample for c in parts)
    each = sum(c.per_sample for c in parts)

    def fit(gpu: str, memory: float) -> Fits:
        room = memory - fixed
        largest = 0 if room < each else MOST if each * MOST <= room else math.floor(room / each)
        needed = fixed + microbatch * each
        return Fits(
            gpu=gpu,
            memory_bytes=memory,
            needed_bytes=needed,
            fits=needed <= memory,
            largest_microbatch=largest,
        )

    gpus = sorted((g.memory_gib, g.gpu) for g in catalog.gpus.values() if g.kind == "gpu")
    return tuple(fit(gpu, memory_gib * GIB) for memory_gib, gpu in gpus)


SCHEMA = "placer.profile-estimate/v1"
USUAL_MICROBATCH = 32
"""Samples that a device takes at once where nobody has said, as in the published runs."""
LANGUAGE_MODEL = (
    "memory and speeds here are those of one GPU that holds the whole model; recommend works out "
    "those of a language model by its dimensions and the plan of each machine"
)
HOST_BYTES_PER_PARAMETER = 50
LEAST_HOST_BYTES = 4_000_000_000
"""Host memory as in the shipped profiles: 28 GB for 560 M parameters in Erben et al. (2024),
scaled; not below 4 GB.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A model on GPUs that were not measured.

    gradients: As `placer.profiler.workload` counts them.
    flops_per_sample: Forward and backward of one sample, a multiply-add is two.
    memory: Memory of a device by component, at the microbatch.
    fits: Every GPU of the catalog, smallest first.
    rates, limits: Samples per second of every GPU of the catalog that has the precision, and what
        takes longest on each.
    checks: Known rates of this model against what would have been estimated without them.
    least_microbatch: Samples at once on the GPUs with the least memory, where nobody said how many.
    """

    workload: Workload
    gradients: GradientSizes
    precision: str
    optimizer: str
    microbatch: int
    flops_per_sample: float
    kernels: float
    memory: tuple[MemoryPart, ...]
    fits: tuple[Fits, ...]
    rates: tuple[Rate, ...]
    limits: dict[str, str]
    checks: tuple[EstimateCheck, ...]
    least_microbatch: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the model."""
        is_language_model = self.workload.architecture is not None
        return (*self.gradients.notes, *([LANGUAGE_MODEL] if is_language_model else []))

    @property
    def device_memory_bytes(self) -> int:
        """Memory of a device at the microbatch: the sum of its components."""
        return round(sum(c.bytes for c in self.memory))

    def to_dict(self) -> dict[str, Any]:
        """Build the ``--json`` document; bytes, samples/s and FLOPs."""
        constants, model, sizes = constants_document(), self.workload, self.gradients
        return {
            "schema": SCHEMA,
            "placer_version": __version__,
            "model": {n: getattr(model, n) for n in ("name", "title", "family", "source")},
            "precision": self.precision,
            "optimizer": self.optimizer,
            "microbatch": self.microbatch,
            "parameters": sizes.parameters,
            "trainable": sizes.trainable,
            "gradient": {"tensors": sizes.tensors, "bytes_fp32": sizes.bytes_fp32},
            "flops_per_sample": self.flops_per_sample,
            "kernels_per_step": self.kernels,
            "memory": {"bytes": self.device_memory_bytes, "components": to_builtins(self.memory)},
            "fits": to_builtins(self.fits),
            "rates": [
                {**structs.asdict(rate), "limit": self.limits.get(rate.gpu)} for rate in self.rates
            ],
            "checks": to_builtins(self.checks),
            "constants": {name: constants[name] for name in ("as_of", "source")},
            "notes": list(self.notes),
        }

    def to_profile(self) -> ModelProfile:
        """Build a profile that ``placer recommend --model`` reads, with estimated rates alone, of
        GPUs that it fits on; a language model has its dimensions instead. Raises `PlacerError` if
        it fits on none.
        """
        model, sizes = self.workload, self.gradients
        source = model.source or model.name
        if model.architecture is not None:
            return language_model(model.name, model.title, model.architecture, source=source)
        roomy = {fit.gpu for fit in self.fits if fit.largest_microbatch}
        if not roomy and self.fits:
            size = min(fit.needed_bytes for fit in self.fits) / GIB
            raise PlacerError(
                f"{model.name} of {sizes.parameters:,} parameters needs {size:,.0f} GiB on a "
                f"device, more than any GPU of the book has",
                "only language models are divided: freeze a part of it in a profile of your own",
            )
        smaller = self.microbatch - self.least_microbatch
        sample = model.sample(torch.device("meta"))
        return ModelProfile(
            name=model.name,
            title=model.title,
            family=model.family,
            parameters=sizes.parameters,
            tensors=sizes.tensors,
            gradient_bytes_fp32=sizes.bytes_fp32,
            gradient_source=f"counted on the meta device: {source}",
            device_memory_bytes=round(sum(c.bytes - smaller * c.per_sample for c in self.memory)),
            host_memory_bytes=max(LEAST_HOST_BYTES, HOST_BYTES_PER_PARAMETER * sizes.parameters),
            memory_source=f"estimated: {self.least_microbatch} at once in {self.precision}, "
            f"{self.optimizer}; host: 50 bytes per parameter",
            bytes_per_sample=None,
            bytes_per_sample_source=None,
            sample=sample,
            sample_source=sample and SAMPLE_SOURCE,
            target_batch_size=model.target_batch_size or USUAL_TARGET_BATCH_SIZE,
            microbatch=self.least_microbatch,
            compression=USUAL_COMPRESSION,
            efficiency=(),
            rates=tuple(rate for rate in self.rates if rate.gpu in roomy),
        )


def estimate(
    workload: Workload,
    catalog: Catalog,
    microbatch: int | None = None,
    precision: str = "fp16",
    optimizer: str | None = None,
    known: Sequence[Rate] = (),
) -> Estimate:
    """Count a workload on the meta device and estimate memory and throughput for every GPU of a
    catalog. Raises `PlacerError` if the model cannot run on the meta device, or there is no such
    precision or optimizer.

    microbatch: Samples that a device takes at once; None: the workload's, else 32 or, where these
        do not fit, the largest power of two that does; 1 sequence of a language model.
    precision: ``fp32``, ``tf32``, ``fp16`` or ``bf16`` (autocast, weights in FP32).
    optimizer: Name of one (``sgd``, ``momentum``, ``adam`` ...) in the place of the workload's.
    known: Rates of this model that were measured on devices of the catalog at this precision:
        estimates start from the most alike.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    given, family = microbatch or workload.microbatch, workload.family
    samples = given or (USUAL_MICROBATCH if workload.architecture is None else 1)
    if samples < 1:
        raise PlacerError(f"microbatch {samples} is below 1", "give a whole number from 1")
    sizes = gradient_sizes(workload)
    counts = count(workload)
    state = optimizer_state(workload, sizes.trainable, optimizer)
    parts = components(counts, samples, precision, sizes.bytes_native, state)
    fitting = fits(parts, samples, catalog)
    at_once = {fit.gpu: samples if given else _at_once(fit, samples) for fit in fitting}
    works = _works(workload, counts, {samples, *at_once.values()}, precision)
    speeds = {size: Speeds(work, family, catalog, precision) for size, work in works.items()}
    rates = {
        rate.gpu: rate
        for size, its in speeds.items()
        for rate in its.rates(known)
        if at_once.get(rate.gpu, samples) == size
    }
    return Estimate(
        workload=workload,
        gradients=sizes,
        precision=precision,
        optimizer=state.name,
        microbatch=samples,
        flops_per_sample=counts.of(samples).flops / samples,
        kernels=works[samples].kernels,
        memory=parts,
        fits=fitting,
        rates=tuple(rates[name] for name in catalog.gpus if name in rates),
        checks=speeds[samples].checks(known),
        limits={gpu: time.limit for gpu, time in speeds[samples].times.items()},
        least_microbatch=min(
            (at_once[fit.gpu] for fit in fitting if fit.largest_microbatch), default=samples
        ),
    )


def _at_once(fit: Fits, samples: int) -> int:
    """Return the largest power of two that fits, at most the usual number; that where none does."""
    largest = fit.largest_microbatch
    return min(samples, 1 << (largest.bit_length() - 1)) if largest else samples


def _works(workload: Workload, counts: Counts, sizes: set[int], precision: str) -> dict[int, Work]:
    """Count the work of the smallest and the largest microbatch, and draw a line between; from the
    FP32 counts, if the model runs neither under autocast nor with so few samples.
    """
    ends = sorted({min(sizes), max(sizes)})
    try:
        works = [count_work(workload, size, precision) for size in ends]
    except PlacerError:
        return {size: counts.of(size) for size in sizes}
    return {size: between(works[0], works[-1], size) for size in sizes}
