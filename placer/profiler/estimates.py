"""Estimates that stand in a profile: rates of GPUs that are not here, and memory of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.profiler.devices.peak_speeds import device
from placer.profiler.document import (
    Sizes,
    check_same_model,
    known_rates,
    profile_of,
    with_estimates,
)
from placer.profiler.target.workload import Workload
from placer.workload.measurement import Measurement
from placer.workload.profile import ModelProfile, Rate

if TYPE_CHECKING:
    from placer.profiler.estimate.estimate import Estimate

USUAL_PRECISION = "fp16"
"""Precision of rates that are worked out where no GPU was measured: that of the published rates."""


def peak_flops(gpu: str, precision: str) -> float | None:
    """FLOP/s of a device's data sheet in a precision; None where it is not known."""
    found = device(gpu)
    return None if found is None else found.peak(precision)


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

    alike = (
        main if main is not None and main.gpu in catalog.gpus else None
    )  # a CPU's batch size would leave a GPU idle
    precision, microbatch = (
        (USUAL_PRECISION, None) if alike is None else (alike.precision, alike.knee_batch_size)
    )
    try:
        return estimate(workload, catalog, microbatch, precision, known=known)
    except PlacerError as error:
        return f"no rates were worked out for other devices: {error.message}"


def with_memory(sizes: Sizes, found: Estimate) -> Sizes:
    """Sizes with the memory that was worked out."""
    source = (
        f"estimated for {found.microbatch:,} at once in {found.precision} with {found.optimizer}"
    )
    return replace(sizes, device_memory_bytes=found.device_memory_bytes, memory_source=source)


def estimated_profile(
    found: Estimate, old: ModelProfile | None, path: str, target_batch_size: int | None
) -> ModelProfile:
    """Profile of a model that nobody measured here, or its estimates in the place of older ones.

    Raises
    ------
    PlacerError
        If the file has another model.
    """
    made = found.to_profile()
    if old is None:
        return (
            made
            if target_batch_size is None
            else replace(made, target_batch_size=target_batch_size)
        )
    sizes = Sizes(**{name: getattr(made, name) for name in Sizes.__slots__})
    check_same_model(sizes, old, path)
    rates = with_estimates(known_rates(old, ()), found.rates)
    return profile_of(sizes, old.measurements, rates, old=old, target_batch_size=target_batch_size)
