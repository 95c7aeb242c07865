"""Chooses who runs where: columns at prices of what is shared, and one integer program."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf

from placer.advice.portfolio.closing import all_columns
from placer.advice.portfolio.greedy import one_by_one, running, worth
from placer.advice.portfolio.pricing.price import Pricing
from placer.advice.portfolio.pricing.search import Search
from placer.advice.portfolio.pricing.seeds import seeds
from placer.advice.portfolio.program import Chosen, relaxed, whole
from placer.advice.portfolio.question.columns import Column, Columns, Duals, Group
from placer.advice.portfolio.question.jobs import Portfolio
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import Allowance
from placer.solving.answer import SolveOptions

MOST_ROUNDS = 30
"""Rounds of prices at most."""
CLOSING_GAP, CLOSED = 0.4, 1e-6
"""Gap of a choice among all columns over the gap that is asked for, and its least."""
PRICING_GAP = 0.01
"""Gap of one search over the gap that is asked for: most take no longer for it."""
MOST_CLOSED = 8
"""Groups of jobs up to which all columns are asked for, where the gap is not small."""
ROUGH_GAP = 1e-3
"""Gaps from here on are not small."""
ROUGH_S, ROUGH_SHARE = 0.5, 1 / 60
"""One search takes no longer where the gap is not small: seconds, or this share of all time if that
is more.
"""
NEAR = 0.1
"""Share of the gap below which what all jobs may gain together is not searched for."""
ROUNDS_GAP = 0.75
"""Gap of the program with fractions over the gap that is asked for: whole jobs may cost more."""
SHARE = 3.0
"""One search to the end takes no more than the time that is left over this."""
ALONE_TIME, ROUNDS_TIME, CLOSING_TIME = 0.3, 0.7, 0.9
"""Shares of the time that is left for the jobs alone where speed counts, for the first rounds, and
for all columns.
"""
CHOOSING_S, WHOLE_S = 0.8, 5.0
"""Seconds after the end in which a choice among the known columns is made, and of one program."""
STEPS = 6
"""Speeds from the floor of a job to what it does alone at which first columns are made."""
OUT = 10.0
"""Leaving out a job costs so many times what all jobs are worth: any job is worth its place."""
FLAT = 1e-3
"""Least price of a dollar where speed counts, as a share of the mean value of a dollar."""
HALVINGS = 12
"""Halvings of the least share that is proved to be out of reach."""
SAME = 1e-9
"""Relative slack of a share."""
Tried = tuple[float, Duals, list[float]]
"""Prices at which jobs were bounded: the least share of a job, the prices, and a bound on the
reduced value of the columns of each group that reach that share.
"""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the search for a portfolio ended with.

    Notes
    -----
    ``counts``: columns and how many jobs of the group have each. ``bound``: the same jobs cannot do
    better. ``greedy`` is the choice one by one. ``alone`` is each group's best column with the
    market to itself. ``proved_out``: no choice leaves out less. ``shares``: the least share of a
    job, and what no choice gives all of them. ``stopped``: time or the user ended it.
    """

    columns: Columns
    counts: dict[Column, int]
    greedy: dict[Column, int]
    alone: dict[int, Column]
    bound: float | None
    duals: Duals
    proved_out: bool
    rounds: int
    searches: int
    seconds: float = 0.0
    stopped: bool = False
    shares: tuple[float, float] | None = None


def chosen(portfolio: Portfolio, options: SolveOptions) -> Found:
    """Choose who runs where and when.

    Parameters
    ----------
    options
        Gap of the portfolio and time for all of it. Ctrl-C uses it up, so that the best so far is
        returned.
    """
    started = time.perf_counter()
    limits = options.time_limit_s, options.memory_limit_bytes, options.cancel
    with allowance.opened(*limits) as own:
        found = Generation.of(portfolio, options).solved()
        stopped = own.spent is not None
    return replace(found, seconds=time.perf_counter() - started, stopped=stopped)


