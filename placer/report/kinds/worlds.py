"""A question in other worlds: the answers before and after a change, or over ranges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any

from placer.report.blocks import (
    Cell,
    Facts,
    Report,
    Section,
    Table,
    chart,
    facts,
    figure,
    section,
    table,
    text,
)
from placer.report.charts.curve import Point, curve_chart
from placer.report.charts.rows import Dot, interval_chart
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
from placer.report.stretches import along, choice, stretches
from placer.units import counted, format_number, format_usd

SAME = 1e-9
"""Figures that differ by a smaller share are the same."""
STATUSES = {
    "optimal": "proved",
    "infeasible": "proved",
    "time_limit": "stopped early",
    "memory_limit": "stopped by the memory limit",
}
"""What is proved of an answer, by its status."""
UNPROVED = (
    "Not both answers are proved, so a part of the difference may be the search's: raise "
    "--time-limit."
)


def whatif(document: Document, today: date) -> Report:
    """Build the report of a ``placer.whatif/v1`` document."""
    before, after = document["before"], document["after"]
    found = [side["estimate"] for side in (before, after) if side["estimate"] is not None]
    where = (
        map_blocks(document, after["placement"], after["estimate"]) if after["placement"] else ()
    )
    proved = all(STATUSES.get(side["status"]) == "proved" for side in (before, after))
    return Report(
        title=f"{document['request']['model']} in a changed world",
        subtitle=parts.subtitle(document, "whatif"),
        verdict=_verdict(document),
        tone="bad" if after["placement"] is None else "good",
        sections=(
            *section("What is changed", text(*map(_change_words, document["changes"]))),
            *section(
                "Before and after", _differences(before, after), text("" if proved else UNPROVED)
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
    return len(places)


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


AMOUNT = re.compile(r"(x?)([+-]?[\d.]+)(Ki|Mi|K|M|B)?(.*)")
SIZES = {"Ki": 2**10, "Mi": 2**20, "K": 1e3, "M": 1e6, "B": 1e9}
UNITS = {"/h": "USD/h", "/s": "samples/s"}
"""Units in full."""
BRIEF = 3
"""More groups of workers are counted, not listed."""
MOST_ROWS = 60
"""Stretches that are listed; --json has all points."""
MISSING = {
    "infeasible": "nothing fits",
    "time_limit": "stopped before any was found",
    "memory_limit": "out of memory before any was found",
}
"""Words of a point without an answer, by its status."""


def sweep(document: Document, today: date) -> Report:
    """Build the report of a ``placer.sweep/v1`` document."""
    rows, over, breaks = document["rows"], document["over"], document.get("breakpoints", [])
    axes = " and ".join(axis["what"] for axis in over)
    different = len({choice(row) for row in rows if "workers" in row})
    missing = document["points"] - len(rows)
    left = f" {counted(missing, 'point')} still to do." if missing else ""
    return Report(
        title=f"{document['request']['model']} over {axes}",
        subtitle=parts.subtitle(document, "whatif --over"),
        verdict=f"{counted(len(rows), 'value')} of {axes} have {counted(different, 'answer')}. "
        f"{_changes(over, breaks)}{left}"
        if rows
        else f"No point is solved:{left}",
        tone="good" if document.get("complete", True) else "warning",
        sections=(
            *_stretches(over, rows),
            *speeds(document),
            *section("Refused", text(*_refused(rows))),
            *parts.wishes(document, detail=True),
            *sources(document, [], today),
        ),
    )


def _refused(rows: Sequence[Document]) -> Iterator[str]:
    refused = [row for row in rows if "message" in row]
    for first in refused[:1]:
        yield f"{counted(len(refused), 'point')}, as {first['key']}: {first['message']}"


def _changes(over: Sequence[Document], breaks: Sequence[Document]) -> str:
    if not breaks:
        return "The answer is the same everywhere."
    at = along(over)
    if len(over) > 1:
        return f"It changes {counted(len(breaks), 'time')} along {over[at]['what']}."
    between = [f"{_value(one['from'], at)} and {_value(one['to'], at)}" for one in breaks]
    return f"It changes between {over[at]['what']} = {', '.join(between)}."


def _value(words: Sequence[str], axis: int) -> str:
    return words[axis].split("=", 1)[1]


def _stretches(over: Sequence[Document], rows: Sequence[Document]) -> tuple[Section, ...]:
    """List neighbouring points with the same answer, and how its figures move."""
    order = sorted(range(len(over)), key=lambda i: (i == along(over), i))
    tokens = any("usd_per_billion_tokens" in row for row in rows)
    figures: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("tokens/s", "effective_tokens_per_second", format_number)
        if tokens
        else ("samples/s", "samples_per_second", format_number),
        ("USD/h", "usd_per_hour", format_usd),
        ("USD/Gtok", "usd_per_billion_tokens", format_usd)
        if tokens
        else ("USD/M", "usd_per_million_samples", format_usd),
    )
    runs = stretches(over, rows)
    cells: list[list[Cell]] = []
    for run in runs[:MOST_ROWS]:
        first, last = (_value(row["set"], order[-1]) for row in (run[0], run[-1]))
        cells.append(
            [
                *(_value(run[0]["set"], i) for i in order[:-1]),
                first if first == last else f"{first} .. {last}",
                _chosen(run[0]),
                *(_range(run, key, write) for _, key, write in figures),
            ]
        )
    names = [name for name, _, _ in figures]
    columns = (*(over[i]["what"] for i in order), "chosen", *names)
    more = len(runs) - MOST_ROWS
    return section(
        "What is best where",
        table("Stretches with one answer", columns, cells, narrowed=("chosen",)),
        text(f"{counted(more, 'line')} more with --json" if more > 0 else ""),
    )


def _range(run: Sequence[Document], key: str, write: Callable[[float], str]) -> Cell:
    """Write a figure from the first to the last point of a stretch."""
    if key not in run[0]:
        return ("-", None)
    one, other = write(run[0][key]), write(run[-1][key])
    return (one if one == other else f"{one} .. {other}", run[0][key])


def _chosen(row: Document) -> str:
    if "workers" not in row:
        return MISSING.get(row["status"], "refused" if row["status"] == "refused" else "none found")
    groups, status = row["workers"], row["status"]
    words = " + ".join(groups)
    if len(groups) > BRIEF:
        words = f"{len(groups)} groups in {counted(row['regions'], 'region')}"
    stopped = " (stopped early)" if status in ("time_limit", "memory_limit") else ""
    return f"{words}{_exchange(row)}{stopped}"


def _exchange(row: Document) -> str:
    if row["exchange"] == "none":
        return ""
    steps = "" if row["local_steps"] == 1 else f" every {row['local_steps']} steps"
    return f", {row['exchange']}{steps}"


def speeds(document: Document) -> tuple[Section, ...]:
    """Show the speed over the range: as a line where its values are numbers, else a row each."""
    over = document["over"]
    rows = sorted(document["rows"], key=lambda row: int(row["point"]))
    answered = [row for row in rows if "samples_per_second" in row]
    unit = "tokens/s" if any("effective_tokens_per_second" in row for row in rows) else "samples/s"
    listed = _points(rows, [axis["what"] for axis in over], unit)
    if not answered:
        return section("The answers", listed, detail=True)
    places = [number_of(row["set"][0]) for row in answered]
    single = len(over) == 1 and all(place is not None for place in places)
    where = over[0]["what"]

    def draw() -> Any:
        if single:
            points = [
                Point(x=place, y=speed_of_row(row), words="; ".join(row["workers"]))
                for place, row in zip(places, answered, strict=True)
                if place is not None
            ]
            x_unit = unit_of(answered[0]["set"][0])
            logs = min(min(p.x, p.y) for p in points) > 0
            return curve_chart(points, (f"{where} ({x_unit})" if x_unit else where, unit), log=logs)
        dots = [
            Dot(
                name=" ".join(row["set"]),
                value=speed_of_row(row),
                text=f"{format_number(speed_of_row(row))} for {format_usd(row['usd_per_hour'])}/h",
            )
            for row in answered
        ]
        return interval_chart(dots, unit)

    title = f"Speed over {' and '.join(axis['what'] for axis in over)}"
    return section("The answers", chart("sweep", title, draw, listed), detail=True)


def _points(rows: Sequence[Document], axes: Sequence[str], unit: str) -> Table | None:
    """List every point: what formats for programs have."""
    cells: list[list[Cell]] = [
        [
            *(_value(row["set"], at) for at in range(len(axes))),
            " + ".join(row.get("workers", [])),
            _exchange(row).removeprefix(", ") if "workers" in row else "",
            figure(speed_of_row(row) if "workers" in row else None, format_number),
            figure(row.get("usd_per_hour"), format_usd),
            figure(row.get("egress_usd_per_hour"), format_usd),
            row["status"],
        ]
        for row in rows
    ]
    columns = (*axes, "workers", "exchange", unit, "USD/h", "egress/h", "status")
    units = {"egress/h": "egress USD/h"}
    return table("Every point", columns, cells, units=units, data=True)


def speed_of_row(row: Document) -> float:
    """Return the speed of a point: tokens/s of a language model, else samples/s."""
    return float(row.get("effective_tokens_per_second", row["samples_per_second"]))


def number_of(word: str) -> float | None:
    """Read the number of a value such as ``budget=2.11/h`` or ``bandwidth:*:*=x0.25``.

    >>> number_of("budget=2.11/h"), number_of("bandwidth:*:*=x0.25"), number_of("market=spot")
    (2.11, 0.25, None)
    >>> number_of("tbs=8Ki")
    8192.0
    """
    match = AMOUNT.fullmatch(word.rpartition("=")[2])
    return None if match is None else float(match[2]) * SIZES.get(match[3], 1)


def unit_of(word: str) -> str:
    """Return the unit behind the number of a value; ``x`` of today's where it is a factor."""
    match = AMOUNT.fullmatch(word.rpartition("=")[2])
    if match is None:
        return ""
    return "x today's" if match[1] else UNITS.get(match[4], match[4])
