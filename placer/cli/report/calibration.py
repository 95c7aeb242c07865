"""The tables of a calibration."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from placer.cli.screen.tables import Sheet
from placer.units import counted, format_plain
from placer.validation.calibration.outcome import Fitted
from placer.validation.calibration.parameters import LINK, RATE, Parameter
from placer.validation.calibration.quality import CalibrationReport, Check


def print_calibration(console: Console, got: CalibrationReport) -> None:
    """Print fitted figures, errors of the runs and their summary."""
    console.print(
        Text(
            f"{counted(max(1, len(got.checks)), 'run')} of {got.file} on price book "
            f"{got.catalog.name}",
            style="bold",
        )
    )
    _section(console, "Fitted, with 90 % intervals", _figures(got.figures))
    if got.unfitted:
        _section(console, "Not fitted", _unfitted(got))
    if not got.checks:
        return
    _section(
        console,
        "Expected over measured samples/s (left out: fitted to the other runs; * outlier)",
        _checks(got.checks),
    )
    _section(console, "Error of samples/s", _summary(got))


def _section(console: Console, title: str, table: Sheet) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    console.print(table)


def _figures(figures: Iterable[Fitted]) -> Sheet:
    table = _table(
        ("figure", "published", "fitted", "interval", "unit", "runs"), text=("figure", "unit")
    )
    for f in figures:
        mark = " (end of its range)" if f.at_limit else ""
        interval = f"{_number(f.low)} to {_number(f.high)}"
        label = f"{f.parameter.label}{mark}"
        table.add_row(
            label,
            _published(f.parameter),
            _number(f.value),
            interval,
            f.parameter.unit,
            str(f.runs),
        )
    return table


def _unfitted(got: CalibrationReport) -> Sheet:
    table = _table(("figure", "published", "unit", "because"), text=("figure", "unit", "because"))
    for parameter, why in got.unfitted:
        table.add_row(parameter.label, _published(parameter), parameter.unit, why)
    return table


def _checks(checks: Iterable[Check]) -> Sheet:
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


def _summary(got: CalibrationReport) -> Sheet:
    table = _table(("", "mean", "worst", "runs"), text=("",))
    for label, errors in (
        ("published figures", got.before),
        ("calibrated", got.after),
        ("each run left out", got.left_out),
    ):
        if errors is not None:
            table.add_row(label, f"{errors.mean:.1%}", f"{errors.worst:.1%}", str(errors.runs))
    return table


def _table(headers: Iterable[str], text: Iterable[str]) -> Sheet:
    names, left = list(headers), set(text)
    return Sheet(names, right=[name for name in names if name not in left], unseen=("what",))


def _published(parameter: Parameter) -> str:
    """Write a published figure; one that was not asked for is left empty."""
    unknown = parameter.kind in (RATE, LINK) and not parameter.published
    return "" if unknown else _number(parameter.published)


def _number(value: float) -> str:
    return format_plain(value, 4) if value < 1e4 else f"{value:,.0f}"
