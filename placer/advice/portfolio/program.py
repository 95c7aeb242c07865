"""The integer program: which column each job gets; with fractions it prices what is shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from placer.advice.portfolio.columns import Column, Columns, Duals, Held
from placer.errors import installed

SHARE_DIGITS = 9
"""Digits of a share that tell it from others."""
TINY = 1e-9
"""Prices below are rounding."""
GAP = 1e-9
"""Relative gap of a program in whole numbers."""


LP_S = 60.0
"""Seconds of a program with fractions at most: it takes hundredths."""
Terms = Sequence[tuple[Any, float]]
"""Variables with their factors."""


class Program:
    """The program of the columns that may be taken (``choices``), for so many jobs of each group.

    Jobs come ``whole``; else in fractions, so that what is shared has prices.
    """

    def __init__(
        self, columns: Columns, counts: Sequence[int], choices: Sequence[Column], *, whole: bool
    ) -> None:
        self.columns, self.choices = columns, choices
        self.model = _solver("SCIP" if whole else "GLOP")
        self.unit = max((abs(column.value) for column in choices), default=0.0) or 1.0
        variable = self.model.IntVar if whole else self.model.NumVar
        blocks, budget = columns.portfolio.blocks, columns.portfolio.budget_usd
        self.take = [variable(0, counts[c.group] if whole else inf, "") for c in choices]
        self.left = [variable(0, count, "") for count in counts]
        self.buy = [variable(0, 1, "") for _ in blocks]
        jobs = [self.limit([(self.left[i], 1)], n, n) for i, n in enumerate(counts)]
        spent = [(self.buy[i], block.usd) for i, block in enumerate(blocks)]
        self.budget = self.limit(spent, inf if budget is None else budget)
        self.teams = {name: self.limit([], usd) for name, usd in columns.portfolio.team_usd.items()}
        self.rows: dict[Held, Any] = {}
        for column, take in zip(choices, self.take, strict=True):
            jobs[column.group].SetCoefficient(take, 1)
            team = columns.groups[column.group].job.team
            for dollars in filter(None, (self.budget, self.teams.get(team))):
                dollars.SetCoefficient(take, column.usd)
            for held, amount in column.use.items():
                if held not in self.rows:
                    self.rows[held] = self._limit(held)
                self.rows[held].SetCoefficient(take, amount)

    def _limit(self, held: Held) -> Any:
        """Add the limit of what columns take of a resource; a block must be bought first."""
        blocks, own = self.columns.portfolio.blocks, self.columns.limits.blocks.get(held[0])
        if own is None:
            return self.limit([], self.columns.limits.capacity(held))
        there = [i for i in own if held[1] in blocks[i].slots]
        return self.limit([(self.buy[i], -blocks[i].machines) for i in there], 0)

    def limit(self, terms: Terms, most: float, least: float = -inf) -> Any:
        """Add a row: a sum from one figure to another; returns it."""
        row = self.model.Constraint(least, most)
        for variable, factor in terms:
            row.SetCoefficient(variable, factor)
        return row

    @property
    def value(self) -> Terms:
        """The value of what is taken, over the largest of a column."""
        taken = [(v, c.value / self.unit) for v, c in zip(self.take, self.choices, strict=True)]
        blocks = self.columns.portfolio.blocks
        paid = [(v, b.usd / self.unit) for v, b in zip(self.buy, blocks, strict=True)]
        return [*taken, *paid]

    def missed(self, priority: int) -> Terms:
        """Return the weight of jobs of a priority that are left out."""
        groups = zip(self.columns.groups, self.left, strict=True)
        return [(v, g.job.weight) for g, v in groups if g.job.priority == priority]

    def minimise(self, goal: Terms, seconds: float) -> tuple[bool, bool]:
        """Minimise; tells whether there is a solution, and whether that answer is proved."""
        from ortools.linear_solver import pywraplp

        objective = self.model.Objective()
        objective.Clear()
        for variable, factor in goal:
            objective.SetCoefficient(variable, factor)
        objective.SetMinimization()
        parameters = pywraplp.MPSolverParameters()
        parameters.SetDoubleParam(parameters.RELATIVE_MIP_GAP, GAP)
        self.model.SetTimeLimit(max(1, int(1000 * seconds)))
        status = self.model.Solve(parameters)
        solved = status in (self.model.OPTIMAL, self.model.FEASIBLE)
        return solved, status in (self.model.OPTIMAL, self.model.INFEASIBLE)

    def keep(self, goal: Terms) -> None:
        """Let no later solution have more of a goal than this one."""
        least = sum(factor * variable.solution_value() for variable, factor in goal)
        self.limit(goal, round(least, 6) + 1e-6)

    def counts(self) -> dict[Column, int]:
        """Return what the solution takes."""
        taken = zip(self.choices, self.take, strict=True)
        numbers = ((column, round(take.solution_value())) for column, take in taken)
        return {column: number for column, number in numbers if number}


def relaxed(
    columns: Columns, counts: Sequence[int], choices: Sequence[Column], out: float
) -> tuple[float, Duals]:
    """Solve the program with fractions, where leaving out a job of weight 1 costs ``out``.

    Returns the value, and prices from 0: they bound the portfolio whatever the program's precision.
    """
    program = Program(columns, counts, choices, whole=False)
    groups = zip(columns.groups, program.left, strict=True)
    left = [(variable, group.job.weight * out / program.unit) for group, variable in groups]
    solved, _ = program.minimise([*program.value, *left], LP_S)
    if not solved:
        raise AssertionError("the program of a portfolio has no solution with fractions")

    def price(row: Any) -> float:
        return max(0.0, -float(row.dual_value())) * program.unit

    prices = {held: price(row) for held, row in program.rows.items()}
    return program.model.Objective().Value() * program.unit, Duals(
        prices={held: usd for held, usd in prices.items() if usd > TINY},
        budget=price(program.budget),
        teams={name: price(row) for name, row in program.teams.items()},
    )


def whole(
    columns: Columns, seconds: float, share: Callable[[Column], float] | None = None
) -> tuple[dict[Column, int], bool]:
    """Choose a whole number of each column: the most weight of the highest priority runs, then of
    the next, then the least share of any job is as large as possible (None: shares do not count),
    and then the value is the least. Each step takes so many seconds. Returns how often each column
    is taken, and whether it is proved that none do better.
    """
    choices = columns.kept
    program = Program(columns, [group.count for group in columns.groups], choices, whole=True)
    everyone = program.limit([(left, 1) for left in program.left], 0)
    solved, proved = program.minimise(program.value, seconds)
    if not solved:
        everyone.Clear()
        proved = True
        for priority in sorted({g.job.priority for g in columns.groups}, reverse=True):
            solved, ended = program.minimise(program.missed(priority), seconds)
            if not solved:
                return {}, False
            program.keep(program.missed(priority))
            proved = proved and ended
        solved, ended = program.minimise(program.value, seconds)
        proved = proved and ended
    counts = program.counts() if solved else {}
    if share is None:
        return counts, proved
    shares = [round(share(column), SHARE_DIGITS) for column in choices]
    levels = sorted(set(shares))
    low, high, barred = 0, len(levels) - 1, program.limit([], 0)
    while low <= high:  # the least share is that of some column
        middle = (low + high) // 2
        for take, own in zip(program.take, shares, strict=True):
            barred.SetCoefficient(take, 0 if own >= levels[middle] else 1)
        solved, ended = program.minimise(program.value, seconds)
        proved = proved and ended
        if solved:
            counts, low = program.counts(), middle + 1
        else:
            high = middle - 1
    return counts, proved


def _solver(name: str) -> Any:
    """Open a solver of OR-Tools."""
    pywraplp = installed("ortools.linear_solver.pywraplp", "a portfolio needs OR-Tools", "cpsat")
    return pywraplp.Solver.CreateSolver(name)
