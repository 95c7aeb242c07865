"""``placer estimate``: placements given by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from placer.advice.recommendation.notes import warnings_of
from placer.cli.command import Plot, Table, as_command
from placer.cli.output import check_targets, write_json
from placer.cli.saved_question import read_question
from placer.cli.screen.show import check_plot, show, write_plot
from placer.errors import PlacerError
from placer.interface.advisor import Advisor, estimate, simulate
from placer.records import replace

if TYPE_CHECKING:
    from placer.cost_model.limits import Violation
    from placer.problem.problem import Problem
    from placer.solving.answer import Warn
    from placer.solving.result import Option

EXAMPLES = """\b
Examples:
  placer estimate --model roberta-xlm --catalog erben-2023 --exchange all-reduce \\
    --workers gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot --manifest plan.json
  placer estimate --model roberta-xlm --catalog erben-2023 --workers lambda/us-west-1=8xA10 \\
    --workers gcp/us-central1=8xT4:spot
  placer estimate result.json --workers gcp/us-central1=8xT4:spot
  placer estimate --model roberta-xlm --workers gcp/us-central1=8xT4:spot --every-exchange
  placer estimate --model roberta-xlm --workers gcp/us-central1=8xT4:spot --simulate --jitter 0.2
"""


@as_command("estimate", EXAMPLES, of=(estimate, simulate), saved=True)
def command(
    ctx: click.Context,
    result: str | None = None,
    *,
    model: str | None = None,
    workers: tuple[str, ...] = (),
    manifest: str | None = None,
    every: bool = False,
    simulated: bool = False,
    plot: Plot,
    as_json: Table,
    **words: Any,
) -> None:
    """Time and price a placement given by hand, or several side by side; nothing is searched,
    limits are reported.

    RESULT is a file that 'placer recommend -o' wrote: its answer is the first placement, and its
    question that of all. Words of a request beside it change the question.

    workers (GROUPS): place=COUNTxGPU[:GPUS][:MARKET], comma between groups; given again, placements
        stand side by side.
    manifest (FILE): Write the launch manifest of the placement as JSON.
    every (--every-exchange): One row for each exchange that can run.
    simulated (--simulate): Replay it event by event, and compare with the closed formulas.
    """
    from placer.cost_model.limits import violations
    from placer.documents.manifest import build_manifest
    from placer.interface import by_hand

    check_targets(manifest)
    check_plot(plot)
    chances = chances_of(ctx, words)
    by_hand.check_every(words["exchange"], every=every)
    _check_workers(workers, result)
    question = read_question(ctx, result, model, words)
    problem = Advisor().problem(question.asked, **question.words)
    placements = (*(() if question.answer is None else (question.answer,)), *workers)
    if not placements:
        raise PlacerError(f"{result}: has no placement", "add --workers GROUPS")
    several = every or len(placements) > 1
    if several and (simulated or manifest):
        raise PlacerError(
            f"{'--simulate' if simulated else '--manifest'} of several placements",
            "give one placement, in one exchange",
        )
    question.tell()
    broken: Sequence[Violation] = ()
    warnings: Sequence[Warn] = ()
    if several:
        options = by_hand.side_by_side(problem, placements, every=every)
        document = by_hand.Comparison(problem=problem, options=tuple(options)).to_dict()
        warnings = warnings_by_row(options, problem)
    else:
        figures = by_hand.estimate_by_hand(placements[0], by_hand.unlimited(problem))
        problem, placement = figures.problem, figures.placement
        broken = violations(placement, problem)
        if manifest and not broken:
            write_json(manifest, build_manifest(problem, placement, figures, "feasible", None))
            click.echo(f"wrote manifest to {manifest}", err=True)
        if simulated:
            from placer.validation.simulation.replay import replay

            document = replay(placement, problem, **chances).to_dict()
        else:
            document = figures.to_dict()
            warnings = warnings_of(problem, placement, figures)
    write_plot(plot, document)
    show(document, as_json=as_json, warnings=[{"message": one.message} for one in warnings])
    ctx.exit(_say_limits(broken))


def _say_limits(broken: Sequence[Violation]) -> int:
    """Say on stderr which limits are broken; return the exit code."""
    for number, violation in enumerate(broken):
        click.echo(f"{'   also' if number else 'error'}: {violation.message}", err=True)
    if broken:
        tip = "the estimate above ignores these limits; change --workers or raise --quota FILE"
        click.echo(f"  tip: {tip}", err=True)
    return 2 if broken else 0


def _check_workers(workers: Sequence[str], result: str | None) -> None:
    """Refuse no placement, and several places with the command that compares the best of each."""
    if not (workers or result):
        raise PlacerError(
            "--workers is missing", "such as --workers gcp/us-central1=4xT4:spot, or a saved result"
        )
    places = [text for text in workers if "=" not in text]
    if places and len(workers) > 1:
        raise PlacerError(
            f"'{places[0]}' names no machines: --workers takes placements, such as "
            "gcp/us-central1=4xT4:spot",
            f"for the best of each place: placer whatif --over in={','.join(places)} with the same "
            "words",
        )


def warnings_by_row(options: Sequence[Option], problem: Problem) -> list[Warn]:
    """Return each kind of warning once: what holds for some rows names them, and the first of
    several messages stands for all.
    """
    kinds: dict[str, list[tuple[str, Warn]]] = {}
    for row, option in enumerate(options, start=1):
        for warning in warnings_of(problem, option.placement, option.estimate):
            kinds.setdefault(warning.code, []).append((f"row {row}", warning))
    shown = []
    for told in kinds.values():
        (first, warning), rows = told[0], list(dict.fromkeys(row for row, _ in told))
        if len(rows) < len(options) or len({one.message for _, one in told}) > 1:
            like = f" (likewise {', '.join(rows[1:])})" if rows[1:] else ""
            warning = replace(warning, message=f"{first}: {warning.message}{like}")
        shown.append(warning)
    return shown


CHANCES = ("rounds", "seed", "jitter", "stragglers", "straggler_factor")
"""Options of a simulation."""


def chances_of(ctx: click.Context, words: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a simulation out of the words of a command.

    Raise `PlacerError` if one is given without ``--simulate``.
    """
    for name in CHANCES:
        typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and not ctx.params["simulated"]:
            flag = name.replace("_", "-")
            raise PlacerError(f"--{flag} without --simulate", "add --simulate")
    return {name: words.pop(name) for name in CHANCES}
