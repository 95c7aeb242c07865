"""The verb `pareto`: the frontier of cost against throughput."""

from __future__ import annotations

import time

from placer.advice.frontier.points import Frontier
from placer.advice.frontier.trace import Trace
from placer.advice.recommendation.nearest import nearest
from placer.advice.recommendation.notes import warnings_of
from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import require_pools

MOST_POINTS = 1_000
"""More points are a slip of the keyboard."""


def frontier(
    problem: Problem, solver: str = "exact", options: SolveOptions | None = None, points: int = 12
) -> Frontier:
    """Find at most so many points between the cheapest placement and the fastest one.

    The problem's budget and floor are the ends; its objective is not used. Options give the gap of
    every point, and time and seed of all. Ctrl-C and the time limit leave the points so far;
    without a proof of the solver there are no bounds. The epsilon-constraint method with boxes
    (Hamacher, Pedersen and Ruzika, 2007): between two neighbours lies a box of budgets and speeds
    of which nothing is known. The largest box, in the logarithms of both, is asked next: the
    fastest placement within a budget of its middle, then the cheapest as fast. An answer that costs
    less than the budget is the answer for every budget between, so that part of the box is closed.
    A middle that brings nothing new is followed by a budget just below the dearer neighbour, which
    closes the box or finds a neighbour of it. Raises PlacerError if there are too few points or too
    many, or the request admits no machine at all.
    """
    if not 2 <= points <= MOST_POINTS:
        raise PlacerError(
            f"points is {points}", f"give 2 to {MOST_POINTS:,}: the two ends and what lies between"
        )
    require_pools(problem)
    options = options or SolveOptions(time_limit_s=60.0)
    started = time.perf_counter()
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
        trace = Trace(problem, solver, options, points)
        ending = trace.run()
    proved = tuple(trace.proved_points())
    failed = (
        None
        if proved or trace.failed is None
        else replace(trace.failed, problem=problem, seconds=time.perf_counter() - started)
    )
    if failed is not None and failed.status is Status.INFEASIBLE:
        failed = replace(
            failed,
            nearest=nearest(problem, solver, options),
            warnings=warnings_of(problem, None, None),
        )
    warned = {
        w.message: w
        for point in proved
        for w in warnings_of(problem, point.placement, point.estimate)
    }
    return Frontier(
        problem=problem,
        points=proved,
        ending=ending,
        solver=solver,
        gap=options.gap,
        seconds=time.perf_counter() - started,
        solves=trace.solves,
        failed=failed,
        warnings=tuple(warned.values()),
    )
