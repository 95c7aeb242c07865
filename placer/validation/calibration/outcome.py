"""From fitted values to an overlay: intervals, spreads and framework efficiencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from placer.records import replace
from placer.validation.calibration.least_squares import Solution
from placer.validation.calibration.parameters import (
    CONSTANT,
    KAPPA,
    LINK,
    RATE,
    SCALE,
    Parameter,
    kappa_field,
    overlay_of,
)
from placer.validation.calibration.runs import MeasuredRun
from placer.workload.constants import NINETY_PERCENT, PUBLISHED
from placer.workload.overlay import ModelEfficiency, Overlay
from placer.workload.profile import Efficiency

LEAST_HALF_WIDTH = {RATE: 0.02, LINK: 0.05, KAPPA: 0.02, SCALE: 0.02, CONSTANT: 0.0}
"""Least relative half-width of an interval: what a speed or a link varies from day to day."""
ENOUGH = 5
"""Degrees of freedom from which residuals may also widen a published spread; fewer only narrow it.
"""
OUTLIER = 0.5
"""A run that counts less than this is named as an outlier."""
SANE_RATIO = 5.0
"""Measured over expected exchange times further off say nothing about a spread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """One fitted figure beside the published one, with its 90 % interval and the number of runs
    behind it.
    """

    parameter: Parameter
    value: float
    low: float
    high: float
    runs: int
    at_limit: bool


def fitted_figures(solution: Solution, counts: dict[Parameter, int]) -> tuple[Fitted, ...]:
    """Put an interval around each fitted value."""
    found = []
    for parameter, value in solution.values.items():
        half = max(
            NINETY_PERCENT * solution.errors[parameter] * parameter.step,
            LEAST_HALF_WIDTH[parameter.kind] * value,
        )
        low = max(
            value - half, 0.0 if parameter.kind in (SCALE, CONSTANT) else value / (1 + half / value)
        )
        limit = solution.at_limit(parameter)
        found.append(
            Fitted(
                parameter=parameter,
                value=value,
                low=low,
                high=value + half,
                runs=counts[parameter],
                at_limit=limit,
            )
        )
    return tuple(found)


def finished(
    solution: Solution,
    figures: Sequence[Fitted],
    runs: Sequence[MeasuredRun],
    source: str,
    as_of: str,
) -> Overlay:
    """Build the overlay of a solution with intervals, spreads and efficiencies."""
    bare = overlay_of(solution.values, runs, source, as_of)
    around = {fitted.parameter: fitted for fitted in figures}
    rates = []
    for row in bare.rates:
        kind = (row.model, row.rate.gpu, str(row.rate.gpu_count), row.rate.framework)
        fitted = next(f for p, f in around.items() if p.kind == RATE and p.key == kind)
        rates.append(replace(row, rate=replace(row.rate, low=fitted.low, high=fitted.high)))
    links = []
    for link in bare.links:
        fitted = next(
            f for p, f in around.items() if p.kind == LINK and set(p.key) == {link.src, link.dst}
        )
        low, high = fitted.low / fitted.value, fitted.high / fitted.value
        links.append(
            replace(
                link, gbps_low=link.gbps_one_stream * low, gbps_high=link.gbps_one_stream * high
            )
        )
    kappa = _kappa(solution, bare, runs)
    software: dict[str, Any] = {} if kappa is None else {_kappa_field(runs): kappa}
    calibration = replace(
        bare.calibration,
        **software,
        spreads=_spreads(solution, bare, runs),
        most_workers=max(PUBLISHED.most_workers, *(run.placement.workers for run in runs)),
    )
    overlay = replace(bare, calibration=calibration, rates=tuple(rates), links=tuple(links))
    return replace(overlay, efficiencies=_efficiencies(overlay, runs, source))


def _kappa_field(runs: Sequence[MeasuredRun]) -> str:
    """Name the factor on links that runs tell: those of a file share the software of their book."""
    return kappa_field(runs[0].problem.transport)


