"""Mixed-integer programs written with PuLP and solved by HiGHS: a formulation of its own
(`_programs/site_groups.py`) cross-checks `exact`.

PuLP calls a run that timed out "Optimal" and leaves values after "Infeasible", so HiGHS itself is
asked how it ended. Variables have numbers for names, because PuLP makes one name of ``us-east-1``
and ``us_east_1``.
"""

from __future__ import annotations

from typing import Any

from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.solving.answer import Answer, SolveOptions
from placer.version import install_line

from ._programs.child_process import solve_in_child
from ._programs.linear import CONSTANT, Model, Solved, Terms

NEEDS = ("pulp", "highspy")
"""Packages of the extra of the same name."""
WRONG_VERSIONS = ("1.14.0", "1.16.0")
"""Versions of HiGHS that call programs infeasible that have a solution, or wrong optima optimal:
677 of 3,000 tiny programs, and 6 of 3,343 programs of placer.
"""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Find the best placement and prove it with mixed-integer programs, in a child process.

    Raises PlacerError if the installed HiGHS is known to be wrong.
    """
    return solve_in_child("milp", problem, options)


def engine(model: Model, seconds: float) -> Solved:
    """Minimise with HiGHS; its own words "optimal" and "infeasible" alone are proofs. Some variable
    is whole: otherwise its bound stands at 0.
    """
    import pulp

    if model.hopeless:
        return Solved(status="infeasible")
    problem = pulp.LpProblem()
    columns = zip(model.low, model.high, model.whole, strict=True)
    names = [
        problem.add_variable(f"x{n}", low, high, pulp.LpInteger if whole else pulp.LpContinuous)
        for n, (low, high, whole) in enumerate(columns)
    ]

    def scaled(terms: Terms) -> tuple[Any, float]:
        kept = {n: value for n, value in terms.items() if n != CONSTANT}
        unit = max(map(abs, kept.values()), default=0.0) or 1.0
        return pulp.LpAffineExpression((names[n], v / unit) for n, v in kept.items()), unit

    goal, unit = scaled(model.goal)
    problem.setObjective(goal)
    for terms, limit in model.rows:
        row, size = scaled(terms)
        # PuLP's `row <= limit` would copy the row.
        problem.addConstraint(pulp.LpConstraint(row, pulp.LpConstraintLE, rhs=limit / size))
    # Threads are no help in milliseconds, and one gives the same answer each time.
    most = {"timeLimit": max(0.05, seconds), "gapRel": 0.0, "gapAbs": 0.0, "threads": 1}
    problem.solve(pulp.HiGHS(msg=False, **most))
    highs = problem.solverModel
    refuse_wrong_version(highs.version())
    status = highs.getModelStatus().name
    if status == "kInfeasible":
        return Solved(status="infeasible")
    bound = unit * highs.getInfo().mip_dual_bound + model.goal.get(CONSTANT, 0.0)
    if status != "kOptimal":
        return Solved(status="stopped", bound=bound)
    # A variable that stands in no row has no value.
    pairs = zip(names, model.low, strict=True)
    values = tuple(low if x.varValue is None else x.varValue for x, low in pairs)
    return Solved(status="optimal", bound=bound, values=values)


def refuse_wrong_version(version: str) -> None:
    """Raise PlacerError for a version of HiGHS that is known to lie."""
    if version in WRONG_VERSIONS:
        raise PlacerError(f"HiGHS {version} returns wrong optima", install_line("milp"))
