"""What changed: two results side by side, and an answer beside the bill for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import TypeAlias

from placer.report.blocks import Cell, Report, Table, figure, section, table, text
from placer.report.figures import Document, devices_words, market_words, percent
from placer.report.question import READABLE
from placer.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_number,
    format_seconds,
    format_usd,
)

WORDS = {
    "cost": "cost",
    "total": "cost of the run",
    "hours": "time of the run",
    "machines": "cost of machines",
    "egress": "cost of egress",
    "speed": "speed",
    "price": "price of a million samples",
    "step": "one step",
    "carbon": "emissions",
}
SIDES = ("before", "after")
LEGEND = "~ changed, + new, - gone; a month has 730 hours"


def difference(document: Document, today: date) -> Report:
    """Build the report of a ``placer.diff/v1`` document."""
    failed = [f"Not accepted: {words}." for words in document["failed"]]
    figures = (*SIDES, "change")
    return Report(
        title=f"Difference: {document['before']['name']} and {document['after']['name']}",
        subtitle=f"placer report --diff, {document['after']['model']}",
        verdict=verdict(document),
        tone="bad" if failed or document["after"]["status"] == "infeasible" else "good",
        sections=(
            *section("Not accepted", text(*failed, tone="warning")),
            *section(
                "What changes",
                table(
                    LEGEND,
                    ("", "what", *figures),
                    [*_rows(document)],
                    numbers=figures,
                    narrowed=("what", "before", "after"),
                    units={"": "sign"},
                ),
                text(LEGEND, tone="hint"),
            ),
        ),
    )


Row: TypeAlias = tuple[str, str, str, str, str]
"""A line: its sign (``~``, ``+``, ``-`` or nothing), what, before, after and the change."""


def _rows(document: Document) -> Iterator[Row]:
    """Yield machines, exchange, figures and wishes of a ``placer.diff/v1`` document."""
    exchange, month = document["exchange"], document["usd_per_month"]
    yield from map(_machine, document["machines"])
    if exchange["before"] != exchange["after"]:
        yield "~", "exchange", exchange["before"] or "", exchange["after"] or "", ""
    for row in document["figures"]:
        if row["before"] is not None or row["after"] is not None:
            yield _figure(row)
    if month["change"] is not None:
        sign = "~" if month["change"] else ""
        one, other = (format_usd(month[side]) for side in SIDES)
        yield sign, "cost a month", one, other, signed_usd(month["change"])
    books = [document[side] for side in SIDES]
    if books[0]["digest"] != books[1]["digest"]:
        one, other = (f"{side['catalog']} {side['as_of']}" for side in books)
        yield "~", "price book", one, other, ""
    yield from map(_wished, document["wishes"])


def signed_usd(value: float) -> str:
    """Write a change in dollars with its sign.

    >>> signed_usd(-12.5), signed_usd(0.0)
    ('-$12.50', '$0.00')
    """
    sign = "" if not value else "+" if value > 0 else "-"
    return f"{sign}{format_usd(abs(value))}"


def _machine(row: Document) -> Row:
    kind = devices_words({**row, "count": 1}).removeprefix("1 x ").strip("()")
    one, other = str(row["machines_before"]), str(row["machines_after"])
    what = f"{kind} {market_words(row)} in {row['place']} ({row['offer']})"
    change = f"{signed_usd(row['usd_per_month_change'])}/month" if row["sign"] else ""
    return row["sign"], what, one, other, change


def _figure(row: Document) -> Row:
    one, other = (_value(row[side], row["unit"]) for side in SIDES)
    relative = row["relative_change"]
    change = "" if relative is None or not row["sign"] else percent(relative, signed=True)
    return row["sign"], WORDS[row["name"]], one, other, change


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "s":
        return format_seconds(value)
    if unit == "h":
        return format_duration(value * SECONDS_PER_HOUR)
    if unit.startswith("USD"):
        return f"{format_usd(value)}{'/h' if unit == 'USD/h' else ''}"
    return f"{format_number(value)} {unit}"


def _wished(row: Document) -> Row:
    """Write a wish that changes, with its unit where it has one."""
    key, name = row["wish"], row["wish"].replace("_", " ")
    cells = []
    for value in (row["before"], row["after"]):
        if key in READABLE and isinstance(value, int | float):
            name, words = READABLE[key](value)
        else:
            words = _wish(value)
        cells.append(words)
    return "~", name, cells[0], cells[1], ""


def _wish(value: object) -> str:
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.10g}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


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


MOST_UNPLANNED = 12
"""Charges in the table that the plan does not have, the largest first; --json has all."""
NO_CHARGE = "no charge"


def bill(document: Document, today: date) -> Report:
    """Build the report of a ``placer.bill/v1`` document."""
    unplanned = document["unmatched"]
    more = len(unplanned) - MOST_UNPLANNED
    sides = ("predicted", "charged", "difference")
    has_gaps = " of lines with a charge" if document["uncharged_usd"] else ""
    total = {**document, "component": f"total{has_gaps}", "what": "", "place": ""}
    return Report(
        title=f"{document['plan']} and {document['bill']}",
        subtitle=f"placer bill, {document['model']}",
        verdict=_bill_verdict(document),
        tone="warning" if document["uncharged_usd"] or document["warnings"] else "good",
        sections=(
            *section(
                "By component",
                table(
                    "By component",
                    ("component", "what", "where", *sides, "share"),
                    [*map(_line, document["lines"]), _line(total)],
                    narrowed=("what", "where"),
                    units={side: f"{side} USD" for side in sides},
                ),
                text(
                    *(f"{words[:1].upper()}{words[1:]}." for words in document["warnings"]),
                    tone="warning",
                ),
            ),
            *section(
                "On the bill, not in the plan",
                table(
                    "On the bill, not in the plan",
                    ("component", "what", "where", "service", "charged"),
                    [
                        [
                            *(row[key] for key in ("component", "what", "place", "service")),
                            figure(row["usd"], _charged),
                        ]
                        for row in unplanned[:MOST_UNPLANNED]
                    ],
                    narrowed=("what", "service"),
                    units={"charged": "charged USD"},
                ),
                text(f"and {more} more: --json" if more > 0 else ""),
            ),
            *section("Apart", _sorted("Apart", document["apart"])),
            *section("Not compared", _sorted("Not compared", document["left_out"])),
            *section("", text(*_notes(document), tone="hint")),
        ),
    )


def _bill_verdict(document: Document) -> str:
    hours = format_duration(document["hours"] * SECONDS_PER_HOUR)
    if not any(line["charges"] for line in document["lines"]):
        return f"The bill has no charge for the plan of {hours}."
    change = document["relative_difference"]
    share = "" if change is None else f", {percent(change, signed=True)}"
    words = (
        f"{format_usd(document['charged_usd'])} were charged for what was predicted at "
        f"{format_usd(document['predicted_usd'])} in {hours}{share}."
    )
    if document["uncharged_usd"]:
        words += f" {format_usd(document['uncharged_usd'])} of the plan have no charge."
    return words


def _line(row: Document) -> list[Cell]:
    change = row["relative_difference"]
    return [
        row["component"],
        "" if row["what"] == row["component"] else row["what"],
        row["place"] or "",
        (format_usd(row["predicted_usd"]), row["predicted_usd"]),
        figure(row["charged_usd"], _charged, NO_CHARGE),
        figure(row["difference_usd"], signed_usd),
        figure(change, lambda share: percent(share, signed=True)),
    ]


def _charged(usd: float) -> str:
    """Write dollars that may be a credit."""
    return signed_usd(usd).removeprefix("+")


def _sorted(caption: str, rows: Sequence[Document]) -> Table | None:
    return table(
        caption,
        ("charges", "number", "charged"),
        [[row["kind"], row["charges"], figure(row["usd"], _charged)] for row in rows],
        units={"charged": "charged USD"},
    )


def _notes(document: Document) -> Iterator[str]:
    if document["hours_given"]:
        yield "predicted for the hours that were given"
    else:
        yield "predicted for the hours of machines on the bill over the machines of the plan"
    if document["planned_hours"]:
        whole = format_duration(document["planned_hours"] * SECONDS_PER_HOUR)
        yield f"the plan expects {whole} for the whole run"
    yield f"charged: {document['cost']}"
    yield from document["rates"]
