"""A question in a changed world: the answers before and after."""

from __future__ import annotations

from datetime import date

from placer.report.blocks import Facts, Report, Text, section
from placer.report.figures import Document, percent, placement_words, speed_of
from placer.report.kinds import parts
from placer.report.kinds.provenance import sources
from placer.report.places import map_blocks
from placer.units import counted, format_number, format_usd


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.whatif/v1`` document."""
    before, after = document["before"], document["after"]
    sides = [
        (name, side)
        for name, side in (("before", before), ("after", after))
        if side["placement"] is not None
    ]
    changes = tuple(str(change["text"]) for change in document["changes"])
    return Report(
        title=f"{document['request']['model']} in a changed world",
        subtitle=f"placer whatif, {counted(len(changes), 'change')}, prices of "
        f"{document['data']['oldest']} to {document['data']['as_of']} "
        f"({document['data']['catalog']})",
        verdict=_verdict(document),
        tone="bad" if after["placement"] is None else "good",
        sections=(
            *section("What is changed", Text(lines=changes)),
            *section("Before and after", parts.option_table("Best placements", sides)),
            *section("The old placement in the new world", _kept(document["kept"])),
            *(
                ()
                if after["placement"] is None
                else section("Where", *map_blocks(document, after["placement"], after["estimate"]))
            ),
            *parts.wishes(document),
            *sources(document, [side["estimate"] for _, side in sides], today),
        ),
    )


def _verdict(document: Document) -> str:
    after = document["after"]
    if after["placement"] is None:
        return "In the changed world nothing meets the wishes."
    if document["same_placement"]:
        return "The answer stays the same in the changed world."
    speed, unit = speed_of(after["estimate"])
    usd = format_usd(after["estimate"]["usd_per_hour"]["total"])
    return (
        f"The answer changes to {placement_words(after['placement'])}: "
        f"{format_number(speed['value'])} {unit} for {usd}/h."
    )


def _kept(kept: Document | None) -> Facts | None:
    if kept is None:
        return None
    estimate, loss = kept["estimate"], kept["relative_regret"]
    rows = []
    if estimate is not None:
        speed, unit = speed_of(estimate)
        usd = format_usd(estimate["usd_per_hour"]["total"])
        rows.append(("if it is kept", f"{format_number(speed['value'])} {unit} for {usd}/h", ""))
    if loss is not None:
        rows.append(("which loses", percent(loss), "against the best of the new world"))
    rows += [("but breaks", str(words), "") for words in kept["violations"]]
    return Facts(rows=tuple(rows)) if rows else None
