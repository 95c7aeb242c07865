"""``placer compare``: placements side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placer.cli.options import open_request_options, table_option
from placer.cli.output import console, print_json
from placer.cli.saved_question import read_question
from placer.cli.screen.labelled_lines import print_labelled
from placer.cli.screen.option_groups import GroupedCommand
from placer.errors import PlacerError

if TYPE_CHECKING:
    from placer.problem.problem import Problem
    from placer.solving.answer import Warn
    from placer.solving.result import Option

EXAMPLE = """\b
Examples:
  placer compare --model roberta-xlm --catalog erben-2023 --every-exchange \\
    gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot
  placer compare --model roberta-xlm --catalog erben-2023 lambda/us-west-1=8xA10 \\
    gcp/us-central1=8xT4:spot gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot
  placer compare result.json gcp/us-central1=8xT4:spot
"""


@click.command("compare", cls=GroupedCommand, epilog=EXAMPLE)
@click.argument("placements", nargs=-1, required=True, metavar="[RESULT] [GROUPS]...")
@open_request_options
@table_option
@click.option(
    "--every-exchange", "every", is_flag=True, help="One row for each exchange that can run."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    placements: tuple[str, ...],
    model: str | None,
    as_json: bool,
    every: bool,
    **words: Any,
) -> None:
    """Put placements given by hand side by side; GROUPS are written as in 'placer estimate
    --workers'.

    RESULT is a file that 'placer recommend -o' wrote: its answer is the first row, and its question
    that of all. Words of a request beside it change the question.
    """
    from placer.advice.recommendation.notes import warnings_of
    from placer.cli.report.recommend import terminal
    from placer.interface.advisor import Advisor
    from placer.interface.by_hand import check_every, comparison_document, side_by_side

    first = placements[0]
    file = first if first.endswith(".json") or Path(first).is_file() else None
    by_hand = placements[file is not None :]
    _check_placements(by_hand)
    check_every(words["exchange"], every=every)
    question = read_question(ctx, file, model, words)
    problem = Advisor().problem(question.asked, **question.words)
    whole = () if question.answer is None else (question.answer,)
    if not (whole or by_hand):
        raise PlacerError(f"{file}: has no placement to compare", "name placements beside it")
    options = side_by_side(problem, (*whole, *by_hand), every=every)
    question.tell()
    if as_json:
        print_json(comparison_document(problem, options))
        return
    out = console()
    out.print(terminal.context(problem))
    out.print(terminal.comparison(options, problem))
    print_labelled(_risk_lines(options, problem))
    for line in _warning_lines(
        [(o.label, warnings_of(problem, o.placement, o.estimate)) for o in options]
    ):
        console(stderr=True).print(line, style="yellow")


def _check_placements(placements: Sequence[str]) -> None:
    """Refuse places without machines, with the command that compares the best of each."""
    places = [text for text in placements if "=" not in text]
    if places:
        raise PlacerError(
            f"'{places[0]}' names no machines: compare takes placements, such as "
            f"gcp/us-central1=4xT4:spot",
            f"for the best of each place: placer sweep --over in={','.join(places)} with the same "
            f"words",
        )


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
