"""``placer explain``: what binds, why not something else, what one more is worth, or why nothing
fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placer.cli.options import json_option, memory_option, output_option
from placer.cli.output import check_targets, console, write_json
from placer.cli.saved_question import question_options, read_question
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show

if TYPE_CHECKING:
    from placer.problem.placement import Placement

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
    document = explanation.to_dict()
    if as_json:
        show(document, as_json=True)
    else:
        show({**document, "saved": _saved_words(explanation, question.answer)})
    question.tell()
    if output:
        console(stderr=True).print(f"wrote explanation to {output}")
    ctx.exit(
        0
        if explanation.result.placement is not None
        else {"infeasible": 3}.get(str(explanation.result.status), 4)
    )


def _saved_words(explanation: Any, saved: Placement | None) -> str:
    """Say what the saved answer does in the question as it is now, where another one is better."""
    from msgspec import to_builtins

    from placer.advice.worlds.whatif import keep
    from placer.documents.result_parts import estimate_document
    from placer.report.figures import placement_words
    from placer.report.kinds.shared.parts import figures_words

    result = explanation.result
    if saved is None or (
        result.placement is not None and saved.canonical() == result.placement.canonical()
    ):
        return ""
    kept = keep(saved, result.problem)
    words = placement_words({"workers": to_builtins(kept.placement.groups)})
    if kept.estimate is not None:
        words += f": {figures_words(estimate_document(kept.estimate))}"
    return f"{words}; it cannot be kept: {kept.broken[0]}" if kept.broken else words
