"""``placer explain``: what binds, why not something else, what one more is worth, or why nothing
fits.
"""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from placer.cli.options import (
    json_option,
    memory_option,
    open_request_options,
    output_option,
    wish_options,
)
from placer.cli.output import check_targets, console, print_json, read_json, write_json
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.progress import progress
from placer.errors import PlacerError

EXAMPLE = """\b
Examples:
  placer explain --model roberta-xlm --budget 5/h
  placer explain --model roberta-xlm --budget 5/h --why-not gcp/us-central1 \\
    --why-not A100 --why-not central
  placer recommend --model roberta-xlm --budget 5/h -o result.json && placer explain result.json
  placer explain --model roberta-xlm --budget 1/h --min-throughput 4000/s
"""
OWN = ("result", "catalog", "why_not", "gap", "time_limit", "memory_limit", "output", "as_json")
"""Parameters that do not describe the request, so that they may stand with a saved result."""


@click.command("explain", cls=GroupedCommand, epilog=EXAMPLE)
@click.argument("result", required=False, metavar="[RESULT]")
@open_request_options
@wish_options
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
    why_not: tuple[str, ...],
    gap: str,
    time_limit: str,
    memory_limit: str | None,
    **words: Any,
) -> None:
    """Say what binds, why not something else, what one more dollar or GPU is worth, when to leave a
    region, or why nothing fits.

    RESULT is a file that 'placer recommend -o' wrote; without it the request is given as for
    'placer recommend'.
    """
    from placer.interface.advisor import Advisor

    check_targets(output)
    notes: tuple[str, ...] = ()
    question: Any = model
    if result is not None:
        from placer.documents.reopen import reopened_problem

        _refuse_words(ctx)
        question, notes = reopened_problem(read_json(result), result, words["catalog"])
        words = {}
    elif model is None:
        raise PlacerError(
            "--model is missing", "give --model NAME, or a result that 'placer recommend -o' wrote"
        )
    with progress("explaining"):
        explanation = Advisor().explain(
            question,
            why_not=why_not,
            gap=gap,
            time_limit=time_limit,
            memory_limit=memory_limit,
            **words,
        )
    if output:
        write_json(output, explanation.to_dict())
    if as_json:
        print_json(explanation.to_dict())
    else:
        _print(explanation)
    err = console(stderr=True)
    for sentence in notes:
        err.print(f"warning: {sentence}", style="yellow")
    if output:
        err.print(f"wrote explanation to {output}")
    ctx.exit(
        0
        if explanation.result.placement is not None
        else {"infeasible": 3}.get(str(explanation.result.status), 4)
    )


def _refuse_words(ctx: click.Context) -> None:
    """Refuse words of a request together with a saved result: the result has its own."""
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name not in OWN and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise PlacerError(
                f"{parameter.opts[-1]} together with a saved result",
                "leave it out, or give the whole request without the file",
            )


def _print(explanation: Any) -> None:
    from placer.cli.report.explain.explain_text import sections, value_words
    from placer.cli.report.recommend import terminal
    from placer.cli.report.recommend.risk_words import risk_line
    from placer.cli.report.recommend.sentences import headline
    from placer.cost_model.outlook.outlook import spot_outlook

    out = console()
    out.print(terminal.reading(explanation.problem))
    result = explanation.result
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
