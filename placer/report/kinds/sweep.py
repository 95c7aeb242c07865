"""A question over ranges: what the answer is where, and where it changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from placer.report.blocks import Cell, Chart, Report, Section, Table, figure, section, table, text
from placer.report.charts.curve import Point, curve_chart
from placer.report.charts.intervals import Dot, interval_chart
from placer.report.figures import Document
from placer.report.kinds.shared import parts
from placer.report.kinds.shared.provenance import sources
from placer.report.stretches import along, choice, stretches
from placer.units import counted, format_number, format_usd

UNITS = {"/h": "USD/h", "/s": "samples/s"}
"""Units in full."""
BRIEF = 3
"""More groups of workers are counted, not listed."""
MOST_ROWS = 60
"""Stretches that are listed; --json has all points."""
MISSING = {
    "infeasible": "nothing fits",
    "time_limit": "stopped before any was found",
    "memory_limit": "out of memory before any was found",
}
"""Words of a point without an answer, by its status."""


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.sweep/v1`` document."""
    rows, over, breaks = document["rows"], document["over"], document.get("breakpoints", [])
    axes = " and ".join(axis["what"] for axis in over)
    different = len({choice(row) for row in rows if "workers" in row})
    missing = document["points"] - len(rows)
    left = f" {counted(missing, 'point')} still to do." if missing else ""
    refused = [row for row in rows if "message" in row]
    return Report(
        title=f"{document['request']['model']} over {axes}",
        subtitle=parts.subtitle(document, "whatif --over"),
        verdict=f"{counted(len(rows), 'value')} of {axes} have {counted(different, 'answer')}. "
        f"{_changes(over, breaks)}{left}"
        if rows
        else f"No point is solved:{left}",
        tone="good" if document.get("complete", True) else "warning",
        sections=(
            *_stretches(over, rows),
            *speeds(document),
            *section(
                "Refused",
                text(
                    f"{counted(len(refused), 'point')}, as {refused[0]['key']}: "
                    f"{refused[0]['message']}"
                    if refused
                    else ""
                ),
            ),
            *parts.wishes(document, detail=True),
            *sources(document, [], today),
        ),
    )


def _changes(over: Sequence[Document], breaks: Sequence[Document]) -> str:
    if not breaks:
        return "The answer is the same everywhere."
    at = along(over)
    if len(over) > 1:
        return f"It changes {counted(len(breaks), 'time')} along {over[at]['what']}."
    between = [f"{_value(one['from'], at)} and {_value(one['to'], at)}" for one in breaks]
    return f"It changes between {over[at]['what']} = {', '.join(between)}."


def _value(words: Sequence[str], axis: int) -> str:
    return words[axis].split("=", 1)[1]


def _stretches(over: Sequence[Document], rows: Sequence[Document]) -> tuple[Section, ...]:
    """List neighbouring points with the same answer, and how its figures move."""
    order = sorted(range(len(over)), key=lambda i: (i == along(over), i))
    tokens = any("usd_per_billion_tokens" in row for row in rows)
    figures: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("tokens/s", "effective_tokens_per_second", format_number)
        if tokens
        else ("samples/s", "samples_per_second", format_number),
        ("USD/h", "usd_per_hour", format_usd),
        ("USD/Gtok", "usd_per_billion_tokens", format_usd)
        if tokens
        else ("USD/M", "usd_per_million_samples", format_usd),
    )
    runs = stretches(over, rows)
    cells: list[list[Cell]] = []
    for run in runs[:MOST_ROWS]:
        first, last = (_value(row["set"], order[-1]) for row in (run[0], run[-1]))
        cells.append(
            [
                *(_value(run[0]["set"], i) for i in order[:-1]),
                first if first == last else f"{first} .. {last}",
                _chosen(run[0]),
                *(_range(run, key, write) for _, key, write in figures),
            ]
        )
    names = [name for name, _, _ in figures]
    columns = (*(over[i]["what"] for i in order), "chosen", *names)
    more = len(runs) - MOST_ROWS
    return section(
        "What is best where",
        table("Stretches with one answer", columns, cells, numbers=names, narrowed=("chosen",)),
        text(f"{counted(more, 'line')} more with --json" if more > 0 else ""),
    )


def _range(run: Sequence[Document], key: str, write: Callable[[float], str]) -> Cell:
    """Write a figure from the first to the last point of a stretch."""
    if key not in run[0]:
        return ("-", None)
    one, other = write(run[0][key]), write(run[-1][key])
    return (one if one == other else f"{one} .. {other}", run[0][key])


