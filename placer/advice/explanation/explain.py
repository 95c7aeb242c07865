"""The verb `explain`; its room is `explanation` because `placer.explain` is the function."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from placer.advice.explanation.answer import Explanation
from placer.advice.explanation.binding import find_binding
from placer.advice.explanation.conflict import find_conflict
from placer.advice.explanation.marginal_values import worth_of_more
from placer.advice.explanation.side_questions import SIDE_NODES, Asker, require_asker_solver
from placer.advice.explanation.stay_or_leave import stay_or_leave
from placer.advice.explanation.subject import Subject, read_subject, tempting
from placer.advice.explanation.why_not import WhyNot, why_not
from placer.advice.recommendation.staging import preferred
from placer.problem.contradictions import contradiction
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result
from placer.solving.solve import solve

TIME_LIMIT_S = 120.0
"""An explanation ends after this long, and says what is missing."""


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
    options = options or SolveOptions()
    with allowance.opened(time_limit_s, options.memory_limit_bytes, options.cancel):
        return _explained(problem, subjects, solver, options, time_limit_s, nodes)


def _explained(
    problem: Problem,
    subjects: Sequence[str],
    solver: str,
    options: SolveOptions,
    time_limit_s: float,
    nodes: int,
) -> Explanation:
    started = time.monotonic()
    asker = Asker(solver=solver, options=options, deadline=started + time_limit_s, nodes=nodes)
    read = tuple(read_subject(text, problem) for text in subjects)
    if contradiction(problem) or not problem.pools:
        result = _no_answer(problem, solver)
    else:
        options = replace(options, time_limit_s=min(options.time_limit_s, time_limit_s))
        result = preferred(solve(problem, solver, options), solver, options)
    made = Explanation(
        problem=result.problem, result=result
    )  # with a range of batches: the one that was chosen
    if result.placement is None:
        if result.status is Status.INFEASIBLE:
            made = replace(made, conflict=find_conflict(problem, asker))
    else:
        made = replace(made, binding=find_binding(result, asker))
        made = replace(made, why_not=tuple(_asked(read or tempting(result), result, asker)))
        made = replace(
            made, worth=worth_of_more(result, asker), staying=stay_or_leave(result, asker)
        )
    return replace(made, complete=asker.seconds_left > 0, seconds=time.monotonic() - started)


def _asked(subjects: Sequence[Subject], result: Result, asker: Asker) -> Iterator[WhyNot]:
    """Answer one subject after the other until the time is up."""
    for subject in subjects:
        if asker.seconds_left > 0:
            yield why_not(subject, result, asker)


def _no_answer(problem: Problem, solver: str) -> Result:
    """Return the result for wishes that contradict each other before any search."""
    return Result(
        problem=problem,
        status=Status.INFEASIBLE,
        placement=None,
        estimate=None,
        bound=None,
        solver=solver,
        seconds=0.0,
        candidates=0,
    )
