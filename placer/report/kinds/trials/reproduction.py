"""Published papers worked out again, and what was checked of a file or an installation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from placer.report.blocks import (
    Cell,
    Chart,
    Pair,
    Report,
    Section,
    Table,
    facts,
    figure,
    section,
    table,
    text,
    without_empty_columns,
)
from placer.report.charts.curve import Point, curve_chart
from placer.report.charts.rows import Dot, interval_chart
from placer.report.figures import Document, percent
from placer.units import (
    counted,
    format_bytes,
    format_number,
    format_plain,
    format_seconds,
    format_speed,
)

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
    assert listed is not None
    chart = Chart(
        name="errors",
        title="Error of each figure with placer's interval, the largest first",
        draw=lambda: interval_chart(dots, "% over the published figure", line=0.0, zero=False),
        table=listed,
        note=f"Blue: the published figure lies within placer's interval.{beyond}",
    )
    return (
        *section(f"Published and computed {rows[0]['quantity']}", _published(first)),
        *section("Every published figure", chart if dots else listed, detail=True),
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


WAITS = 0.01
"""Share of a round from which waiting is worth a word."""


def simulation(document: Document, today: date) -> Report:
    """Build the report of a ``placer.simulation/v1`` document."""
    seconds, predicted = document["round_seconds"], document["predicted_round_seconds"]
    listed = table(
        "Rounds",
        ("round", "seconds"),
        [(str(at), (format_seconds(one), one)) for at, one in enumerate(seconds, start=1)],
        numbers=("round", "seconds"),
    )
    points = [
        Point(x=at, y=one, words=format_seconds(one)) for at, one in enumerate(seconds, start=1)
    ]
    chart = (
        None
        if listed is None
        else Chart(
            name="rounds",
            title="Seconds of each round",
            draw=lambda: curve_chart(
                points,
                ("round", "seconds"),
                line=(f"closed form {format_seconds(predicted)}", predicted),
                zero=True,
            ),
            table=listed,
        )
    )
    return Report(
        title=f"Simulation of {document['workers'].replace(',', ' + ')}",
        subtitle=f"placer estimate --simulate, {document['strategy']}, "
        f"jitter {document['jitter']:g}, stragglers {document['stragglers']:g}",
        verdict=f"{counted(document['rounds'], 'round')}: "
        f"{format_speed(document['samples_per_second'], document.get('tokens_per_sample'))}, "
        f"{percent(document['difference'], signed=True)} against the closed form.",
        figures=(
            (format_seconds(document["p50"]), "median round", ""),
            (format_seconds(document["p95"]), "95 of 100 rounds are shorter", ""),
            (format_seconds(predicted), "closed form", ""),
        ),
        sections=(
            *section("The machines", facts(*_waits(document))),
            *section("Round by round", chart),
            *section(
                "What the places send",
                table(
                    "Bytes of a round",
                    ("from", "to", "bytes"),
                    [
                        (
                            row["src"],
                            row["dst"],
                            (format_bytes(row["bytes_per_round"]), row["bytes_per_round"]),
                        )
                        for row in document["bytes_by_link"]
                    ],
                ),
            ),
        ),
    )


def _waits(document: Document) -> Iterator[Pair]:
    """Yield what chance does, and which places wait at barriers for 1 % of a round or more."""
    mean = document["p50"]
    slow = (
        f"{percent(document['stragglers'])} stragglers, {document['straggler_factor']:g} x slower"
    )
    stragglers = slow if document["stragglers"] else "no stragglers"
    jitter = f"jitter {percent(document['jitter'])}" if document["jitter"] else "no jitter"
    yield "chance", f"{jitter}; {stragglers}", f"seed {document['seed']}"
    speed = format_speed(
        document["predicted_samples_per_second"], document.get("tokens_per_sample")
    )
    yield "closed form", speed, ""
    waits = [
        row for row in document["waiting_by_place"] if row["seconds_per_round"] >= WAITS * mean
    ]
    for row in sorted(waits, key=lambda row: -row["seconds_per_round"]):
        yield (
            f"waiting in {row['place']}",
            f"{format_seconds(row['seconds_per_round'])} a round",
            "",
        )
    if not waits:
        yield "waiting", "no place waits at barriers for 1 % of a round", ""


ASKED = ("rate", "link")
"""Kinds of figures of which 0 says that nothing is published."""
ERRORS = (
    ("before", "published figures"),
    ("after", "calibrated"),
    ("left_out", "each run left out"),
)


def calibration(document: Document, today: date) -> Report:
    """Build the report of a ``placer.calibration/v1`` document."""
    found = document["report"]
    runs = document["runs"]
    return Report(
        title=f"Calibration {document['name']}",
        subtitle="placer profile runs",
        verdict=f"{counted(max(1, len(found['runs'])), 'run')} of {runs['file']} on price book "
        f"{document['catalog']['name']}",
        sections=(
            *section(
                "Fitted, with 90 % intervals",
                table(
                    "Fitted figures",
                    ("figure", "published", "fitted", "interval", "unit", "runs"),
                    [_fitted(row) for row in found["fitted"]],
                ),
            ),
            *section(
                "Not fitted",
                table(
                    "Figures that stay",
                    ("figure", "published", "unit", "because"),
                    [
                        [row["figure"], _published_files(row), row["unit"], row["because"]]
                        for row in found["not_fitted"]
                    ],
                ),
            ),
            *section(
                "Expected over measured samples/s (left out: fitted to the other runs; * outlier)",
                table(
                    "Runs",
                    ("line", "model", "workers", "measured", "before", "after", "", "left out"),
                    [_run(row) for row in found["runs"]],
                    units={"measured": "measured samples/s", "": "outlier"},
                    data=True,
                ),
            ),
            *section(
                "Error of samples/s",
                table("Errors", ("figures", "mean", "worst", "runs"), list(_errors(found))),
            ),
            *section("", text(*found["warnings"], tone="warning")),
        ),
    )


def _fitted(row: Document) -> list[Cell]:
    return [
        f"{row['figure']}{' (end of its range)' if row['at_limit'] else ''}",
        _published_files(row),
        (_number(row["value"]), row["value"]),
        f"{_number(row['low'])} to {_number(row['high'])}",
        row["unit"],
        row["runs"],
    ]


def _published_files(row: Document) -> Cell:
    """Write a published figure; one that was not asked for is left empty."""
    unknown = row["kind"] in ASKED and not row["published"]
    return figure(None if unknown else row["published"], _number)


def _run(row: Document) -> list[Cell]:
    speed = row["samples_per_second"]
    return [
        row["line"],
        row["model"],
        row["workers"].replace(",", ", "),
        (_number(speed), speed),
        *((f"{row[key]:+.1%}", row[key]) for key in ("error_before", "error_after")),
        "*" if row["outlier"] else "",
        figure(row["error_left_out"], "{:+.1%}".format),
    ]


def _errors(found: Document) -> Iterator[list[Cell]]:
    for key, name in ERRORS:
        row = found["errors"].get(key)
        if row is not None and found["runs"]:
            shares = ((f"{row[end]:.1%}", row[end]) for end in ("mean", "worst"))
            yield [name, *shares, (str(row["runs"]), row["runs"])]


def _number(value: float) -> str:
    return format_plain(value, 4) if value < 1e4 else f"{value:,.0f}"
