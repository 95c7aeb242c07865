"""A frontier: what each budget buys, with bounds."""

from __future__ import annotations

from datetime import date

from placer.report.blocks import Cell, Report, Section, Table, chart, figure, section, table, text
from placer.report.charts.curve import Point, curve_chart
from placer.report.figures import (
    Document,
    exchange_words,
    percent,
    placement_words,
    price_of_work,
    shown_speed,
    speed_of,
    speed_spread,
)
from placer.report.kinds.shared import parts
from placer.report.kinds.shared.provenance import sources
from placer.report.places import map_blocks
from placer.units import counted, format_seconds, format_usd

LEAST_USD_PER_HOUR = 1e-4
"""Cheapest point of a logarithmic axis: machines of one's own may cost nothing."""
MOST_ALIKE = 2
"""Warnings of one kind that are shown: each point may have its own."""
ENDINGS = {
    "complete": "there are no others",
    "points": "more lie between: raise --points",
    "open": "no others were found",
    "time_limit": "stopped by the time limit: raise --time-limit for more",
    "memory_limit": "stopped by the memory limit: raise --memory-limit for more",
    "interrupted": "stopped by Ctrl-C",
}
"""Why a frontier has no more points."""


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.pareto/v1`` document."""
    points = document["points"]
    estimates = [point["estimate"] for point in points] or [
        one["estimate"] for one in document["nearest"]
    ]
    return Report(
        title=f"What each budget buys for {document['request']['model']}",
        subtitle=parts.subtitle(document, "pareto"),
        verdict=_verdict(document),
        tone="bad" if not points else "good" if document["proved"] else "warning",
        figures=tuple(_figures(document)),
        sections=(
            *frontier(document),
            *_knee_map(document),
            *parts.considered(document["nearest"], None, "What would fit, after one change"),
            *parts.warnings_of({"warnings": _few(document["warnings"])}),
            *parts.wishes(document),
            *sources(document, estimates, today),
            *parts.reproduce(document, "pareto"),
        ),
    )


def _few(warnings: list[Document]) -> list[Document]:
    """Leave out most of many warnings of one kind."""
    kinds: dict[str, list[Document]] = {}
    for warning in warnings:
        kinds.setdefault(warning["code"], []).append(warning)
    shown: list[Document] = []
    for alike in kinds.values():
        shown += alike[:MOST_ALIKE]
        if len(alike) > MOST_ALIKE:
            more = f"and {len(alike) - MOST_ALIKE} more like this one (--json lists all)"
            shown.append({"message": more})
    return shown


def _verdict(document: Document) -> str:
    points = document["points"]
    if not points:
        first = document["nearest"]
        change = f" A change that works: {first[0]['note']}." if first else ""
        return f"No placement meets the wishes.{change}"
    low, high = points[0], points[-1]
    unit = speed_of(low["estimate"])[1]
    ends = (
        f"From {format_usd(low['usd_per_hour'])}/h to {format_usd(high['usd_per_hour'])}/h the "
        f"speed grows from {_speed(low)} to {_speed(high)} {unit}."
    )
    if document["knee"] is None:
        return ends
    knee = points[document["knee"]]
    return (
        f"{ends} Beyond {format_usd(knee['usd_per_hour'])}/h returns diminish: "
        f"{placement_words(knee['placement'])}, {_speed(knee)} {unit}."
    )


def _speed(point: Document) -> str:
    return shown_speed(point["estimate"])


def _figures(document: Document) -> list[tuple[str, str, str]]:
    points, gap = document["points"], document["gap"]
    if not points:
        return []
    work = speed_of(points[0]["estimate"])[1].removesuffix("/s")
    proof = "proved" if document["proved"] else "not all proved"
    rows = [
        (str(len(points)), "points", f"{proof}{'' if gap is None else f', gap {percent(gap)}'}")
    ]
    for name, at in (("knee", document["knee"]), (f"cheapest {work}", document["best_value"])):
        if at is not None:
            price, unit = price_of_work(points[at]["estimate"])
            spread = "" if price is None else f"{format_usd(price)} {unit}"
            rows.append((f"{format_usd(points[at]['usd_per_hour'])}/h", name, spread))
    return rows


def frontier(document: Document) -> tuple[Section, ...]:
    """Show the points as steps, with the highest speed that each cost cannot exceed."""
    points = document["points"]
    if not points:
        return ()
    unit = speed_of(points[0]["estimate"])[1]
    shown = []
    for at, point in enumerate(points):
        speed = speed_of(point["estimate"])[0]["value"]
        most = point["most_samples_per_second"]
        words = f"{placement_words(point['placement'])}: {format_usd(point['usd_per_hour'])}/h"
        shown.append(
            Point(
                x=max(point["usd_per_hour"], LEAST_USD_PER_HOUR),
                y=speed,
                low=speed,
                high=None if most is None else most * speed / point["samples_per_second"],
                label="knee" if at == document["knee"] else "",
                words=words,
            )
        )
    titles = ("USD/h", f"{unit} that count towards the target")
    drawn = chart(
        "frontier",
        f"{counted(len(points), 'point')} of cost and speed",
        lambda: curve_chart(shown, titles, log=True, join="step"),
        _table(document, unit),
        "Whiskers: up to where a faster placement for the same cost is not excluded. A point's "
        "speed holds until the next; both axes are logarithmic.",
        table_open=True,
    )
    return section("The frontier", drawn, text(_proof(document)))


def _proof(document: Document) -> str:
    """Say what is proved, and why there are no more points."""
    points, solver = document["points"], document["solver"]
    gap, number = percent(document["gap"]), counted(len(points), "point")
    left = sum(point["status"] != "optimal" for point in points)
    if document["proved"]:
        proof = (
            f"each proved to {gap}: no placement as fast is cheaper by more than that, and none "
            "as cheap is faster"
        )
    elif all(point["gap"] is None for point in points):
        proof = f"not proved (solver {solver['name']}; --solver exact proves)"
    else:
        proof = f"{len(points) - left} proved to {gap}, {left} to a wider gap (see the column)"
    why = ENDINGS.get(document["status"], "")
    took = f"({solver['solves']} searches, {format_seconds(solver['seconds'])})"
    return f"{number}, {proof}; {why} {took}."


def _table(document: Document, unit: str) -> Table | None:
    points = document["points"]
    work = price_of_work(points[0]["estimate"])[1].replace("per ", "USD per ")
    marginal = f"marginal {work}"
    rows: list[list[Cell]] = []
    for at, point in enumerate(points):
        estimate, more = point["estimate"], point["marginal_usd_per_million_samples"]
        speed, price = speed_of(estimate)[0], price_of_work(estimate)[0]
        each = price / estimate["usd_per_million_samples"] if price else 1.0
        rows.append(
            [
                _mark(document, at),
                (format_usd(point["usd_per_hour"]), point["usd_per_hour"]),
                (shown_speed(estimate), speed["value"]),
                speed_spread(estimate),
                figure(price, format_usd),
                figure(None if more is None else more * each, format_usd),
                figure(point["gap"], percent),
                placement_words(point["placement"]),
                exchange_words(point["placement"]),
            ]
        )
    return table(
        "Points from the cheapest to the fastest; marginal: of what a point gives over the one "
        "before",
        ("mark", "USD/h", unit, "interval", work, marginal, "gap", "workers", "exchange"),
        rows,
        marked=document["knee"],
        narrowed=("workers", "exchange", work, marginal),
        optional=("interval",),
    )


def _mark(document: Document, at: int) -> str:
    names = (("knee", "knee"), ("best_value", "cheapest"))
    return ", ".join(word for key, word in names if document[key] == at)


def _knee_map(document: Document) -> tuple[Section, ...]:
    """Show where the point at the knee lies, or the fastest without one."""
    points = document["points"]
    if not points:
        return ()
    at = document["knee"]
    point = points[-1 if at is None else at]
    others = [one["placement"] for one in points]
    title = "Where the fastest point lies" if at is None else "Where the knee lies"
    blocks = map_blocks(document, point["placement"], point["estimate"], others)
    return section(title, *blocks, detail=True)
