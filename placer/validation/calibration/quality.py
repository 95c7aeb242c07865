"""From fitted values to an overlay: intervals, spreads and framework efficiencies; and how good it
is: errors before, after and left out, outliers, what could not be fitted, where it extrapolates.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from msgspec import to_builtins

from placer.documents.schemas.measured import ErrorSummary, Fitted, FittedRun, NotFitted
from placer.market.catalog import Catalog
from placer.records import replace
from placer.validation.calibration.least_squares import Pair, Solution, candidates, solve
from placer.validation.calibration.parameters import (
    CONSTANT,
    KAPPA,
    LINK,
    RATE,
    SCALE,
    Equations,
    Parameter,
    Values,
    kappa_field,
    overlay_of,
    touches,
)
from placer.validation.calibration.runs import MeasuredRun
from placer.workload.constants import NINETY_PERCENT, PUBLISHED, peer_of
from placer.workload.overlay import NOTHING, CalibratedEfficiency, Overlay, overlay_document

LEAST_HALF_WIDTH = {RATE: 0.02, LINK: 0.05, KAPPA: 0.02, SCALE: 0.02, CONSTANT: 0.0}
"""Least relative half-width of an interval: what a speed or a link varies from day to day."""
ENOUGH = 5
"""Degrees of freedom from which residuals may also widen a published spread; fewer only narrow it.
"""
OUTLIER = 0.5
"""A run that counts less than this is named as an outlier."""
SANE_RATIO = 5.0
"""Measured over expected exchange times further off say nothing about a spread."""


def fitted_figures(solution: Solution, runs: Sequence[MeasuredRun]) -> tuple[Fitted, ...]:
    """Put an interval around each fitted value; that of a speed is no narrower than the rounds of
    its runs lie apart.
    """

    def figure(parameter: Parameter, value: float) -> Fitted:
        own = [run for run in runs if touches(parameter, run)]
        error = NINETY_PERCENT * solution.errors[parameter] * parameter.step
        half = max(error, LEAST_HALF_WIDTH[parameter.kind] * value)
        if parameter.kind == RATE:
            half = max(half, math.expm1(max(run.calculation_spread for run in own)) * value)
        # What may be 0 has it as its least low end; the others are never below 0.
        least = 0.0 if parameter.kind in (SCALE, CONSTANT) else value / (1 + half / value)
        return Fitted(
            **parameter.said,
            value=value,
            low=max(value - half, least),
            high=value + half,
            runs=len(own),
            at_limit=solution.at_limit(parameter),
        )

    return tuple(figure(parameter, value) for parameter, value in solution.values.items())


def finished(
    solution: Solution,
    figures: Sequence[Fitted],
    runs: Sequence[MeasuredRun],
    name: str,
    source: str,
    as_of: str,
) -> Overlay:
    """Build the overlay of a solution with intervals, spreads and efficiencies."""
    bare = overlay_of(solution.values, runs, source, as_of)
    rates, links = [], []
    around = {(f.kind, f.key): f for f in figures}
    for row in bare.rates:
        key = (row.model, row.gpu, str(row.gpu_count), row.framework)
        fitted = around[RATE, key]
        rates.append(replace(row, low=fitted.low, high=fitted.high))
    for link in bare.links:
        fitted = around[LINK, (min(link.src, link.dst), max(link.src, link.dst))]
        one = link.gbps_one_stream / fitted.value
        links.append(replace(link, gbps_low=one * fitted.low, gbps_high=one * fitted.high))
    kappa, field = _kappa(solution, bare, runs), kappa_field(runs[0].problem.transport)
    software: dict[str, Any] = {} if kappa is None else {field: kappa}
    calibration = replace(
        bare.calibration,
        name=name,
        **software,
        spreads=_spreads(solution, bare, runs),
        most_workers=max(PUBLISHED.most_workers, *(run.placement.workers for run in runs)),
    )
    overlay = replace(bare, calibration=calibration, rates=tuple(rates), links=tuple(links))
    return replace(overlay, efficiencies=_efficiencies(overlay, runs, source))


def _kappa(
    solution: Solution, overlay: Overlay, runs: Sequence[MeasuredRun]
) -> tuple[float, float, float] | None:
    """Estimate kappa, slow and fast, from the runs between regions; None where they do not tell."""
    value = next((v for p, v in solution.values.items() if p.kind == KAPPA), None)
    published = getattr(PUBLISHED, kappa_field(runs[0].problem.transport))
    if value is None:
        return None
    fitted = {p.key for p in solution.values if p.kind == LINK}
    ratios = []
    for run, weight in zip(runs, solution.weights, strict=True):
        if run.one_region or weight < OUTLIER or fitted & set(run.pairs):
            continue
        parts = dict(run.step(overlay).parts)
        measured = _exchange_s(run, overlay) - parts["averaging"]
        ratios.append(_ratio(measured, parts["between regions"]))
    half = _half_width(ratios, 1, math.log(published[1] / published[2]) / 2)
    return value, value * math.exp(half), value * math.exp(-half)


def _spreads(
    solution: Solution, overlay: Overlay, runs: Sequence[MeasuredRun]
) -> dict[str, tuple[float, float, float]]:
    """Return the spread of averaging times of each fitted host class, from runs in one region."""
    found = {}
    for host in sorted({p.key[0] for p in solution.values if p.kind in (SCALE, CONSTANT)}):
        ratios = [
            _ratio(_exchange_s(run, overlay), run.step(overlay).communication)
            for run, weight in zip(runs, solution.weights, strict=True)
            if run.one_region and not run.alone and run.hosts() == {host} and weight >= OUTLIER
        ]
        count = sum(p.kind in (SCALE, CONSTANT) and p.key[0] == host for p in solution.values)
        ring = peer_of(host)
        published = PUBLISHED.averaging_spread if ring is None else ring.spread
        half = _half_width(ratios, count, math.log(published[1] / published[2]) / 2)
        half = max(half, *(run.exchange_spread for run in runs if host in run.hosts()))
        found[host] = (1.0, math.exp(half), math.exp(-half))
    return found


def _exchange_s(run: MeasuredRun, overlay: Overlay) -> float:
    """Return the logged seconds of the exchange, else what the calculation leaves."""
    if run.communication_s is not None:
        return run.communication_s
    return run.step_s - (run.calculation_s or run.step(overlay).calculation)


def _ratio(measured: float, expected: float) -> float | None:
    ratio = measured / expected if expected > 0 else 0.0
    return math.log(ratio) if 1 / SANE_RATIO < ratio < SANE_RATIO else None


def _half_width(logs: Sequence[float | None], parameters: int, published: float) -> float:
    """Return half of a 90 % interval in logarithms; the published one without data."""
    found = [log for log in logs if log is not None]
    freedom = len(found) - parameters
    if freedom < 1:
        return published
    from scipy.special import stdtrit

    sigma = math.sqrt(math.fsum(x * x for x in found) / freedom)
    half = max(LEAST_HALF_WIDTH[KAPPA], float(stdtrit(freedom, 0.95)) * sigma)
    return half if freedom >= ENOUGH else min(half, published)


def _efficiencies(
    overlay: Overlay, runs: Sequence[MeasuredRun], source: str
) -> tuple[CalibratedEfficiency, ...]:
    """Divide the local rate by the single-device rate, as a mean over the devices of a model."""
    shares: dict[str, list[tuple[float, float, float]]] = {}
    for row in overlay.rates:
        if row.framework == "none" or row.gpu_count > 1:
            continue
        model, gpu = row.model, row.gpu
        run = next(
            run
            for run in runs
            if run.model == model and gpu in {g.gpu for g in run.placement.groups}
        )
        book, profile = run.problem.catalog, overlay.over_profile(run.problem.profile)
        alone = profile.rate(book.gpu(gpu), 1, "none", book)
        if alone is None or alone.basis not in ("measured", "published"):
            continue
        if row.high <= alone.value:
            ends = (row.low, row.value, row.high)
            low, value, high = (end / alone.value for end in ends)
            shares.setdefault(model, []).append((low, value, high))
    return tuple(
        CalibratedEfficiency(
            model=model,
            framework=runs[0].problem.transport,
            low=min(low for low, _, _ in found),
            value=math.fsum(value for _, value, _ in found) / len(found),
            high=max(high for _, _, high in found),
            basis="measured",
            source=source,
        )
        for model, found in shares.items()
    )


MOST_FITS = 50
"""Fits for the errors of runs that are left out."""


def check_runs(
    equations: Equations, solution: Solution, overlay: Overlay, asked: Collection[Pair]
) -> tuple[FittedRun, ...]:
    """Estimate every run with the published figures, with the overlay, and without itself."""
    left = left_out_errors(equations, asked, solution.values)
    return tuple(
        FittedRun(
            line=run.line,
            model=run.model,
            workers=run.workers,
            samples_per_second=run.samples_per_second,
            error_before=error_of(run, NOTHING),
            error_after=error_of(run, overlay),
            error_left_out=error,
            weight=weight,
            outlier=weight < OUTLIER,
        )
        for run, weight, error in zip(equations.runs, solution.weights, left, strict=True)
    )


def error_of(run: MeasuredRun, overlay: Overlay) -> float:
    """Return the relative error of the expected samples/s."""
    return run.step_s / run.step(overlay).total - 1


def left_out_errors(
    equations: Equations,
    asked: Collection[Pair] = (),
    near: Values | None = None,
    groups: Sequence[Sequence[MeasuredRun]] | None = None,
) -> list[float | None]:
    """Fit without each group in turn, and return the errors of its runs; None where the others do
    not determine it.

    groups: Runs that are left out together; None: each run by itself, or with very many runs in
        `MOST_FITS` groups.
    """
    runs = equations.runs
    if groups is None:
        groups = [runs[i::MOST_FITS] for i in range(min(MOST_FITS, len(runs)))]
    errors: dict[int, float | None] = {}
    for group in groups:
        others = Equations([run for run in runs if run not in group], equations)
        values = solve(others, asked, near).values if others.runs else {}
        overlay = overlay_of(values, others.runs)
        errors |= {id(run): error_of(run, overlay) if values else None for run in group}
    return [errors[id(run)] for run in runs]


def errors_of(errors: Sequence[float | None]) -> ErrorSummary | None:
    """Return mean and worst of the known errors."""
    absolute = [abs(error) for error in errors if error is not None]
    if not absolute:
        return None
    return ErrorSummary(
        mean=fsum(absolute) / len(absolute), worst=max(absolute), runs=len(absolute)
    )


def not_fitted(
    equations: Equations, solution: Solution, asked: Collection[Pair]
) -> tuple[NotFitted, ...]:
    """List the figures that the runs use but cannot determine, with the reason."""
    factors = {p.key[0]: value for p, value in solution.values.items() if p.kind == SCALE}

    def why(parameter: Parameter) -> str:
        factor = factors.get(parameter.key[0]) if parameter.kind == CONSTANT else None
        if factor is None:
            return "stays as published: the runs do not tell it apart from what was fitted"
        return f"scaled by {factor:.3g} with the averaging time: no run tells it apart"

    left = (p for p in candidates(equations, asked) if p not in solution.values)
    return tuple(NotFitted(**parameter.said, because=why(parameter)) for parameter in left)


def warnings_of(
    figures: Sequence[Fitted], solution: Solution, checks: Sequence[FittedRun], equations: Equations
) -> Iterator[str]:
    """Yield what the user should know before trusting the overlay."""
    for check in checks:
        if check.outlier:
            what = f"line {check.line}: {check.model} on {check.workers}"
            yield (
                f"{what} does not fit the others (samples/s {check.error_after:+.0%}) and counts "
                f"{check.weight:.0%}: check its figures"
            )
    for figure in figures:
        if figure.at_limit:
            yield (
                f"{figure.figure} lies at the end of its range ({figure.value:.4g}): "
                f"other runs would tell it better"
            )
    if solution.freedom == 0:
        yield "as many figures were fitted as were measured: nothing is left to check them with"
    for parameter in dict.fromkeys(candidates(equations)):
        if parameter.kind == RATE and not parameter.known and parameter not in solution.values:
            yield (
                f"the {parameter.label} is an estimate and no run tells it: add calculation_s to "
                f"its runs"
            )
    yield from _extrapolations([run for run in equations.runs if not run.alone])


def _extrapolations(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    """Say where the runs end."""
    if not runs:
        yield "all runs are of one machine: they tell its speed and nothing about exchanges"
        return
    counts = sorted({run.placement.workers for run in runs})
    if len(counts) == 1:
        yield f"all runs have {counts[0]} workers: other numbers of workers are extrapolated"
    else:
        yield f"the runs have {counts[0]} to {counts[-1]} workers: beyond is extrapolated"
    if len({run.problem.gradient_bytes for run in runs}) == 1:
        yield "all runs send gradients of one size: other models are extrapolated"


@dataclass(frozen=True, kw_only=True)
class CalibrationReport:
    """An overlay, how it came about and how good it is."""

    overlay: Overlay
    file: str
    sha256: str
    created: str
    catalog: Catalog
    figures: tuple[Fitted, ...]
    unfitted: tuple[NotFitted, ...]
    checks: tuple[FittedRun, ...]
    warnings: tuple[str, ...]

    @property
    def before(self) -> ErrorSummary | None:
        """Errors with the published figures."""
        return errors_of([check.error_before for check in self.checks])

    @property
    def after(self) -> ErrorSummary | None:
        """Errors on the runs that were fitted."""
        return errors_of([check.error_after for check in self.checks])

    @property
    def left_out(self) -> ErrorSummary | None:
        """Errors on runs that the fit had not seen."""
        return errors_of([check.error_left_out for check in self.checks])

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.calibration/v1`` document: what ``--calibration`` reads, and a report.
        Errors are shares of 1.
        """
        report = {
            "fitted": self.figures,
            "not_fitted": self.unfitted,
            "runs": self.checks,
            "errors": {"before": self.before, "after": self.after, "left_out": self.left_out},
            "warnings": self.warnings,
        }
        runs = {"file": self.file, "sha256": self.sha256, "rows": max(1, len(self.checks))}
        told = to_builtins(report)
        return overlay_document(self.overlay, self.created, self.catalog, runs, told)
