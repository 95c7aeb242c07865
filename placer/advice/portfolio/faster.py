"""Chooses where speed counts: the most work or the least hours for a budget, and fair shares."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from placer.advice.portfolio.complete import all_columns
from placer.advice.portfolio.generation import (
    CHOOSING_S,
    CLOSED,
    CLOSING_GAP,
    MOST_CLOSED,
    OUT,
    ROUGH_GAP,
    Found,
    part,
)
from placer.advice.portfolio.greedy import one_by_one
from placer.advice.portfolio.improvement import WHOLE_S, worth
from placer.advice.portfolio.master.program import relaxed, whole
from placer.advice.portfolio.pricing.price import Pricing
from placer.advice.portfolio.pricing.search import Search
from placer.advice.portfolio.pricing.seeds import seeds
from placer.advice.portfolio.question.columns import Column, Columns, Duals, Group, groups_of
from placer.advice.portfolio.question.jobs import Portfolio
from placer.advice.portfolio.question.resources import Limits, Resource
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions

ALONE_TIME, CLOSING_TIME, EXACT_TIME, ROUNDS_TIME = 0.3, 0.4, 0.9, 0.85
"""Shares of the time that is left for the jobs alone, for all columns (the second where the gap is
small), and for rounds of prices.
"""
STEPS = 6
"""Speeds from the floor of a job to what it does alone at which first columns are made."""
PARTS = 24
"""Ranges of speeds that are bounded apart at first."""
SLOWEST = 1e-3
"""The first range ends at this share of the speed alone, where a job has no floor."""
MOST_PARTS = 120
"""Ranges of speeds of a job at one set of prices at most."""
MOST_ROUNDS = 30
"""Rounds of prices at most."""
FLAT = 1e-3
"""Least price of a dollar, as a share of the mean value of a dollar of the budget."""
HALVINGS = 12
"""Halvings of the least share that is proved to be out of reach."""
SAME = 1e-9
"""Relative slack of a share."""


@dataclass(kw_only=True)
class Faster:
    """The state of a search in which speed counts.

    Notes
    -----
    Mutable. ``alone`` is the fastest known column of each group for all of the budget, ``tops`` are
    bounds on its speed. ``raised`` is what searches proved at the latest prices: floors, and the
    least dollars with surcharges of all that is as fast; ``curves`` are bounds without a search.
    ``worths`` are the prices of the program, ``duals`` the same with a price of dollars above 0.
    """

    portfolio: Portfolio
    columns: Columns
    pricing: Pricing
    gap: float
    budget: float
    tops: dict[int, float] = field(default_factory=dict)
    alone: dict[int, Column] = field(default_factory=dict)
    raised: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    curves: dict[int, Callable[[float], float]] = field(default_factory=dict)
    duals: Duals = field(default_factory=Duals)
    worths: Duals = field(default_factory=Duals)
    rounds: int = 0

    def share(self, column: Column) -> float:
        """Return the speed of a column as a share of what its job does alone; 0 where nothing is
        known that it does for all of the budget.
        """
        alone = self.alone.get(column.group)
        return 0.0 if alone is None else min(1.0, column.samples_per_second / _speed(alone))

    def least_share(self, counts: Mapping[Column, int]) -> float:
        """Return the least share of the jobs that run; 0 where none does."""
        return min((self.share(column) for column in counts), default=0.0)

    def key(self, counts: Mapping[Column, int]) -> tuple[float, ...]:
        """Return a sort key of a choice, lowest is best."""
        *missed, value = worth(self.columns, counts)
        fair = [-round(self.least_share(counts), 9)] if self.portfolio.fair else []
        return (*missed, *fair, value)

    def floor(self, group: Group, least: float) -> float:
        """Return the least speed of a group of which each job has a share at least."""
        own = self.portfolio.floor(group.job)
        if not self.portfolio.fair or group.number not in self.alone:
            return own
        return max(own, least * self.alone[group.number].samples_per_second * (1 - SAME))

    def jobs_alone(self) -> None:
        """Search the most that each group does alone, and make columns at speeds up to that."""
        groups = self.columns.groups
        with part(ALONE_TIME):
            for number, group in enumerate(groups):
                self.tops[group.number] = inf
                left = allowance.current().seconds_left
                if left > 0:
                    self.pricing.search.most_s = max(0.1, left / (len(groups) - number))
                    found = self.pricing.search.fastest(group.job.problem, self.budget)
                    self.tops[group.number] = found.bound
                    if found.placement is not None:
                        self.columns.add(group, found.placement)
        for group in groups:
            if not self.columns.of(group.number) and self.tops[group.number] > 0:
                seeds(self.columns, group, self.portfolio.floor(group.job))  # it was stopped
            within = [c for c in self.columns.of(group.number) if c.usd <= self.budget * (1 + SAME)]
            if within:
                self.alone[group.number] = max(within, key=lambda c: (_speed(c), -c.usd))
                self._ladder(group, _speed(self.alone[group.number]))

    def _ladder(self, group: Group, top: float) -> None:
        """Add columns at several speeds up to the one alone."""
        low = max(self.portfolio.floor(group.job), top / 2**STEPS)
        for step in range(STEPS):
            if not allowance.current().spent:
                seeds(self.columns, group, low * (top / low) ** (step / STEPS))

    def all_columns(self, gap: float) -> bool:
        """Ask for all columns of all groups; tells whether none is missing."""
        most = self.budget * (1 + 1e-6)
        whole = True
        for group in self.columns.groups:
            whole = all_columns(self.pricing, group, most, gap) and whole
        return whole

    def choice(self) -> tuple[dict[Column, int], bool]:
        """Choose among the known columns; tells whether none of them do better."""
        with allowance.closing(CHOOSING_S):
            seconds = min(WHOLE_S, max(0.2, allowance.current().seconds_left / 2))
            chosen = whole(self.columns, seconds, self.share if self.portfolio.fair else None)
        return dict(chosen.counts), chosen.proved

    def generate(self, counts: Mapping[Column, int], least: float) -> None:
        """Price the jobs that run, in rounds, until one brings nothing or time is up."""
        while self.rounds < MOST_ROUNDS and not allowance.current().spent:
            self.rounds += 1
            before = len(self.columns.kept)
            self.take_prices(counts, least)
            for group in self._running(counts).groups:
                if group.count and not allowance.current().spent:
                    self.least_value(group, least, searches=3)
            if len(self.columns.kept) == before:
                break

    def bound(self, counts: Mapping[Column, int], least: float) -> float | None:
        """Return a bound on the value of the jobs that run, each with a share at least."""
        if not self.duals.budget:
            self.take_prices(counts, least)
        groups = [group for group in self._running(counts).groups if group.count]
        each = [(group.count, self.least_value(group, least)) for group in groups]
        total = sum(count * value for count, value in each) - self._paid(self.duals)
        return total if -inf < total < inf else None

    def share_bound(self, counts: Mapping[Column, int], reached: float) -> float:
        """Return a share that no choice gives all the jobs that run, found by halving."""
        low, high = reached, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self._out_of_reach(counts, middle):
                high = middle
            else:
                low = middle
        return high

    def least_value(self, group: Group, least: float, searches: int = 0) -> float:
        """Return a bound on the reduced value of a group's columns at the latest prices.

        Parameters
        ----------
        least
            Share that each job has at least.
        searches
            At most so many; ranges of speeds are bounded by fractions of workers otherwise.

        Notes
        -----
        A column in a range of speeds has at most the value of its upper end, and at least the
        dollars of its lower end. The range with the weakest bound is halved until it is so narrow
        that its dollars decide, and these are then searched.
        """
        heap = [(self._at(group, low, high), low, high) for low, high in self._ranges(group, least)]
        heapq.heapify(heap)
        own = (c for c in self.columns.of(group.number) if self.share(c) >= least * (1 - SAME))
        best = min((c.reduced(self.duals) for c in own), default=inf)
        while heap:
            bound, low, high = heap[0]
            near = self.pricing.search.options.gap * abs(best)
            if bound >= best - near or allowance.current().spent:
                break
            if high > low * (1 + self.gap) and len(heap) < MOST_PARTS and low > 0:
                heapq.heappop(heap)
                middle = (low * high) ** 0.5
                heapq.heappush(heap, (max(bound, self._at(group, low, middle)), low, middle))
                heapq.heappush(heap, (max(bound, self._at(group, middle, high)), middle, high))
            elif searches > 0:
                searches -= 1
                best = min(best, self._searched(group, low))
                heap = [(max(b, self._at(group, lo, hi)), lo, hi) for b, lo, hi in heap]
                heapq.heapify(heap)
                if heap[0][1:] == (low, high) and heap[0][0] <= bound:
                    break
            else:
                break
        return heap[0][0] if heap else inf

    def _searched(self, group: Group, floor: float) -> float:
        """Search the least dollars at a floor and add its column; return its reduced value."""
        surcharges, factor = self._surcharges(self.duals)
        own = (c for c in self.columns.of(group.number) if c.samples_per_second >= floor)
        best = min(own, key=lambda c: c.reduced(self.duals) - self._gain(c), default=None)
        known = inf if best is None else (best.reduced(self.duals) - self._gain(best)) / factor
        found = self.pricing.search.cheapest(
            group.job.problem,
            surcharges,
            floor,
            known=known,
            start=None if best is None else best.placement,
        )
        self.raised.setdefault(group.number, []).append((floor, found.bound))
        made = [] if found.placement is None else self.columns.add(group, found.placement)
        return min((column.reduced(self.duals) for column in made), default=inf)

    def _gain(self, column: Column) -> float:
        """Return the part of a column's value that is not dollars."""
        return 0.0 if self.portfolio.objective == "cost" else column.value

    def _ranges(self, group: Group, least: float) -> list[tuple[float, float]]:
        """Cut the speeds that a group may have into ranges."""
        floor, top = self.floor(group, least), self.tops[group.number]
        if floor > top * (1 + SAME):
            return []
        if self.portfolio.objective == "cost" or top == inf:
            return [(floor, top)]
        first = max(floor, top * SLOWEST)
        edges = [first * (top / first) ** (i / PARTS) for i in range(PARTS + 1)]
        below = [(floor, first)] if floor < first else []
        return [*below, *pairwise(edges)]

    def _at(self, group: Group, low: float, high: float) -> float:
        """Return a bound on the reduced value of columns whose speed is in a range."""
        surcharges, factor = self._surcharges(self.duals)
        if group.number not in self.curves:
            problem = group.job.problem
            self.curves[group.number] = self.pricing.search.curve(problem, surcharges)
        usd = self.curves[group.number](low)
        known = (least for floor, least in self.raised.get(group.number, ()) if floor <= low)
        usd = max(usd, max(known, default=0.0))
        if usd == inf:
            return inf
        if self.portfolio.objective == "cost":
            return factor * usd
        if high == inf:
            return 0.0 if self.portfolio.objective == "time" else -inf
        return self.portfolio.value(group.job, 0.0, high) + factor * usd

    def _surcharges(self, duals: Duals) -> tuple[dict[Resource, float], float]:
        """Return USD per hour for a unit of each resource, and the value of a dollar."""
        factor = duals.budget + (1.0 if self.portfolio.objective == "cost" else 0.0)
        return {held[0]: price / factor for held, price in duals.prices.items()}, factor

    def _running(self, counts: Mapping[Column, int]) -> Columns:
        """Return the columns with as many jobs of each group as run."""
        run = [0] * len(self.columns.groups)
        for column, count in counts.items():
            run[column.group] += count
        groups = tuple(
            replace(group, members=group.members[:n])
            for group, n in zip(self.columns.groups, run, strict=True)
        )
        return replace(self.columns, groups=groups)

    def take_prices(self, counts: Mapping[Column, int], least: float) -> None:
        """Take the prices of the master program of the jobs that run, with shares at least."""
        running = self._running(counts)
        kept = {
            key: column
            for key, column in self.columns.kept.items()
            if not self.portfolio.fair or self.share(column) >= least * (1 - SAME)
        }
        duals = relaxed(replace(running, kept=kept), self._out(running)).duals
        self.worths = duals
        flat = FLAT * sum(n * abs(column.value) for column, n in counts.items()) / self.budget
        self.duals = replace(duals, budget=max(duals.budget, flat, 1e-12))
        self.raised.clear()
        self.curves.clear()

    def _out(self, running: Columns) -> list[float]:
        """Return the value of leaving out one job of each group: more than any choice is worth."""
        most = sum(
            group.count * max((abs(c.value) for c in self.columns.of(group.number)), default=0.0)
            for group in running.groups
        )
        return [OUT * max(most, 1e-6)] * len(running.groups)

    def _paid(self, duals: Duals) -> float:
        """Return what prices are paid for: all that there is of each resource, and the budget."""
        limits = self.columns.limits
        sums = sum(price * limits.capacity(held) for held, price in duals.prices.items())
        return sums + duals.budget * self.budget

    def _out_of_reach(self, counts: Mapping[Column, int], least: float) -> bool:
        """Tell whether the jobs that run cost more than the budget where each has a share at least.

        Notes
        -----
        Lagrange's bound on their dollars, at the prices of the program of least dollars.
        """
        running = self._running(counts)
        groups = [group for group in running.groups if group.count]
        if any(self.floor(g, least) > self.tops[g.number] * (1 + SAME) for g in groups):
            return True
        kept = {
            key: replace(column, value=column.usd)
            for key, column in self.columns.kept.items()
            if self.share(column) >= least * (1 - SAME)
        }
        out = [OUT * self.budget] * len(running.groups)
        free = replace(self.portfolio, budget_usd=None)
        duals = relaxed(replace(running, kept=kept, portfolio=free), out).duals
        surcharges = {held[0]: price for held, price in duals.prices.items()}
        search = self.pricing.search
        total = -sum(
            price * self.columns.limits.capacity(held) for held, price in duals.prices.items()
        )
        for group in groups:
            floor = self.floor(group, least)
            total += group.count * search.relaxed(
                group.job.problem, surcharges, floor, per_sample=False
            )
        return total > self.budget * (1 + SAME)


