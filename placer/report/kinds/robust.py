"""How much an answer loses if its figures are wrong."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import date

from placer.report.blocks import Cell, Report, Section, chart, facts, section, table, text
from placer.report.charts.rows import Dot, interval_chart
from placer.report.figures import Document, percent, placement_words
from placer.report.kinds.shared import parts
from placer.report.kinds.shared.provenance import sources
from placer.report.places import map_blocks
from placer.units import counted, format_plain

KINDS = {"bandwidth": "link", "rate": "speed", "phi": "exchange and its samples to target"}
"""Kinds of figures in words, where they have others."""
MOST_ROWS = 8
"""Figures that are listed; --json has all."""
LEAST_GAIN = 0.001
"""Figures that save less of the expected loss are not worth a measurement."""
NO_ANSWER = "No placement meets the wishes, so that nothing can be lost if a figure is wrong."


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.robust/v1`` document."""
    regret, placement = document["regret"], document["placement"]
    estimate = document["estimate"]
    return Report(
        title=f"How sure the answer for {document['request']['model']} is",
        subtitle=parts.subtitle(document, "robust"),
        verdict=NO_ANSWER if regret is None else _verdict(placement, regret),
        tone="bad" if regret is None else "warning" if regret["fragile"] else "good",
        figures=() if regret is None else tuple(_figures(regret)),
        sections=()
        if regret is None
        else (
            *_loss(document),
            *factors(document),
            *_measure(document),
            *section("Where", *map_blocks(document, placement, estimate), detail=True),
            *parts.wishes(document),
            *sources(document, [estimate], today),
            *parts.reproduce(document, "robust"),
        ),
    )


def _verdict(placement: Document, regret: Document) -> str:
    """Say whether the answer lasts, what it loses, and how often it breaks a limit."""
    sure = "fragile" if regret["fragile"] else "steady"
    words = f"The answer is {sure}. Over the worlds that its figures allow, "
    words += placement_words(placement)
    broken = regret.get("share_broken", 0.0)
    if regret["worst"] is None:
        return f"{words} breaks a limit in every one."
    limits = f" breaks a limit in {percent(broken)}; in the others it" if broken else ""
    return (
        f"{words}{limits} loses {percent(regret['mean'])} on average against the best of each, "
        f"{percent(regret['worst'])} at worst."
    )


def _figures(regret: Document) -> Iterator[tuple[str, str, str]]:
    broken = regret.get("share_broken", 0.0)
    if regret["worst"] is not None:
        where = "where it keeps the limits" if broken else ""
        yield percent(regret["mean"]), "mean loss", where
        yield percent(regret["worst"]), "worst loss", where
    if broken:
        yield percent(broken), "of worlds in which it breaks a limit", ""
    yield percent(regret["share_best"]), "of worlds in which it is best", ""
    yield str(regret["worlds"]), "worlds", f"{regret['candidates']} placements compared"


def factors(document: Document) -> tuple[Section, ...]:
    """Show how far each figure may be off, as a factor of its value."""
    rows = document["factors"]
    listed = table(
        "Figures that vary, as factors of their value",
        ("figure", "lowest", "highest", "basis"),
        [
            [
                row["figure"],
                (f"{row['low']:.2f}", row["low"]),
                (f"{row['high']:.2f}", row["high"]),
                row["basis"],
            ]
            for row in rows
        ],
    )
    if listed is None:
        return ()
    dots = [
        Dot(
            name=row["figure"],
            value=1.0,
            low=row["low"],
            high=row["high"],
            text=f"{row['low']:.2f} to {row['high']:.2f}",
            stands_out=True,
        )
        for row in rows
    ]
    drawn = chart(
        "factors",
        "How far each figure may be off",
        lambda: interval_chart(dots, "factor of the figure", line=1.0, zero=False),
        listed,
    )
    return section("What is uncertain", text(_unsure(document)), drawn)


def _unsure(document: Document) -> str:
    """Say how many figures of each kind vary, and how far."""
    kinds: dict[str, list[Document]] = {}
    for row in document["factors"]:
        kinds.setdefault(row["kind"], []).append(row)
    words = []
    for kind, rows in kinds.items():
        low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
        ends = format_plain(low, 2), format_plain(high, 2)
        if ends[0] != ends[1]:
            words.append(f"{counted(len(rows), KINDS.get(kind, kind))} (x{ends[0]} to x{ends[1]})")
    if not words:
        return "Every figure that a candidate rests on is taken as exact."
    correlation = document.get("spot_price_correlation")
    together = (
        "each independently"
        if correlation is None
        else f"spot prices of one device of a provider together (correlation {correlation:g}, from "
        "price lists of Google Cloud), all else independently"
    )
    return f"{', '.join(words)}; {together}; egress and everything else as in the book."


def _loss(document: Document) -> tuple[Section, ...]:
    """Say what is lost, how that is known, and which candidate loses less."""
    regret = document["regret"]
    limits = regret.get("limits", {"regret": 0.05})
    exact = regret.get("kind") == "exact"
    candidates = counted(regret["candidates"], "candidate")
    known = (
        "exact: each world was solved and proved"
        if exact
        else f"at least: against the best of {candidates}; --exact solves each world"
    )
    bad = regret.get("share_bad", 0.0) - regret.get("share_broken", 0.0)
    lost = f"more than {100 * limits['regret']:g} % lost in {percent(bad)} of the worlds"
    figures = parts.figures_words(document["estimate"])
    rows = [("figures", figures, ""), ("regret", lost, known)]
    if document["status"] != "optimal":
        none = "none: a better placement may exist at the book's own figures; raise --time-limit"
        rows.append(("proof", none, ""))
    return section("The loss", facts(*rows, *_steadier(document), *_worst(document["worst"])))


def _steadier(document: Document) -> Iterator[tuple[str, str, str]]:
    """Name a candidate that loses less on average, a broken limit counted as a full loss."""
    steadiest, regret = document.get("steadiest"), document["regret"]
    if steadiest is not None and steadiest["placement"] != document["placement"]:
        loss, now = percent(steadiest["expected_loss"]), percent(regret["expected_loss"])
        broken = "a broken limit counts as 100 %" if regret.get("share_broken") else ""
        words = f"{placement_words(steadiest['placement'])}: loses {loss} instead of {now}"
        yield "steadier", words, broken
    elif regret["fragile"]:
        yield "steadier", "nothing: no candidate loses less on average", ""


def _worst(worst: Document | None) -> Iterator[tuple[str, str, str]]:
    if not worst or not worst["relative_regret"]:
        return
    best = worst["best_placement"]
    changes = " ".join(f"--set {shlex.quote(text)}" for text in worst["set"])
    yield "worst world", f"loses {percent(worst['relative_regret'])}", changes
    if best is not None:
        yield "best there", placement_words(best), ""


def _measure(document: Document) -> tuple[Section, ...]:
    rows: list[list[Cell]] = [
        [
            f"{row['figure']} ({row['basis']})",
            f"x{format_plain(row['low'], 2)} to x{format_plain(row['high'], 2)}",
            (percent(saved), saved),
            row["measure"],
        ]
        for row in document["worth"][:MOST_ROWS]
        for saved in (row["expected_loss_saved"],)
        if saved > LEAST_GAIN
    ]
    columns = ("figure", "range", "loss saved", "measure with")
    return section(
        "What to measure first",
        table(
            "Worth of a measurement",
            columns,
            rows,
            numbers=("loss saved",),
            narrowed=("figure", "measure with"),
            data=True,
        )
        or text("Nothing: knowing any single figure would not lower the expected loss."),
    )
