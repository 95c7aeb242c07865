"""HiGHS through SciPy: a second opinion on every answer, from a formulation of its own
(`_programs/crew.py`).
"""

from __future__ import annotations

from typing import Any

from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.solving.answer import Answer, SolveOptions
from placer.version import install_line

from ._programs.child_process import solve_in_child
from ._programs.linear import Model, Solved

WRONG_VERSIONS = ((1, 14, 0),)
"""Versions of HiGHS that returned wrong optima as optimal (677 of 3,000 tiny programs)."""
NEEDS = ("scipy", "scipy", install_line("milp"))
"""Module, package and the line that installs it."""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Find the best placement and prove it with mixed-integer programs, in a child process.

    Raises
    ------
    PlacerError
        If SciPy is missing, or carries a HiGHS that is known to be wrong.
    """
    return solve_in_child("highs", NEEDS, problem, options)


def version() -> tuple[int, ...]:
    """Return the version of the HiGHS that SciPy carries; empty if it does not say."""
    import importlib

    try:
        core: Any = importlib.import_module("scipy.optimize._highspy._core")
        return core.HIGHS_VERSION_MAJOR, core.HIGHS_VERSION_MINOR, core.HIGHS_VERSION_PATCH
    except (ImportError, AttributeError):
        return ()


def refuse_wrong_version(carried: tuple[int, ...]) -> None:
    """Refuse a version of HiGHS that is known to lie.

    Raises
    ------
    PlacerError
        Names the version.
    """
    if carried in WRONG_VERSIONS:
        name = ".".join(map(str, carried))
        raise PlacerError(
            f"SciPy carries HiGHS {name}, which returns wrong optima", "pip install --upgrade scipy"
        )


def engine(model: Model, seconds: float) -> Solved:
    """Minimise with HiGHS; its status 0 alone is a proof."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    refuse_wrong_version(version())
    rows, columns, data = [], [], []
    limits = np.empty(len(model.rows))
    for i, (terms, limit) in enumerate(model.rows):
        scale = max((abs(v) for v in terms.values()), default=1.0)
        limits[i] = limit / scale
        for name, value in terms.items():
            rows.append(i)
            columns.append(name)
            data.append(value / scale)
    size = len(model.low)
    goal = np.array([model.goal.get(j, 0.0) for j in range(size)])
    unit = max(float(np.abs(goal).max()), 1e-300)
    constant = model.goal.get(-1, 0.0)
    result = milp(
        goal / unit,
        integrality=np.array(model.whole, dtype=int),
        bounds=Bounds(np.array(model.low), np.array(model.high)),
        constraints=LinearConstraint(
            csr_array((data, (rows, columns)), shape=(len(model.rows), size)), -np.inf, limits
        ),
        options={"time_limit": max(0.05, seconds), "mip_rel_gap": 0.0},
    )
    if result.status == 2:
        return Solved(status="infeasible")
    bound = (
        float("-inf") if result.mip_dual_bound is None else unit * result.mip_dual_bound + constant
    )
    if result.status == 0 and result.x is not None:
        return Solved(status="optimal", bound=bound, values=tuple(float(v) for v in result.x))
    return Solved(status="stopped", bound=bound)
