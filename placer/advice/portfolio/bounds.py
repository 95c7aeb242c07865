"""Bounds on a portfolio by prices of what is shared, and the program that has these prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from msgspec import UNSET

from placer.advice.portfolio.columns import Column, Columns, Duals, Group, Held, Resource
from placer.advice.portfolio.jobs import Portfolio
from placer.advice.portfolio.pricing import Ledger, Pricing, running, worth
from placer.advice.portfolio.search import Sought
from placer.documents.schemas.many import ResourceWorth
from placer.errors import installed
from placer.records import replace
from placer.solving import allowance

SHARE_DIGITS = 9
"""Digits of a share that tell it from others."""
TINY = 1e-9
"""Prices below are rounding."""
GAP = 1e-9
"""Relative gap of a program in whole numbers."""


MOST_SCARCE, MORE_S = 12, 2.0
"""Scarce resources that are asked about, the dearest first, and seconds for one more of each."""
LEAST_SAVED = 1e-6
"""Share of the value below which one more saves nothing."""
LP_S = 60.0
"""Seconds of a program with fractions at most: it takes hundredths."""
Terms = Sequence[tuple[Any, float]]
"""Variables with their factors."""


class Program:
    """The program of the columns that may be taken (``choices``), for so many jobs of each group.

    Jobs come ``whole``; else in fractions, so that what is shared has prices.
    """

    def __init__(
        self,
        columns: Columns,
        counts: Sequence[int],
        choices: Sequence[Column],
        *,
        whole: bool,
        more: Resource | None = None,
    ) -> None:
        self.columns, self.choices, self.more = columns, choices, more
        missing = "a portfolio needs OR-Tools"
        pywraplp = installed("ortools.linear_solver.pywraplp", missing, "cpsat")
        self.model: Any = pywraplp.Solver.CreateSolver("SCIP" if whole else "GLOP")
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
        blocks, own = self.columns.portfolio.blocks, self.columns.blocks.get(held[0])
        if own is None:
            return self.limit([], self.columns.capacity(held) + (held[0] == self.more))
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


OUT = 10.0
"""Leaving out a job costs so many times what all jobs are worth: any job is worth its place."""
FLAT = 1e-3
"""Least price of a dollar where speed counts, as a share of the mean value of a dollar."""
HALVINGS = 12
"""Halvings of the least share that is proved to be out of reach."""
SAME = 1e-9
"""Relative slack of a share."""
FASTER = 1 + 1e-7
"""Least speed over that of a placement by which the next one is faster."""
MOST_QUESTIONS, MOST_LIMITS = 1_000, 20_000
"""Questions about one group of jobs, and limits that are looked at; more are given up."""


@dataclass(frozen=True, kw_only=True)
class Priced:
    """What was proved at some prices: no column of a group that gives its job a share of at least
    ``share`` has a smaller reduced value than ``each``.
    """

    duals: Duals
    share: float
    each: list[float]


@dataclass(kw_only=True)
class Bounds:
    """Prices, and what is proved at them. ``alone``: the fastest columns for all of the budget."""

    columns: Columns
    pricing: Pricing
    alone: dict[int, Column] = field(default_factory=dict)
    tried: list[Priced] = field(default_factory=list)

    @property
    def portfolio(self) -> Portfolio:
        """The question."""
        return self.columns.portfolio

    def program(self, run: Sequence[int], share: float) -> tuple[float, Duals]:
        """Solve the program with fractions of jobs with a share, where leaving out costs `OUT`.

        Returns the value, and prices from 0: they bound the portfolio whatever its precision.
        """
        kept, out = self.columns.kept, self._out
        if self.portfolio.fair:
            kept = [c for c in kept if self.share(c) >= share * (1 - SAME)]
        program = Program(self.columns, run, kept, whole=False)
        groups = zip(self.columns.groups, program.left, strict=True)
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

    def whole(self, seconds: float, more: Resource | None = None) -> tuple[dict[Column, int], bool]:
        """Choose a whole number of each column: the most weight of the highest priority runs, then
        of the next; then, to be fair, the least share of any job is as large as possible; and then
        the value is the least. Each step takes so many seconds. There may be one ``more`` of a
        resource in every slot. Returns how often each column is taken, and whether it is proved
        that none do better.
        """
        columns, choices = self.columns, self.columns.kept
        everybody = [group.count for group in columns.groups]
        program = Program(columns, everybody, choices, whole=True, more=more)
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
        if not self.portfolio.fair:
            return counts, proved
        shares = [round(self.share(column), SHARE_DIGITS) for column in choices]
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

    def price(self, duals: Duals, share: float, run: Sequence[int], near: float = 0.0) -> None:
        """Ask for better columns of the jobs that run at some prices, and bound all of theirs.

        A bound that is so ``near`` to the best column is enough; infinite: nothing is searched.
        """
        if self.portfolio.objective != "cost":
            values = (abs(column.value) for column in self.columns.kept)
            flat = FLAT * max(values, default=0.0) / (self.portfolio.budget_usd or 1.0)
            duals = replace(duals, budget=max(duals.budget, flat, 1e-12))
        each, proved = [-inf] * len(run), dict[object, float]()
        for group in self._order(share):
            if run[group.number]:
                family, floor = self.pricing.family(group), self.floor(group, share)
                known = proved.get(family, -inf)  # of a slower job that may have all of its columns
                bound = self.pricing.bound(group, duals.of(group.job.team), floor, near, known)
                bound = max(known, bound)
                each[group.number] = proved[family] = bound
        self.tried.append(Priced(duals=duals, share=share, each=each))

    def _order(self, share: float) -> list[Group]:
        """Return groups in the order of questions: slow jobs before others of their family; with
        slots, where there are no families, by what they may gain.
        """
        if self.portfolio.slots is None or not self.tried:
            return sorted(self.columns.groups, key=lambda g: self.floor(g, share))
        last = self.tried[-1]
        return sorted(self.columns.groups, key=lambda g: -g.count * self.hope(g, last))

    def hope(self, group: Group, row: Priced) -> float:
        """Return by how much a job may be better than its best column, at some prices."""
        proved = row.each[group.number]
        least = self.columns.least(group, row.duals, self.floor(group, row.share))
        return 0.0 if proved == inf else least - proved  # no placement keeps its own limits

    def bound(self, run: Sequence[int], share: float = 0.0) -> float:
        """Return a bound on the value of so many jobs of each group, each with a share at least."""
        best = self.best(run, share)
        return -inf if best is None else self.at(best, run)

    def best(self, run: Sequence[int], share: float = 0.0) -> Priced | None:
        """Return the prices that prove most of so many jobs of each group."""
        rows = [row for row in self.tried if row.share <= share and self.at(row, run) < inf]
        return max(rows, key=lambda row: self.at(row, run), default=None)

    def at(self, row: Priced, run: Sequence[int]) -> float:
        """Return the bound that some prices prove.

        Geoffrion (1974), Lagrangean relaxation for integer programming: what each job costs at
        least at some prices, less what these are paid for. Any prices from 0 bound it.
        """
        return sum(n * b for n, b in zip(run, row.each, strict=True) if n) - self._paid(row.duals)

    def with_jobs_out(self, run: Sequence[int]) -> float:
        """Return a bound on the value of the program, where jobs may be left out."""
        out = [self._out * group.job.weight for group in self.columns.groups]
        rows = (
            replace(row, each=[min(pair) for pair in zip(row.each, out, strict=True)])
            for row in self.tried
        )
        return max((self.at(row, run) for row in rows), default=-inf)

    def share(self, column: Column) -> float:
        """Return a column's speed as a share of what its job does alone; 0 if unknown."""
        alone = self.alone.get(column.group)
        return min(1.0, column.samples_per_second / alone.samples_per_second) if alone else 0.0

    def least_share(self, counts: Mapping[Column, int]) -> float:
        """Return the least share of the jobs that run; 0 where it does not count."""
        shares = (self.share(column) for column in counts)
        return min(shares, default=0.0) if self.portfolio.fair else 0.0

    def floor(self, group: Group, share: float) -> float:
        """Return the least speed of a group of which each job has a share at least."""
        if not self.portfolio.fair or group.number not in self.alone:
            return group.job.floor
        alone = self.alone[group.number].samples_per_second
        return max(group.job.floor, share * alone * (1 - SAME))

    def most_share(self, run: Sequence[int], reached: float) -> float:
        """Return a share that no choice gives all the jobs that run, found by halving."""
        low, high = reached, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            prices = self.program(run, middle)[1], Duals(budget=1.0)
            if any(self._out_of_reach(run, middle, duals) for duals in prices):
                high = middle
            else:
                low = middle
        return high

    def _out_of_reach(self, run: Sequence[int], share: float, duals: Duals) -> bool:
        """Tell whether jobs with a share each cost more than the budget, by Lagrange's bound."""
        factor = duals.budget + (1.0 if self.portfolio.objective == "cost" else 0.0)
        if not factor:
            return False
        usd = -self._paid(replace(duals, budget=0.0))
        for group, count in zip(self.columns.groups, run, strict=True):
            floor = self.floor(group, share)
            if count and floor > self.pricing.tops[group.number] * (1 + SAME):
                return True
            if count:
                usd += count * self.pricing.least_usd(group, duals.of(group.job.team), floor)
        return usd / factor > (self.portfolio.budget_usd or inf) * (1 + SAME)

    @property
    def _out(self) -> float:
        """The value of leaving out a job of weight 1: more than any choice is worth."""
        pick = max if self.portfolio.by_speed else min
        values = (
            group.count * pick((abs(c.value) for c in self.columns.of(group)), default=0.0)
            for group in self.columns.groups
        )
        return OUT * max(1e-6, sum(values))

    def _paid(self, duals: Duals) -> float:
        """Return what prices are paid for: all that there is of each resource, and the budget."""
        own, blocks = self.columns.blocks, self.portfolio.blocks
        total = duals.budget * (self.portfolio.budget_usd or 0.0)
        teams = self.portfolio.team_usd
        total += sum(price * teams[name] for name, price in duals.teams.items())
        for held, price in duals.prices.items():
            if held[0] not in own:
                total += price * self.columns.capacity(held)
        for resource, numbers in own.items():
            for block in (blocks[i] for i in numbers):
                prices = sum(duals.prices.get((resource, s), 0.0) for s in block.slots)
                total += max(0.0, block.machines * prices - block.usd * (1 + duals.budget))
        return total

    def worths(self, counts: Mapping[Column, int], duals: Duals) -> Iterator[ResourceWorth]:
        """Yield what one more of each scarce resource changes, by choosing again among the known
        columns: a longer search may find more. In dollars of the budget where cost is no aim.

        The price of a relaxation would hold for a small change only, and is none where jobs are
        left out: a whole one changes which of them run.
        """
        columns, portfolio = self.columns, self.portfolio
        dollar = 1.0 if portfolio.objective == "cost" else duals.budget
        ledger = Ledger(columns, counts)
        scarce: dict[Resource, dict[int, float]] = {}
        for resource, slot in {*duals.prices, *ledger.held}:
            if resource not in columns.blocks and ledger.left((resource, slot)) < 1:
                price = duals.prices.get((resource, slot), 0.0)
                scarce.setdefault(resource, {})[slot] = price
        *missed, now = worth(columns, counts)
        run = running(columns, counts)
        dearest = sorted(scarce, key=lambda one: (-sum(scarce[one].values()), one))
        for resource in dearest[:MOST_SCARCE] if dollar else ():
            other, _ = self.whole(MORE_S, resource)
            *left, then = worth(columns, other)
            saved = (now - then) / dollar
            if (left, -saved) < (missed, -LEAST_SAVED * abs(now) / dollar):
                pairs = zip(columns.groups, run, running(columns, other), strict=True)
                jobs = [portfolio.jobs[n] for g, own, new in pairs for n in g.members[own:new]]
                yield ResourceWorth(
                    resource=resource.words,
                    unit=resource.unit,
                    usd=saved,
                    slots=tuple(sorted(scarce[resource])),
                    runs=tuple(job.name for job in jobs) if left < missed else UNSET,
                )


