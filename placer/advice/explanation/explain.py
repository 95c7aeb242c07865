"""Explanations: what binds, why not something else, and what a change would be worth."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from placer.advice.explanation.binding import find_binding
from placer.advice.explanation.subject import (
    IMPOSSIBLE,
    NOTHING,
    SIDE_NODES,
    Asker,
    Subject,
    Trial,
    admitting,
    read_subject,
    require_asker_solver,
    tempting,
)
from placer.advice.explanation.wishes import Wish, find_conflict, remedy, wishes_of
from placer.advice.explanation.worth import BreakEvens, stay_or_leave, worth_of_more
from placer.advice.recommendation.other_answers import preferred
from placer.cost_model.limits import LIMIT_CODES, violations
from placer.cost_model.objective import objective_of
from placer.documents.result_parts import data_document, placement_document, request_document
from placer.documents.schemas.explanation import (
    Binding,
    BreakEven,
    Conflict,
    ConflictingWish,
    Remedy,
    Staying,
    WhyNot,
    Worth,
)
from placer.problem.contradictions import contradiction
from placer.problem.problem import Problem
from placer.records import replace
from placer.report.shown import Shown
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.batches.search import limited
from placer.solving.nearest_plan import best_chain
from placer.solving.result import Option, Result, objective_document
from placer.solving.solve import solve


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
    # It is where it is as good as the bound of all placements, and one of the narrower questions.
    best, bound = False, result.bound
    if not (excluded or bound is None or start.value is None or start.placement is None):
        within = not result.objective.better(bound, start.value, asker.options.gap)
        best = within and any(not violations(start.placement, q) for q in questions)
    trial = replace(start, proved=True) if best else best_of(questions, start, asker)
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
    entry = BreakEvens(questions, result, asker)
    if asker.seconds_left <= 0:
        return (), None
    if subject.kind in ("place", "gpu", "offer", "market"):
        break_evens.append(entry.price(subject, trial))
    spread = trial.placement is not None and len(trial.placement.places) > 1
    if not spread and subject.kind not in ("exchange", "regions"):
        return tuple(break_evens), None
    never = entry.never_by_network()
    if never is False:
        break_evens += [entry.egress(trial), entry.bandwidth()]
    return tuple(break_evens), never


SCHEMA = "placer.explanation/v1"
TIME_LIMIT_S = 120.0
"""An explanation ends after this long, and says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Explanation(Shown):
    """What can be said about an answer, or about having none.

    With a placement in ``result``: ``binding``, ``why_not``, ``worth`` and ``staying``. Without:
    ``conflict``, if it is proved that nothing fits. ``complete`` is False if the time limit came
    before every question was asked: what could not be asked is None or missing.
    """

    problem: Problem = field(repr=False)
    result: Result = field(repr=False)
    binding: Binding[Option] | None = None
    why_not: tuple[WhyNot[Option], ...] = ()
    worth: tuple[Worth[Option], ...] = ()
    staying: Staying[Option] | None = None
    conflict: Conflict[Wish, Option] | None = None
    complete: bool = True
    seconds: float = 0.0

    def __repr__(self) -> str:
        return f"<Explanation of {self.result.headline}>"

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.explanation/v1`` document."""
        problem, result = self.problem, self.result
        best = None
        if result.placement is not None:
            placement, estimate = result.found
            proved = result.status is Status.OPTIMAL
            best = Option(placement=placement, estimate=estimate, proved=proved)
        parts = ("binding", "why_not", "worth", "staying", "conflict")
        return {
            "schema": SCHEMA,
            "request": request_document(problem),
            "data": data_document(problem),
            "status": str(result.status),
            "objective": objective_document(result),
            "best": part(best, problem),
            **{name: part(getattr(self, name), problem) for name in parts},
            "complete": self.complete,
            "seconds": round(self.seconds, 3),
        }


def part(value: Any, problem: Problem) -> Any:
    """Build a part of an explanation as plain types; of a placement the figures that matter."""
    if isinstance(value, Option):
        estimate = value.estimate
        return {
            "placement": placement_document(value.placement, problem),
            "samples_per_second": estimate.effective_samples_per_second.value,
            "usd_per_hour": estimate.usd_per_hour.total,
            "compute_usd_per_hour": estimate.usd_per_hour.compute,
            "egress_usd_per_hour": estimate.usd_per_hour.egress,
            "usd_per_million_samples": estimate.usd_per_million_samples,
            **estimate.token_figures,
            "step_seconds": estimate.step.total,
            "communication_seconds": estimate.step.communication,
            "waiting_seconds": estimate.step.waiting,
            "proved": value.proved,
        }
    if isinstance(value, Wish):
        return {name: getattr(value, name) for name in ConflictingWish.__struct_fields__}
    if isinstance(value, tuple):
        return [part(each, problem) for each in value]
    if isinstance(value, Struct):
        return {name: part(getattr(value, name), problem) for name in value.__struct_fields__}
    return value


def explain(
    problem: Problem,
    subjects: Sequence[str] = (),
    solver: str = "exact",
    options: SolveOptions | None = None,
    *,
    time_limit_s: float = TIME_LIMIT_S,
    nodes: int = SIDE_NODES,
) -> Explanation:
    """Solve a problem, which may contradict itself, and explain the answer within ``time_limit_s``.

    ``subjects`` are asked about with "why not", as of `read_subject`; empty: the most tempting
    ones. ``options`` bound the main search and each side question, which has so many ``nodes``.
    Raises PlacerError if a subject is unknown, or the solver proves nothing.
    """
    require_asker_solver(solver)
    options, started = options or SolveOptions(), time.monotonic()
    asker = Asker(solver=solver, options=options, deadline=started + time_limit_s, nodes=nodes)
    with allowance.opened(time_limit_s, options.memory_limit_bytes, options.cancel):
        read = tuple(read_subject(text, problem) for text in subjects)
        if contradiction(problem) or not problem.pools:
            result = Result(problem=problem, status=Status.INFEASIBLE, solver=solver)
        else:
            options = replace(options, time_limit_s=min(options.time_limit_s, time_limit_s))
            result = preferred(solve(problem, solver, options), solver, options)
        # With a range of batches the problem is the one that was chosen.
        made = Explanation(problem=result.problem, result=result)
        if result.placement is not None:
            binding = find_binding(result, asker)
            made = replace(
                made,
                binding=binding,
                why_not=tuple(
                    why_not(subject, result, asker)
                    for subject in read or tempting(result)
                    if asker.seconds_left > 0
                ),
                worth=tuple(worth_of_more(result, binding, asker)),
                staying=stay_or_leave(result, asker),
            )
        elif result.status is Status.INFEASIBLE:
            made = replace(made, conflict=find_conflict(problem, asker))
        return replace(made, complete=asker.seconds_left > 0, seconds=time.monotonic() - started)
