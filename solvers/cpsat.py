"""CP-SAT of OR-Tools, used natively with whole numbers only: a second opinion from the programs of
`milp` (its wrappers for continuous variables lie).

Continuous variables become whole multiples of a step, about `STEPS` of them over their range, and
rows are rounded so that they only get weaker: a row is multiplied until its largest term is about
`SCALE`, coefficients are rounded down, limits up, and each limit grows by what rounding a variable
down can change. Every placement of the real program therefore stays in the whole one, and the bound
holds. Error: rounding a coefficient down moves a term by at most STEPS of about SCALE units,
rounding a variable down by one of STEPS, so a row with k continuous variables is weaker by at most
k (2 STEPS / SCALE + 2 / STEPS) = k x 1.9e-6 of its largest term, plus 2**-41 of it for each unit of
a whole one, and (n**2 + 2) 2**-41 for what floating point adds up of n terms. Steps and factors are
powers of two, so that scaling itself rounds nothing. Solutions are priced by the one model, so an
error costs time, not truth.
"""

from __future__ import annotations

from math import ceil, floor, inf, log2

from placer.problem.problem import Problem
from placer.solving.answer import Answer, SolveOptions

from ._programs.child_process import solve_in_child
from ._programs.linear import CONSTANT, Model, Solved

NEEDS = ("ortools",)
"""Packages of the extra of the same name."""
STEPS = 2**21
"""Steps of a continuous variable over its range."""
SCALE = 2**42
"""Size of the largest term of a row. With 2**44 to 2**50 the presolve of OR-Tools 9.15 lost the
best point of 1 to 3 of 1,779 programs, and called a worse one optimal; with 2**42 of none.
"""
INCLUSION_LIMIT = 0
"""Work of the presolve that compares rows with rows: with it OR-Tools 9.15 calls programs
infeasible that have a solution.
"""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Find the best placement and prove it with whole-number programs, in a child process."""
    return solve_in_child("cpsat", problem, options)


def engine(model: Model, seconds: float) -> Solved:
    """Minimise with CP-SAT; only OPTIMAL and INFEASIBLE are believed."""
    from ortools.sat.python import cp_model

    program = cp_model.CpModel()
    steps = step_sizes(model)
    ranges = [
        (ceil(low), floor(high)) if whole else (0, ceil((high - low) / step))
        for low, high, whole, step in zip(model.low, model.high, model.whole, steps, strict=True)
    ]
    names = [program.new_int_var(low, high, "") for low, high in ranges]
    for terms, limit in model.rows:
        row, most = scaled(terms, limit, model, steps)
        program.add(sum(value * names[n] for n, value in row.items()) <= most)
    goal, offset, unit = scaled_goal(model, steps)
    program.minimize(sum(value * names[n] for n, value in goal.items()))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.05, seconds)
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.presolve_inclusion_work_limit = INCLUSION_LIMIT
    status = solver.solve(program)
    if status == cp_model.INFEASIBLE:
        return Solved(status="infeasible")
    bound = (
        solver.best_objective_bound / unit + offset
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        else -inf
    )
    if status != cp_model.OPTIMAL:
        return Solved(status="stopped", bound=bound)
    lows = [0.0 if whole else low for low, whole in zip(model.low, model.whole, strict=True)]
    values = tuple(
        low + step * solver.value(name) for low, step, name in zip(lows, steps, names, strict=True)
    )
    return Solved(status="optimal", bound=bound, values=values)


def step_sizes(model: Model) -> list[float]:
    """Return the step of each variable: powers of two, so that scaling rounds nothing."""
    ends = zip(model.low, model.high, model.whole, strict=True)
    return [
        1.0 if whole or high <= low else 2 * _power((high - low) / STEPS)
        for low, high, whole in ends
    ]


def _power(value: float) -> float:
    """Return the largest power of two that is not above a number, within what makes sense here."""
    return 2.0 ** floor(log2(min(max(value, 1e-200), 1e200)))


def scaled(
    terms: dict[int, float], limit: float, model: Model, steps: list[float]
) -> tuple[dict[int, int], int]:
    """Round a row so that it only gets weaker: coefficients down, the limit up, and by a step of
    each continuous variable.

    Variables below 0 do not occur, so a smaller coefficient always weakens ``terms <= limit``.
    """
    moved = limit - sum(value * model.low[n] for n, value in terms.items() if not model.whole[n])
    sizes = {n: value * steps[n] for n, value in terms.items()}
    largest = max(
        [
            abs(limit),
            *(abs(value) * max(1.0, model.high[n] - model.low[n]) for n, value in terms.items()),
        ]
    )
    factor = _power(SCALE / max(largest, 1e-200))
    slack = sum(max(0.0, -size) for n, size in sizes.items() if not model.whole[n])
    return {n: floor(size * factor) for n, size in sizes.items()}, ceil(
        (moved + slack) * factor
    ) + 1 + len(terms) ** 2


def scaled_goal(model: Model, steps: list[float]) -> tuple[dict[int, int], float, float]:
    """Round the goal down: whole coefficients, what is added to it, and its factor."""
    offset = model.goal.get(CONSTANT, 0.0)
    offset += sum(
        value * model.low[n] for n, value in model.goal.items() if n >= 0 and not model.whole[n]
    )
    sizes = {n: value * steps[n] for n, value in model.goal.items() if n >= 0}
    offset -= sum(max(0.0, -size) for n, size in sizes.items() if not model.whole[n])
    largest = (
        max(
            (abs(size) * (STEPS if not model.whole[n] else 1) for n, size in sizes.items()),
            default=1.0,
        )
        or 1.0
    )
    factor = _power(SCALE / largest)
    return {n: floor(size * factor) for n, size in sizes.items()}, offset, factor
