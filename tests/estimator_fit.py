"""Fit the constants of `placer profile --estimate` to published rates, and say by leave-one-out how
far estimates are off for models and devices that the fit has not seen.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from placer.market.catalog import Catalog
from placer.profiler.devices import Device, device_of
from placer.profiler.estimate.throughput import COUNTED, OTHER, Constants, Family, Work, step_time
from placer.records import replace
from placer.workload.profile import Rate, load_profile

PUBLISHED = Path(__file__).parent / "benchmarks" / "published_work.csv"
"""What one step of each published model takes: written by ``tests/benchmarks/estimator.py
--count``.
"""
PRECISION = "fp16"
"""Erben et al. trained with autocast to half precision: their rates are above the FP32 peak of
their devices.
"""
CENTRE = {
    "flop": (1.05, 0.05),
    "byte": (0.612, 0.1),
    "launch": (5e-6, 0.05),
    "grouped": (6.68, 0.1),
    "blocked": (60.9, 0.1),
    "relaying": (1.56, 0.1),
    "full": (0.824, 0.1),
    "turing": (0.95, 0.15),
    "volta": (0.945, 0.1),
    "hopper": (0.897, 0.1),
}
"""Where public training speeds of about 830 models on an RTX 3090 and of some on V100 and H100 put
each constant (`docs/estimator.md`), and how far the rates of Erben et al. may move
it: assumed.
"""
OF_A_MODEL = 0.35
"""Spread of a model's own logarithm about its family: how well its kernels suit a device. Assumed.
"""
NOISE = 0.08
"""Spread of the logarithm of a rate about its model's. Assumed; with `OF_A_MODEL` it weighs rates
against `CENTRE`.
"""
GENERATIONS = ("turing", "volta", "hopper")
SHARED = ("launch", "grouped", "blocked", "relaying", "full", *GENERATIONS)
"""Constants that all families have in common."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One published rate of one device: samples per second, as the paper counts samples."""

    model: str
    family: str
    work: Work
    device: Device
    rate: Rate
    precision: str = PRECISION


