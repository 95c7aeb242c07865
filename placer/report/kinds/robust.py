"""How much an answer loses if its figures are wrong."""

from __future__ import annotations

from datetime import date

from placer.report.blocks import Chart, Facts, Report, Section, section, table
from placer.report.charts.intervals import Dot, interval_chart
from placer.report.figures import Document, percent, placement_words
from placer.report.kinds import parts
from placer.report.kinds.provenance import sources
from placer.report.places import map_blocks


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.robust/v1`` document."""
    regret = document["regret"]
    placement, estimate = document["placement"], document["estimate"]
    sure = "fragile" if regret["fragile"] else "steady"
    return Report(
        title=f"How sure the answer for {document['request']['model']} is",
        subtitle=f"placer robust, prices of {document['data']['oldest']} to "
        f"{document['data']['as_of']} ({document['data']['catalog']})",
        verdict=f"The answer is {sure}. Over the worlds that its figures allow, "
        f"{placement_words(placement)} loses {percent(regret['mean'])} on average against the best "
        f"of each, {percent(regret['worst'])} at worst.",
        tone="warning" if regret["fragile"] else "good",
        figures=(
            (percent(regret["mean"]), "mean loss", ""),
            (percent(regret["worst"]), "worst loss", ""),
            (percent(regret["share_best"]), "of worlds in which it is best", ""),
            (str(regret["worlds"]), "worlds", f"{regret['candidates']} placements compared"),
        ),
        sections=(
            *factors(document),
            *section("The worst world", _worst(document["worst"])),
            *_measure(document),
            *section("Where", *map_blocks(document, placement, estimate)),
            *parts.wishes(document),
            *sources(document, [estimate], today),
            *parts.reproduce(document, "robust"),
        ),
    )


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
