"""Figures that were tried: a simulation beside the closed form, and a calibration on runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from placer.report.blocks import Cell, Pair, Report, chart, facts, figure, section, table, text
from placer.report.charts.curve import Point, curve_chart
from placer.report.figures import Document, percent
from placer.units import counted, format_bytes, format_plain, format_seconds, format_speed

WAITS = 0.01
"""Share of a round from which waiting is worth a word."""


def simulation(document: Document, today: date) -> Report:
    """Build the report of a ``placer.simulation/v1`` document."""
    seconds, predicted = document["round_seconds"], document["predicted_round_seconds"]
    listed = table(
        "Rounds",
        ("round", "seconds"),
        [(str(at), (format_seconds(one), one)) for at, one in enumerate(seconds, start=1)],
        numbers=("round", "seconds"),
    )
    points = [
        Point(x=at, y=one, words=format_seconds(one)) for at, one in enumerate(seconds, start=1)
    ]

    def draw() -> Any:
        line = (f"closed form {format_seconds(predicted)}", predicted)
        return curve_chart(points, ("round", "seconds"), line=line, zero=True)

    return Report(
        title=f"Simulation of {document['workers'].replace(',', ' + ')}",
        subtitle=f"placer estimate --simulate, {document['strategy']}, "
        f"jitter {document['jitter']:g}, stragglers {document['stragglers']:g}",
        verdict=f"{counted(document['rounds'], 'round')}: "
        f"{format_speed(document['samples_per_second'], document.get('tokens_per_sample'))}, "
        f"{percent(document['difference'], signed=True)} against the closed form.",
        figures=(
            (format_seconds(document["p50"]), "median round", ""),
            (format_seconds(document["p95"]), "95 of 100 rounds are shorter", ""),
            (format_seconds(predicted), "closed form", ""),
        ),
        sections=(
            *section("The machines", facts(*_waits(document))),
            *section("Round by round", chart("rounds", "Seconds of each round", draw, listed)),
            *section(
                "What the places send",
                table(
                    "Bytes of a round",
                    ("from", "to", "bytes"),
                    [
                        (
                            row["src"],
                            row["dst"],
                            (format_bytes(row["bytes_per_round"]), row["bytes_per_round"]),
                        )
                        for row in document["bytes_by_link"]
                    ],
                ),
            ),
        ),
    )


def _waits(document: Document) -> Iterator[Pair]:
    """Yield what chance does, and which places wait at barriers for 1 % of a round or more."""
    mean = document["p50"]
    slow = (
        f"{percent(document['stragglers'])} stragglers, {document['straggler_factor']:g} x slower"
    )
    stragglers = slow if document["stragglers"] else "no stragglers"
    jitter = f"jitter {percent(document['jitter'])}" if document["jitter"] else "no jitter"
    yield "chance", f"{jitter}; {stragglers}", f"seed {document['seed']}"
    speed = format_speed(
        document["predicted_samples_per_second"], document.get("tokens_per_sample")
    )
    yield "closed form", speed, ""
    waits = [
        row for row in document["waiting_by_place"] if row["seconds_per_round"] >= WAITS * mean
    ]
    for row in sorted(waits, key=lambda row: -row["seconds_per_round"]):
        waited = f"{format_seconds(row['seconds_per_round'])} a round"
        yield f"waiting in {row['place']}", waited, ""
    if not waits:
        yield "waiting", "no place waits at barriers for 1 % of a round", ""


ASKED = ("rate", "link")
"""Kinds of figures of which 0 says that nothing is published."""
ERRORS = (
    ("before", "published figures"),
    ("after", "calibrated"),
    ("left_out", "each run left out"),
)


def calibration(document: Document, today: date) -> Report:
    """Build the report of a ``placer.calibration/v1`` document."""
    found = document["report"]
    runs = document["runs"]
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
                    ("figure", "published", "fitted", "interval", "unit", "runs"),
                    [_fitted(row) for row in found["fitted"]],
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
                ),
            ),
            *section(
                "Expected over measured samples/s (left out: fitted to the other runs; * outlier)",
                table(
                    "Runs",
                    ("line", "model", "workers", "measured", "before", "after", "", "left out"),
                    [_run(row) for row in found["runs"]],
                    units={"measured": "measured samples/s", "": "outlier"},
                    data=True,
                ),
            ),
            *section(
                "Error of samples/s",
                table("Errors", ("figures", "mean", "worst", "runs"), list(_errors(found))),
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
        row["runs"],
    ]


def _published(row: Document) -> Cell:
    """Write a published figure; one that was not asked for is left empty."""
    unknown = row["kind"] in ASKED and not row["published"]
    return figure(None if unknown else row["published"], _number)


def _run(row: Document) -> list[Cell]:
    speed = row["samples_per_second"]
    return [
        row["line"],
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
