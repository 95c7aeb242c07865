"""Fit the estimator's constants to published rates."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.profiler.devices.peak_speeds import Device, device_of
from placer.profiler.estimate.work import OTHER, Constants, Family, Work, step_time
from placer.workload.profile import Rate, load_profile

PUBLISHED = Path(__file__).with_name("published.csv")
"""What one step of each published model takes: written by ``tests/benchmarks/estimator.py
--count``.
"""
PRECISION = "fp16"
"""Erben et al. trained with autocast to half precision: their rates are above the FP32 peak of
their devices.
"""
CENTRE = {
    "flop": (0.5, 0.4),
    "byte": (0.75, 0.3),
    "launch": (1e-5, 1.0),
    "grouped": (7.0, 1.0),
    "turing": (1.0, 0.15),
}
"""Where each constant is expected before any rate is seen, and the spread of its logarithm:
assumed, so that few rates suffice.
"""
OF_A_MODEL = 0.35
"""Spread of a model's own logarithm about its family: how well its kernels suit a device. Assumed.
"""
NOISE = 0.08
"""Spread of the logarithm of a rate about its model's. Assumed; with `OF_A_MODEL` it weighs rates
against `CENTRE`.
"""
TURING = "turing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One published rate of one device: samples per second, as the paper counts samples."""

    model: str
    family: str
    work: Work
    device: Device
    rate: Rate


def published_works() -> dict[str, tuple[str, Work]]:
    """Count the work of a step of each published model, with its family."""
    with PUBLISHED.open(encoding="utf-8", newline="") as handle:
        return {
            row["model"]: (
                row["family"],
                Work(
                    **{
                        name: float(row[name])
                        for name in ("samples", "flops", "grouped_flops", "moved_bytes", "kernels")
                    }
                ),
            )
            for row in csv.DictReader(handle)
        }


def published_points(catalog: Catalog, *, nodes: bool = False) -> tuple[Point, ...]:
    """List the published rates of one device, or of nodes of several, without a framework."""
    return tuple(
        Point(
            model=model,
            family=family,
            work=work,
            device=device_of(catalog.gpus[rate.gpu]),
            rate=rate,
        )
        for model, (family, work) in published_works().items()
        for rate in load_profile(model).rates
        if (rate.framework, rate.basis, rate.gpu_count > 1) == ("none", "published", nodes)
    )


def estimated_rate(point: Point, constants: Constants, family: str | None = None) -> float:
    """Estimate samples per second of a point's model and device."""
    time = step_time(point.work, point.device, family or point.family, PRECISION, constants)
    assert time is not None
    return point.work.samples / time.total


def fit(points: Sequence[Point]) -> Constants:
    """Fit the constants to rates: least squares of logarithms, with `CENTRE` as prior.

    Notes
    -----
    Each model has a factor of its own beside its family's constants, known to be near 1 alone
    (`OF_A_MODEL`): so that devices are told apart by rates of one model, and a model with rates on
    three devices does not count three times. Estimates leave it out.

    Raises
    ------
    PlacerError
        If SciPy is not installed.
    """
    families = sorted({p.family for p in points})
    own = _least_squares(points, families)
    pooled = _least_squares(points, [OTHER])
    return Constants(
        families={**own.families, **pooled.families},
        launch_seconds=own.launch_seconds,
        grouped_flops_per_byte=own.grouped_flops_per_byte,
        generations=own.generations,
    )


def _least_squares(points: Sequence[Point], families: Sequence[str]) -> Constants:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise PlacerError("fitting the estimator needs SciPy", "pip install scipy") from None
    kinds = [kind for _ in families for kind in ("flop", "byte")] + ["launch", "grouped", "turing"]
    models = sorted({p.model for p in points})

    def residuals(logs: Any) -> list[float]:
        constants, own = (
            _constants(logs[: len(kinds)], kinds, families),
            dict(zip(models, logs[len(kinds) :], strict=True)),
        )
        of_rates = [
            (_log_error(p, constants, None if p.family in families else OTHER) - own[p.model])
            / NOISE
            for p in points
        ]
        of_constants = [log / CENTRE[kind][1] for log, kind in zip(logs, kinds, strict=False)]
        return [*of_rates, *of_constants, *(log / OF_A_MODEL for log in own.values())]

    starts = [
        [launch if kind == "launch" else 0.0 for kind in kinds] + [0.0] * len(models)
        for launch in (0.0, 1.0, 2.0)
    ]
    best = min(
        (least_squares(residuals, start) for start in starts), key=lambda solution: solution.cost
    )
    return _constants(best.x[: len(kinds)], kinds, families)


def _constants(logs: Sequence[float], kinds: Sequence[str], families: Sequence[str]) -> Constants:
    values = [CENTRE[kind][0] * math.exp(log) for kind, log in zip(kinds, logs, strict=True)]
    pairs = {
        name: Family(flop_efficiency=values[2 * i], byte_efficiency=values[2 * i + 1])
        for i, name in enumerate(families)
    }
    launch, grouped, turing = values[-3:]
    return Constants(
        families=pairs,
        launch_seconds=launch,
        grouped_flops_per_byte=grouped,
        generations={TURING: turing},
    )


def _log_error(point: Point, constants: Constants, family: str | None = None) -> float:
    return math.log(estimated_rate(point, constants, family) / point.rate.value)
