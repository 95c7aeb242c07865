"""From measurements and estimates to a profile that `placer recommend --model` takes, and into one
that is there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from placer.errors import PlacerError, unknown
from placer.profiler.estimate.estimate import Estimate
from placer.profiler.workload import USUAL_COMPRESSION, USUAL_TARGET_BATCH_SIZE
from placer.records import replace
from placer.units import counted
from placer.workload.measurement import Measurement
from placer.workload.profile import Efficiency, ModelProfile, Rate, load_profile, profile_names

USUAL_PRECISION = "fp16"
"""Precision of rates that are worked out where no GPU was measured: that of the published rates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What does not depend on speed: parameters, gradients, memory that was worked out; a profile
    has the same figures.
    """

    name: str
    title: str
    family: str
    parameters: int
    tensors: int | None
    gradient_bytes_fp32: int
    gradient_source: str
    device_memory_bytes: int
    host_memory_bytes: int
    memory_source: str
    sample: str | None = None
    sample_source: str | None = None


def rate_of(measurements: Sequence[Measurement]) -> Rate:
    """Return the rate of one device: of its fastest precision, at the knee, accumulated if
    measured. Of two devices that the catalog calls by one name, the one measured last counts.
    """
    last = [m for m in measurements if m.device_name == measurements[-1].device_name]
    fastest = max(last, key=lambda m: m.best.samples_per_second)
    point = fastest.best
    several = f"{point.accumulation:,} x " if point.accumulation > 1 else ""
    batch = f"{several}{point.batch_size:,}"
    how = ", stopped early" if fastest.partial else ""
    threads = f" ({counted(fastest.threads, 'thread')})" if fastest.device == "cpu" else ""
    return Rate(
        gpu=fastest.gpu,
        gpu_count=1,
        framework="none",
        value=point.samples_per_second,
        low=point.low,
        high=point.high,
        basis="measured",
        source=f"placer profile on {fastest.device_name}{threads}, torch {fastest.torch}, "
        f"{fastest.precision}, batch {batch}, "
        f"{fastest.date}: median of {point.steps:,} steps, {point.confidence:.0%} interval{how}",
    )


def main_measurement(measurements: Sequence[Measurement]) -> Measurement:
    """Choose what sets microbatch and memory: on a GPU if any, the newest, the fastest."""
    return max(
        measurements,
        key=lambda m: (m.best.device_memory_bytes is not None, m.date, m.best.samples_per_second),
    )


def check_same_model(sizes: Sizes | ModelProfile, old: ModelProfile, path: str) -> None:
    """Refuse to put two models into one profile."""
    if (sizes.parameters, sizes.gradient_bytes_fp32) != (old.parameters, old.gradient_bytes_fp32):
        here = (
            f"{sizes.name} has {sizes.parameters:,} parameters and "
            f"{sizes.gradient_bytes_fp32:,} bytes of gradients"
        )
        there = f"{old.name} in {path} has {old.parameters:,} and {old.gradient_bytes_fp32:,}"
        raise PlacerError(f"{here}, {there}", "give another --out, or --name and no --out")


def measured_rates(measurements: Sequence[Measurement]) -> tuple[Rate, ...]:
    """Return one rate for each device."""
    names = dict.fromkeys(m.gpu for m in measurements)
    return tuple(rate_of([m for m in measurements if m.gpu == gpu]) for gpu in names)


def known_rates(old: ModelProfile | None, measured: Sequence[Rate]) -> tuple[Rate, ...]:
    """List the rates that need no estimate: the measured ones, and old ones beside them."""
    kept = [rate for rate in (old.rates if old else ()) if rate.basis != "estimated"]
    again = {rate.gpu for rate in measured}
    return (*(r for r in kept if not (_is_plain(r) and r.gpu in again)), *measured)


def with_estimates(known: Sequence[Rate], estimated: Iterable[Rate]) -> tuple[Rate, ...]:
    """Add estimated rates of devices that have no other."""
    names = {rate.gpu for rate in known if _is_plain(rate)}
    return (*known, *(rate for rate in estimated if not (_is_plain(rate) and rate.gpu in names)))


def profile_of(
    sizes: Sizes | ModelProfile,
    measurements: Sequence[Measurement],
    rates: Sequence[Rate],
    *,
    efficiency: Sequence[Efficiency] = (),
    old: ModelProfile | None = None,
    target_batch_size: int | None = None,
) -> ModelProfile:
    """Build a profile, or add to one.

    efficiency: New rows; they replace old ones of the same framework.
    old: Profile that is added to: its name and what cannot be measured stay.
    target_batch_size: Samples of an optimizer step; None: the old profile's, else assumed.
    """
    frameworks = {row.framework: row for row in (*(old.efficiency if old else ()), *efficiency)}
    main = main_measurement(measurements) if measurements else None
    memory = main and main.best.device_memory_bytes
    host, source = main and main.best.host_memory_bytes, ""
    if main is not None:
        source = (
            f"measured on {main.device_name}, {main.precision}, batch {main.knee_batch_size:,}, "
            f"torch {main.torch}, {main.date}"
        )
    named, stated = old or sizes, old if old and (old.sample or old.architecture) else sizes
    return ModelProfile(
        name=named.name,
        title=named.title,
        family=named.family,
        parameters=sizes.parameters,
        tensors=sizes.tensors,
        gradient_bytes_fp32=sizes.gradient_bytes_fp32,
        gradient_source=sizes.gradient_source,
        device_memory_bytes=memory or sizes.device_memory_bytes,
        host_memory_bytes=host or sizes.host_memory_bytes,
        memory_source=source
        if memory
        else f"device: {sizes.memory_source}" + (f"; host: {source}" if host else ""),
        bytes_per_sample=old.bytes_per_sample if old else None,
        bytes_per_sample_source=old.bytes_per_sample_source if old else None,
        target_batch_size=target_batch_size
        or (old.target_batch_size if old else USUAL_TARGET_BATCH_SIZE),
        sample=stated.sample,
        sample_source=stated.sample_source,
        microbatch=main.knee_batch_size if main else old.microbatch if old else 1,
        compression=old.compression if old else USUAL_COMPRESSION,
        efficiency=tuple(frameworks.values()),
        rates=tuple(rates),
        measurements=tuple(measurements),
        architecture=old.architecture if old else None,
        out_of_memory=old.out_of_memory if old else (),
    )


def _is_plain(rate: Rate) -> bool:
    return rate.gpu_count == 1 and rate.framework == "none"


def estimated_profile(
    estimated: Estimate, old: ModelProfile | None, path: str, target_batch_size: int | None
) -> ModelProfile:
    """Build the profile of a model not measured here, or renew estimates of the same."""
    made = estimated.to_profile()
    if old is None:
        batch = target_batch_size or made.target_batch_size
        return replace(made, target_batch_size=batch)
    check_same_model(made, old, path)
    rates = with_estimates(known_rates(old, ()), estimated.rates)
    return profile_of(made, old.measurements, rates, old=old, target_batch_size=target_batch_size)


FRAMEWORKS = ("ddp", "hivemind")
UNPUBLISHED = (1.0, 0.8, 1.0)
"""Value, low and high of a framework without published figures: assumed, as in
`ModelProfile.rate`.
"""


def published_efficiency(name: str, family: str, framework: str) -> Efficiency:
    """Look up the efficiency of a model in the shipped profiles. ``published`` if it is this
    model's own figure. ``assumed`` if it is a mean over other models: then the interval reaches
    from the lowest to the highest of them. Raises `PlacerError` if there is no such framework.

    name, family: Of the model. The shipped profile of that name is used; without one the mean over
        the measured models of its family, and without these over all measured models.
    framework: One of `FRAMEWORKS`: ``hivemind`` is published (Erben et al., PVLDB 17(6), 2024),
        ``ddp`` is not.
    """
    if framework not in FRAMEWORKS:
        raise unknown("framework", framework, FRAMEWORKS)
    known = [
        (profile, row)
        for profile in map(load_profile, profile_names())
        for row in profile.efficiency
        if row.framework == framework and row.basis in ("measured", "published")
    ]
    for profile, row in known:
        if profile.name == name and row.basis == "measured":
            return replace(row, basis="published")
    same = [row for profile, row in known if profile.family == family]
    rows = same or [row for _, row in known]
    if not rows:
        value, low, high = UNPUBLISHED
        source = f"nobody published {framework}'s share: taken as {value:g}"
    else:
        value = round(fmean(row.value for row in rows), 3)
        low, high = min(row.low for row in rows), max(row.high for row in rows)
        which = f"{len(rows)} {family} models" if same else f"all {len(rows)} models"
        source = (
            f"mean of {which} of Erben et al. (PVLDB 17(6), 2024) under {framework}; "
            f"not measured for this one"
        )
    return Efficiency(
        framework=framework, value=value, low=low, high=high, basis="assumed", source=source
    )
