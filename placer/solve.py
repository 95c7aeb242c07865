"""Run one solver by name, check its answer and price it before anyone sees it."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import cast

from placer.errors import PlacerError, unknown
from placer.estimator import estimate
from placer.problem import Problem
from placer.result import Answer, Result, SolveOptions
from placer.violations import violations


def solver_names() -> list[str]:
    """Solvers that exist: the files of solvers/ that do not start with an underscore, sorted."""
    package = importlib.import_module("placer.solvers")
    return sorted(path.stem for folder in package.__path__ for path in Path(folder).glob("*.py") if not path.stem.startswith("_"))


def solve(problem: Problem, solver: str = "exact", options: SolveOptions | None = None) -> Result:
    """Find the best placement.

    Parameters
    ----------
    problem
        The question.
    solver
        Name of a module in placer.solvers.
    options
        Gap, time limit and seed.

    Returns
    -------
    Result
        Infeasible is a status; a placement in it breaks no limit.

    Raises
    ------
    PlacerError
        If there is no such solver.
    AssertionError
        If a solver returned a placement that breaks a limit: an internal error, never shown as an answer.
    """
    if solver not in solver_names():
        raise unknown("solver", solver, solver_names())
    module = importlib.import_module(f"placer.solvers.{solver}")
    started = time.perf_counter()
    answer = cast(Answer, module.solve(problem, options or SolveOptions()))
    seconds = time.perf_counter() - started
    if answer.placement is None:
        return _result(problem, answer, solver, seconds)
    broken = violations(answer.placement, problem)
    if broken:
        raise AssertionError(f"solver {solver} returned a placement that breaks: {'; '.join(v.message for v in broken)}")
    return _result(problem, answer, solver, seconds)


def _result(problem: Problem, answer: Answer, solver: str, seconds: float) -> Result:
    placement = answer.placement
    return Result(
        problem=problem,
        status=answer.status,
        placement=placement,
        estimate=None if placement is None else estimate(placement, problem),
        bound=answer.bound,
        solver=solver,
        seconds=seconds,
        candidates=answer.candidates,
    )


def require_pools(problem: Problem) -> None:
    """Say why if the request admits no machine at all.

    Raises
    ------
    PlacerError
        With the limit that excludes most of the machines that remain.
    """
    if problem.pools:
        return
    reasons: dict[str, int] = {}
    for offer in problem.catalog.offers:
        where = problem.place_problem(offer.place)
        found = [where] if where else [message for _, message in problem.offer_problems(offer)][:1]
        if not found and problem.quota(offer.place, offer.gpu, offer.market) < offer.gpu_count:
            found = [f"the quota allows too few {offer.gpu}"]
        for message in found or ["nobody knows how fast it is"]:
            reasons[message] = reasons.get(message, 0) + 1
    common = max(reasons, key=lambda r: (reasons[r], r), default="the catalog has no offers")
    raise PlacerError(
        f"no machine of catalog '{problem.catalog.name}' is admitted for {problem.profile.name}", f"widen the request; most often: {common}"
    )
