"""A placement given by hand: what it does and costs, and the limits that it breaks."""

from __future__ import annotations

from datetime import date

from placer.report.blocks import Facts, Report, Text, section
from placer.report.figures import (
    Document,
    exchange_words,
    format_speed_of,
    placement_words,
    spec,
)
from placer.report.kinds.shared import parts
from placer.report.kinds.shared.placement import facts_of, figures_of, spot_facts
from placer.report.kinds.shared.provenance import sources
from placer.report.places import map_blocks
from placer.units import counted, format_usd


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.estimate/v1`` document."""
    placement, estimate = document["placement"], document["estimate"]
    broken = tuple(f"{row['message']}." for row in document["violations"])
    limits = Text(lines=broken, tone="warning") if broken else None
    workers = ",".join(spec(group) for group in placement["workers"])
    return Report(
        title=f"{document['request']['model']} on {placement_words(placement)}",
        subtitle=parts.subtitle(document, "estimate"),
        verdict=_verdict(document, len(broken)),
        tone="bad" if broken else "good",
        figures=tuple(figures_of(estimate)),
        sections=(
            *section("Limits that it breaks", limits),
            *section(
                "The placement",
                Facts(rows=tuple(facts_of(placement, estimate, document.get("outlook")))),
            ),
            *section("Where", *map_blocks(document, placement, estimate), detail=True),
            *parts.dollars(estimate, document["request"].get("budget_usd_per_hour")),
            *parts.step(placement, estimate),
            *parts.warnings_of(document, spot_facts(document)),
            *parts.wishes(document),
            *sources(document, [estimate], today),
            *parts.reproduce(document, "estimate", f" --workers '{workers}'"),
        ),
    )


def _verdict(document: Document, broken: int) -> str:
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
