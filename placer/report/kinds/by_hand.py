"""Placements given by hand: one with the limits that it breaks, or several side by side."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from placer.report.blocks import Pair, Report, Section, facts, section, text
from placer.report.figures import (
    Document,
    exchange_words,
    format_speed_of,
    percent,
    placement_words,
    spec,
    speed_of,
)
from placer.report.kinds.shared import parts
from placer.report.kinds.shared.placement import facts_of, figures_of, risk_words, spot_facts
from placer.report.kinds.shared.provenance import sources
from placer.report.places import map_blocks
from placer.units import counted, format_seconds, format_usd


def estimate(document: Document, today: date) -> Report:
    """Build the report of a ``placer.estimate/v1`` document."""
    placement, estimate = document["placement"], document["estimate"]
    broken = tuple(f"{row['message']}." for row in document["violations"])
    workers = ",".join(spec(group) for group in placement["workers"])
    return Report(
        title=f"{document['request']['model']} on {placement_words(placement)}",
        subtitle=parts.subtitle(document, "estimate"),
        verdict=_estimate_verdict(document, len(broken)),
        tone="bad" if broken else "good",
        figures=tuple(figures_of(estimate)),
        sections=(
            *section("Limits that it breaks", text(*broken, tone="warning")),
            *section("The placement", facts(*facts_of(document))),
            *section("Where", *map_blocks(document, placement, estimate), detail=True),
            *parts.dollars(estimate, document["request"].get("budget_usd_per_hour")),
            *parts.step(placement, estimate),
            *parts.warnings_of(document, spot_facts(document)),
            *parts.wishes(document),
            *sources(document, [estimate], today),
            *parts.reproduce(document, "estimate", f" --workers '{workers}'"),
        ),
    )


def _estimate_verdict(document: Document, broken: int) -> str:
    placement, estimate = document["placement"], document["estimate"]
    usd = format_usd(estimate["usd_per_hour"]["total"])
    limits = (
        f"It breaks {counted(broken, 'limit')}."
        if broken
        else "It breaks no limit; nothing was searched."
    )
    return (
        f"{placement_words(placement)}, {exchange_words(placement)}: "
        f"{format_speed_of(estimate)} for {usd}/h. {limits}"
    )


LEAST = 0.01
"""Share of a step from which a part of it that differs is named."""


def comparison(document: Document, today: date) -> Report:
    """Build the report of a ``placer.comparison/v1`` document."""
    rows: list[Document] = [
        {**row, "note": "; ".join(row["violations"])} for row in document["placements"]
    ]
    allowed = [row for row in rows if not row["violations"]] or rows
    best = max(allowed, key=lambda row: speed_of(row["estimate"])[0]["value"])
    others = [row["placement"] for row in rows]
    where = map_blocks(document, best["placement"], best["estimate"], others)
    return Report(
        title=f"{counted(len(rows), 'placement')} for {document['request']['model']}",
        subtitle=parts.subtitle(document, "estimate"),
        verdict=f"The fastest is {parts.option_words(best)}.",
        sections=(
            *parts.considered(rows, best["placement"], "Side by side"),
            *_differences(rows, best),
            *section("Where the fastest lies", *where, detail=True),
            *section("Risk", facts(*_risks(rows))),
            *parts.dollars(best["estimate"], None),
            *parts.step(best["placement"], best["estimate"]),
            *parts.warnings_of(document),
            *parts.wishes(document),
            *sources(document, [row["estimate"] for row in rows], today),
        ),
    )


def _risks(rows: list[Document]) -> Iterator[Pair]:
    """Yield the risk of each placement; nothing where all machines are on demand."""
    spots = [(row.get("outlook") or {}).get("spot") for row in rows]
    words = [risk_words(spot) or "none of it spot" for spot in spots]
    if any(spots) and len(set(words)) == 1:
        yield "every row", words[0], ""
    elif any(spots):
        yield from ((f"row {number}", one, "") for number, one in enumerate(words, start=1))


def _differences(rows: list[Document], best: Document) -> tuple[Section, ...]:
    speed = speed_of(best["estimate"])[0]["value"]
    usd = best["estimate"]["usd_per_hour"]["total"]
    pairs = [
        (
            f"row {number}",
            f"{percent(speed_of(row['estimate'])[0]['value'] / speed - 1, signed=True)} speed, "
            f"{percent(row['estimate']['usd_per_hour']['total'] / usd - 1, signed=True)} cost"
            f"{_inside(row, best)}",
        )
        for number, row in enumerate(rows, start=1)
        if row is not best and speed and usd
    ]
    return section("Against the fastest", facts(*pairs))


def _inside(row: Document, best: Document) -> str:
    """Name the parts of a step inside a worker that take longest beside those of the fastest."""
    mine, theirs = row.get("inside_seconds"), best.get("inside_seconds")
    if not mine or not theirs:
        return ""
    differ = sorted(((s - theirs[name], name) for name, s in mine.items()), reverse=True)
    least_s = LEAST * sum(mine.values())
    more = [f"{format_seconds(s)} more for {name}" for s, name in differ[:2] if s > least_s]
    less = [f"{format_seconds(-s)} less for {name}" for s, name in differ[-1:] if -s > least_s]
    words = [*more, *less]
    return f"; {', '.join(words)}" if words else ""
