"""The master program: which column each job gets, as fractions with prices or as whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placer.advice.portfolio.question.columns import Column, Columns, Duals
from placer.advice.portfolio.question.resources import Held
from placer.errors import PlacerError
from placer.version import install_line

WRONG_HIGHS = (1, 14, 0)
"""A version of HiGHS that returns wrong optima of tiny programs as optimal."""
SHARE_DIGITS = 9
"""Digits of a share that tell it from others."""
TINY = 1e-9
"""Prices below are rounding."""


@dataclass(frozen=True, kw_only=True)
class Relaxed:
    """The master program with fractions: its value, and the prices of what is shared."""

    value: float
    duals: Duals
    left_out: float


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Which columns are taken, how often each; ``proved``: none of the columns do better."""

    counts: Mapping[Column, int]
    proved: bool


class Program:
    """Rows and columns of the master program.

    Parameters
    ----------
    columns
        What there is to choose from.
    out
        Value of leaving out one job of each group.
    """

    def __init__(self, columns: Columns, out: Sequence[float]) -> None:
        self.columns, self.out = columns, out
        self.portfolio, self.groups = columns.portfolio, columns.groups
        self.choices = list(columns.kept.values())
        blocks = self.portfolio.blocks
        self.first_out = len(self.choices)
        self.first_block = self.first_out + len(self.groups)
        self.size = self.first_block + len(blocks)
        self.rows: dict[Held, dict[int, float]] = {}
        for j, column in enumerate(self.choices):
            for held, amount in column.use.items():
                self.rows.setdefault(held, {})[j] = amount
        self.most: dict[Held, float] = {}
        for held, terms in self.rows.items():
            bought = columns.limits.blocks.get(held[0])
            if bought is None:
                self.most[held] = columns.limits.capacity(held)
            else:
                self.most[held] = 0.0
                for i in bought:
                    if held[1] in blocks[i].slots:
                        terms[self.first_block + i] = -float(blocks[i].machines)

    def goal(self) -> list[float]:
        """Return what is minimised."""
        values = [column.value for column in self.choices]
        return [*values, *self.out, *(block.usd for block in self.portfolio.blocks)]

    def budget(self) -> dict[int, float]:
        """Return the row of the budget."""
        spent = {j: column.usd for j, column in enumerate(self.choices)}
        blocks = enumerate(self.portfolio.blocks, self.first_block)
        return {**spent, **{i: block.usd for i, block in blocks if block.usd}}

    def upper(self) -> list[float]:
        """Return the most of each variable."""
        each = [float(self.groups[c.group].count) for c in self.choices]
        return [
            *each,
            *(float(g.count) for g in self.groups),
            *(1.0 for _ in self.portfolio.blocks),
        ]

    def matrices(self) -> tuple[Any, Any, Any, Any]:
        """Build the limits and the equations: matrix and right side of both."""
        from numpy import array
        from scipy.sparse import csr_array

        limits = [(terms, self.most[held]) for held, terms in self.rows.items()]
        if self.portfolio.budget_usd is not None:
            limits.append((self.budget(), self.portfolio.budget_usd))
        jobs: list[dict[int, float]] = [{self.first_out + i: 1.0} for i in range(len(self.groups))]
        for j, column in enumerate(self.choices):
            jobs[column.group][j] = 1.0

        def matrix(rows: Sequence[Mapping[int, float]]) -> Any:
            at = [(i, j, v) for i, terms in enumerate(rows) for j, v in terms.items()]
            if not at:
                return csr_array((len(rows), self.size))
            i, j, v = zip(*at, strict=True)
            return csr_array((v, (i, j)), shape=(len(rows), self.size))

        counts = array([float(group.count) for group in self.groups])
        most = array([limit for _, limit in limits])
        return matrix([terms for terms, _ in limits]), most, matrix(jobs), counts


def relaxed(columns: Columns, out: Sequence[float]) -> Relaxed:
    """Solve the master program with fractions.

    Parameters
    ----------
    columns
        What there is to choose from.
    out
        Value of leaving out one job of each group.

    Returns
    -------
    Relaxed
        With prices from 0: they bound the portfolio whatever the program's own precision.
    """
    optimize = _scipy()
    program = Program(columns, out)
    limits, most, jobs, counts = program.matrices()
    solved = optimize.linprog(
        program.goal(),
        A_ub=limits if limits.shape[0] else None,
        b_ub=most if limits.shape[0] else None,
        A_eq=jobs,
        b_eq=counts,
        bounds=[(0.0, most) for most in program.upper()],
        method="highs",
    )
    if solved.status != 0:
        raise AssertionError(f"the master program ended with status {solved.status}")
    marginals = [max(0.0, -float(m)) for m in solved.ineqlin.marginals] if len(most) else []
    budget = marginals.pop() if program.portfolio.budget_usd is not None else 0.0
    prices = {h: usd for h, usd in zip(program.rows, marginals, strict=True) if usd > TINY}
    left = solved.x[program.first_out : program.first_block]
    return Relaxed(
        value=float(solved.fun),
        duals=Duals(prices=prices, budget=budget),
        left_out=float(sum(left)),
    )


