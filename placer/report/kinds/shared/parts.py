"""Sections that several kinds of documents share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placer.cost_model.outlook.totals import LEVEL_WORDS
from placer.report.blocks import (
    Block,
    Cell,
    Chart,
    Section,
    Table,
    Text,
    chart,
    facts,
    figure,
    section,
    table,
    text,
    without_empty_columns,
)
from placer.report.charts.rows import Dot, dollar_spans, interval_chart, span_chart, step_spans
from placer.report.figures import (
    Document,
    exchange_words,
    format_speed_of,
    percent,
    placement_words,
    price_of_work,
    shown_speed,
    speed_of,
    speed_spread,
    spoken,
)
from placer.report.kinds.shared.placement import COMPONENTS, step_parts
from placer.report.question import command_of, wish_words
from placer.units import format_number, format_seconds, format_usd

GRANULARITY = "seconds of calculation for each second of exchange"


def dollars(estimate: Document, budget: float | None) -> tuple[Section, ...]:
    """Show where each dollar of an hour goes."""
    usd, spread = estimate["usd_per_hour"], estimate["usd_per_hour_interval"]
    parts = [(name, float(usd[name])) for name in COMPONENTS if usd.get(name)]
    if not parts:
        return ()
    spans = dollar_spans(parts, spread["low"], spread["high"])
    limit = None if budget is None else (f"budget {format_usd(budget)}", budget)
    price, unit = price_of_work(estimate)
    rows = [
        (name, (format_usd(value), value), percent(value / usd["total"]) if usd["total"] else "")
        for name, value in parts
    ]
    rows.append(("total", (format_usd(usd["total"]), usd["total"]), "100 %"))
    listed = table("USD in an hour", ("part", "USD/h", "share"), rows, numbers=("USD/h", "share"))
    line = "The line across the total is the interval of its price."
    drawn = chart(
        "dollars",
        f"{format_usd(usd['total'])}/h by component",
        lambda: span_chart(spans, "USD/h", low=spread["low"], high=spread["high"], limit=limit),
        listed,
        "" if price is None else f"{format_usd(price)} {unit}. {line}",
    )
    return section("Where each dollar goes", drawn, detail=True)


def step(placement: Document, estimate: Document) -> tuple[Section, ...]:
    """Show what a step consists of on one line of time."""
    seconds = estimate["step_seconds"]
    named = step_parts(estimate)
    rest = seconds["communication"] - sum(value for _, value in named)
    if rest > 1e-9 + 0.005 * seconds["communication"]:
        named.append(("rest of the exchange", rest))
    speed = estimate["samples_per_second"]
    total = seconds["total"]
    ends = (total * speed["value"] / speed["high"], total * speed["value"] / speed["low"])
    spans = step_spans(seconds["calculation"], named, seconds["hidden"], ends)
    steps = placement["local_steps"]
    what = "step" if steps == 1 else f"round of {steps} steps"
    rows: list[list[Cell]] = [
        [
            span.name,
            *((format_seconds(x), x) for x in (span.begin, span.end, span.end - span.begin)),
        ]
        for span in spans
    ]
    listed = table(f"One {what}", ("part", "from", "to", "takes"), rows)
    hidden = seconds["hidden"]
    beside = (
        f"{format_seconds(hidden)} of the exchange run beside the calculation. " if hidden else ""
    )
    grain = estimate["granularity"]
    ratio = "" if grain is None else f"Granularity {format_number(grain)}: {GRANULARITY}."
    axis = f"seconds from the start of the {what}"
    drawn = chart(
        "step",
        f"One {what}: {format_seconds(total)}",
        lambda: span_chart(spans, axis, low=ends[0], high=ends[1]),
        listed,
        beside + ratio,
    )
    return section(f"One {what}", drawn, detail=True)


def considered(
    options: Sequence[Document],
    chosen: Document | None,
    title: str = "Considered",
    *,
    data: bool = False,
) -> tuple[Section, ...]:
    """Show placements side by side: a table that can be sorted, and their speeds with intervals."""
    marked = next((at for at, one in enumerate(options) if one["placement"] == chosen), None)
    rows = [(None, one) for one in options]
    listed = option_table("Placements with their figures", rows, marked=marked, data=data)
    if listed is None or len(options) == 1:
        return section(title, listed)
    dots = []
    for at, one in enumerate(options):
        speed, unit = speed_of(one["estimate"])
        dots.append(
            Dot(
                name=placement_words(one["placement"]),
                value=speed["value"],
                low=speed["low"],
                high=speed["high"],
                text=shown_speed(one["estimate"]),
                stands_out=at == marked,
            )
        )
    spread = any(dot.high != dot.low for dot in dots)
    drawn = chart(
        "considered",
        f"Speed of each placement, with its {LEVEL_WORDS}",
        lambda: interval_chart(dots, unit),
        listed,
        "Where intervals overlap, the order is not certain." if spread else "",
        table_open=True,
    )
    return section(title, drawn)


def against(
    name: str,
    title: str,
    rows: Sequence[tuple[str, float | None, bool]],
    axis: str,
    listed: Table | None,
    note: str = "",
) -> Chart | Table | None:
    """Show by which share figures are off, as dots beside their table; without any the table alone.
    The last entry of a row is whether it stands out.
    """
    dots = [
        Dot(name=row, value=100 * off, text=percent(off, signed=True), stands_out=stands_out)
        for row, off, stands_out in rows
        if off is not None
    ]
    if not dots:
        return listed

    def draw() -> Any:
        return interval_chart(dots, axis, line=0.0, zero=False)

    return chart(name, title, draw, listed, note, table_open=True)


def option_table(
    caption: str,
    options: Sequence[tuple[str | None, Document]],
    *,
    marked: int | None = None,
    data: bool = False,
) -> Table | None:
    """List placements with their figures; columns in which nothing stands are left out.

    ``caption``: of the table. ``options``: what a placement is (None: nothing is said), and a
    document with ``placement``, ``estimate`` and perhaps ``note``. ``marked``: position of the one
    that stands out. ``data``: formats of rows have it alone.
    """
    if not options:
        return None
    unit, work = (words(options[0][1]["estimate"])[1] for words in (speed_of, price_of_work))
    work = work.replace("per ", "USD per ")
    columns = ("what", "workers", "exchange", unit, "interval", "USD/h", "egress/h", work, "note")
    rows: list[list[Cell]] = [[what or "", *option_cells(one)] for what, one in options]
    listed = table(
        caption,
        columns,
        rows,
        marked=marked,
        narrowed=("workers", "exchange", work, "note"),
        optional=("interval",),
        units={"egress/h": "egress USD/h"},
        data=data,
    )
    return without_empty_columns(listed)


def option_cells(one: Document) -> list[Cell]:
    """Write the cells of a placement in a table of placements."""
    estimate, placement = one["estimate"], one["placement"]
    speed, _ = speed_of(estimate)
    price, _ = price_of_work(estimate)
    usd = estimate["usd_per_hour"]
    return [
        placement_words(placement),
        exchange_words(placement),
        (shown_speed(estimate), speed["value"]),
        speed_spread(estimate),
        (format_usd(usd["total"]), usd["total"]),
        (format_usd(usd["egress"]), usd["egress"]),
        figure(price, format_usd),
        one.get("note", ""),
    ]


def warnings_of(document: Document, *more: Block | None) -> tuple[Section, ...]:
    """Show what may go wrong: warnings, what is known of spot machines, and notes."""
    lines, notes = (
        dict.fromkeys(sentence(row["message"]) for row in document.get(key, []))
        for key in ("warnings", "notes")
    )
    return section("What may go wrong", text(*lines, tone="warning"), *more, text(*notes))


def sentence(words: str) -> str:
    """Write a remark as a sentence; the name of a place or a machine keeps its letters."""
    plain = words.partition(" ")[0].isalpha()
    said = spoken(words[:1].upper() + words[1:] if plain else words)
    return said if said.endswith((".", "!", "?")) else f"{said}."


def subtitle(document: Document, verb: str) -> str:
    """Say which command made a document, and from prices of when."""
    data = document["data"]
    return f"placer {verb}, prices of {data['oldest']} to {data['as_of']} ({data['catalog']})"


def figures_words(estimate: Document) -> str:
    """Write speed and price of a placement."""
    return f"{format_speed_of(estimate)} for {format_usd(estimate['usd_per_hour']['total'])}/h"


def option_words(option: Document) -> str:
    """Name the workers of a placement, with its speed and price."""
    return f"{placement_words(option['placement'])}: {figures_words(option['estimate'])}"


def wishes(document: Document, *, detail: bool = False) -> tuple[Section, ...]:
    """Show what was asked."""
    request = document["request"]
    rows = [
        ("model", str(request["model"])),
        ("1 sample", str(request.get("sample") or "size not stated")),
        *wish_words(document),
    ]
    return section("What was asked", facts(*rows), detail=detail)


def reproduce(document: Document, verb: str = "recommend", more: str = "") -> tuple[Section, ...]:
    """Show the command that asks the question again, and the digests of what it read."""
    words, left = command_of(document, verb)
    data, certificate = document["data"], document.get("certificate") or {}
    rows = [
        ("price book", f"{data['catalog']}", f"digest {data['digest']}"),
        *(
            (f"digest of the {name}", digest, "")
            for name, digest in certificate.get("inputs", {}).items()
        ),
    ]
    if certificate:
        gap, seconds, seed = (certificate[key] for key in ("gap", "time_limit_s", "seed"))
        limits = f"gap {gap:g}, {seconds:g} s, seed {seed}"
        rows.append(
            ("search", f"{certificate['solver']}, {limits}", f"placer {certificate['placer']}")
        )
    if data.get("changes"):
        rows.append(("changes to the book", "; ".join(map(str, data["changes"])), ""))
    if left:
        named = ", ".join(key.replace("_", " ") for key in left)
        rows.append(("not in the command", named, "from a file or from Python"))
    return section(
        "How to reproduce it",
        Text(lines=(words + more,), tone="code"),
        text(
            "placer validate FILE prices a saved result again from the file alone."
            if certificate
            else ""
        ),
        facts(*rows),
        detail=True,
    )
