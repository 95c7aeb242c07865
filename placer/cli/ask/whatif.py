"""``placer whatif``: the question as it is and in a changed world."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from placer.cli.command import Table, as_command
from placer.cli.output import exit_code
from placer.cli.saved_question import read_question
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show
from placer.interface.worlds import whatif
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
  placer whatif --model roberta-xlm --over budget=1/h..20/h:log8
  placer whatif plan.json --observed plan-run/run.jsonl
  placer whatif --model resnet50 --budget 50/h --regions 2.. \\
    --set 'egress:*:internet=x0.5' --set 'bandwidth:*:*=x2'

\b
With --over the question is solved for every combination of ranges, and with --observed that of a
plan with what its run measured: see 'placer whatif --over --help' and '--observed --help'.

\b
What --set takes:
  price:PLACE:GPU[:MARKET]=xF|+P%|-P%|USD/h  of each GPU of a machine
  egress:SRC:DST=xF|+P%|-P%|USD/GiB                  DST: PLACE, internet, inter-region, inter-zone
  bandwidth:SRC:DST[:one-way]=xF|+P%|-P%|RATE        both ways unless one-way
  rate:GPU[:COUNT]=xF|+P%|-P%|N/s                    speed of the model on a GPU
  quota:PLACE:GPU[:MARKET]=N    gradient=xF
{WISH_LINES}
"""


@as_command("whatif", EXAMPLE, of=whatif, saved=True)
def command(
    ctx: click.Context,
    result: str | None = None,
    *,
    model: str | None = None,
    as_json: Table,
    **words: Any,
) -> None:
    """Solve a question as it is and as changed, and say what not reacting would cost.

    RESULT is a file that 'placer recommend -o' wrote; words of a request beside it change its
    question, before --set does.
    """
    question = read_question(ctx, result, model, words)
    told = {**words, "objective": question.objective or words["objective"]}
    with progress("searching twice", told) as heard:
        answer = whatif(
            question.asked,
            on_better=heard.better,
            on_bound=heard.bound,
            **question.words,
        )
    show(answer.to_dict(), as_json=as_json)
    question.tell()
    ctx.exit(exit_code(answer.after))
