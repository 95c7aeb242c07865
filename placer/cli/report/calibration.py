"""A calibration: the ``placer.calibration/v1`` document and its tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from placer.version import __version__
from placer.workload.overlay import SCHEMA, overlay_document

if TYPE_CHECKING:
    from placer.validation.calibration.calibrate import CalibrationReport
    from placer.validation.calibration.outcome import Fitted
    from placer.validation.calibration.quality import Check, Errors


def calibration_document(got: CalibrationReport) -> dict[str, Any]:
    """Build the document of a calibration: what ``--calibration`` reads, and a report; errors are
    shares of 1.
    """
    figures = overlay_document(got.overlay)
    return {
        "schema": SCHEMA,
        "name": figures.pop("name"),
        "created": got.created,
        "placer_version": __version__,
        "catalog": {"name": got.catalog.name, "digest": got.catalog.digest},
        "runs": {"file": got.file, "sha256": got.sha256, "rows": len(got.checks)},
        **figures,
        "report": {
            "fitted": [_figure(figure) for figure in got.figures],
            "not_fitted": [
                {
                    "figure": p.label,
                    "kind": p.kind,
                    "key": list(p.key),
                    "unit": p.unit,
                    "published": p.published,
                    "because": why,
                }
                for p, why in got.unfitted
            ],
            "runs": [_check(check) for check in got.checks],
            "errors": {
                "before": _errors(got.before),
                "after": _errors(got.after),
                "left_out": _errors(got.left_out),
            },
            "warnings": list(got.warnings),
        },
    }


def print_calibration(console: Console, got: CalibrationReport) -> None:
    """Print fitted figures, errors of the runs and their summary."""
    console.print(
        Text(
            f"{len(got.checks)} {'run' if len(got.checks) == 1 else 'runs'} of {got.file} on price "
            f"book {got.catalog.name}",
            style="bold",
        )
    )
    _section(console, "Fitted, with 90 % intervals", _figures(got.figures))
    if got.unfitted:
        _section(console, "Not fitted", _unfitted(got))
    _section(
        console,
        "Expected over measured samples/s (left out: fitted to the other runs; * outlier)",
        _checks(got.checks),
    )
    _section(console, "Error of samples/s", _summary(got))


def _section(console: Console, title: str, table: Table) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    console.print(table)


def _figures(figures: Iterable[Fitted]) -> Table:
    table = _table(
        ("figure", "published", "fitted", "interval", "unit", "runs"), text=("figure", "unit")
    )
    for f in figures:
        mark = " (end of its range)" if f.at_limit else ""
        interval = f"{_number(f.low)} to {_number(f.high)}"
        label = f"{f.parameter.label}{mark}"
        table.add_row(
            label,
            _number(f.parameter.published),
            _number(f.value),
            interval,
            f.parameter.unit,
            str(f.runs),
        )
    return table


def _unfitted(got: CalibrationReport) -> Table:
    table = _table(("figure", "published", "unit", "because"), text=("figure", "unit", "because"))
    for parameter, why in got.unfitted:
        table.add_row(parameter.label, _number(parameter.published), parameter.unit, why)
    return table


def _checks(checks: Iterable[Check]) -> Table:
    table = _table(
        ("line", "model", "workers", "measured", "before", "after", "", "left out"),
        text=("model", "workers", ""),
    )
    for c in checks:
        left = "" if c.left_out is None else f"{c.left_out:+.1%}"
        mark = "*" if c.outlier else ""
        table.add_row(
            str(c.line),
            c.model,
            c.workers.replace(",", ", "),
            _number(c.measured),
            f"{c.before:+.1%}",
            f"{c.after:+.1%}",
            mark,
            left,
        )
    return table


def _summary(got: CalibrationReport) -> Table:
    table = _table(("", "mean", "worst", "runs"), text=("",))
    for label, errors in (
        ("published figures", got.before),
        ("calibrated", got.after),
        ("each run left out", got.left_out),
    ):
        if errors is not None:
            table.add_row(label, f"{errors.mean:.1%}", f"{errors.worst:.1%}", str(errors.runs))
    return table


def _table(headers: Iterable[str], text: Iterable[str]) -> Table:
    left = set(text)
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="underline")
    for header in headers:
        table.add_column(header, justify="left" if header in left else "right", overflow="fold")
    return table


def _number(value: float) -> str:
    return f"{value:.4g}" if value < 1e4 else f"{value:,.0f}"


def _figure(f: Fitted) -> dict[str, Any]:
    p = f.parameter
    return {
        "figure": p.label,
        "kind": p.kind,
        "key": list(p.key),
        "unit": p.unit,
        "published": p.published,
        "value": f.value,
        "low": f.low,
        "high": f.high,
        "runs": f.runs,
        "at_limit": f.at_limit,
    }


def _check(check: Check) -> dict[str, Any]:
    return {
        "line": check.line,
        "model": check.model,
        "workers": check.workers,
        "samples_per_second": check.measured,
        "error_before": check.before,
        "error_after": check.after,
        "error_left_out": check.left_out,
        "weight": check.weight,
        "outlier": check.outlier,
    }


def _errors(errors: Errors | None) -> dict[str, float] | None:
    return (
        None
        if errors is None
        else {"mean": errors.mean, "worst": errors.worst, "runs": errors.runs}
    )
