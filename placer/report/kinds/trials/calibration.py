"""A calibration: which figures were fitted to runs, and how good the fit is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from placer.report.blocks import Cell, Report, figure, section, table, text
from placer.report.figures import Document
from placer.units import counted, format_plain

ASKED = ("rate", "link")
"""Kinds of figures of which 0 says that nothing is published."""
ERRORS = (
    ("before", "published figures"),
    ("after", "calibrated"),
    ("left_out", "each run left out"),
)


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.calibration/v1`` document."""
    found = document["report"]
    runs = document["runs"]
    fitted = ("published", "fitted")
    errors = ("mean", "worst", "runs")
    return Report(
        title=f"Calibration {document['name']}",
        subtitle="placer profile runs",
        verdict=f"{counted(max(1, len(found['runs'])), 'run')} of {runs['file']} on price book "
        f"{document['catalog']['name']}",
        sections=(
            *section(
                "Fitted, with 90 % intervals",
                table(
                    "Fitted figures",
                    ("figure", *fitted, "interval", "unit", "runs"),
                    [_fitted(row) for row in found["fitted"]],
                    numbers=(*fitted, "runs"),
                ),
            ),
            *section(
                "Not fitted",
                table(
                    "Figures that stay",
                    ("figure", "published", "unit", "because"),
                    [
                        [row["figure"], _published(row), row["unit"], row["because"]]
                        for row in found["not_fitted"]
                    ],
                    numbers=("published",),
                ),
            ),
            *section(
                "Expected over measured samples/s (left out: fitted to the other runs; * outlier)",
                table(
                    "Runs",
                    ("line", "model", "workers", "measured", "before", "after", "", "left out"),
                    [_run(row) for row in found["runs"]],
                    numbers=("line", "measured", "before", "after", "left out"),
                    units={"measured": "measured samples/s", "": "outlier"},
                    data=True,
                ),
            ),
            *section(
                "Error of samples/s",
                table("Errors", ("figures", *errors), list(_errors(found)), numbers=errors),
            ),
            *section("", text(*found["warnings"], tone="warning")),
        ),
    )


def _fitted(row: Document) -> list[Cell]:
    return [
        f"{row['figure']}{' (end of its range)' if row['at_limit'] else ''}",
        _published(row),
        (_number(row["value"]), row["value"]),
        f"{_number(row['low'])} to {_number(row['high'])}",
        row["unit"],
        (str(row["runs"]), row["runs"]),
    ]


def _published(row: Document) -> Cell:
    """Write a published figure; one that was not asked for is left empty."""
    unknown = row["kind"] in ASKED and not row["published"]
    return figure(None if unknown else row["published"], _number)


def _run(row: Document) -> list[Cell]:
    speed = row["samples_per_second"]
    return [
        (str(row["line"]), row["line"]),
        row["model"],
        row["workers"].replace(",", ", "),
        (_number(speed), speed),
        *((f"{row[key]:+.1%}", row[key]) for key in ("error_before", "error_after")),
        "*" if row["outlier"] else "",
        figure(row["error_left_out"], "{:+.1%}".format),
    ]


def _errors(found: Document) -> Iterator[list[Cell]]:
    for key, name in ERRORS:
        row = found["errors"].get(key)
        if row is not None and found["runs"]:
            shares = ((f"{row[end]:.1%}", row[end]) for end in ("mean", "worst"))
            yield [name, *shares, (str(row["runs"]), row["runs"])]


def _number(value: float) -> str:
    return format_plain(value, 4) if value < 1e4 else f"{value:,.0f}"