@dataclass(frozen=True, kw_only=True)
class Within:
    """What a placement may take of some resources and of slots, and how fast it must be."""

    caps: Mapping[Resource, float] = field(default_factory=dict)
    slots: int | None = None
    floor: float = 0.0

    @property
    def key(self) -> tuple[object, ...]:
        """Return what tells it from other limits."""
        return tuple(sorted(self.caps.items())), self.slots, self.floor

    def admits(self, column: Column) -> bool:
        """Tell whether a column keeps these limits."""
        if column.samples_per_second < self.floor or column.slots > (self.slots or column.slots):
            return False
        used = column.use.items()
        return all(amount <= self.caps.get(held[0].anyones, inf) for held, amount in used)

    def inside(self, other: Within) -> bool:
        """Tell whether whatever keeps these limits keeps others too."""
        return (
            self.floor >= other.floor
            and (self.slots or inf) <= (other.slots or inf)
            and all(self.caps.get(key, inf) <= most for key, most in other.caps.items())
        )


def all_columns(pricing: Pricing, group: Group, threshold: float, gap: float) -> bool:
    """Add all columns of a group below some dollars of which no other takes no more of anything and
    costs no more; tells whether none is missing.

    Such columns are found by asking for the best one, and again with less of each resource that it
    takes; where speed counts, also for a faster one.
    """
    waiting, seen = [Within()], set[tuple[object, ...]]()
    answers: list[tuple[Within, Column]] = []
    for _ in range(MOST_LIMITS):
        if not waiting:
            return True
        if allowance.current().spent or len(answers) >= MOST_QUESTIONS:
            return False
        limit = waiting.pop()
        # The best column within wider limits is the best within these, if it keeps them.
        column = next((c for wide, c in answers if limit.inside(wide) and limit.admits(c)), None)
        if column is None:
            bound, column = _best(pricing, group, limit, gap)
            if bound >= threshold:
                continue
            if column is None:  # the solver was stopped, or its placement is not through in time
                return False
            answers.append((limit, column))
        fresh = [child for child in _less(pricing.columns, column, limit) if child.key not in seen]
        seen |= {child.key for child in fresh}
        waiting += fresh
    return not waiting


