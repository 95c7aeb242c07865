"""The best target batch size of a range: one search for each, the later ones only for what beats
the best so far.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from placer.cost_model.estimate import estimate, evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.problem.problem import Problem
from placer.solving.answer import BatchRow, SolveOptions, Status
from placer.solving.result import Result

STRICT = 1e-9
"""A value that is better by less than this share is a tie."""
Ask = Callable[[Problem, SolveOptions], Result]
"""Solves a problem with one batch."""


def best_batch(problem: Problem, ask: Ask, options: SolveOptions) -> Result:
    """Solve for each batch of a range and keep the best.

    Parameters
    ----------
    problem
        Its wishes have a range of batches and none chosen: the ends and the powers of two between
        are tried.
    ask
        The solver.
    options
        The time limit is for all batches: each may take an equal part of what is left.

    Returns
    -------
    Result
        Its problem has the chosen batch; of batches with the same value the smallest. The bound
        holds for every batch of the list.

    Notes
    -----
    Largest first: where nobody says that large batches need more samples, the largest wins, and the
    others are cut by the limit that only a better value keeps.
    """
    started, batches = time.perf_counter(), problem.requirements.open_batches
    best: Result | None = None
    rows: list[BatchRow] = []
    for done, batch in enumerate(batches[::-1]):
        asked = _with_batch(problem, batch)
        limit = (
            None
            if best is None or best.value is None
            else best.objective.ahead(best.value, max(options.gap, STRICT))
        )
        if limit == 0:
            rows.append(
                BatchRow(target_batch_size=batch, value=None, bound=0.0, status=Status.INFEASIBLE)
            )
            continue
        spent = time.perf_counter() - started
        own = replace(
            options, time_limit_s=max(0.0, options.time_limit_s - spent) / (len(batches) - done)
        )
        own = own if best is None else replace(own, start=best.placement)
        answer = ask(asked if limit is None else limited(asked, limit), own)
        rows.append(_row(batch, answer, limit))
        if (
            answer.placement is not None
            and answer.value is not None
            and (
                best is None
                or best.value is None
                or answer.objective.better(answer.value, best.value)
            )
        ):
            best = replace(answer, problem=asked)
    rows.reverse()
    seconds = time.perf_counter() - started
    if best is None:
        statuses = {row.status for row in rows}
        status = next(
            s for s in (Status.TIME_LIMIT, Status.UNKNOWN, Status.INFEASIBLE) if s in statuses
        )
        return replace(
            answer, problem=problem, status=status, bound=None, seconds=seconds, batches=tuple(rows)
        )
    return replace(
        _smallest(best, problem),
        status=_status(rows),
        bound=_bound(rows, best),
        seconds=seconds,
        batches=tuple(rows),
    )


def _with_batch(problem: Problem, batch: int) -> Problem:
    return replace(problem, requirements=replace(problem.requirements, target_batch_size=batch))


def limited(problem: Problem, limit: float) -> Problem:
    """Return the problem with a limit that only better answers keep."""
    wish = problem.requirements
    return replace(problem, requirements=objective_of(wish).demand(limit, wish))


def _row(batch: int, answer: Result, limit: float | None) -> BatchRow:
    """Return what a search says of its batch: nothing better is infeasible under the limit, which
    is then the bound.
    """
    bound = limit if answer.status is Status.INFEASIBLE else answer.bound
    return BatchRow(target_batch_size=batch, value=answer.value, bound=bound, status=answer.status)


def _status(rows: list[BatchRow]) -> Status:
    """Return how the whole ended: as its least sure part."""
    statuses = {row.status for row in rows}
    if Status.TIME_LIMIT in statuses:
        return Status.TIME_LIMIT
    return Status.FEASIBLE if statuses & {Status.FEASIBLE, Status.UNKNOWN} else Status.OPTIMAL


def _bound(rows: list[BatchRow], best: Result) -> float | None:
    """Return the best bound over all batches; None if some batch has none and is not infeasible."""
    if any(row.bound is None and row.status is not Status.INFEASIBLE for row in rows):
        return None
    bounds = [row.bound for row in rows if row.bound is not None]
    assert best.value is not None
    return best.objective.best([best.value, *bounds])


def _smallest(best: Result, problem: Problem) -> Result:
    """Return the same placement at the smallest batch at which it is as good."""
    assert best.placement is not None
    assert best.value is not None
    wish = problem.requirements
    for batch in wish.open_batches:
        asked = _with_batch(problem, batch)
        if violations(best.placement, asked):
            continue
        value = best.objective.value(evaluate(best.placement, asked))
        if not best.objective.better(best.value, value, STRICT):
            return replace(best, problem=asked, estimate=estimate(best.placement, asked))
    return best
