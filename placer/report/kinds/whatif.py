"""A question in a changed world: the answers before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date

from placer.report.blocks import (
    Cell,
    Facts,
    Report,
    Table,
    Text,
    facts,
    figure,
    section,
    table,
    text,
)
from placer.report.figures import (
    Document,
    exchange_words,
    percent,
    placement_words,
    price_of_work,
    speed_of,
)
from placer.report.kinds.shared import parts
from placer.report.kinds.shared.provenance import sources
from placer.report.places import map_blocks
from placer.units import format_number, format_usd

SAME = 1e-9
"""Figures that differ by a smaller share are the same."""
STATUSES = {
    "optimal": "proved",
    "infeasible": "proved",
    "time_limit": "stopped early",
    "memory_limit": "stopped by the memory limit",
}
"""What is proved of an answer, by its status."""


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.whatif/v1`` document."""
    before, after = document["before"], document["after"]
    found = [side["estimate"] for side in (before, after) if side["estimate"] is not None]
    where = (
        map_blocks(document, after["placement"], after["estimate"]) if after["placement"] else ()
    )
    unproved = [side for side in (before, after) if STATUSES.get(side["status"]) != "proved"]
    return Report(
        title=f"{document['request']['model']} in a changed world",
        subtitle=parts.subtitle(document, "whatif"),
        verdict=_verdict(document),
        tone="bad" if after["placement"] is None else "good",
        sections=(
            *section("What is changed", Text(lines=tuple(map(_change_words, document["changes"])))),
            *section(
                "Before and after",
                _differences(before, after),
                text(
                    "Not both answers are proved, so a part of the difference may be the "
                    "search's: raise --time-limit."
                    if unproved
                    else ""
                ),
            ),
            *section("The old placement in the new world", _kept(document["kept"])),
            *section("Where", *where, detail=True),
            *parts.wishes(document),
            *sources(document, found, today),
        ),
    )


def _change_words(change: Document) -> str:
    """Write a change, and what a given price is the price of."""
    if change["what"] == "drop":
        return f"without {change['text']}"
    each = " for each GPU" if change["what"] == "price" and change["value"] else ""
    return f"{change['text']}{each}"


def _verdict(document: Document) -> str:
    after = document["after"]
    if after["placement"] is None:
        return "In the changed world nothing meets the wishes."
    if document["same_placement"]:
        return "The answer stays the same in the changed world."
    return f"The answer changes to {parts.option_words(after)}."


def _differences(before: Document, after: Document) -> Table | None:
    """Put the two answers beside each other, figure by figure."""
    rows: list[list[Cell]] = [["workers", *(_placed(s, placement_words) for s in (before, after))]]
    rows += [list(row) for row in _figures(before["estimate"], after["estimate"])]
    rows.append(["regions", *(_regions(side) for side in (before, after))])
    rows.append(["exchange", *(_placed(s, exchange_words) for s in (before, after))])
    rows.append(["proof", *(STATUSES.get(s["status"], "not proved") for s in (before, after))])
    columns = ("figure", "before", "after", "difference")
    whole = [[*row, *[""] * (len(columns) - len(row))] for row in rows]
    return table("Both answers", columns, whole, numbers=("difference",))


def _placed(side: Document, words: Callable[[Document], str]) -> str:
    placement = side["placement"]
    if placement is None:
        return "nothing fits" if side["status"] == "infeasible" else "nothing was found"
    return words(placement)


def _figures(before: Document | None, after: Document | None) -> Iterator[list[Cell]]:
    """Yield speed and prices of both, as far as both have them."""
    unit = next((speed_of(one)[1] for one in (before, after) if one), "")
    work = next((price_of_work(one)[1] for one in (before, after) if one), "")
    figures: tuple[tuple[str, Callable[[Document], float | None], Callable[[float], str]], ...] = (
        (unit, lambda one: speed_of(one)[0]["value"], format_number),
        ("USD/h", lambda one: one["usd_per_hour"]["total"], format_usd),
        ("of it egress", lambda one: one["usd_per_hour"]["egress"], format_usd),
        (f"USD {work}", lambda one: price_of_work(one)[0], format_usd),
    )
    for name, read, write in figures if unit else ():
        one, other = (None if side is None else read(side) for side in (before, after))
        yield [
            name,
            *(figure(value, write, "-") for value in (one, other)),
            _change(one, other, write),
        ]


def _regions(side: Document) -> Cell:
    if side["placement"] is None:
        return ("-", None)
    places = {group["place"] for group in side["placement"]["workers"]}
    return (str(len(places)), len(places))


def _change(one: float | None, other: float | None, write: Callable[[float], str]) -> Cell:
    """Write a signed difference and its share of the old figure; ``=`` if there is none."""
    if one is None or other is None:
        return ("", None)
    if abs(other - one) <= SAME * max(abs(one), abs(other)):
        return ("=", 0.0)
    share = f" ({100 * (other / one - 1):+.1f} %)" if one else ""
    return (f"{'+' if other > one else '-'}{write(abs(other - one))}{share}", other - one)


def _kept(kept: Document | None) -> Facts | None:
    if kept is None:
        return None
    estimate, loss = kept["estimate"], kept["relative_regret"]
    rows: list[tuple[str, ...]] = []
    if estimate is not None:
        rows.append(("if it is kept", parts.figures_words(estimate)))
    if loss is not None and not kept["violations"]:
        words = percent(loss) if loss > SAME else "nothing"
        rows.append(("which loses", words, "against the best of the new world"))
    rows += [("but breaks", str(words)) for words in kept["violations"]]
    return facts(*rows)
