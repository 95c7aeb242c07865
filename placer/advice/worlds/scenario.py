"""A changed world: what changes such as ``price:gcp/*:T4=x0.5`` make of a question."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from placer.advice.worlds.model_changes import set_gradient, set_quota, set_rates
from placer.advice.worlds.wish_changes import set_wish
from placer.problem.contradictions import without_contradictions
from placer.problem.problem import Problem
from placer.problem.words.changes import OVER_BOOK, Change, changed_book, number_of
from placer.problem.words.tokens import in_sequences
from placer.problem.words.wishes import CHANGES
from placer.records import replace


def apply(problem: Problem, changes: Sequence[Change]) -> Problem:
    """Make the question of a changed world; the one that is given stays as it is.

    Parameters
    ----------
    problem
        The question as it is.
    changes
        In order; each works on what those before it left.

    Raises
    ------
    PlacerError
        If a pattern matches nothing, or the changed wishes contradict each other.

    Notes
    -----
    Prices, links and speeds are changed in the rows of the book and of the profile, so that
    solvers, estimates and saved problems see one world; see `changed_book`.
    """
    for what, group in groupby(changes, key=lambda change: change.what):
        problem = _applied(problem, what, list(group))
    wishes = any(change.what in CHANGES for change in changes)
    return without_contradictions(problem) if wishes else problem


def _applied(problem: Problem, what: str, changes: list[Change]) -> Problem:
    """Apply neighbours of one kind together."""
    if what in OVER_BOOK or what == "drop":
        return replace(problem, catalog=changed_book(problem.catalog, changes))
    rows = [(change.text, change.target, change.factor, change.value) for change in changes]
    if what == "rate":
        numbers = [(t, w, f, number_of(v)) for t, w, f, v in rows]
        return replace(problem, profile=set_rates(problem, numbers))
    for text, target, factor, value in rows:
        if what == "gradient":
            problem = replace(problem, profile=set_gradient(problem.profile, factor or 1.0))
        elif what == "quota":
            quotas = set_quota(problem, target, int(number_of(value) or 0))
            problem = replace(problem, requirements=quotas)
        else:
            changed = set_wish(problem, what, text, factor, None if value is None else str(value))
            problem = in_sequences(replace(problem, requirements=changed))
    return problem
