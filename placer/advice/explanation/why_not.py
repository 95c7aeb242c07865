"""Why not this place, GPU, exchange or market: the best answer with it, what that loses, and what
would have to change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from placer.advice.explanation.break_even import (
    BreakEven,
    bandwidth_break_even,
    egress_break_even,
    never_by_network,
    price_break_even,
)
from placer.advice.explanation.conflict import Remedy, remedy
from placer.advice.explanation.side_questions import IMPOSSIBLE, NOTHING, Asker, Trial
from placer.advice.explanation.subject import Subject, admitting
from placer.advice.explanation.wishes import wishes_of
from placer.cost_model.limits import LIMIT_CODES
from placer.cost_model.objective import objective_of
from placer.market.catalog import VmOffer
from placer.problem.problem import Problem
from placer.solving.batches.search import limited
from placer.solving.result import Option, Result


@dataclass(frozen=True, kw_only=True, slots=True)
class WhyNot:
    """One alternative and what it loses.

    Notes
    -----
    ``status``: chosen (it is part of the answer), found, impossible (no placement with it meets the
    wishes; ``remedies`` say at which budget or floor one would) or unknown (none was found within
    the limits of the search). ``option`` is the best placement with it, ``difference`` its
    objective less that of the best, ``regret`` its loss as a share of the best (None if the best
    is 0); ``proved`` whether
    it is the best with it; otherwise the loss is at most ``regret``. ``excluded`` are sentences
    about wishes that exclude it; they were given up to answer. ``never_by_network`` is True where
    no bandwidth and no egress price would help. ``about`` is the subject itself.
    """

    subject: str
    kind: str
    status: str
    option: Option | None = None
    difference: float | None = None
    regret: float | None = None
    proved: bool = False
    excluded: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    break_evens: tuple[BreakEven, ...] = ()
    never_by_network: bool | None = None
    about: Subject | None = None

    def matches(self, offer: VmOffer) -> bool:
        """Return whether a machine is what the question is about."""
        return self.about is not None and self.about.matches(offer)


def why_not(subject: Subject, result: Result, asker: Asker) -> WhyNot:
    """Solve again with a subject forced in and compare.

    Parameters
    ----------
    result
        The best answer.
    """
    placement, problem = result.placement, result.problem
    assert placement is not None
    if subject.chosen(placement):
        return WhyNot(subject=subject.name, kind=subject.kind, status="chosen", proved=True)
    opened, excluded = admitting(subject, problem)
    questions = tuple(subject.forced(opened))
    trial = best_of(questions, _start(subject, opened, asker), asker)
    proved = trial.proved and subject.whole
    if trial.placement is None or trial.estimate is None:
        status = "impossible" if proved else "unknown"
        remedies = _remedies(questions, asker) if status == "impossible" else ()
        prices = (
            _break_evens(subject, questions, trial, result, asker) if not excluded else ((), None)
        )
        return WhyNot(
            subject=subject.name,
            kind=subject.kind,
            status=status,
            proved=proved,
            excluded=excluded,
            remedies=remedies,
            break_evens=prices[0],
            never_by_network=prices[1],
            about=subject,
        )
    assert result.value is not None
    value = result.objective.value(trial.estimate)
    regret = result.objective.loss(value, result.value)
    share = regret if math.isfinite(regret) else None
    break_evens, never = (
        _break_evens(subject, questions, trial, result, asker) if not excluded else ((), None)
    )
    return WhyNot(
        subject=subject.name,
        kind=subject.kind,
        status="found",
        option=Option(
            placement=trial.placement, estimate=trial.estimate, label="why-not", proved=trial.proved
        ),
        difference=value - result.value,
        regret=share,
        proved=proved,
        excluded=excluded,
        break_evens=break_evens,
        never_by_network=never,
        about=subject,
    )


def best_of(questions: tuple[Problem, ...], start: Trial, asker: Asker) -> Trial:
    """Find the best answer to any of some questions.

    Notes
    -----
    Each next question has to beat the best answer so far, which rules most of them out at once.
    """
    best, proved = IMPOSSIBLE, True
    for question in questions:
        trial = asker.best(_beating(question, best), start=start.placement)
        proved = proved and trial.proved
        if trial.placement is not None and (
            best.value is None or trial.value is None or _ahead(trial, best, question)
        ):
            best = trial
    if best.placement is None:
        return IMPOSSIBLE if proved else NOTHING
    return Trial(
        placement=best.placement,
        estimate=best.estimate,
        value=best.value,
        bound=best.bound if proved else None,
        proved=proved,
    )


def _ahead(trial: Trial, best: Trial, question: Problem) -> bool:
    assert trial.value is not None
    assert best.value is not None
    return objective_of(question.requirements).better(trial.value, best.value)


def _beating(question: Problem, best: Trial) -> Problem:
    """Return the question with the limit that an answer has to be as good as one that is known."""
    return question if best.value is None or best.value == 0 else limited(question, best.value)


def _start(subject: Subject, problem: Problem, asker: Asker) -> Trial:
    """Return the best answer with nothing but the subject: quick, and often the best with it."""
    return asker.best(subject.narrowed(problem)) if subject.narrow else NOTHING


def _remedies(questions: tuple[Problem, ...], asker: Asker) -> tuple[Remedy, ...]:
    """Return the budget and floor with which the subject would have an answer, of the first
    question that has one.
    """
    for question in questions:
        limits = [wish for wish in wishes_of(question) if wish.code in LIMIT_CODES]
        remedies = tuple(
            answer
            for wish in limits
            if (answer := remedy(question, wish, asker)).option is not None
        )
        if remedies:
            return remedies
    return ()


def _break_evens(
    subject: Subject, questions: tuple[Problem, ...], trial: Trial, result: Result, asker: Asker
) -> tuple[tuple[BreakEven, ...], bool | None]:
    """Return at which price it enters; for what is spread over regions at which bandwidth and
    egress price, or that no such helps.
    """
    break_evens: list[BreakEven] = []
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
