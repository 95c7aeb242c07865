"""A paper computed again: published figures beside placer's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from placer.report.blocks import (
    Cell,
    Report,
    Section,
    Table,
    chart,
    facts,
    figure,
    section,
    table,
    text,
    without_empty_columns,
)
from placer.report.charts.rows import Dot, interval_chart
from placer.report.figures import Document, percent
from placer.units import counted, format_number

MOST_ERROR = 1.0
"""Share; larger errors, of figures near 0, would squeeze the others."""
USD_DECIMALS = 6
"""A mini-batch costs thousandths of a dollar."""
SHORT = {"calculation": "calc."}
"""Parts whose names would not fit 80 columns."""


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.reproduction/v1`` document."""
    verdicts = document["verdicts"]
    judged = [row for row in document["rows"] if row["inside_interval"] is not None]
    inside = [row for row in judged if row["inside_interval"]]
    claims = ", ".join(f"{count} {name}" for name, count in verdicts.items())
    known = counted(len(judged), "published figure")
    lie = f"{len(inside)} of {known} lie within placer's interval. "
    return Report(
        title=document["title"],
        subtitle=f"placer reproduce {document['paper']}",
        verdict=f"{lie if judged else ''}Claims: {claims}.",
        tone="warning" if verdicts.get("contradicted") else "good",
        sections=(
            *errors(document),
            *_computed(document),
            *section("Errors by group", _groups(document["groups"])),
            *section("Claims", facts(*map(_claim, document["claims"]))),
            *section("Notes", text(*document["notes"])),
        ),
    )


def errors(document: Document) -> tuple[Section, ...]:
    """Show how far placer is off the published figures: in text, of the first quantity."""
    rows = [row for row in document["rows"] if row["published"] is not None]
    if not rows:
        return ()
    first = [row for row in rows if row["quantity"] == rows[0]["quantity"]]
    dots = [
        Dot(
            name=f"{row['label']}: {row['quantity']}",
            value=100 * row["error"],
            low=None if row["low"] is None else 100 * (row["low"] / row["published"] - 1),
            high=None if row["high"] is None else 100 * (row["high"] / row["published"] - 1),
            text=percent(row["error"], signed=True),
            stands_out=bool(row["inside_interval"]),
        )
        for row in sorted(rows, key=lambda row: -abs(row["error"] or 0.0))
        if row["published"] and row["error"] is not None and abs(row["error"]) <= MOST_ERROR
    ]
    far = sum(1 for row in rows if row["error"] is not None and abs(row["error"]) > MOST_ERROR)
    beyond = f" {far} more are off by over {percent(MOST_ERROR)}: see the table." if far else ""
    listed = _published(rows)
    drawn = chart(
        "errors",
        "Error of each figure with placer's interval, the largest first",
        lambda: interval_chart(dots, "% over the published figure", line=0.0, zero=False),
        listed,
        f"Blue: the published figure lies within placer's interval.{beyond}",
    )
    return (
        *section(f"Published and computed {rows[0]['quantity']}", _published(first)),
        *section("Every published figure", drawn if dots else listed, detail=True),
    )


def _published(rows: Sequence[Document]) -> Table | None:
    """Put published figures beside placer's, one line a run; * is outside of the interval."""
    quantities = {row["quantity"] for row in rows}
    cells: list[list[Cell]] = [
        [
            row["label"],
            "" if len(quantities) == 1 else _quantity(row),
            *(figure(row[key], format_number) for key in ("published", "ours")),
            figure(row["error"], lambda error: percent(error, signed=True)),
            _interval(row),
        ]
        for row in rows
    ]
    columns = ("run", "quantity", "published", "placer", "error", "interval (* outside)")
    listed = table("Published and computed figures", columns, cells)
    return without_empty_columns(listed)


def _quantity(row: Document) -> str:
    return row["unit"] if row["unit"] == row["quantity"] else f"{row['quantity']} ({row['unit']})"


def _interval(row: Document) -> str:
    if row["low"] is None or row["high"] is None:
        return ""
    mark = " *" if row["inside_interval"] is False else ""
    return f"{format_number(row['low'])} to {format_number(row['high'])}{mark}"


def _computed(document: Document) -> tuple[Section, ...]:
    """List figures that were not published; without ``every_row`` the best of each family."""
    kinds: dict[tuple[str, str], list[Document]] = {}
    for row in document["rows"]:
        if row["published"] is None:
            kinds.setdefault((row["groups"][0], row["quantity"]), []).append(row)
    made: list[Section] = []
    for (group, quantity), rows in kinds.items():
        title, shown = f"{group}: {quantity}", rows
        if not document.get("every_row", True):
            shown = best_of_families(rows)
        left = f"best of each family, {len(shown)} of {len(rows)}; --all shows all"
        more = f" ({left})" if len(shown) < len(rows) else ""
        made += section(f"{title}{more}", _parts_table(title, shown))
    return tuple(made)


def best_of_families(rows: Iterable[Document]) -> list[Document]:
    """Keep the row with the smallest figure of each family, in the order of the families."""
    best: dict[str, Document] = {}
    for row in rows:
        if row["family"] not in best or row["ours"] < best[row["family"]]["ours"]:
            best[row["family"]] = row
    return list(best.values())


def _parts_table(title: str, rows: Sequence[Document]) -> Table | None:
    unit, names = rows[0]["unit"], list(rows[0]["parts"])
    digits = USD_DECIMALS if unit == "USD" else 2
    cells: list[list[Cell]] = [
        [
            "*" if row["best"] else "",
            row["label"],
            *((f"{value:.{digits}f}", value) for value in (row["ours"], *row["parts"].values())),
        ]
        for row in rows
    ]
    marked = next((at for at, row in enumerate(rows) if row["best"]), None)
    columns = ("", "placement", unit, *(SHORT.get(name, name) for name in names))
    return table(title, columns, cells, marked=marked, units={"": "best"})


def _groups(groups: Sequence[Document]) -> Table | None:
    cells: list[list[Cell]] = [
        [
            row["name"],
            row["quantity"],
            row["rows"],
            figure(row["mean_error"], "{:.1%}".format),
            figure(row["worst_error"], "{:+.1%}".format),
            figure(row["coverage"], "{:.0%}".format),
        ]
        for row in groups
    ]
    columns = ("group", "quantity", "rows", "mean", "worst", "in interval")
    return table("Errors by group", columns, cells)


def _claim(row: Document) -> tuple[str, str, str]:
    """Write a claim with its verdict; the condition, our figure and the reason in small print."""
    value = f" ({row['published']} {row['unit']})".replace(" )", ")") if row["published"] else ""
    passage = f"; {row['passage']}" if row["passage"] else ""
    tolerance = row["tolerance"]
    allowed = "" if tolerance is None else f"; {100 * tolerance:g} % allowed"
    ours = f"; ours: {row['ours']}" if row["ours"] else ""
    return (
        row["id"],
        f"{row['verdict']}: {row['statement']}{value}{passage}",
        f"under: {row['condition']}{allowed}{ours}; because: {row['why']}",
    )
