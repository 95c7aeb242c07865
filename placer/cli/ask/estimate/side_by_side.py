"""``placer estimate`` of several placements: side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from placer.advice.recommendation.notes import warnings_of
from placer.cli.output import console
from placer.cli.report.recommend import terminal
from placer.cli.screen.labelled_lines import print_labelled

if TYPE_CHECKING:
    from placer.problem.problem import Problem
    from placer.solving.answer import Warn
    from placer.solving.result import Option


def print_options(options: Sequence[Option], problem: Problem) -> None:
    """Print a table of placements, the risk of each, and what to beware of on stderr."""
    out = console()
    out.print(terminal.context(problem))
    out.print(terminal.comparison(options, problem))
    print_labelled(_risk_lines(options, problem))
    for line in _warning_lines(
        [(o.label, warnings_of(problem, o.placement, o.estimate)) for o in options]
    ):
        console(stderr=True).print(line, style="yellow")


def _risk_lines(options: Sequence[Option], problem: Problem) -> Iterator[tuple[str, str]]:
    """Yield the risk of each placement in one line; nothing where all machines are on demand."""
    from placer.cli.report.recommend.risk_words import risk_line
    from placer.cost_model.outlook.outlook import spot_outlook

    found = [(o, spot_outlook(o.placement, o.estimate, problem)) for o in options]
    if any(spot is not None for _, spot in found):
        for option, spot in found:
            words = risk_line(spot, option.placement, option.estimate.tokens_per_sample)
            yield f"risk of {option.label}", words


def _warning_lines(rows: Sequence[tuple[str, Sequence[Warn]]]) -> Iterator[str]:
    """Yield each kind of warning once: what holds for some rows names them, and the first of
    several messages stands for all.
    """
    kinds: dict[str, list[tuple[str, str]]] = {}
    for label, warnings in rows:
        for warning in warnings:
            kinds.setdefault(warning.code, []).append((label, warning.message))
    for told in kinds.values():
        first, message = told[0]
        labels = list(dict.fromkeys(label for label, _ in told))
        if len(labels) == len(rows) and len({text for _, text in told}) == 1:
            yield f"warning: {message}"
        elif len(labels) == 1:
            yield f"warning: row {first}: {message}"
        else:
            yield f"warning: row {first}: {message} (likewise row {', '.join(labels[1:])})"
