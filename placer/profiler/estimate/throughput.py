"""Samples per second of every GPU of a catalog, from what a step of a model takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from placer.errors import PlacerError
from placer.market.catalog import Catalog, Gpu
from placer.profiler.devices.peak_speeds import device_of
from placer.profiler.estimate.work import (
    OTHER,
    Constants,
    StepTime,
    Work,
    constants,
    constants_document,
    step_time,
)
from placer.workload.profile import LARGEST, Rate

OTHER_PRECISION = 1.2
"""Intervals are so much wider at other precisions than the published rates': assumed."""
OTHER_GPU = 1.3
"""And on GPUs of which no rate was published: assumed; software gets less out of the fastest."""


def rates_from_flops(
    family: str,
    flops_per_sample: float,
    bytes_per_sample: float,
    catalog: Catalog,
    *,
    microbatch: int = 32,
    bytes_per_step: float = 0.0,
    kernels: float = 0.0,
    grouped_flops_per_sample: float = 0.0,
    precision: str = "fp16",
    known: Sequence[Rate] = (),
) -> tuple[Rate, ...]:
    """Estimate rates from figures of a model, without PyTorch.

    Parameters
    ----------
    family
        ``cnn`` or ``transformer``; other names get the constants of all published models.
    flops_per_sample, grouped_flops_per_sample
        Forward and backward, a multiply-add is two; grouped convolutions are part of the first.
    bytes_per_sample, bytes_per_step
        What kernels read and write in FP32, activations of a sample and weights of a step.
    catalog
        Whose GPUs are wanted.
    microbatch
        Samples that a device takes at once.
    kernels
        Kernels of a step; 0 if unknown.
    precision
        ``fp32``, ``tf32``, ``fp16`` or ``bf16``.
    known
        Rates of this model on other devices, at this precision.

    Raises
    ------
    PlacerError
        If a figure is negative or no number, or there is no such precision.
    """
    if microbatch < 1:
        raise PlacerError(f"microbatch {microbatch} is below 1", "give a whole number from 1")
    work = Work(
        samples=microbatch,
        flops=flops_per_sample * microbatch,
        grouped_flops=grouped_flops_per_sample * microbatch,
        moved_bytes=bytes_per_sample * microbatch + bytes_per_step,
        kernels=kernels,
    )
    for name in ("flops", "moved_bytes", "kernels", "grouped_flops"):
        value = getattr(work, name)
        if not 0 <= value < math.inf:
            raise PlacerError(f"{name} of a step are {value}", "give figures that are not negative")
    return rates_from_work(work, family, catalog, precision, known)


def rates_from_work(
    work: Work, family: str, catalog: Catalog, precision: str, known: Sequence[Rate] = ()
) -> tuple[Rate, ...]:
    """Estimate the rate of each GPU of a catalog, in its order; without GPUs that lack the
    precision, and those that are known.
    """
    measured = _of_one_gpu(known, catalog)
    wanted = [
        gpu
        for gpu in catalog.gpus.values()
        if gpu.kind == "gpu" and gpu.gpu not in {r.gpu for r in measured}
    ]
    rates = [_rate(work, family, gpu, precision, measured, catalog) for gpu in wanted]
    return tuple(rate for rate in rates if rate is not None)


def step_times(work: Work, family: str, catalog: Catalog, precision: str) -> dict[str, StepTime]:
    """Estimate the seconds of a microbatch on each GPU, with what limits it."""
    times = {
        gpu.gpu: step_time(work, device_of(gpu), family, precision, constants())
        for gpu in catalog.gpus.values()
        if gpu.kind == "gpu"
    }
    return {name: time for name, time in times.items() if time is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A rate of this model that is known, against its estimates; errors are shares (0.1 is 10 % too
    fast).

    ``never_measured`` is the error without any rate of this model, ``other_device`` that from its
    other known rates; None without one.
    """

    gpu: str
    samples_per_second: float
    never_measured: float
    other_device: float | None


def checks(
    work: Work, family: str, catalog: Catalog, precision: str, known: Sequence[Rate]
) -> tuple[Check, ...]:
    """Compare each known rate of one GPU with what would have been estimated without it."""
    checks = []
    for rate in _of_one_gpu(known, catalog):
        others = [r for r in known if r.gpu != rate.gpu]
        alone = {r.gpu: r.value for r in rates_from_work(work, family, catalog, precision)}
        scaled = {r.gpu: r.value for r in rates_from_work(work, family, catalog, precision, others)}
        if rate.gpu in alone:
            has_other = bool(_of_one_gpu(others, catalog))
            checks.append(
                Check(
                    gpu=rate.gpu,
                    samples_per_second=rate.value,
                    never_measured=alone[rate.gpu] / rate.value - 1,
                    other_device=scaled[rate.gpu] / rate.value - 1 if has_other else None,
                )
            )
    return tuple(checks)


def spread(family: str, gpu: str, precision: str, *, scaled: bool = False) -> float:
    """Return the factor between an estimate and the ends of its interval."""
    its = constants()
    wide = its.other_device_spread if scaled else its.family(family).spread
    wide *= 1.0 if precision == "fp16" else OTHER_PRECISION
    return wide * (1.0 if gpu in constants_document()["published_gpus"] else OTHER_GPU)


def _of_one_gpu(known: Sequence[Rate], catalog: Catalog) -> list[Rate]:
    """List the rates of one GPU of the catalog without a framework."""
    return [
        r
        for r in known
        if (r.gpu_count, r.framework) == (1, "none")
        and r.gpu in catalog.gpus
        and catalog.gpus[r.gpu].kind == "gpu"
    ]


def _rate(
    work: Work, family: str, gpu: Gpu, precision: str, known: Sequence[Rate], catalog: Catalog
) -> Rate | None:
    its = constants()
    time = step_time(work, device_of(gpu), family, precision, its)
    if time is None or time.total <= 0:
        return None
    value, wide = work.samples / time.total, spread(family, gpu.gpu, precision)
    low, high, source = (
        value / wide,
        value * wide,
        f"{_words(family, its)} ({precision}, {work.samples:g} samples at once, {time.limit})",
    )
    nearest = _nearest(time, work, family, precision, known, catalog)
    if nearest is not None:
        rate, there = nearest
        ratio, wide = there.total / time.total, spread(family, gpu.gpu, precision, scaled=True)
        value, low, high = rate.value * ratio, rate.low * ratio / wide, rate.high * ratio * wide
        source = f"{ratio:.2f} x the {rate.basis} rate of {rate.gpu}, by {_words(family, its)}"
    return Rate(
        gpu=gpu.gpu,
        gpu_count=1,
        framework="none",
        value=min(value, LARGEST),
        low=min(low, LARGEST),
        high=min(high, LARGEST),
        basis="estimated",
        source=source,
    )


def _words(family: str, its: Constants) -> str:
    name = family if family in its.families and family != OTHER else "all published models"
    return f"FLOPs, bytes and kernels of a step over data-sheet figures, efficiency of {name}"


def _nearest(
    time: StepTime, work: Work, family: str, precision: str, known: Sequence[Rate], catalog: Catalog
) -> tuple[Rate, StepTime] | None:
    """Pick the known rate of the device whose step takes most alike."""
    there = [
        (r, step_time(work, device_of(catalog.gpus[r.gpu]), family, precision, constants()))
        for r in known
    ]
    timed = [(r, t) for r, t in there if t is not None and t.total > 0]
    return min(
        timed, key=lambda row: (abs(math.log(row[1].total / time.total)), row[0].gpu), default=None
    )