@dataclass(kw_only=True)
class Generation:
    """The state of a column generation.

    Notes
    -----
    Mutable. ``alone`` is the fastest known column of each group for all of the budget, where speed
    counts.
    """

    columns: Columns
    pricing: Pricing
    gap: float
    alone: dict[int, Column] = field(default_factory=dict)
    tried: list[Tried] = field(default_factory=list)
    rounds: int = 0

    @staticmethod
    def of(portfolio: Portfolio, options: SolveOptions) -> Generation:
        """Begin a search."""
        columns = Columns(portfolio=portfolio)
        gap = max(options.gap * PRICING_GAP, CLOSED)
        search = Search(options=SolveOptions(gap=gap, cancel=options.cancel))
        state = Generation(
            columns=columns, pricing=Pricing(columns=columns, search=search), gap=options.gap
        )
        if not state.small and options.time_limit_s < inf:
            search.most_s = max(ROUGH_S, ROUGH_SHARE * options.time_limit_s)
        return state

    @property
    def portfolio(self) -> Portfolio:
        """The question."""
        return self.columns.portfolio

    @property
    def small(self) -> bool:
        """Tell whether all columns are asked for."""
        return self.gap < ROUGH_GAP or len(self.columns.groups) <= MOST_CLOSED

    @property
    def closing_gap(self) -> float:
        """Relative gap of a choice among all columns."""
        return max(CLOSED, self.gap * CLOSING_GAP if self.gap >= ROUGH_GAP else 0.0)

    @property
    def everyone(self) -> list[int]:
        """Jobs of each group."""
        return [group.count for group in self.columns.groups]

    def solved(self) -> Found:
        """Search until the gap is reached, or time is up."""
        self._begin()
        if not (self.small and self.portfolio.by_speed):
            with part(ROUNDS_TIME):
                self._rounds(self.everyone)
        counts = greedy = one_by_one(self.pricing, searched=False)
        counts = self._best(counts, self._whole().counts)
        if not self._enough(counts):
            greedy = self._best(greedy, one_by_one(self.pricing))
            counts = self._best(counts, greedy, one_by_one(self.pricing, counts))
            counts = self._best(counts, self._whole().counts)
        closed = False
        if self.small and not self._enough(counts):
            with part(CLOSING_TIME):
                closed = self._all_columns(counts)
            again = self._whole()
            counts, closed = self._best(counts, again.counts), closed and again.proved
        if not closed and not self._enough(counts):
            counts = self._proved(counts)
        return self._found(counts, self._best(greedy), closed=closed)

    def _found(
        self, counts: dict[Column, int], greedy: dict[Column, int], *, closed: bool
    ) -> Found:
        """Say what is proved of a choice; ``closed``: it is the best of all, to the gap."""
        value, least = worth(self.columns, counts)[-1], self._least_share(counts)
        run = running(self.columns, counts)
        _, prices = self._prices(run, least)
        if not closed and (self.small or self.tried):
            self._price(prices, least, run, inf)
        bound = value - self.closing_gap * abs(value) if closed else self._bound(run, least)
        top = least if closed or not self.portfolio.fair else self._share_bound(run, least)
        return Found(
            columns=self.columns,
            counts=counts,
            greedy=greedy,
            alone=self.alone if self.portfolio.by_speed else self._cheapest(),
            bound=None if bound in (-inf, inf) else bound,
            duals=prices,
            proved_out=closed or run == self.everyone,
            rounds=self.rounds,
            searches=self.pricing.search.searches,
            shares=(least, top) if self.portfolio.fair else None,
        )

    def _begin(self) -> None:
        """Make the first columns, and bound what jobs cost alone."""
        groups, by_speed = self.columns.groups, self.portfolio.by_speed
        with part(ALONE_TIME if by_speed else 1.0):
            for number, group in enumerate(groups):
                if by_speed:
                    self._begin_alone(group, len(groups) - number)
                elif not allowance.current().spent:
                    seeds(self.columns, group, self.pricing.slowest(group))
        if not allowance.current().spent:
            near = 0.0 if self.small and not by_speed else inf
            self._price(Duals(), 0.0, self.everyone, near)

    def _begin_alone(self, group: Group, waiting: int) -> None:
        """Search the most that a job does alone, and make columns at speeds up to that.

        Parameters
        ----------
        waiting
            Groups that share the time that is left, this one among them.
        """
        budget, search, job = self.portfolio.budget_usd or 0.0, self.pricing.search, group.job
        self.pricing.tops[group.number] = inf
        if not allowance.current().spent:
            search.most_s = max(0.1, allowance.current().seconds_left / waiting)
            found = search.fastest(job.problem, budget)
            self.pricing.tops[group.number] = found.bound
            if found.placement is not None:
                self.columns.add(group, found.placement)
        if not self.columns.of(group) and self.pricing.tops[group.number] > 0:
            seeds(self.columns, group, job.floor)  # the search was stopped
        within = [c for c in self.columns.of(group) if c.usd <= budget * (1 + SAME)]
        if not within:
            return
        self.alone[group.number] = max(within, key=lambda c: (c.samples_per_second, -c.usd))
        top = self.alone[group.number].samples_per_second
        low = max(job.floor, top / 2**STEPS)
        for step in range(STEPS):
            if not allowance.current().spent:
                seeds(self.columns, group, low * (top / low) ** (step / STEPS))

    def _rounds(self, run: Sequence[int], least: float = 0.0) -> None:
        """Price jobs at the prices of the program, until it is near its bound or finds nothing."""
        known = -1
        while len(self.columns) > known and not allowance.current().spent:
            value, duals = self._prices(run, least)
            bound = max((self._open_bound(row, run) for row in self.tried), default=-inf)
            near = value - bound <= ROUNDS_GAP * self.gap * abs(value)
            if near or self.rounds >= MOST_ROUNDS:
                break
            known = len(self.columns)
            self.rounds += 1
            self._price(duals, least, run, NEAR * self.gap * abs(value) / max(1, sum(run)))

    def _price(self, duals: Duals, least: float, run: Sequence[int], near: float = 0.0) -> None:
        """Bound the reduced values of all jobs that run at some prices."""
        if self.portfolio.objective != "cost":
            values = (abs(c.value) for c in self.columns.kept)
            flat = FLAT * max(values, default=0.0) / (self.portfolio.budget_usd or 1.0)
            duals = replace(duals, budget=max(duals.budget, flat, 1e-12))
        bounds, proved = [-inf] * len(run), dict[object, float]()
        for group in sorted(self.columns.groups, key=lambda g: self._floor(g, least)):
            if run[group.number]:
                family, floor = self.pricing.family(group), self._floor(group, least)
                known = proved.get(family, -inf)  # of a slower job that may have all of its columns
                bound = max(known, self.pricing.bound(group, duals, floor, near, known))
                bounds[group.number] = proved[family] = bound
        self.tried.append((least, duals, bounds))

    def _prices(self, run: Sequence[int], least: float) -> tuple[float, Duals]:
        """Solve the program with fractions; returns its value and prices."""
        kept = self.columns.kept
        if self.portfolio.fair:
            kept = [c for c in kept if self._share(c) >= least * (1 - SAME)]
        return relaxed(self.columns, run, kept, self._out)

    @property
    def _out(self) -> float:
        """The value of leaving out a job of weight 1: more than any choice is worth."""
        pick = max if self.portfolio.by_speed else min
        values = (
            g.count * pick((abs(c.value) for c in self.columns.of(g)), default=0.0)
            for g in self.columns.groups
        )
        return OUT * max(1e-6, sum(values))

    def _paid(self, duals: Duals) -> float:
        """Return what prices are paid for: all that there is of each resource, and the budget."""
        limits, blocks = self.columns.limits, self.portfolio.blocks
        total = duals.budget * (self.portfolio.budget_usd or 0.0)
        for held, price in duals.prices.items():
            if held[0] not in limits.blocks:
                total += price * limits.capacity(held)
        for resource, numbers in limits.blocks.items():
            for block in (blocks[i] for i in numbers):
                prices = sum(duals.prices.get((resource, s), 0.0) for s in block.slots)
                total += max(0.0, block.machines * prices - block.usd * (1 + duals.budget))
        return total

    def _bound(self, run: Sequence[int], least: float = 0.0) -> float:
        """Return a bound on the value of so many jobs of each group, each with a share at least."""
        rows = [self._at(row, run) for row in self.tried if row[0] <= least]
        return max((bound for bound in rows if bound < inf), default=-inf)

    def _at(self, row: Tried, run: Sequence[int]) -> float:
        """Return the bound that some prices prove.

        Notes
        -----
        Geoffrion (1974), Lagrangean relaxation for integer programming: what each job costs at
        least at some prices, less what these are paid for. Any prices from 0 bound it.
        """
        _, duals, bounds = row
        return sum(n * b for n, b in zip(run, bounds, strict=True) if n) - self._paid(duals)

    def _open_bound(self, row: Tried, run: Sequence[int]) -> float:
        """Return the bound of some prices where jobs may be left out."""
        _, duals, bounds = row
        out, each = self._out, zip(self.columns.groups, bounds, run, strict=True)
        least = sum(n * min(b, out * g.job.weight) for g, b, n in each if n)
        return least - self._paid(duals)

    def _enough(self, counts: Mapping[Column, int]) -> bool:
        """Tell whether every job runs, and the value is within the gap."""
        run, value = running(self.columns, counts), worth(self.columns, counts)[-1]
        if run != self.everyone or self.portfolio.fair:
            return False
        return value - self._bound(run) <= self.gap * abs(value)

    def _best(self, *choices: dict[Column, int]) -> dict[Column, int]:
        """Return the best choice."""

        def key(counts: Mapping[Column, int]) -> tuple[float, ...]:
            *missed, value = worth(self.columns, counts)
            fair = [-round(self._least_share(counts), 9)] if self.portfolio.fair else []
            return (*missed, *fair, value)

        return min(choices, key=key)

    def _whole(self) -> Chosen:
        """Choose among the known columns."""
        with allowance.closing(CHOOSING_S):
            seconds = min(WHOLE_S, max(0.2, allowance.current().seconds_left / 2))
            return whole(self.columns, seconds, self._share if self.portfolio.fair else None)

    def _all_columns(self, counts: Mapping[Column, int]) -> bool:
        """Ask for all columns that may make a choice better; tells whether none is missing."""
        run, value = running(self.columns, counts), worth(self.columns, counts)[-1]
        thresholds = [inf] * len(run)
        if self.portfolio.by_speed:
            thresholds = [(self.portfolio.budget_usd or inf) * (1 + 1e-6)] * len(run)
        elif run == self.everyone and self._bound(run) > -inf:
            # A better choice has no column whose reduced value is above its bound by the gap.
            row = max(self.tried, key=lambda row: self._at(row, run))
            thresholds = [bound + value - self._at(row, run) for bound in row[2]]
        each = zip(self.columns.groups, thresholds, strict=True)
        whole = (all_columns(self.pricing, g, most, self.closing_gap) for g, most in each)
        return sum(not done for done in whole) == 0

    def _proved(self, counts: dict[Column, int]) -> dict[Column, int]:
        """Ask for what bounds a choice better: the prices of the jobs that run, then searches to
        their end, the weakest proof first; returns the best choice.
        """
        run, least = running(self.columns, counts), self._least_share(counts)
        if run != self.everyone or self.portfolio.fair or not self.tried:
            with part(ROUNDS_TIME):
                self._rounds(run, least)
            counts = self._best(counts, self._whole().counts)
            run, least = running(self.columns, counts), self._least_share(counts)
        rows = [row for row in self.tried if row[0] <= least]
        if not rows:
            return counts
        row = max(rows, key=lambda row: self._at(row, run))
        (_, duals, bounds), known, done = row, len(self.columns), set[int]()
        value = worth(self.columns, counts)[-1]
        while not allowance.current().spent and value - self._at(row, run) > self.gap * abs(value):
            hopes = [
                (run[g.number] * (self._least(g, duals, least) - bounds[g.number]), -g.number)
                for g in self.columns.groups
                if run[g.number] and g.number not in done
            ]
            hope, number = max(hopes, default=(0.0, 0))
            if hope <= 0:
                break
            group = self.columns.groups[-number]
            done.add(group.number)
            self.pricing.search.most_s = max(1.0, allowance.current().seconds_left / SHARE)
            found = self.pricing.bound(group, duals, self._floor(group, row[0]))
            bounds[group.number] = max(bounds[group.number], found)
        return self._best(counts, self._whole().counts) if len(self.columns) > known else counts

    def _share_bound(self, run: Sequence[int], reached: float) -> float:
        """Return a share that no choice gives all the jobs that run, found by halving."""
        prices, low, high = self._prices(run, reached)[1], reached, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if any(self._out_of_reach(run, middle, d) for d in (prices, Duals(budget=1.0))):
                high = middle
            else:
                low = middle
        return high

    def _out_of_reach(self, run: Sequence[int], least: float, duals: Duals) -> bool:
        """Tell whether the jobs that run cost more than the budget where each has a share at least;
        by Lagrange's bound on their dollars.
        """
        factor = duals.budget + (1.0 if self.portfolio.objective == "cost" else 0.0)
        if not factor:
            return False
        usd = -self._paid(replace(duals, budget=0.0))
        for group, count in zip(self.columns.groups, run, strict=True):
            floor = self._floor(group, least)
            if count and floor > self.pricing.tops[group.number] * (1 + SAME):
                return True
            usd += count * self.pricing.lagrange_usd(group, duals, floor) if count else 0.0
        return usd / factor > (self.portfolio.budget_usd or inf) * (1 + SAME)

    def _share(self, column: Column) -> float:
        """Return the speed of a column as a share of what its job does alone; 0 where nothing is
        known that it does for all of the budget.
        """
        alone = self.alone.get(column.group)
        return min(1.0, column.samples_per_second / alone.samples_per_second) if alone else 0.0

    def _least_share(self, counts: Mapping[Column, int]) -> float:
        """Return the least share of the jobs that run; 0 where it does not count."""
        shares = (self._share(column) for column in counts)
        return min(shares, default=0.0) if self.portfolio.fair else 0.0

    def _floor(self, group: Group, least: float) -> float:
        """Return the least speed of a group of which each job has a share at least."""
        if not self.portfolio.fair or group.number not in self.alone:
            return group.job.floor
        alone = self.alone[group.number].samples_per_second
        return max(group.job.floor, least * alone * (1 - SAME))

    def _least(self, group: Group, duals: Duals, least: float) -> float:
        return self.columns.least(group, duals, self._floor(group, least))

    def _cheapest(self) -> dict[int, Column]:
        """Return the column of least dollars of each group that has any."""
        each = ((group.number, self.columns.cheapest(group)) for group in self.columns.groups)
        return {number: column for number, column in each if column is not None}


def part(share: float) -> AbstractContextManager[Allowance]:
    """Open a share of the time that is left as an allowance of its own."""
    return allowance.opened(share * allowance.current().seconds_left)
