"""How good a calibration is: errors before, after and left out, outliers, what could not be fitted,
where it extrapolates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from msgspec import to_builtins

from placer.documents.schemas.measured import ErrorSummary, Fitted, FittedRun, NotFitted
from placer.market.catalog import Catalog
from placer.validation.calibration.least_squares import Pair, Solution, candidates, solve
from placer.validation.calibration.outcome import OUTLIER
from placer.validation.calibration.parameters import (
    CONSTANT,
    RATE,
    SCALE,
    Equations,
    Parameter,
    Values,
    overlay_of,
)
from placer.validation.calibration.runs import MeasuredRun
from placer.version import __version__
from placer.workload.overlay import NOTHING, SCHEMA, Overlay, overlay_document

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
        others = equations.without(group)
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
        figures = overlay_document(self.overlay)
        return {
            "schema": SCHEMA,
            "name": figures.pop("name"),
            "created": self.created,
            "placer_version": __version__,
            "catalog": {"name": self.catalog.name, "digest": self.catalog.digest},
            "runs": {"file": self.file, "sha256": self.sha256, "rows": max(1, len(self.checks))},
            **figures,
            "report": {
                "fitted": to_builtins(list(self.figures)),
                "not_fitted": to_builtins(list(self.unfitted)),
                "runs": to_builtins(list(self.checks)),
                "errors": to_builtins(
                    {"before": self.before, "after": self.after, "left_out": self.left_out}
                ),
                "warnings": list(self.warnings),
            },
        }