def whole(
    columns: Columns, seconds: float, share: Callable[[Column], float] | None = None
) -> Chosen:
    """Choose a whole number of each column: the most weight of the highest priority runs, then of
    the next, then the least share of any job is as large as possible, and then the value is the
    least.

    Parameters
    ----------
    seconds
        For each of these steps.
    share
        Of what its job would have alone; None: shares do not count.
    """
    program = Program(columns, [0.0] * len(columns.groups))
    goal = program.goal()
    fixed: list[tuple[dict[int, float], float]] = []
    solution, proved = _solved(program, goal, fixed, seconds, out=False)
    if solution is None:
        proved = True
        for priority in sorted({g.job.priority for g in columns.groups}, reverse=True):
            missed = _missed(program, priority)
            step, ended = _solved(program, missed, fixed, seconds)
            if step is None:
                return Chosen(counts={}, proved=False)
            proved = proved and ended
            least = round(sum(v * step[i] for i, v in missed.items()), 9)
            fixed.append((missed, least + 1e-9 * max(1.0, least)))
    if share is not None:
        return _fair(program, fixed, seconds, share, out=solution is None)
    if solution is None:
        solution, ended = _solved(program, goal, fixed, seconds)
        proved = proved and ended
    return _chosen(program, solution, proved=proved)


def _chosen(program: Program, solution: Any, *, proved: bool) -> Chosen:
    """Return what a solution takes."""
    if solution is None:
        return Chosen(counts={}, proved=False)
    counts = {c: round(n) for c, n in zip(program.choices, solution, strict=False) if n > 0.5}
    return Chosen(counts=counts, proved=proved)


def _fair(
    program: Program,
    fixed: Sequence[tuple[dict[int, float], float]],
    seconds: float,
    share: Callable[[Column], float],
    *,
    out: bool,
) -> Chosen:
    """Choose with the largest least share, found by halving the shares that columns have.

    Parameters
    ----------
    out
        Jobs may be left out, as many as before.
    """
    shares = [share(column) for column in program.choices]
    levels = sorted({round(s, SHARE_DIGITS) for s in shares})
    best, proved, low, high = None, True, 0, len(levels) - 1
    while low <= high:
        middle = (low + high) // 2
        barred = [j for j, s in enumerate(shares) if round(s, SHARE_DIGITS) < levels[middle]]
        solution, ended = _solved(program, program.goal(), fixed, seconds, out=out, barred=barred)
        proved = proved and ended
        if solution is None:
            high = middle - 1
        else:
            best, low = solution, middle + 1
    return _chosen(program, best, proved=proved)


def _missed(program: Program, priority: int) -> dict[int, float]:
    """Return the weight of jobs of a priority that are left out."""
    groups = enumerate(program.groups, program.first_out)
    return {i: group.job.weight for i, group in groups if group.job.priority == priority}


def _solved(
    program: Program,
    goal: Mapping[int, float] | Sequence[float],
    fixed: Sequence[tuple[Mapping[int, float], float]],
    seconds: float,
    *,
    out: bool = True,
    barred: Sequence[int] = (),
) -> tuple[Any, bool]:
    """Minimise over whole numbers; returns the solution, None if there is none, and whether it is
    proved.
    """
    import numpy as np
    from scipy.sparse import csr_array, vstack

    optimize = _scipy()
    limits, most, jobs, counts = program.matrices()
    wanted = np.zeros(program.size)
    for i, value in goal.items() if isinstance(goal, Mapping) else enumerate(goal):
        wanted[i] = value
    for terms, limit in fixed:
        row = np.zeros(program.size)
        for i, value in terms.items():
            row[i] = value
        limits = vstack([limits, csr_array(row.reshape(1, -1))])
        most = np.append(most, limit)
    upper = np.array(program.upper())
    if not out:
        upper[program.first_out : program.first_block] = 0.0
    upper[list(barred)] = 0.0
    constraints = [optimize.LinearConstraint(jobs, counts, counts)]
    if len(most):
        constraints.append(optimize.LinearConstraint(limits, -np.inf, most))
    unit = max(float(np.abs(wanted).max()), 1e-300)
    solved = optimize.milp(
        wanted / unit,
        constraints=constraints,
        integrality=np.ones(program.size),
        bounds=optimize.Bounds(0, upper),
        options={"time_limit": max(seconds, 0.05), "mip_rel_gap": 1e-9},
    )
    return solved.x, solved.status in {0, 2}


def _scipy() -> Any:
    """Import SciPy's optimizer.

    Raises
    ------
    PlacerError
        If it is missing, or carries a HiGHS that is known to be wrong.
    """
    try:
        from scipy import optimize
    except ImportError:
        raise PlacerError(
            "a portfolio needs SciPy, which is not installed",
            f"install it: {install_line('milp')}",
        ) from None
    return optimize


def held_by(counts: Mapping[Column, int]) -> dict[Held, float]:
    """Return what chosen columns hold of each resource in each slot."""
    held: dict[Held, float] = {}
    for column, count in counts.items():
        for key, amount in column.use.items():
            held[key] = held.get(key, 0.0) + count * amount
    return held