def _kappa(
    solution: Solution, overlay: Overlay, runs: Sequence[MeasuredRun]
) -> tuple[float, float, float] | None:
    """Estimate kappa, slow and fast, from the runs between regions; None where they do not tell."""
    value, published = (
        next((v for p, v in solution.values.items() if p.kind == KAPPA), None),
        getattr(PUBLISHED, _kappa_field(runs)),
    )
    if value is None:
        return None
    fitted = {p.key for p in solution.values if p.kind == LINK}
    ratios = []
    for run, weight in zip(runs, solution.weights, strict=True):
        if run.one_region or weight < OUTLIER or fitted & set(run.pairs):
            continue
        parts = dict(run.step(overlay).parts)
        ratios.append(
            _ratio(_exchange_s(run, overlay) - parts["averaging"], parts["between regions"])
        )
    half = _half_width(ratios, 1, math.log(published[1] / published[2]) / 2)
    return value, value * math.exp(half), value * math.exp(-half)


def _spreads(
    solution: Solution, overlay: Overlay, runs: Sequence[MeasuredRun]
) -> dict[str, tuple[float, float, float]]:
    """Return the spread of averaging times of each fitted host class, from runs in one region."""
    found, published = {}, PUBLISHED.averaging_spread
    for host in sorted({p.key[0] for p in solution.values if p.kind in (SCALE, CONSTANT)}):
        ratios = [
            _ratio(_exchange_s(run, overlay), run.step(overlay).communication)
            for run, weight in zip(runs, solution.weights, strict=True)
            if run.one_region and not run.alone and run.hosts() == {host} and weight >= OUTLIER
        ]
        count = sum(p.kind in (SCALE, CONSTANT) and p.key[0] == host for p in solution.values)
        half = _half_width(ratios, count, math.log(published[1] / published[2]) / 2)
        found[host] = (1.0, math.exp(half), math.exp(-half))
    return found


def _exchange_s(run: MeasuredRun, overlay: Overlay) -> float:
    """Return the seconds of the exchange as logged, else what the calculation leaves of the
    step.
    """
    if run.communication_s is not None:
        return run.communication_s
    return run.step_s - (run.calculation_s or run.step(overlay).calculation)


def _ratio(measured: float, expected: float) -> float | None:
    ratio = measured / expected if expected > 0 else 0.0
    return math.log(ratio) if 1 / SANE_RATIO < ratio < SANE_RATIO else None


def _half_width(logs: Sequence[float | None], parameters: int, published: float) -> float:
    """Return the half-width of a 90 % interval in logarithms, from residuals; the published one
    where they say too little.
    """
    found = [log for log in logs if log is not None]
    freedom = len(found) - parameters
    if freedom < 1:
        return published
    from scipy.special import stdtrit

    half = max(
        LEAST_HALF_WIDTH[KAPPA],
        float(stdtrit(freedom, 0.95)) * math.sqrt(math.fsum(x * x for x in found) / freedom),
    )
    return half if freedom >= ENOUGH else min(half, published)


def _efficiencies(
    overlay: Overlay, runs: Sequence[MeasuredRun], source: str
) -> tuple[ModelEfficiency, ...]:
    """Divide the local rate by the single-device rate, as a mean over the devices of a model."""
    shares: dict[str, list[tuple[float, float, float]]] = {}
    for row in overlay.rates:
        if row.rate.framework == "none" or row.rate.gpu_count > 1:
            continue
        run = next(
            run
            for run in runs
            if run.model == row.model and row.rate.gpu in {g.gpu for g in run.placement.groups}
        )
        book = run.problem.catalog
        alone = overlay.over_profile(run.problem.profile).rate(
            book.gpu(row.rate.gpu), 1, "none", book
        )
        if (
            alone is not None
            and alone.basis in ("measured", "published")
            and row.rate.high <= alone.value
        ):
            shares.setdefault(row.model, []).append(
                (
                    row.rate.low / alone.value,
                    row.rate.value / alone.value,
                    row.rate.high / alone.value,
                )
            )
    return tuple(
        ModelEfficiency(
            model=model,
            efficiency=Efficiency(
                framework=runs[0].problem.transport,
                low=min(low for low, _, _ in found),
                value=math.fsum(value for _, value, _ in found) / len(found),
                high=max(high for _, _, high in found),
                basis="measured",
                source=source,
            ),
        )
        for model, found in shares.items()
    )
