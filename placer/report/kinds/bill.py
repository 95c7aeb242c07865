"""An answer beside the bill for it: predicted and charged, by component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from placer.report.blocks import Cell, Report, Table, figure, section, table, text
from placer.report.figures import Document, percent
from placer.report.kinds.difference import signed_usd
from placer.units import SECONDS_PER_HOUR, format_duration, format_usd

MOST_UNPLANNED = 12
"""Charges in the table that the plan does not have, the largest first; --json has all."""
NO_CHARGE = "no charge"


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.bill/v1`` document."""
    unplanned = document["unmatched"]
    more = len(unplanned) - MOST_UNPLANNED
    sides = ("predicted", "charged", "difference")
    has_gaps = " of lines with a charge" if document["uncharged_usd"] else ""
    total = {**document, "component": f"total{has_gaps}", "what": "", "place": ""}
    return Report(
        title=f"{document['plan']} and {document['bill']}",
        subtitle=f"placer bill, {document['model']}",
        verdict=_verdict(document),
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
                    [_unplanned(row) for row in unplanned[:MOST_UNPLANNED]],
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


def _verdict(document: Document) -> str:
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
        figure(row["charged_usd"], format_signed, NO_CHARGE),
        figure(row["difference_usd"], signed_usd),
        figure(change, lambda share: percent(share, signed=True)),
    ]


def format_signed(value: float) -> str:
    """Write dollars that may be a credit.

    >>> format_signed(-2.5), format_signed(2.5)
    ('-$2.50', '$2.50')
    """
    return f"-{format_usd(-value)}" if value < 0 else format_usd(value)


def _unplanned(row: Document) -> list[Cell]:
    usd = row["usd"]
    return [row["component"], row["what"], row["place"], row["service"], (format_signed(usd), usd)]


def _sorted(caption: str, rows: Sequence[Document]) -> Table | None:
    return table(
        caption,
        ("charges", "number", "charged"),
        [[row["kind"], row["charges"], (format_signed(row["usd"]), row["usd"])] for row in rows],
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
