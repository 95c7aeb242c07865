"""A rehearsal: what was predicted and what was measured."""

from __future__ import annotations

from datetime import date
from typing import Any

from placer.report.blocks import Block, Chart, Report, Text, section, table
from placer.report.charts.intervals import Dot, interval_chart
from placer.report.figures import Document, percent
from placer.units import counted, format_bytes, format_number


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.rehearsal/v1`` document."""
    lines = document["lines"]
    judged = [line for line in lines if line["within"] is not None]
    right = sum(1 for line in judged if line["within"])
    busy = (document.get("machine") or {}).get("busy")
    return Report(
        title=f"Rehearsal of {document['plan']}",
        subtitle=f"placer run --rehearse, scale {document['scale']:g}, "
        f"{counted(document['workers'], 'worker')}, {document['strategy']}",
        verdict=f"{right} of {counted(len(judged), 'figure')} lie within their tolerance: the plan "
        f"is {'confirmed' if document['confirmed'] else 'not confirmed'}.",
        tone="good" if document["confirmed"] else "bad",
        sections=(
            *section("Predicted and measured", *_lines(lines)),
            *section(
                "What may go wrong",
                Text(lines=tuple(_doubts(document, bool(busy))), tone="warning")
                if _doubts(document, bool(busy))
                else None,
            ),
        ),
    )


def _doubts(document: Document, busy: bool) -> list[str]:
    network = document["network"]
    lines = [f"Links are shaped by {network['method']}. {network['why_not']}".strip()]
    lines += [f"Slower here than in the plan: {' to '.join(pair)}." for pair in network["slower"]]
    if busy:
        lines.append("The machine was busy: a slow round says nothing about the plan.")
    return lines


def _lines(lines: list[Document]) -> list[Block]:
    listed = table(
        "Lines of the rehearsal",
        ("what", "unit", "predicted", "measured", "difference", "within"),
        [_cells(line) for line in lines],
        numbers=("predicted", "measured", "difference"),
    )
    dots = [
        Dot(
            name=f"{line['kind']}: {line['what']}",
            value=100 * line["difference"],
            text=percent(line["difference"], signed=True),
            stands_out=line["within"] is not None,
        )
        for line in lines
        if line["difference"] is not None
    ]
    if listed is None or not dots:
        return [] if listed is None else [listed]
    return [
        Chart(
            name="rehearsal",
            title="Measured against predicted",
            draw=lambda: interval_chart(dots, "% over the prediction", line=0.0, zero=False),
            table=listed,
            note="Blue: judged against a tolerance.",
            table_open=True,
        )
    ]


def _cells(line: Document) -> list[Any]:
    predicted, measured, off = (line[key] for key in ("predicted", "measured", "difference"))
    in_bytes = line["kind"] == "bytes"
    write = format_bytes if in_bytes else format_number
    words = {True: "yes", False: "no", None: "not judged"}
    return [
        line["what"],
        line["unit"].removeprefix("B ") if in_bytes else line["unit"],
        ("", None) if predicted is None else (write(predicted), predicted),
        ("", None) if measured is None else (write(measured), measured),
        ("", None) if off is None else (percent(off, signed=True), off),
        words[line["within"]],
    ]
