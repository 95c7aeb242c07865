"""The question of a command: in words, or that of a saved result with words that change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from placer.cli.output import tell
from placer.documents.json_file import read_json
from placer.errors import PlacerError
from placer.problem.words.wishes import CHANGES, WISHES

if TYPE_CHECKING:
    from placer.problem.placement import Placement

REQUEST = frozenset({"model", "catalog", *WISHES})
"""Words of a request, by their names in Python."""


class Question(NamedTuple):
    """A question: the name of a model with the words of its request, or a whole problem with none;
    what a user is told of it; and the answer in the file that it was read from.
    """

    asked: Any
    words: dict[str, Any]
    notes: tuple[str, ...] = ()
    answer: Placement | None = None

    @property
    def objective(self) -> str | None:
        """Name the objective of a saved question; None where the words have it."""
        wish = getattr(self.asked, "requirements", None)
        return wish and wish.objective

    def tell(self) -> None:
        """Say on stderr how the question differs from the one that was saved."""
        for sentence in self.notes:
            tell(f"warning: {sentence}", style="yellow")


def read_question(
    ctx: click.Context, result: str | None, model: str | None, words: Mapping[str, Any]
) -> Question:
    """Read the question of a command.

    A file has the whole question: defaults of the user's do not change it. ``result``: file of
    ``placer recommend -o``; None: the question is given in words. ``words``: parameters of the
    command beside file and model. Raise `PlacerError` if there is neither file nor model, the file
    is no result, or a word cannot change a saved question.
    """
    if result is None:
        if model is None:
            raise PlacerError(
                "--model is missing",
                "give --model NAME, or a result that 'placer recommend -o' wrote",
            )
        return Question(model, {**words})
    from placer.advice.worlds.whatif import apply
    from placer.documents.present_book import reopened_answer, reopened_problem
    from placer.problem.words.changes import parse_changes

    def named(source: ParameterSource) -> dict[str, Any]:
        request = {"model": model, **{n: v for n, v in words.items() if n in REQUEST}}
        return {n: v for n, v in request.items() if ctx.get_parameter_source(n) is source}

    given, unused = named(ParameterSource.COMMANDLINE), named(ParameterSource.DEFAULT_MAP)
    catalog = given.pop("catalog", ())
    changes = [_change(name, value) for name, value in given.items()]
    document = read_json(result)
    problem, notes = reopened_problem(document, result, catalog)
    if changes:
        problem = apply(problem, parse_changes(changes))
        notes = (*notes, f"the question of {result} is changed: {', '.join(changes)}")
    if unused:
        notes = (*notes, f"defaults do not change the question of {result}: {', '.join(unused)}")
    left = {name: value for name, value in words.items() if name not in REQUEST}
    return Question(problem, left, notes, reopened_answer(document, result))


def _change(name: str, value: Any) -> str:
    """Write a word of a request as ``placer whatif --set`` takes it, or refuse it."""
    wish = WISHES.get(name)
    if wish is None or wish.word not in CHANGES:
        raise PlacerError(
            f"--{name if wish is None else wish.word} together with a saved result",
            "leave it out, or give the whole request without the file",
        )
    text = "yes" if wish.is_flag else value if isinstance(value, str) else ",".join(value)
    return f"{wish.word}={text}"
