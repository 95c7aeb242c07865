"""A paper computed again: published figures beside placer's."""

from __future__ import annotations

from datetime import date
from typing import Any

from placer.report.blocks import Chart, Report, Section, Text, section, table
from placer.report.charts.intervals import Dot, interval_chart
from placer.report.figures import Document, percent
from placer.units import counted, format_number

MOST_ERROR = 1.0
"""Share; larger errors, of figures near 0, would squeeze the others."""


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.reproduction/v1`` document."""
    rows, verdicts = document["rows"], document["verdicts"]
    judged = [row for row in rows if row["inside_interval"] is not None]
    inside = [row for row in judged if row["inside_interval"]]
    claims = ", ".join(f"{count} {name}" for name, count in verdicts.items())
    return Report(
        title=document["title"],
        subtitle=f"placer reproduce {document['paper']}",
        verdict=f"{len(inside)} of {counted(len(judged), 'published figure')} lie within placer's "
        f"interval. Claims: {claims}.",
        tone="warning" if verdicts.get("contradicted") else "good",
        sections=(
            *errors(document),
            *_claims(document),
            *section("Notes", Text(lines=tuple(document["notes"])) if document["notes"] else None),
        ),
    )


def errors(document: Document) -> tuple[Section, ...]:
    """Show how far placer is off the published figures."""
    rows = document["rows"]
    listed = table(
        "Published and computed figures",
        ("run", "quantity", "published", "placer", "interval", "error"),
        [_cells(row) for row in rows],
        numbers=("published", "placer", "error"),
    )
    if listed is None:
        return ()
    dots = [
        Dot(
            name=f"{row['label']}: {row['quantity']}",
            value=100 * row["error"],
            low=None if row["low"] is None else 100 * (row["low"] / row["published"] - 1),
            high=None if row["high"] is None else 100 * (row["high"] / row["published"] - 1),
            text=percent(row["error"], signed=True),
            stands_out=bool(row["inside_interval"]),
        )
        for row in sorted(rows, key=lambda row: -abs(row["error"] or 0.0))
        if row["published"] and row["error"] is not None and abs(row["error"]) <= MOST_ERROR
    ]
    far = sum(1 for row in rows if row["error"] is not None and abs(row["error"]) > MOST_ERROR)
    beyond = f" {far} more are off by over {percent(MOST_ERROR)}: see the table." if far else ""
    if not dots:
        return section("Published and computed", listed)
    chart = Chart(
        name="errors",
        title="Error of each figure with placer's interval, the largest first",
        draw=lambda: interval_chart(dots, "% over the published figure", line=0.0, zero=False),
        table=listed,
        note=f"Blue: the published figure lies within placer's interval.{beyond}",
    )
    return section("Published and computed", chart)


def _cells(row: Document) -> list[Any]:
    spread = (
        ""
        if row["low"] is None or row["high"] is None
        else f"{format_number(row['low'])} to {format_number(row['high'])}"
    )
    return [
        row["label"],
        row["unit"] if row["unit"] == row["quantity"] else f"{row['quantity']} ({row['unit']})",
        *(
            ("", None) if row[key] is None else (format_number(row[key]), row[key])
            for key in ("published", "ours")
        ),
        spread,
        ("", None) if row["error"] is None else (percent(row["error"], signed=True), row["error"]),
    ]


def _claims(document: Document) -> tuple[Section, ...]:
    rows = [
        [row["id"], row["statement"], row["verdict"], row["ours"], row["source"]]
        for row in document["claims"]
    ]
    return section(
        "Claims", table("Claims of the paper", ("id", "claim", "verdict", "placer", "source"), rows)
    )
