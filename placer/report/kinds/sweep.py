"""A question over ranges: what the answer is where, and where it changes."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from placer.report.blocks import Chart, Report, Section, Text, section, table
from placer.report.charts.curve import Point, curve_chart
from placer.report.charts.intervals import Dot, interval_chart
from placer.report.figures import Document
from placer.report.kinds import parts
from placer.report.kinds.provenance import sources
from placer.units import counted, format_number, format_usd

UNITS = {"/h": "USD/h", "/s": "samples/s"}
"""Units in full."""
TOKENS = "effective_tokens_per_second"
"""Speed in the rows of a language model."""
MOST_BREAKS = 20
"""Changes that are listed."""


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.sweep/v1`` document."""
    rows, ranges = document["rows"], document["over"]
    breaks = document.get("breakpoints", [])
    axes = " and ".join(axis["what"] for axis in ranges)
    answered = [row for row in rows if "workers" in row]
    different = len({(*row["workers"], row["exchange"], row["local_steps"]) for row in answered})
    missing = (
        ""
        if len(rows) == document["points"]
        else f" {len(rows)} of {document['points']} points are done."
    )
    changes = (
        "The answer is the same everywhere."
        if not breaks
        else f"The answer changes {counted(len(breaks), 'time')}."
    )
    return Report(
        title=f"{document['request']['model']} over {axes}",
        subtitle=f"placer sweep, prices of {document['data']['oldest']} to "
        f"{document['data']['as_of']} ({document['data']['catalog']})",
        verdict=f"{counted(len(rows), 'value')} of {axes} have "
        f"{counted(different, 'answer')}. {changes}{missing}",
        tone="good" if document.get("complete", True) else "warning",
        sections=(
            *speeds(document),
            *_breaks(breaks),
            *parts.wishes(document),
            *sources(document, [], today),
        ),
    )


def speeds(document: Document) -> tuple[Section, ...]:
    """Show the speed over the range: as a line where its values are numbers, else a row each."""
    rows = sorted(document["rows"], key=lambda row: int(row["point"]))
    answered = [row for row in rows if "samples_per_second" in row]
    speed = "tokens/s" if any(TOKENS in row for row in rows) else "samples/s"
    listed = table(
        "Every point",
        ("where", "workers", "exchange", speed, "USD/h", "egress/h", "status"),
        [_cells(row) for row in rows],
        numbers=(speed, "USD/h", "egress/h"),
    )
    if not answered or listed is None:
        return section("The answers", listed)
    places = [number_of(row["set"][0]) for row in answered]
    single = len(document["over"]) == 1 and all(place is not None for place in places)
    where = document["over"][0]["what"]

    def draw() -> Any:
        if single:
            points = [
                Point(x=place, y=speed_of_row(row), words="; ".join(row["workers"]))
                for place, row in zip(places, answered, strict=True)
                if place is not None
            ]
            unit = unit_of(answered[0]["set"][0])
            logs = min(min(p.x, p.y) for p in points) > 0
            return curve_chart(points, (f"{where} ({unit})" if unit else where, speed), log=logs)
        dots = [
            Dot(
                name=" ".join(row["set"]),
                value=speed_of_row(row),
                text=f"{format_number(speed_of_row(row))} for {format_usd(row['usd_per_hour'])}/h",
            )
            for row in answered
        ]
        return interval_chart(dots, speed)

    chart = Chart(
        name="sweep",
        title=f"Speed over {' and '.join(axis['what'] for axis in document['over'])}",
        draw=draw,
        table=listed,
        table_open=True,
    )
    return section("The answers", chart)


def speed_of_row(row: Document) -> float:
    """Return the speed of a point: tokens/s of a language model, else samples/s."""
    return float(row.get(TOKENS, row["samples_per_second"]))


def number_of(word: str) -> float | None:
    """Read the number of a value such as ``budget=2.11/h`` or ``bandwidth:*:*=x0.25``.

    Examples
    --------
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


def _cells(row: Document) -> list[Any]:
    where = " ".join(row["set"])
    if "workers" not in row:
        return [where, "", "", ("", None), ("", None), ("", None), row["status"]]
    steps = "" if row["local_steps"] == 1 else f" every {row['local_steps']} steps"
    return [
        (where, row["point"]),
        " + ".join(row["workers"]),
        f"{row['exchange']}{steps}",
        (format_number(speed_of_row(row)), speed_of_row(row)),
        (format_usd(row["usd_per_hour"]), row["usd_per_hour"]),
        (format_usd(row["egress_usd_per_hour"]), row["egress_usd_per_hour"]),
        row["status"],
    ]


def _breaks(breaks: list[Document]) -> tuple[Section, ...]:
    lines = [
        f"between {' '.join(one['from'])} and {' '.join(one['to'])}" for one in breaks[:MOST_BREAKS]
    ]
    if len(breaks) > MOST_BREAKS:
        lines.append(f"and {len(breaks) - MOST_BREAKS} more")
    return section("Where the answer changes", Text(lines=tuple(lines)) if lines else None)