def published_works() -> dict[str, tuple[str, Work]]:
    """Count the work of a step of each published model, with its family."""
    with PUBLISHED.open(encoding="utf-8", newline="") as handle:
        return {
            row["model"]: (
                row["family"],
                Work(**{name: float(row[name]) for name in ("samples", *COUNTED)}, half=True),
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
    time = step_time(point.work, point.device, family or point.family, point.precision, constants)
    assert time is not None
    return point.work.samples / time.total


def fit(points: Sequence[Point]) -> Constants:
    """Fit the constants to rates: least squares of logarithms, with `CENTRE` as prior.

    Each model has a factor of its own beside its family's constants, known to be near 1 alone
    (`OF_A_MODEL`): so that devices are told apart by rates of one model, and a model with rates on
    three devices does not count three times. Estimates leave it out.
    """
    families = sorted({p.family for p in points})
    each = _least_squares(points, families)
    pooled = _least_squares(points, [OTHER])
    return replace(each, families={**each.families, **pooled.families})


def _least_squares(points: Sequence[Point], families: Sequence[str]) -> Constants:
    from scipy.optimize import least_squares

    kinds = [*(kind for _ in families for kind in ("flop", "byte")), *SHARED]
    models = sorted({p.model for p in points})

    def residuals(logs: Any) -> list[float]:
        constants = _constants(logs[: len(kinds)], kinds, families)
        of_models = dict(zip(models, logs[len(kinds) :], strict=True))
        of_rates = [
            (_log_error(p, constants, None if p.family in families else OTHER) - of_models[p.model])
            / NOISE
            for p in points
        ]
        of_constants = [log / CENTRE[kind][1] for log, kind in zip(logs, kinds, strict=False)]
        return [*of_rates, *of_constants, *(log / OF_A_MODEL for log in of_models.values())]

    best = least_squares(residuals, [0.0] * (len(kinds) + len(models)))
    return _constants(best.x[: len(kinds)], kinds, families)


def _constants(logs: Sequence[float], kinds: Sequence[str], families: Sequence[str]) -> Constants:
    values = [CENTRE[kind][0] * math.exp(log) for kind, log in zip(kinds, logs, strict=True)]
    pairs = {
        name: Family(flop_efficiency=values[2 * i], byte_efficiency=values[2 * i + 1])
        for i, name in enumerate(families)
    }
    shared = dict(zip(kinds[2 * len(families) :], values[2 * len(families) :], strict=True))
    return Constants(
        families=pairs,
        launch_seconds=shared["launch"],
        grouped_flops_per_byte=shared["grouped"],
        blocked_flops_per_byte=shared["blocked"],
        relaying=shared["relaying"],
        full_precision=shared["full"],
        generations={name: shared[name] for name in GENERATIONS},
    )


def _log_error(point: Point, constants: Constants, family: str | None = None) -> float:
    return math.log(estimated_rate(point, constants, family) / point.rate.value)


SPREADS = {"cnn": 1.4, "transformer": 1.33}
"""Intervals of models that were never measured: 94 to 97 % of about 1,650 public rates of one
laboratory that were left out with their families lie inside, and 60 to 100 % of the few of three
others (`docs/estimator.md`).
"""
LEAST_SPREAD = 1.5
"""No interval of a model of another family is narrower. Assumed."""
LEAST_DEVICE_SPREAD = 1.2
"""The same for a rate scaled from another device of the same model. Assumed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Errors of one published rate, as shares (0.1 is 10 % too fast); None where no other device of
    the model was published.

    never_measured: The fit has seen no rate of this model, on any device.
    family_never_measured: The fit has seen no rate of any model of this family.
    other_device: Scaled by the formula from the most alike other device of this model, with
        constants of the other models.
    data_sheet: What `placer.workload.profile` does from the same other device: square root of the
        FLOP/s and bandwidth ratios.
    """

    point: Point
    never_measured: float
    family_never_measured: float
    other_device: float | None
    data_sheet: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Errors of several rates as factors less 1: 0.5 is 1.5 times too fast or too slow."""

    rates: int
    median: float
    p90: float
    worst: float


def leave_one_out(points: Sequence[Point], catalog: Catalog) -> tuple[LeftOut, ...]:
    """Estimate each published rate without its model, without its family, and from its model's
    other devices.
    """
    models = {p.model: fit([o for o in points if o.model != p.model]) for p in points}
    families = {p.family: fit([o for o in points if o.family != p.family]) for p in points}
    return tuple(
        LeftOut(
            point=p,
            never_measured=estimated_rate(p, models[p.model]) / p.rate.value - 1,
            family_never_measured=estimated_rate(p, families[p.family], OTHER) / p.rate.value - 1,
            other_device=_other_device(p, points, models[p.model]),
            data_sheet=_data_sheet(p, catalog),
        )
        for p in points
    )


def scaled_rate(known: Point, target: Point, constants: Constants) -> float:
    """Scale a known rate of the same model to another device, by the ratio that the formula
    gives.
    """
    times = [step_time(p.work, p.device, p.family, p.precision, constants) for p in (known, target)]
    assert times[0] is not None
    assert times[1] is not None
    return known.rate.value * times[0].total / times[1].total


def summary(errors: Iterable[float | None]) -> Summary | None:
    """Return median, 90th percentile and worst of absolute errors; None without any."""
    factors = sorted(math.exp(abs(math.log1p(e))) - 1 for e in errors if e is not None)
    if not factors:
        return None
    several = factors if len(factors) > 1 else 2 * factors
    cuts = quantiles(several, n=10, method="inclusive")
    return Summary(rates=len(factors), median=cuts[4], p90=cuts[8], worst=factors[-1])


def with_spreads(constants: Constants, rows: Sequence[LeftOut]) -> Constants:
    """Add the intervals: those of public rates, and for other families the factor that 90 % of
    the left-out errors stay within, not less than the least.
    """
    other = max(LEAST_SPREAD, _spread([r.family_never_measured for r in rows]))
    families = {
        name: replace(family, spread=SPREADS.get(name, other))
        for name, family in constants.families.items()
    }
    device = max(
        LEAST_DEVICE_SPREAD, _spread([r.other_device for r in rows if r.other_device is not None])
    )
    return replace(constants, families=families, other_device_spread=device)


def _spread(errors: Sequence[float]) -> float:
    worst = summary(errors)
    return 1.0 if worst is None else 1 + worst.p90


def _other_device(point: Point, points: Sequence[Point], constants: Constants) -> float | None:
    others = [o for o in points if o.model == point.model and o.device.gpu != point.device.gpu]
    if not others:
        return None
    guesses = [
        (
            abs(math.log(scaled_rate(o, point, constants) / o.rate.value)),
            scaled_rate(o, point, constants),
        )
        for o in others
    ]
    return min(guesses)[1] / point.rate.value - 1


def _data_sheet(point: Point, catalog: Catalog) -> float | None:
    """Return the error of the estimate that a profile without this rate gives."""
    profile = load_profile(point.model)
    others = tuple(
        r
        for r in profile.rates
        if r.gpu != point.device.gpu
        and (r.gpu_count, r.framework, r.basis) == (1, "none", "published")
    )
    if not others:
        return None
    rate = replace(profile, rates=others).rate(catalog.gpus[point.device.gpu], 1, "none", catalog)
    return None if rate is None else rate.value / point.rate.value - 1
