"""``placer explain``: what binds, why not something else, what one more is worth, or why nothing
fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placer.cli.command import Json, Saved, as_command
from placer.cli.output import check_targets, exit_code, tell, write_json
from placer.cli.saved_question import read_question
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show
from placer.interface.advisor import explain

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


@as_command("explain", EXAMPLE, of=explain, saved=True)
def command(
    ctx: click.Context,
    result: str | None = None,
    *,
    model: str | None = None,
    output: Saved,
    as_json: Json,
    **words: Any,
) -> None:
    """Say what binds, why not something else, what one more dollar or GPU is worth, when to leave a
    region, or why nothing fits.

    RESULT is a file that 'placer recommend -o' wrote: its question is asked, and the search begins
    with its answer. Words of a request beside it change the question.
    """
    check_targets(output)
    question = read_question(ctx, result, model, words)
    with progress("explaining"):
        explanation = explain(question.asked, start=question.answer, **question.words)
    document = explanation.to_dict()
    if output:
        write_json(output, document)
    show(document, as_json=as_json, saved=_saved_words(explanation, question.answer))
    question.tell()
    if output:
        tell(f"wrote explanation to {output}")
    ctx.exit(exit_code(explanation.result))


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
