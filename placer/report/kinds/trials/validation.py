"""What was tried: a simulation, a calibration on runs, and policies on a trace of capacity."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

from placer.report.blocks import Cell, Pair, Report, chart, facts, figure, section, table, text
from placer.report.charts.curve import Point, curve_chart
from placer.report.charts.rows import Dot, interval_chart
from placer.report.figures import Document, percent
from placer.units import (
    SECONDS_PER_HOUR,
    counted,
    format_bytes,
    format_duration,
    format_plain,
    format_seconds,
    format_speed,
    format_usd,
)

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


CARRIED = 0.0005
"""Share of a trace that was carried forward, from which it is worth a word."""


def replay(document: Document, today: date) -> Report:
    """Build the report of a ``placer.replay/v1`` document."""
    policies, job, trace = document["policies"], document["job"], document["trace"]
    best = min(policies, key=lambda row: (row["missed"], row["usd"]))
    dearest = max(row["usd"] for row in policies)
    starts = counted(len(document["starts"]), "start")
    saved = 1 - best["usd"] / dearest if dearest else 0.0
    figures = ("USD", "worst USD", "missed", "moves", "lost", "checkpoints", "exchange")
    listed = table(
        "Policies, on average over all starts",
        ("policy", *figures, "on-demand h"),
        [
            [
                row["policy"],
                (f"{row['usd']:,.0f}", row["usd"]),
                (f"{row['worst_usd']:,.0f}", row["worst_usd"]),
                row["missed"],
                (f"{row['moves']:.1f}", row["moves"]),
                (f"{row['machines_lost']:.1f}", row["machines_lost"]),
                (f"{row['checkpoint_usd']:,.2f}", row["checkpoint_usd"]),
                (f"{row['exchange_usd']:,.2f}", row["exchange_usd"]),
                (f"{row['on_demand_hours']:.1f}", row["on_demand_hours"]),
            ]
            for row in policies
        ],
        units={"checkpoints": "checkpoints USD", "exchange": "exchange USD"},
        marked=policies.index(best),
        data=True,
    )
    bound = document["offline"]["bound_usd"]
    dots = [
        Dot(
            name=row["policy"],
            value=row["usd"],
            low=row["usd"],
            high=row["worst_usd"],
            text=f"{format_usd(row['usd'])}, worst {format_usd(row['worst_usd'])}",
            stands_out=row is best,
        )
        for row in policies
    ]
    return Report(
        title=f"{counted(job['machines'], 'machine')} over a trace of "
        f"{counted(len(trace['zones']), 'zone')}",
        subtitle=f"placer capacity replay, {starts} from {trace['first']}",
        verdict=f"The policy {best['policy']} pays {format_usd(best['usd'])} on average, "
        f"{percent(saved)} less than the most expensive, and misses {best['missed']} of "
        f"{counted(len(document['starts']), 'deadline')}.",
        sections=(
            *section(
                "What each policy pays",
                chart(
                    "policies",
                    "Dollars of each policy: the mean, and up to the worst start",
                    lambda: interval_chart(dots, "USD", line=bound),
                    listed,
                    ""
                    if bound is None
                    else f"Dashed: {format_usd(bound)}, which no policy undercuts even if it knew "
                    "everything.",
                    table_open=True,
                ),
            ),
            *section("The job", facts(*_job(document))),
            *section("Bounds and changes", facts(*_bounds(document))),
            *section("What is assumed", text(*document["assumptions"])),
        ),
    )


def _job(document: Document) -> Iterator[tuple[str, str, str]]:
    """Yield the trace, the job, and the price of what is always there."""
    job, trace, market = document["job"], document["trace"], document["market"]
    carried = f", {100 * trace['carried']:.1f} % carried forward" * (trace["carried"] > CARRIED)
    ticks = f"in ticks of {_hours(trace['tick_hours'])}, up to {trace['asked']} machines each"
    whole = _hours(trace["ticks"] * trace["tick_hours"])
    zones = counted(len(trace["zones"]), "zone")
    yield "trace", f"{zones}, {whole} from {trace['first']} {ticks}{carried}", ""
    machines, starts = counted(job["machines"], "machine"), len(document["starts"])
    words = f"{machines} with {_hours(job['work_hours'])}; {counted(starts, 'start')}"
    yield "work", words, ""
    yield "deadline", f"after {_hours(job['deadline_hours'])}", ""
    yield "restart", _hours(job["restart_hours"]), ""
    price = format_usd(market["on_demand_usd_per_hour"])
    yield "on-demand", f"{price}/h a machine", market["source"]


def _bounds(document: Document) -> Iterator[tuple[str, str, str]]:
    """Yield what no policy undercuts, and what changes if the job or its machines do."""
    offline = document["offline"]
    if offline["optimum_usd"] is not None and offline["bound_usd"] is not None:
        best = f"{offline['optimum_usd']:,.0f} USD in one place at a time"
        least = f"no policy can cost less than {offline['bound_usd']:,.0f} USD"
        yield "who knows the whole trace", best, least
    for row in document["sensitivity"]:
        yield f"span if {row['change']}", f"{row['span_usd']:,.0f} USD", ""


def _hours(hours: float) -> str:
    return format_duration(hours * SECONDS_PER_HOUR)
