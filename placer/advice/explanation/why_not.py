"""Why not this place, GPU, exchange or market: the best answer with it, and what it would take."""

from __future__ import annotations

import math

from placer.advice.explanation.break_even import (
    bandwidth_break_even,
    egress_break_even,
    never_by_network,
    price_break_even,
)
from placer.advice.explanation.side_questions import IMPOSSIBLE, NOTHING, Asker, Trial
from placer.advice.explanation.subject import Subject, admitting
from placer.advice.explanation.wishes import remedy, wishes_of
from placer.cost_model.limits import LIMIT_CODES
from placer.cost_model.objective import objective_of
from placer.documents.schemas.explanation import BreakEven, Remedy, WhyNot
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.batches.search import limited
from placer.solving.parts.chains import best_chain
from placer.solving.result import Option, Result


def why_not(subject: Subject, result: Result, asker: Asker) -> WhyNot[Option]:
    """Solve again with a subject forced in and compare with the best answer."""
    (placement, _), problem = result.found, result.problem
    found = WhyNot[Option](
        subject=subject.name,
        kind=subject.kind,
        status="unknown",
        best_with_it=None,
        difference=None,
        regret=None,
        proved=False,
        excluded=(),
        remedies=(),
        break_evens=(),
        never_by_network=None,
    )
    if subject.chosen(placement):
        return replace(found, status="chosen", proved=True)
    if subject.kind == "stages":
        chain = best_chain(problem)
        if chain is None:
            return found
        stages = Option.of(chain, problem, label="why-not", proved=False)
        return _compared(found, stages, result)
    opened, excluded = admitting(subject, problem)
    questions = tuple(subject.forced(opened))
    # The best answer with nothing but the subject: quick, and often the best with it.
    start = asker.best(subject.narrowed(opened)) if subject.narrow else NOTHING
    trial = best_of(questions, start, asker)
    proved = trial.proved and subject.whole
    status = "impossible" if proved else "unknown"
    found = replace(found, status=status, proved=proved, excluded=excluded)
    if not excluded:
        prices, never = _break_evens(subject, questions, trial, result, asker)
        found = replace(found, break_evens=prices, never_by_network=never)
    if trial.placement is None:
        return replace(found, remedies=_remedies(questions, asker)) if proved else found
    return _compared(found, trial.option("why-not"), result)


def _compared(found: WhyNot[Option], option: Option | None, result: Result) -> WhyNot[Option]:
    """Say what a placement with the subject loses against the best, if there is one."""
    if option is None or result.value is None:
        return found
    value = result.objective.value(option.estimate)
    regret = result.objective.loss(value, result.value)
    return replace(
        found,
        status="found",
        best_with_it=option,
        difference=value - result.value,
        regret=regret if math.isfinite(regret) else None,
    )


def best_of(questions: tuple[Problem, ...], start: Trial, asker: Asker) -> Trial:
    """Find the best answer to any of some questions: each has to beat the one so far."""
    best, proved = IMPOSSIBLE, True
    for question in questions:
        objective = objective_of(question.requirements)
        beating = limited(question, best.value) if best.value else question
        trial = asker.best(beating, start=start.placement)
        proved = proved and trial.proved
        if trial.placement is not None and (
            best.value is None or trial.value is None or objective.better(trial.value, best.value)
        ):
            best = trial
    return replace(best, proved=proved)


def _remedies(questions: tuple[Problem, ...], asker: Asker) -> tuple[Remedy[Option], ...]:
    """Return the budget and floor with which the first question that can would have an answer."""
    for question in questions:
        limits = [wish for wish in wishes_of(question) if wish.code in LIMIT_CODES]
        remedies = tuple(remedy(question, wish, asker) for wish in limits)
        if any(answer.best is not None for answer in remedies):
            return tuple(answer for answer in remedies if answer.best is not None)
    return ()


def _break_evens(
    subject: Subject, questions: tuple[Problem, ...], trial: Trial, result: Result, asker: Asker
) -> tuple[tuple[BreakEven[Option], ...], bool | None]:
    """Return at which price it enters; for what is spread also at which bandwidth and egress."""
    break_evens: list[BreakEven[Option]] = []
    if asker.seconds_left <= 0:
        return (), None
    if subject.kind in ("place", "gpu", "offer", "market"):
        break_evens.append(price_break_even(subject, questions, result, asker))
    spread = trial.placement is not None and len(trial.placement.places) > 1
    if not spread and subject.kind not in ("exchange", "regions"):
        return tuple(break_evens), None
    never = never_by_network(questions, result, asker)
    if never is False:
        break_evens += [
            egress_break_even(questions, result, asker),
            bandwidth_break_even(questions, result, asker),
        ]
    return tuple(break_evens), never
