"""``placer whatif``: the question as it is and in a changed world."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from placer.cli.options import solve_options, table_option
from placer.cli.saved_question import question_options, read_question
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show
from placer.problem.words.wishes import CHANGES

WISH_LINES = textwrap.fill(
    f"{', '.join(CHANGES)}: as the options of these names (yes or no for those without a value); "
    "budget=x2 and tbs=x2 multiply an amount, budget=none takes a limit away",
    98,
    initial_indent="  ",
    subsequent_indent="  ",
    break_on_hyphens=False,
)
EXAMPLE = f"""\b
Examples:
  placer whatif --model roberta-xlm --budget 5/h --set 'price:gcp/*:H100=+40%'
  placer whatif --model roberta-xlm --budget 5/h --drop 'gcp/*:H100:spot' --set budget=8/h
  placer whatif result.json --drop gcp/us-central1
  placer whatif --model resnet50 --budget 50/h --regions 2.. \\
    --set 'egress:*:internet=x0.5' --set 'bandwidth:*:*=x2'

\b
What --set takes:
  price:PLACE:GPU[:MARKET]=xF|+P%|-P%|USD/h  of each GPU of a machine
  egress:SRC:DST=xF|+P%|-P%|USD/GiB                  DST: PLACE, internet, inter-region, inter-zone
  bandwidth:SRC:DST[:one-way]=xF|+P%|-P%|RATE        both ways unless one-way
  rate:GPU[:COUNT]=xF|+P%|-P%|N/s                    speed of the model on a GPU
  quota:PLACE:GPU[:MARKET]=N    gradient=xF
{WISH_LINES}
"""


@click.command("whatif", cls=GroupedCommand, epilog=EXAMPLE)
@question_options
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="WHAT=CHANGE",
    help="A change of the world, such as 'price:gcp/*:T4=x0.5'; see below.",
)
@click.option(
    "--drop",
    multiple=True,
    metavar="PLACE[:GPU[:MARKET]]",
    help="Offers that are gone, such as aws/us-east-1 or 'aws/*:H100:spot'.",
)
@solve_options(limit_help="Stop each of the two searches after this long.")
@table_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    result: str | None,
    model: str | None,
    sets: tuple[str, ...],
    drop: tuple[str, ...],
    as_json: bool,
    **words: Any,
) -> None:
    """Solve a question as it is and as changed, and say what not reacting would cost.

    RESULT is a file that 'placer recommend -o' wrote; words of a request beside it change its
    question, before --set does.
    """
    from placer.interface.worlds import whatif

    question = read_question(ctx, result, model, words)
    told = {**words, "objective": question.objective or words["objective"]}
    with progress("searching twice", told) as heard:
        answer = whatif(
            question.asked,
            set=sets,
            drop=drop,
            on_better=heard.better,
            on_bound=heard.bound,
            **question.words,
        )
    show(answer.to_dict(), as_json=as_json)
    question.tell()
    ctx.exit(
        0
        if answer.after.placement is not None
        else {"infeasible": 3}.get(str(answer.after.status), 4)
    )