def _speed(column: Column) -> float:
    return column.samples_per_second


def faster(portfolio: Portfolio, options: SolveOptions) -> Found:
    """Choose who runs where: for the most work or the least hours, or with fair shares, in the
    allowance that is open.

    Parameters
    ----------
    options
        Gap of the portfolio.
    """
    assert portfolio.budget_usd is not None
    groups = groups_of(portfolio)
    columns = Columns(portfolio=portfolio, limits=Limits(portfolio=portfolio), groups=groups)
    gap = max(options.gap * CLOSING_GAP, CLOSED)
    search = Search(columns=columns, options=SolveOptions(gap=gap, cancel=options.cancel))
    state = Faster(
        portfolio=portfolio,
        columns=columns,
        pricing=Pricing(columns=columns, search=search),
        gap=options.gap,
        budget=portfolio.budget_usd,
    )
    state.jobs_alone()
    order = sorted(groups, key=lambda group: (-group.job.priority, group.members[0]))
    closed = False
    if len(groups) <= MOST_CLOSED or options.gap < ROUGH_GAP:
        with part(CLOSING_TIME if options.gap >= ROUGH_GAP else EXACT_TIME):
            closed = state.all_columns(gap)
    counts, proved = state.choice()
    if not closed:
        with part(ROUNDS_TIME):
            state.generate(counts, state.least_share(counts))
        again, proved = state.choice()
        counts = min(counts, again, key=state.key)
    greedy = one_by_one(state.pricing, order, searched=False)
    counts = min(counts, greedy, key=state.key)
    least, closed = state.least_share(counts), closed and proved
    with allowance.closing(CHOOSING_S):
        value = worth(columns, counts)[-1]
        bound = value - gap * abs(value) if closed else state.bound(counts, least)
        top = least if closed or not portfolio.fair else state.share_bound(counts, least)
        if not state.duals.budget:
            state.take_prices(counts, least)
    return Found(
        columns=columns,
        counts=counts,
        greedy=greedy,
        alone=state.alone,
        bound=bound,
        duals=state.worths,
        proved_out=closed or sum(counts.values()) == len(portfolio.jobs),
        rounds=state.rounds,
        searches=search.searches,
        shares=(least, top) if portfolio.fair else None,
    )
