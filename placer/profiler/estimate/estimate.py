"""What a model needs and how fast it may run on GPUs that nobody has at hand: counted on the meta
device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from msgspec import structs

from placer.errors import PlacerError, unknown
from placer.market.catalog import Catalog
from placer.profiler.estimate.counting import Counts, count, count_work
from placer.profiler.estimate.memory import Component, Fit, components, fits, optimizer_state
from placer.profiler.estimate.throughput import (
    Check,
    Work,
    between,
    checks,
    constants_document,
    rates_from_work,
    step_times,
)
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import (
    SAMPLE_SOURCE,
    USUAL_COMPRESSION,
    USUAL_TARGET_BATCH_SIZE,
    Workload,
    gradient_sizes,
)
from placer.units import GIB
from placer.version import __version__
from placer.workload.architecture import Architecture
from placer.workload.measurement import PRECISIONS
from placer.workload.models.decoder import language_model
from placer.workload.models.ladder import nearest_rung
from placer.workload.profile import ModelProfile, Rate

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

    parameters, trainable, gradient_tensors, gradient_bytes: As `placer.profiler.workload` counts
        them; bytes in FP32.
    flops_per_sample: Forward and backward of one sample, a multiply-add is two.
    memory: Memory of a device by component, at the microbatch.
    fits: Every GPU of the catalog, smallest first.
    rates, limits: Samples per second of every GPU of the catalog that has the precision, and what
        takes longest on each.
    checks: Known rates of this model against what would have been estimated without them.
    least_microbatch: Samples at once on the GPUs with the least memory, where nobody said how many.
    """

    name: str
    title: str
    family: str
    source: str
    precision: str
    optimizer: str
    microbatch: int
    target_batch_size: int
    parameters: int
    trainable: int
    gradient_tensors: int
    gradient_bytes: int
    flops_per_sample: float
    kernels: float
    memory: tuple[Component, ...]
    fits: tuple[Fit, ...]
    rates: tuple[Rate, ...]
    limits: dict[str, str]
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    least_microbatch: int
    architecture: Architecture | None = None
    sample: str | None = None

    @property
    def device_memory_bytes(self) -> int:
        """Memory of a device at the microbatch: the sum of its components."""
        return round(sum(c.bytes for c in self.memory))

    def to_dict(self) -> dict[str, Any]:
        """Build the ``--json`` document; bytes, samples/s and FLOPs."""

        def own(*names: str) -> dict[str, Any]:
            return {name: getattr(self, name) for name in names}

        constants = constants_document()
        return {
            "schema": SCHEMA,
            "placer_version": __version__,
            "model": own("name", "title", "family", "source"),
            **own("precision", "optimizer", "microbatch", "parameters", "trainable"),
            "gradient": {"tensors": self.gradient_tensors, "bytes_fp32": self.gradient_bytes},
            **own("flops_per_sample"),
            "kernels_per_step": self.kernels,
            "memory": {
                "bytes": self.device_memory_bytes,
                "components": [asdict(component) for component in self.memory],
            },
            "fits": [{**asdict(fit), "fits": fit.fits} for fit in self.fits],
            "rates": [
                {**structs.asdict(rate), "limit": self.limits.get(rate.gpu)} for rate in self.rates
            ],
            "checks": [asdict(check) for check in self.checks],
            "constants": {name: constants[name] for name in ("as_of", "source")},
            "notes": list(self.notes),
        }

    def to_profile(self) -> ModelProfile:
        """Build a profile that ``placer recommend --model`` reads, with estimated rates alone, of
        GPUs that it fits on; a language model has its dimensions instead. Raises `PlacerError` if
        it fits on none.
        """
        if self.architecture is not None:
            return language_model(
                self.name,
                self.title,
                self.architecture,
                source=self.source or self.name,
                batch_tokens=nearest_rung(self.parameters).batch_tokens,
                batch_source="assumed: the batch of the nearest published decoder",
            )
        roomy = {fit.gpu for fit in self.fits if fit.largest_microbatch}
        if not roomy and self.fits:
            size = min(fit.needed_bytes for fit in self.fits) / GIB
            raise PlacerError(
                f"{self.name} of {self.parameters:,} parameters needs {size:,.0f} GiB on a device, "
                f"more than any GPU of the book has",
                "only language models are divided: freeze a part of it in a profile of your own",
            )
        smaller = self.microbatch - self.least_microbatch
        return ModelProfile(
            name=self.name,
            title=self.title,
            family=self.family,
            parameters=self.parameters,
            tensors=self.gradient_tensors,
            gradient_bytes_fp32=self.gradient_bytes,
            gradient_source=f"counted on the meta device: {self.source or self.name}",
            device_memory_bytes=round(sum(c.bytes - smaller * c.per_sample for c in self.memory)),
            host_memory_bytes=max(LEAST_HOST_BYTES, HOST_BYTES_PER_PARAMETER * self.parameters),
            memory_source=f"estimated: {self.least_microbatch} at once in {self.precision}, "
            f"{self.optimizer}; host: 50 bytes per parameter",
            bytes_per_sample=None,
            bytes_per_sample_source=None,
            sample=self.sample,
            sample_source=self.sample and SAMPLE_SOURCE,
            target_batch_size=self.target_batch_size,
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
    meta = load_torch().device("meta")
    sizes = gradient_sizes(workload)
    counts = count(workload)
    state = optimizer_state(workload, sizes.trainable, optimizer)
    parts = components(counts, samples, precision, sizes.bytes_native, state)
    fitting = fits(parts, samples, catalog)
    at_once = {fit.gpu: samples if given else _at_once(fit, samples) for fit in fitting}
    works = _works(workload, counts, {samples, *at_once.values()}, precision)
    rates = {
        rate.gpu: rate
        for size in works
        for rate in rates_from_work(works[size], family, catalog, precision, known)
        if at_once.get(rate.gpu, samples) == size
    }
    times = step_times(works[samples], family, catalog, precision)
    return Estimate(
        name=workload.name,
        title=workload.title,
        family=family,
        source=workload.source,
        precision=precision,
        optimizer=state.name,
        microbatch=samples,
        target_batch_size=workload.target_batch_size or USUAL_TARGET_BATCH_SIZE,
        parameters=sizes.parameters,
        trainable=sizes.trainable,
        gradient_tensors=sizes.tensors,
        gradient_bytes=sizes.bytes_fp32,
        flops_per_sample=counts.of(samples).flops / samples,
        kernels=works[samples].kernels,
        memory=parts,
        fits=fitting,
        rates=tuple(rates[name] for name in catalog.gpus if name in rates),
        checks=checks(works[samples], family, catalog, precision, known),
        limits={gpu: time.limit for gpu, time in times.items()},
        notes=(*sizes.notes, *([LANGUAGE_MODEL] if workload.architecture else [])),
        least_microbatch=min(
            (at_once[fit.gpu] for fit in fitting if fit.largest_microbatch), default=samples
        ),
        architecture=workload.architecture,
        sample=workload.sample(meta),
    )


def _at_once(fit: Fit, samples: int) -> int:
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
