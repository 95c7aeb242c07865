"""The difference of two results."""

from __future__ import annotations

from datetime import date

from placer.report.blocks import Report, Text, section, table
from placer.report.difference_rows import LEGEND, difference_rows, signed_usd
from placer.report.figures import Document, percent


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.diff/v1`` document."""
    rows = difference_rows(document)
    failed = tuple(f"Not accepted: {words}." for words in document["failed"])
    columns = ("", "what", "before", "after", "change")
    return Report(
        title=f"Difference: {document['before']['name']} and {document['after']['name']}",
        subtitle=f"placer diff, {document['after']['model']}",
        verdict=verdict(document),
        tone="bad" if failed or document["after"]["status"] == "infeasible" else "good",
        sections=(
            *section("Not accepted", Text(lines=failed, tone="warning") if failed else None),
            *section(
                "What changes",
                table(LEGEND, ("sign", *columns[1:]), rows),
            ),
        ),
    )


def verdict(document: Document) -> str:
    """Say in one sentence what changes."""
    figures = {row["name"]: row for row in document["figures"]}
    cost, speed, total = figures["cost"], figures["speed"], figures.get("total", {})
    if cost["change"] is None or speed["change"] is None:
        side = "before" if cost["before"] is None else "after"
        return (
            f"There is no placement {side}: {document[side]['name']} is {document[side]['status']}."
        )
    if not cost["sign"] and not speed["sign"] and document["same_placement"]:
        return "The placement, its cost and its speed stay the same."
    place = "stays the same" if document["same_placement"] else "changes"
    month = signed_usd(document["usd_per_month"]["change"])
    relative = cost["relative_change"]
    share = "" if relative is None else f" ({percent(relative, signed=True)})"
    faster = speed["relative_change"]
    words = "" if faster is None else f"; speed {percent(faster, signed=True)}"
    run = total.get("change")
    whole = "" if run is None else f"; the whole run {signed_usd(run)}"
    return f"The placement {place}: {month} a month{share}{words}{whole}."
