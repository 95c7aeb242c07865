"""A simulation: rounds one after the other, beside the closed form."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from placer.report.blocks import Chart, Pair, Report, facts, section, table
from placer.report.charts.curve import Point, curve_chart
from placer.report.figures import Document, percent
from placer.units import counted, format_bytes, format_seconds, format_speed

WAITS = 0.01
"""Share of a round from which waiting is worth a word."""


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
                    numbers=("bytes",),
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