def _best(pricing: Pricing, group: Group, limit: Within, gap: float) -> tuple[float, Column | None]:
    """Ask for the column of least dollars within some limits; returns a bound beside it."""
    floor = max(pricing.slowest(group, limit.slots), limit.floor)
    if floor == inf:
        return inf, None
    kept = (column for column in pricing.columns.of(group) if limit.admits(column))
    best = min(kept, key=lambda column: column.usd, default=None)
    sought = Sought(floor=floor, caps=limit.caps, gap=gap)
    if best is not None:
        sought = replace(sought, known=best.usd, start=best.placement)
    bound, made = pricing.cheapest(group, sought)
    return bound, made[0] if made else best


def _less(columns: Columns, column: Column, limit: Within) -> Iterator[Within]:
    """Yield what excludes a column: less of each thing that others may want, or more speed."""
    used = {resource.anyones: amount for (resource, _), amount in column.use.items()}
    for resource, amount in used.items():
        yield replace(limit, caps={**limit.caps, resource: amount - 1})
    if columns.portfolio.by_speed:
        yield replace(limit, floor=column.samples_per_second * FASTER)
    amount_counts = columns.groups[column.group].job.wish.samples is not None
    if columns.portfolio.slots is not None and amount_counts:
        yield replace(limit, slots=column.slots - 1)
