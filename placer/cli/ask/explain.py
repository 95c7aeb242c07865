"""``placer explain``: what binds, why not something else, what one more is worth, or why nothing
fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placer.cli.options import json_option, memory_option, output_option
from placer.cli.output import check_targets, console, print_json, write_json
from placer.cli.saved_question import Question, question_options, read_question
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.progress import progress

if TYPE_CHECKING:
    from placer.advice.worlds.whatif import Kept

EXAMPLE = """\b
Examples:
  placer explain --model roberta-xlm --budget 5/h
  placer explain --model roberta-xlm --budget 5/h --why-not gcp/us-central1 \\
    --why-not A100 --why-not central
  placer recommend --model roberta-xlm --budget 5/h -o result.json && placer explain result.json
  placer explain --model roberta-xlm --budget 1/h --min-throughput 4000/s
"""


@click.command("explain", cls=GroupedCommand, epilog=EXAMPLE)
@question_options
@click.option(
    "--why-not",
    multiple=True,
    metavar="X",
    help="PLACE, GPU, EXCHANGE, PLACE=GPU:market, spot, on-demand, community or 2-regions; "
    "default: the most tempting ones.",
)
@click.option(
    "--gap", default="0.1%", show_default=True, metavar="SHARE", help="Relative gap to prove."
)
@click.option(
    "--time-limit",
    default="2min",
    show_default=True,
    metavar="TIME",
    help="Stop after this long and say what is missing.",
)
@memory_option
@output_option("the explanation")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    result: str | None,
    model: str | None,
    output: str | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Say what binds, why not something else, what one more dollar or GPU is worth, when to leave a
    region, or why nothing fits.

    RESULT is a file that 'placer recommend -o' wrote: its question is asked, and the search begins
    with its answer. Words of a request beside it change the question.
    """
    from placer.interface.advisor import Advisor

    check_targets(output)
    question = read_question(ctx, result, model, words)
    with progress("explaining"):
        explanation = Advisor().explain(question.asked, start=question.answer, **question.words)
    if output:
        write_json(output, explanation.to_dict())
    if as_json:
        print_json(explanation.to_dict())
    else:
        _print(explanation, question)
    question.tell()
    if output:
        console(stderr=True).print(f"wrote explanation to {output}")
    ctx.exit(
        0
        if explanation.result.placement is not None
        else {"infeasible": 3}.get(str(explanation.result.status), 4)
    )


def _saved_words(kept: Kept) -> str:
    """Say what the saved answer does in the question as it is now, where another one is better."""
    from placer.cli.report.explain.explain_text import value_words
    from placer.cli.report.recommend.sentences import headline

    figures = "" if kept.estimate is None else f", {value_words(kept.estimate)}"
    broken = f"; it cannot be kept: {kept.broken[0]}" if kept.broken else ""
    return f"{headline(kept.placement)}{figures}{broken}"


def _print(explanation: Any, question: Question) -> None:
    from placer.advice.worlds.whatif import keep
    from placer.cli.report.explain.explain_text import sections, value_words
    from placer.cli.report.recommend import terminal
    from placer.cli.report.recommend.risk_words import risk_line
    from placer.cli.report.recommend.sentences import headline
    from placer.cost_model.outlook.outlook import spot_outlook

    out = console()
    out.print(terminal.reading(explanation.problem))
    result, saved = explanation.result, question.answer
    if saved is not None and (
        result.placement is None or saved.canonical() != result.placement.canonical()
    ):
        out.print(f"saved   {_saved_words(keep(saved, result.problem))}")
    if result.placement is not None:
        out.print(f"\n{headline(result.placement)}", style="bold green")
        out.print(value_words(result.estimate))
        spot = spot_outlook(result.placement, result.estimate, result.problem)
        words = risk_line(spot, result.placement, result.estimate.tokens_per_sample)
        out.print(f"risk: {words}")
    elif str(result.status) != "infeasible":
        out.print(
            "\nNo placement was found before the time limit was reached; it is not proved "
            "that there is none."
        )
    for title, lines in sections(explanation):
        out.print(f"\n{title}", style="bold")
        for line in lines:
            out.print(terminal.bullet(line))
