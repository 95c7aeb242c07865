"""Samples per second of every GPU of a catalog, from what a step of a model takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from placer.market.catalog import Catalog, Gpu
from placer.profiler.devices import device_of
from placer.profiler.estimate.work import (
    OTHER,
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A rate of this model that is known, against its estimates; errors are shares (0.1 is 10 % too
    fast). ``never_measured`` is the error without any rate of this model, ``other_device`` that
    from its other known rates; None without one.
    """

    gpu: str
    samples_per_second: float
    never_measured: float
    other_device: float | None


def rates_from_work(
    work: Work, family: str, catalog: Catalog, precision: str, known: Sequence[Rate] = ()
) -> tuple[Rate, ...]:
    """Estimate the rate of each GPU of a catalog, in its order; without GPUs that lack the
    precision, and those that are known.
    """
    measured = _of_one_gpu(known, catalog)
    without = {r.gpu for r in measured}
    times = step_times(work, family, catalog, precision)
    return tuple(
        _rate(work, family, gpu, precision, measured, times)
        for gpu in times
        if gpu not in without and times[gpu].total > 0
    )


def step_times(work: Work, family: str, catalog: Catalog, precision: str) -> dict[str, StepTime]:
    """Estimate the seconds of a microbatch on each GPU that has the precision, with what limits
    it.
    """
    times = {
        gpu.gpu: step_time(work, device_of(gpu), family, precision, constants())
        for gpu in catalog.gpus.values()
        if _is_gpu(gpu)
    }
    return {name: time for name, time in times.items() if time is not None}


def checks(
    work: Work, family: str, catalog: Catalog, precision: str, known: Sequence[Rate]
) -> tuple[Check, ...]:
    """Compare each known rate of one GPU with what would have been estimated without it."""

    def error(rate: Rate, others: Sequence[Rate]) -> float | None:
        found = rates_from_work(work, family, catalog, precision, others)
        return next((r.value / rate.value - 1 for r in found if r.gpu == rate.gpu), None)

    checks, measured = [], _of_one_gpu(known, catalog)
    for rate in measured:
        others, alone = [r for r in measured if r.gpu != rate.gpu], error(rate, ())
        if alone is not None:
            checks.append(
                Check(
                    gpu=rate.gpu,
                    samples_per_second=rate.value,
                    never_measured=alone,
                    other_device=error(rate, others) if others else None,
                )
            )
    return tuple(checks)


def spread(family: str, gpu: str, precision: str, *, scaled: bool = False) -> float:
    """Return the factor between an estimate and the ends of its interval."""
    its = constants()
    wide = its.other_device_spread if scaled else its.family(family).spread
    wide *= 1.0 if precision == "fp16" else OTHER_PRECISION
    return wide * (1.0 if gpu in constants_document()["published_gpus"] else OTHER_GPU)


def _is_gpu(gpu: Gpu) -> bool:
    return gpu.kind == "gpu"


def _of_one_gpu(known: Sequence[Rate], catalog: Catalog) -> list[Rate]:
    """List the rates of one GPU of the catalog without a framework."""
    gpus = {name for name, gpu in catalog.gpus.items() if _is_gpu(gpu)}
    return [r for r in known if (r.gpu_count, r.framework) == (1, "none") and r.gpu in gpus]


def _rate(
    work: Work,
    family: str,
    gpu: str,
    precision: str,
    known: Sequence[Rate],
    times: dict[str, StepTime],
) -> Rate:
    """Estimate a rate from the known one of the device whose step takes most alike, else from the
    formula alone.
    """
    time, its = times[gpu], constants()
    name = family if family in its.families and family != OTHER else "all published models"
    words = f"FLOPs, bytes and kernels of a step over data-sheet figures, efficiency of {name}"
    alike = [
        (abs(math.log(there.total / time.total)), rate.gpu, rate)
        for rate in known
        if (there := times.get(rate.gpu)) is not None and there.total > 0
    ]
    if alike:
        rate = min(alike, key=lambda row: row[:2])[2]
        ratio, wide = (
            times[rate.gpu].total / time.total,
            spread(family, gpu, precision, scaled=True),
        )
        value, low, high = rate.value * ratio, rate.low * ratio / wide, rate.high * ratio * wide
        source = f"{ratio:.2f} x the {rate.basis} rate of {rate.gpu}, by {words}"
    else:
        value, wide = work.samples / time.total, spread(family, gpu, precision)
        low, high = value / wide, value * wide
        source = f"{words} ({precision}, {work.samples:g} samples at once, {time.limit})"
    return Rate(
        gpu=gpu,
        gpu_count=1,
        framework="none",
        value=min(value, LARGEST),
        low=min(low, LARGEST),
        high=min(high, LARGEST),
        basis="estimated",
        source=source,
    )
