"""Links between places: what each carries and costs, and how far estimates are off."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from placer.report.blocks import Cell, Report, section, table, text
from placer.report.figures import Document
from placer.units import format_bandwidth, format_seconds

MOST_LINES = 10
"""Most suspects and unknown places that are named."""


def network(document: Document, today: date) -> Report:
    """List the links of places, of a ``placer.network/v1`` document."""
    tiered = any(len(row["egress_tiers"]) > 1 for row in document["links"])
    rows: list[list[Cell]] = [
        [
            row["from"],
            row["to"],
            (format_bandwidth(row["bytes_per_second"]), row["bytes_per_second"]),
            (format_seconds(row["rtt_seconds"]), row["rtt_seconds"]),
            (f"{row['usd_per_gib']:.3f}{_mark(row, tiered)}", row["usd_per_gib"]),
            row["basis"],
        ]
        for row in document["links"]
    ]
    listed = table(
        f"Links of catalog {document['catalog']}",
        ("from", "to", "one stream", "rtt", "USD/GiB", "basis"),
        rows,
        narrowed=("from", "to"),
        units={"one stream": "one stream B/s", "rtt": "rtt s"},
    )
    note = "* first paid price of a month; other volumes cost otherwise: --json lists the tiers"
    return Report(
        title=f"Links of catalog {document['catalog']}",
        subtitle="placer network show",
        sections=section("", listed, text(note if tiered else "")),
    )


def _mark(row: Document, tiered: bool) -> str:
    """Mark a price with tiers; others keep their digits below each other."""
    return "" if not tiered else "*" if len(row["egress_tiers"]) > 1 else " "


def check(document: Document, today: date) -> Report:
    """Show how far estimated links are from measured ones, of a ``placer.network-check/v1``
    document.
    """
    rows: list[list[Cell]] = []
    before = ""
    for row in document["errors"]:
        shown, before = ("" if row["figure"] == before else row["figure"]), row["figure"]
        rows.append(
            [
                (shown, before),
                row["group"],
                row["links"],
                *((f"{row[key]:.1%}", row[key]) for key in ("median_error", "p90_error")),
                (f"{row['worst_error']:+.1%}", row["worst_error"]),
                f"{row['worst_src']} > {row['worst_dst']}",
            ]
        )
    listed = table(
        "Estimated against measured",
        ("figure", "between", "links", "median", "p90", "worst", "worst link"),
        rows,
        narrowed=("worst link",),
    )
    grids = ", ".join(document["grids"])
    used = f"{document['rows']:,} rows of {grids}; places of catalog {document['catalog']}"
    return Report(
        title=f"Links of {grids}, estimated and measured",
        subtitle="placer network check",
        sections=(*section("", listed), *section("", text(used), text(*_left_out(document)))),
    )


def _left_out(document: Document) -> Iterator[str]:
    """Yield the rows that take no part, each kind with its number."""
    suspects, unknown = document["suspects"], document["unknown_places"]
    for row in suspects[:MOST_LINES]:
        words = f"{row['rtt_ms']:g} ms, light in fibre takes {row['light_ms']:.1f} ms"
        yield f"suspect: {row['where']}: {row['src']} > {row['dst']}: {words}"
    if len(suspects) > MOST_LINES:
        yield f"suspect: {len(suspects) - MOST_LINES:,} more; --json lists them"
    if unknown:
        named = [f"{place} ({rows:,} rows)" for place, rows in unknown.items()]
        more = f" and {len(named) - MOST_LINES:,} more" if len(named) > MOST_LINES else ""
        yield f"unknown places: {', '.join(named[:MOST_LINES])}{more}"
    estimated, empty = document["estimated_rows"], document["empty_rows"]
    if estimated or empty:
        yield f"left out: {estimated:,} estimated rows, {empty:,} without a figure"
