"""Why nothing fits: a smallest set of wishes that contradict each other, and what to give up."""

from __future__ import annotations

from dataclasses import dataclass

from placer.advice.explanation.side_questions import Asker, Trial, aimed
from placer.advice.explanation.wishes import Wish, wishes_of, without
from placer.advice.recommendation.nearest import limit_words
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.result import Option

LIMIT_OBJECTIVES = {
    "budget": "cost",
    "throughput": "throughput",
    "deadline": "throughput",
    "total-budget": "total",
    "carbon": "carbon",
}
"""Limits that have a least relaxation, and the objective that finds it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """What a wish would have to become for the request to have an answer, all other wishes kept.

    ``option`` is the placement that then fits, with its note in words of the command line; None:
    giving up the wish alone is not enough, or (``proved`` false) no placement was found.
    """

    wish: Wish
    option: Option | None
    proved: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Conflict:
    """Wishes that no placement meets together.

    ``wishes`` contradict each other; without any one of them there is an answer to the others, if
    ``minimal`` (proved). Empty: even a request without wishes has no answer. ``others`` have no
    part in it. ``remedies`` keep all other wishes of the request, in the order of ``wishes``. Where
    none of them has an answer, ``together`` is the best without all of the set, or ``further`` is
    what contradicts itself even then.
    """

    wishes: tuple[Wish, ...]
    others: tuple[Wish, ...]
    minimal: bool
    remedies: tuple[Remedy, ...]
    together: Option | None = None
    further: Conflict | None = None


def find_conflict(problem: Problem, asker: Asker) -> Conflict:
    """Find a smallest set of wishes that contradict each other in a question without an answer.

    A deletion filter: leave out one wish after the other; what can be left out without an answer
    appearing is not a part of the contradiction. Each test asks for any placement.
    """
    dropped: list[Wish] = []
    kept: list[Wish] = []
    minimal = True
    for wish in wishes_of(problem):
        trial = feasible(without(problem, [*dropped, wish]), asker)
        if trial.infeasible:
            dropped.append(wish)
        else:
            kept.append(wish)
            minimal = minimal and trial.placement is not None
    members = tuple(kept)
    remedies = tuple(remedy(problem, wish, asker) for wish in members)
    made = Conflict(
        wishes=members,
        others=tuple(w for w in dropped if w.given),
        minimal=minimal,
        remedies=remedies,
    )
    if not members or any(found.option is not None for found in remedies):
        return made
    rest = without(problem, members)
    trial = asker.best(rest)
    further = find_conflict(rest, asker) if trial.infeasible else None
    return replace(made, together=trial.option("together"), further=further)


def feasible(problem: Problem, asker: Asker) -> Trial:
    """Find out whether a question has any answer."""
    objective = "cost" if problem.requirements.floor_samples_per_second is None else "throughput"
    return asker.best(aimed(problem, objective), first=True)


def remedy(problem: Problem, wish: Wish, asker: Asker) -> Remedy:
    """Find the least change of one wish with which the request has an answer: the least budget, the
    highest floor; for data that stays the best that moves it; else the best without the wish.
    """
    datasets = problem.requirements.datasets
    if wish.code == "data" and not all(data.may_move for data in datasets):
        moving = tuple(replace(data, may_move=True) for data in datasets)
        moved = asker.wanting(problem, datasets=moving).option("data")
        if moved is not None:
            moved = replace(moved, note="--data :move instead of :stay")
            return Remedy(wish=wish, option=moved, proved=moved.proved)
    free = without(problem, [wish])
    asked = aimed(free, LIMIT_OBJECTIVES.get(wish.code, free.requirements.objective))
    if wish.code == "carbon" and not asked.pools:
        asked = free  # no machine has known emissions, so no limit on them would do
    trial = asker.best(asked)
    option = trial.option(wish.code)
    if option is not None:
        note = wish.change if asked is free else _note(wish, option, problem)
        option = replace(option, note=note)
    return Remedy(wish=wish, option=option, proved=trial.proved)


def _note(wish: Wish, option: Option, problem: Problem) -> str:
    """Return the change in words of the command line."""
    if wish.code in LIMIT_OBJECTIVES:
        return limit_words(option, problem.requirements)
    if wish.code == "gpu":
        return f"--gpu {','.join(sorted({g.gpu for g in option.placement.groups}))}"
    return wish.change
