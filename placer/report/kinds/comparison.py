"""Placements given by hand, side by side."""

from __future__ import annotations

from datetime import date

from placer.report.blocks import Report, Section, Text, section
from placer.report.figures import Document, percent, placement_words, speed_of
from placer.report.kinds import parts
from placer.report.kinds.provenance import sources
from placer.report.places import map_blocks
from placer.units import counted, format_number, format_usd


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.comparison/v1`` document."""
    rows: list[Document] = [
        {**row, "note": "; ".join(_words(one) for one in row["violations"])}
        for row in document["placements"]
    ]
    allowed = [row for row in rows if not row["violations"]] or rows
    best = max(allowed, key=lambda row: speed_of(row["estimate"])[0]["value"])
    speed, unit = speed_of(best["estimate"])
    return Report(
        title=f"{counted(len(rows), 'placement')} for {document['request']['model']}",
        subtitle=f"placer estimate, prices of {document['data']['oldest']} to "
        f"{document['data']['as_of']} ({document['data']['catalog']})",
        verdict=f"The fastest is {placement_words(best['placement'])}: "
        f"{format_number(speed['value'])} {unit} for "
        f"{format_usd(best['estimate']['usd_per_hour']['total'])}/h.",
        sections=(
            *parts.considered(rows, best["placement"], "Side by side"),
            *_differences(rows, best),
            *section(
                "Where the fastest lies",
                *map_blocks(
                    document,
                    best["placement"],
                    best["estimate"],
                    [row["placement"] for row in rows],
                ),
            ),
            *parts.dollars(best["estimate"], None),
            *parts.step(best["placement"], best["estimate"]),
            *parts.warnings_of(document),
            *parts.wishes(document),
            *sources(document, [row["estimate"] for row in rows], today),
        ),
    )


def _words(violation: object) -> str:
    """Write a limit that is broken."""
    return str(violation["message"]) if isinstance(violation, dict) else str(violation)


def _differences(rows: list[Document], best: Document) -> tuple[Section, ...]:
    """Say how much slower and cheaper the others are."""
    speed = speed_of(best["estimate"])[0]["value"]
    usd = best["estimate"]["usd_per_hour"]["total"]
    lines = [
        f"{placement_words(row['placement'])}: "
        f"{percent(speed_of(row['estimate'])[0]['value'] / speed - 1, signed=True)} speed, "
        f"{percent(row['estimate']['usd_per_hour']['total'] / usd - 1, signed=True)} cost"
        for row in rows
        if row is not best and speed and usd
    ]
    return section("Against the fastest", Text(lines=tuple(lines)) if lines else None)
