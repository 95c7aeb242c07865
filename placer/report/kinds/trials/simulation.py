"""A simulation: rounds one after the other, beside the closed form."""

from __future__ import annotations

from datetime import date

from placer.report.blocks import Chart, Report, section, table
from placer.report.charts.curve import Point, curve_chart
from placer.report.figures import Document, percent
from placer.units import counted, format_bytes, format_seconds, format_speed


def report(document: Document, today: date) -> Report:
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
                    numbers=("bytes",),
                ),
            ),
        ),
    )
