"""How far the estimate is off for models and devices that the fit has not seen: leave-one-out over
the published rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from placer.market.catalog import Catalog
from placer.profiler.estimate.fit import Point, estimated_rate, fit
from placer.profiler.estimate.work import OTHER, Constants, step_time
from placer.records import replace
from placer.workload.profile import load_profile

SHARE = 0.9
"""Share of the errors that an interval should hold."""
SPREADS = {"cnn": 1.4, "transformer": 1.33}
"""Intervals of models that were never measured: 94 to 97 % of about 1,650 public rates of one
laboratory that were left out with their families lie inside, and 60 to 100 % of the few of three
others (`tests/benchmarks/public_speeds.py`).
"""
LEAST_SPREAD = 1.5
"""No interval of a model of another family is narrower. Assumed."""
LEAST_DEVICE_SPREAD = 1.2
"""The same for a rate scaled from another device of the same model. Assumed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Errors of one published rate, as shares (0.1 is 10 % too fast); None where no other device of
    the model was published.

    Parameters
    ----------
    never_measured
        The fit has seen no rate of this model, on any device.
    family_never_measured
        The fit has seen no rate of any model of this family.
    other_device
        Scaled by the formula from the most alike other device of this model, with constants of the
        other models.
    data_sheet
        What `placer.workload.profile` does from the same other device: square root of the FLOP/s
        and bandwidth ratios.
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
    return Summary(
        rates=len(factors),
        median=_quantile(factors, 0.5),
        p90=_quantile(factors, SHARE),
        worst=factors[-1],
    )


def with_spreads(constants: Constants, rows: Sequence[LeftOut]) -> Constants:
    """Add the intervals: those of public rates, and for other families the factor that `SHARE` of
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


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


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
