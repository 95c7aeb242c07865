"""What a person reads of a frontier: its table, and what it says in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from placer.advice.frontier.points import Ending, Frontier, FrontierPoint
from placer.cli.report.recommend.sentences import brief, worker_words
from placer.cli.screen.tables import Sheet
from placer.solving.answer import Warn
from placer.units import (
    counted,
    format_number,
    format_plain,
    format_seconds,
    format_speed,
    format_usd,
)

SAMPLES = ("samples/s", "USD/M", "+USD/M")
TOKENS = ("tokens/s", "USD/Gtok", "+USD/Gtok")
"""Headings of speed and price; those of a language model count tokens."""
LEFT = ("", "machines", "regions", "exchange")
MOST_ALIKE = 2
"""Warnings of one kind that are shown."""


def print_frontier(console: Console, frontier: Frontier) -> None:
    """Print the table and the sentences of a frontier with points."""
    console.print(_table(frontier))
    _, price, more = _headings(frontier)
    unit = "million samples" if _length(frontier) is None else "billion tokens"
    console.print(
        Text(
            f"{price}: per {unit}; {more}: marginal cost per {unit} more than the row above gives",
            style="dim",
        )
    )
    console.print()
    for sentence in sentences(frontier):
        console.print(Text(sentence))


def sentences(frontier: Frontier) -> list[str]:
    """Say where the knee and the best value are, and what is proved."""
    sentences = []
    if frontier.knee is not None:
        point = frontier.points[frontier.knee]
        sentences.append(f"Knee: {_words(point, frontier)}; returns diminish beyond this point.")
    if frontier.best_value is not None and frontier.best_value != frontier.knee:
        point = frontier.points[frontier.best_value]
        sentences.append(f"Best value: {_words(point, frontier)}, {_price_words(point, frontier)}.")
    elif frontier.best_value is not None:
        price = _price_words(frontier.points[frontier.best_value], frontier)
        sentences.append(f"It is the best value too: {price}.")
    return [*sentences, _proof(frontier)]


def shown(warnings: Iterable[Warn]) -> list[Warn]:
    """Leave out most of many warnings of one kind: each point may have its own."""
    kinds: dict[str, list[Warn]] = {}
    for warning in warnings:
        kinds.setdefault(warning.code, []).append(warning)
    sentences = []
    for code, alike in kinds.items():
        sentences += alike[:MOST_ALIKE]
        if len(alike) > MOST_ALIKE:
            sentences.append(
                Warn(
                    code=code,
                    message=f"and {len(alike) - MOST_ALIKE} more like this one (--json lists all)",
                )
            )
    return sentences


def _words(point: FrontierPoint, frontier: Frontier) -> str:
    speed = format_speed(point.samples_per_second, _length(frontier))
    return f"{brief(point.placement)}, {speed} for {format_usd(point.usd_per_hour)}/h"


def _price_words(point: FrontierPoint, frontier: Frontier) -> str:
    unit = "million samples" if _length(frontier) is None else "billion tokens"
    return f"{format_usd(_price(point.usd_per_million_samples, frontier))} per {unit}"


def _length(frontier: Frontier) -> int | None:
    """Return the tokens of a sequence; None for a model without tokens."""
    architecture = frontier.problem.profile.architecture
    return None if architecture is None else architecture.sequence_length


def _headings(frontier: Frontier) -> tuple[str, str, str]:
    return SAMPLES if _length(frontier) is None else TOKENS


def _price(usd_per_million_samples: float, frontier: Frontier) -> float:
    """Return USD per million samples, or per billion tokens of a language model."""
    length = _length(frontier)
    return usd_per_million_samples if length is None else 1e3 * usd_per_million_samples / length


def _proof(frontier: Frontier) -> str:
    """Say what is proved, and why there are no more points."""
    gap, number = f"{format_plain(100 * frontier.gap, 2)} %", counted(len(frontier.points), "point")
    open_ = sum(point.status != "optimal" for point in frontier.points)
    if frontier.proved:
        proof = (
            f"each proved to {gap}: no placement as fast is cheaper by more than that, and none "
            f"as cheap is faster"
        )
    elif all(point.gap is None for point in frontier.points):
        proof = f"not proved (solver {frontier.solver}; --solver exact proves)"
    else:
        proof = (
            f"{len(frontier.points) - open_} proved to {gap}, {open_} to a wider gap (see the "
            f"column)"
        )
    why = {
        Ending.COMPLETE: "there are no others",
        Ending.POINTS: "more lie between: raise --points",
        Ending.OPEN: "no others were found",
        Ending.TIME_LIMIT: "stopped by the time limit: raise --time-limit for more",
        Ending.MEMORY_LIMIT: "stopped by the memory limit: raise --memory-limit for more",
        Ending.INTERRUPTED: "stopped by Ctrl-C",
    }[frontier.ending]
    return (
        f"{number}, {proof}; {why} ({frontier.solves} searches, "
        f"{format_seconds(frontier.seconds)})."
    )


def _table(frontier: Frontier) -> Sheet:
    headers = ("", "USD/h", *_headings(frontier), "gap", "machines", "regions", "exchange")
    table = Sheet(
        headers, right=[name for name in headers if name not in LEFT], wrap=LEFT, unseen=("mark",)
    )
    marginal = frontier.marginal_usd_per_million_samples
    for at, point in enumerate(frontier.points):
        mark, placement = frontier.mark(at), point.placement
        cells = (
            mark.replace(" ", ", "),
            _dollars(point.usd_per_hour),
            format_number(point.samples_per_second * (_length(frontier) or 1)),
            _dollars(_price(point.usd_per_million_samples, frontier)),
            "" if marginal[at] is None else _dollars(_price(marginal[at] or 0.0, frontier)),
            "-" if point.gap is None else f"{format_plain(100 * point.gap, 2)} %",
            "\n".join(
                f"{g.count} x {worker_words(g)} {g.market.replace('_', '-')}"
                for g in placement.groups
            ),
            "\n".join(g.place for g in placement.groups),
            "-" if placement.exchange.strategy == "none" else placement.exchange.strategy,
        )
        table.add_row(*cells, style="bold" if mark else None)
    return table


def _dollars(value: float) -> str:
    return format_usd(value).removeprefix("$")