def _chosen(row: Document) -> str:
    if "workers" not in row:
        return MISSING.get(row["status"], "refused" if row["status"] == "refused" else "none found")
    groups, status = row["workers"], row["status"]
    words = " + ".join(groups)
    if len(groups) > BRIEF:
        words = f"{len(groups)} groups in {counted(row['regions'], 'region')}"
    stopped = " (stopped early)" if status in ("time_limit", "memory_limit") else ""
    return f"{words}{_exchange(row)}{stopped}"


def _exchange(row: Document) -> str:
    if row["exchange"] == "none":
        return ""
    steps = "" if row["local_steps"] == 1 else f" every {row['local_steps']} steps"
    return f", {row['exchange']}{steps}"


def speeds(document: Document) -> tuple[Section, ...]:
    """Show the speed over the range: as a line where its values are numbers, else a row each."""
    over = document["over"]
    rows = sorted(document["rows"], key=lambda row: int(row["point"]))
    answered = [row for row in rows if "samples_per_second" in row]
    unit = "tokens/s" if any("effective_tokens_per_second" in row for row in rows) else "samples/s"
    listed = _points(rows, [axis["what"] for axis in over], unit)
    if not answered or listed is None:
        return section("The answers", listed, detail=True)
    places = [number_of(row["set"][0]) for row in answered]
    single = len(over) == 1 and all(place is not None for place in places)
    where = over[0]["what"]

    def draw() -> Any:
        if single:
            points = [
                Point(x=place, y=speed_of_row(row), words="; ".join(row["workers"]))
                for place, row in zip(places, answered, strict=True)
                if place is not None
            ]
            x_unit = unit_of(answered[0]["set"][0])
            logs = min(min(p.x, p.y) for p in points) > 0
            return curve_chart(points, (f"{where} ({x_unit})" if x_unit else where, unit), log=logs)
        dots = [
            Dot(
                name=" ".join(row["set"]),
                value=speed_of_row(row),
                text=f"{format_number(speed_of_row(row))} for {format_usd(row['usd_per_hour'])}/h",
            )
            for row in answered
        ]
        return interval_chart(dots, unit)

    chart = Chart(
        name="sweep",
        title=f"Speed over {' and '.join(axis['what'] for axis in over)}",
        draw=draw,
        table=listed,
    )
    return section("The answers", chart, detail=True)


def _points(rows: Sequence[Document], axes: Sequence[str], unit: str) -> Table | None:
    """List every point: what formats for programs have."""
    figures = (unit, "USD/h", "egress/h")
    cells: list[list[Cell]] = [
        [
            *(_value(row["set"], at) for at in range(len(axes))),
            " + ".join(row.get("workers", [])),
            _exchange(row).removeprefix(", ") if "workers" in row else "",
            figure(speed_of_row(row) if "workers" in row else None, format_number),
            figure(row.get("usd_per_hour"), format_usd),
            figure(row.get("egress_usd_per_hour"), format_usd),
            row["status"],
        ]
        for row in rows
    ]
    columns = (*axes, "workers", "exchange", *figures, "status")
    units = {"egress/h": "egress USD/h"}
    return table("Every point", columns, cells, numbers=figures, units=units, data=True)


def speed_of_row(row: Document) -> float:
    """Return the speed of a point: tokens/s of a language model, else samples/s."""
    return float(row.get("effective_tokens_per_second", row["samples_per_second"]))


def number_of(word: str) -> float | None:
    """Read the number of a value such as ``budget=2.11/h`` or ``bandwidth:*:*=x0.25``.

    >>> number_of("budget=2.11/h"), number_of("bandwidth:*:*=x0.25"), number_of("market=spot")
    (2.11, 0.25, None)
    >>> number_of("tbs=8Ki")
    8192.0
    """
    match = re.fullmatch(r"x?([+-]?[\d.]+)(Ki|Mi|K|M|B)?(.*)", word.rpartition("=")[2])
    if match is None:
        return None
    size = {"Ki": 2**10, "Mi": 2**20, "K": 1e3, "M": 1e6, "B": 1e9}.get(match[2] or "", 1)
    return float(match[1]) * size


def unit_of(word: str) -> str:
    """Return the unit behind the number of a value; ``x`` of today's where it is a factor."""
    value = word.rpartition("=")[2]
    if value.startswith("x"):
        return "x today's"
    match = re.fullmatch(r"[+-]?[\d.]+(?:Ki|Mi|K|M|B)?(.*)", value)
    return UNITS.get(match[1], match[1]) if match else ""
