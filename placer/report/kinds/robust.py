"""How much an answer loses if its figures are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from placer.report.blocks import Chart, Facts, Report, Section, section, table
from placer.report.charts.intervals import Dot, interval_chart
from placer.report.figures import Document, percent, placement_words
from placer.report.kinds import parts
from placer.report.kinds.provenance import sources
from placer.report.places import map_blocks

NO_ANSWER = "No placement meets the wishes, so that nothing can be lost if a figure is wrong."


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.robust/v1`` document."""
    regret, placement = document["regret"], document["placement"]
    estimate = document["estimate"]
    return Report(
        title=f"How sure the answer for {document['request']['model']} is",
        subtitle=f"placer robust, prices of {document['data']['oldest']} to "
        f"{document['data']['as_of']} ({document['data']['catalog']})",
        verdict=NO_ANSWER if regret is None else _verdict(placement, regret),
        tone="bad" if regret is None else "warning" if regret["fragile"] else "good",
        figures=() if regret is None else tuple(_figures(regret)),
        sections=()
        if regret is None
        else (
            *factors(document),
            *section("The worst world", _worst(document["worst"])),
            *_measure(document),
            *section("Where", *map_blocks(document, placement, estimate)),
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
    """Yield the key figures of what is lost."""
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
        numbers=("lowest", "highest"),
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
    chart = Chart(
        name="factors",
        title="How far each figure may be off",
        draw=lambda: interval_chart(dots, "factor of the figure", line=1.0, zero=False),
        table=listed,
    )
    return section("What is uncertain", chart)


def _worst(worst: Document | None) -> Facts | None:
    """Show the world in which the answer loses most."""
    if not worst:
        return None
    best = worst["best_placement"]
    return Facts(
        rows=(
            ("figures", ", ".join(worst["set"]), ""),
            ("loss", percent(worst["relative_regret"]), ""),
            ("best there", "" if best is None else placement_words(best), ""),
        )
    )


def _measure(document: Document) -> tuple[Section, ...]:
    rows = [
        [row["figure"], (percent(saved), saved), row["measure"]]
        for row in document["worth"]
        for saved in (row["expected_loss_saved"],)
        if saved > 0
    ]
    columns = ("figure", "loss saved", "command")
    return section(
        "What to measure first",
        table("Worth of a measurement", columns, rows, numbers=("loss saved",)),
    )
