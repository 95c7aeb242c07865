"""Estimates that stand in a profile: rates of GPUs that are not here, and memory of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.profiler.devices.peak_speeds import device
from placer.profiler.measured_profile import (
    Sizes,
    check_same_model,
    known_rates,
    profile_of,
    with_estimates,
)
from placer.profiler.workload import Workload
from placer.records import replace
from placer.workload.measurement import Measurement
from placer.workload.profile import ModelProfile, Rate

if TYPE_CHECKING:
    from placer.profiler.estimate.estimate import Estimate

USUAL_PRECISION = "fp16"
"""Precision of rates that are worked out where no GPU was measured: that of the published rates."""


def peak_flops(gpu: str, precision: str) -> float | None:
    """Look up the FLOP/s of a device's data sheet in a precision; None if unknown."""
    facts = device(gpu)
    return None if facts is None else facts.peak(precision)


def worked_out(
    workload: Workload, catalog: Catalog, main: Measurement | None, known: Sequence[Rate]
) -> Estimate | str:
    """Estimate a workload on the GPUs of a catalog, from rates that are known.

    Parameters
    ----------
    workload, catalog
        The model, and the GPUs.
    main
        Gives batch size and precision if it is of a GPU of the catalog; None before anything was
        measured.
    known
        Rates from which others are worked out.

    Returns
    -------
    Estimate | str
        Or why there is none: a model that looks at values cannot run on the meta device.
    """
    from placer.profiler.estimate.estimate import estimate

    # The batch size of a CPU would leave a GPU idle.
    alike = main if main is not None and main.gpu in catalog.gpus else None
    precision, microbatch = (
        (USUAL_PRECISION, None) if alike is None else (alike.precision, alike.knee_batch_size)
    )
    try:
        return estimate(workload, catalog, microbatch, precision, known=known)
    except PlacerError as error:
        return f"no rates were worked out for other devices: {error.message}"


def with_memory(sizes: Sizes, estimate: Estimate) -> Sizes:
    """Replace the memory of some sizes by the estimated one."""
    source = (
        f"estimated for {estimate.microbatch:,} at once in {estimate.precision} "
        f"with {estimate.optimizer}"
    )
    return replace(sizes, device_memory_bytes=estimate.device_memory_bytes, memory_source=source)


def estimated_profile(
    estimate: Estimate, old: ModelProfile | None, path: str, target_batch_size: int | None
) -> ModelProfile:
    """Build the profile of a model that was not measured here, or renew the estimates of an old
    one.

    Raises
    ------
    PlacerError
        If the file has another model.
    """
    made = estimate.to_profile()
    if old is None:
        return (
            made
            if target_batch_size is None
            else replace(made, target_batch_size=target_batch_size)
        )
    sizes = Sizes(**{name: getattr(made, name) for name in Sizes.__slots__})
    check_same_model(sizes, old, path)
    rates = with_estimates(known_rates(old, ()), estimate.rates)
    return profile_of(sizes, old.measurements, rates, old=old, target_batch_size=target_batch_size)
