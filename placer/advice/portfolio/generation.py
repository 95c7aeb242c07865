"""Chooses who runs where: columns at prices of what is shared, and one integer program."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf

from placer.advice.portfolio.bounds import Bounds, all_columns
from placer.advice.portfolio.columns import Column, Columns, Duals, Group
from placer.advice.portfolio.jobs import Portfolio
from placer.advice.portfolio.pricing import Pricing, one_by_one, running, worth
from placer.advice.portfolio.search import Search, Sought, seeds
from placer.documents.schemas.many import ResourceWorth
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
"""One search takes no longer where the gap is not small: seconds, or a share of all time if more.
"""
NEAR = 0.1
"""Share of the gap below which what all jobs may gain together is not searched for."""
ROUNDS_GAP = 0.75
"""Gap of the program with fractions over the gap that is asked for: whole jobs may cost more."""
SHARE = 3.0
"""One search to the end takes no more than the time that is left over this."""
ALONE_TIME, ROUNDS_TIME, CLOSING_TIME, EXACT_TIME = 0.3, 0.7, 0.4, 0.9
"""Shares of the time left for jobs alone, for rounds, for all columns (last: for a small gap)."""
CHOOSING_S, WHOLE_S = 0.8, 5.0
"""Seconds after the end in which a choice among the known columns is made, and of one program."""
STEPS = 6
"""Speeds from the floor of a job to what it does alone at which first columns are made."""
SAME = 1e-9
"""Relative slack of a budget."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the search for a portfolio ended with.

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
    worths: tuple[ResourceWorth, ...] = ()


def chosen(portfolio: Portfolio, options: SolveOptions) -> Found:
    """Choose who runs where and when; Ctrl-C uses the time up: the best so far is returned."""
    started = time.perf_counter()
    limits = options.time_limit_s, options.memory_limit_bytes, options.cancel
    with allowance.opened(*limits) as own:
        found = Generation(portfolio, options).solved()
        stopped = own.spent is not None
    return replace(found, seconds=time.perf_counter() - started, stopped=stopped)


class Generation:
    """The state of a column generation; mutable."""

    def __init__(self, portfolio: Portfolio, options: SolveOptions) -> None:
        self.portfolio, self.gap, self.rounds = portfolio, options.gap, 0
        self.columns = Columns(portfolio=portfolio)
        gap = max(options.gap * PRICING_GAP, CLOSED)
        search = Search(options=SolveOptions(gap=gap, cancel=options.cancel))
        if not self.small and options.time_limit_s < inf:
            search.most_s = max(ROUGH_S, ROUGH_SHARE * options.time_limit_s)
        self.pricing = Pricing(columns=self.columns, search=search)
        self.bounds = Bounds(columns=self.columns, pricing=self.pricing)

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
        self.begin()
        if not (self.small and self.portfolio.by_speed):
            with part(ROUNDS_TIME):
                self._rounds(self.everyone)
        counts = greedy = one_by_one(self.pricing, searched=False)
        counts = self._best(counts, self._whole()[0])
        if not self._enough(counts):
            greedy = self._best(greedy, one_by_one(self.pricing))
            counts = self._best(counts, greedy, one_by_one(self.pricing, counts))
            counts = self._best(counts, self._whole()[0])
        closed = False
        if self.small and not self._enough(counts):
            with part(CLOSING_TIME if self.gap >= ROUGH_GAP else EXACT_TIME):
                closed = self._all_columns(counts)
            again, proved = self._whole()
            counts, closed = self._best(counts, again), closed and proved
        if not closed and not self._enough(counts):
            counts = self._proved(counts)
        return self._found(counts, self._best(greedy), closed=closed)

    def _found(
        self, counts: dict[Column, int], greedy: dict[Column, int], *, closed: bool
    ) -> Found:
        """Say what is proved of a choice; ``closed``: it is the best of all, to the gap."""
        bounds, fair = self.bounds, self.portfolio.fair
        run, value, share = self._state(counts)
        _, prices = bounds.program(run, share)
        if not closed and (self.small or bounds.tried):
            bounds.price(prices, share, run, inf)
        bound = value - self.closing_gap * abs(value) if closed else bounds.bound(run, share)
        top = share if closed or not fair else bounds.most_share(run, share)
        cheapest = ((g.number, self.columns.cheapest(g)) for g in self.columns.groups)
        alone = {number: column for number, column in cheapest if column is not None}
        alone = dict(bounds.alone) if self.portfolio.by_speed else alone
        for group in self.columns.groups:
            if group.number not in alone and group.job.team:
                alone.update((group.number, column) for column in self._without_team(group))
        return Found(
            columns=self.columns,
            counts=counts,
            greedy=greedy,
            alone=alone,
            bound=None if bound == -inf else bound,
            duals=prices,
            proved_out=closed or run == self.everyone,
            rounds=self.rounds,
            searches=self.pricing.search.searches,
            shares=(share, top) if fair else None,
            worths=tuple(bounds.worths(counts, prices)),
        )

    def _state(self, counts: Mapping[Column, int]) -> tuple[list[int], float, float]:
        """Return how many jobs of each group run, their value, and their least share."""
        value = worth(self.columns, counts)[-1]
        return running(self.columns, counts), value, self.bounds.least_share(counts)

    def _without_team(self, group: Group) -> list[Column]:
        """Return what a job that its team keeps from running would take without the team."""
        if allowance.current().spent:
            return []
        sought = Sought(floor=self.pricing.slowest(group))
        found = self.pricing.search.cheapest(group.job.problem, sought).placement
        return [] if found is None else [*self.columns.made(group, found)][:1]

    def begin(self) -> None:
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
            self.bounds.price(Duals(), 0.0, self.everyone, near)

    def _begin_alone(self, group: Group, waiting: int) -> None:
        """Search the most that a job does alone in its part of the time; make columns up to it."""
        search, job = self.pricing.search, group.job
        budget = self.portfolio.most_usd(job)
        self.pricing.tops[group.number] = inf
        if not allowance.current().spent:
            search.most_s = max(0.1, allowance.current().seconds_left / waiting)
            found = search.fastest(group.question, budget)
            self.pricing.tops[group.number] = found.bound
            if found.placement is not None:
                self.columns.add(group, found.placement)
        if not self.columns.of(group) and self.pricing.tops[group.number] > 0:
            seeds(self.columns, group, job.floor)  # the search was stopped
        within = [c for c in self.columns.of(group) if c.usd <= budget * (1 + SAME)]
        if not within:
            return
        self.bounds.alone[group.number] = max(within, key=lambda c: (c.samples_per_second, -c.usd))
        top = self.bounds.alone[group.number].samples_per_second
        low = max(job.floor, top / 2**STEPS)
        for step in range(STEPS):
            if not allowance.current().spent:
                seeds(self.columns, group, low * (top / low) ** (step / STEPS))

    def _rounds(self, run: Sequence[int], share: float = 0.0) -> None:
        """Price jobs at the prices of the program, until it is near its bound or finds nothing."""
        known = -1
        while len(self.columns) > known and not allowance.current().spent:
            value, duals = self.bounds.program(run, share)
            away = value - self.bounds.with_jobs_out(run)
            if away <= ROUNDS_GAP * self.gap * abs(value) or self.rounds >= MOST_ROUNDS:
                break
            known = len(self.columns)
            self.rounds += 1
            near = NEAR * self.gap * abs(value) / max(1, sum(run))
            self.bounds.price(duals, share, run, near)

    def _enough(self, counts: Mapping[Column, int]) -> bool:
        """Tell whether every job runs, and the value is within the gap."""
        run, value, _ = self._state(counts)
        if run != self.everyone or self.portfolio.fair:
            return False
        return value - self.bounds.bound(run) <= self.gap * abs(value)

    def _best(self, *choices: dict[Column, int]) -> dict[Column, int]:
        """Return the best choice."""

        def key(counts: Mapping[Column, int]) -> tuple[float, ...]:
            *missed, value = worth(self.columns, counts)
            return (*missed, -round(self.bounds.least_share(counts), 9), value)

        return min(choices, key=key)

    def _whole(self) -> tuple[dict[Column, int], bool]:
        """Choose among the known columns; tells whether none of them do better."""
        with allowance.closing(CHOOSING_S):
            seconds = min(WHOLE_S, max(0.2, allowance.current().seconds_left / 2))
            return self.bounds.whole(seconds)

    def _all_columns(self, counts: Mapping[Column, int]) -> bool:
        """Ask for all columns that may make a choice better; tells whether none is missing."""
        run, value, _ = self._state(counts)
        best, thresholds = self.bounds.best(run), [inf] * len(run)
        if self.portfolio.by_speed:
            thresholds = [(self.portfolio.budget_usd or inf) * (1 + 1e-6)] * len(run)
        elif run == self.everyone and best is not None:
            # A better choice has no column whose reduced value is above its bound by the gap.
            thresholds = [bound + value - self.bounds.at(best, run) for bound in best.each]
        teams = self.portfolio.team_usd  # no column costs more than its team has
        thresholds = [
            min(most, teams.get(group.job.team, inf) * (1 + 1e-6))
            for group, most in zip(self.columns.groups, thresholds, strict=True)
        ]
        each = zip(self.columns.groups, thresholds, strict=True)
        whole = [all_columns(self.pricing, g, most, self.closing_gap) for g, most in each]
        return all(whole)

    def _proved(self, counts: dict[Column, int]) -> dict[Column, int]:
        """Ask for what bounds a choice better: the prices of the jobs that run, then searches to
        their end, the weakest proof first; returns the best choice.
        """
        run, value, share = self._state(counts)
        if run != self.everyone or self.portfolio.by_speed:
            with part(ROUNDS_TIME):
                self._rounds(run, share)
            counts = self._best(counts, self._whole()[0])
            run, value, share = self._state(counts)
        best = self.bounds.best(run, share)
        if best is None:
            return counts
        known, done = len(self.columns), set[int]()
        while not allowance.current().spent:
            hopes = [
                (run[g.number] * self.bounds.hope(g, best), -g.number)
                for g in self.columns.groups
                if run[g.number] and g.number not in done
            ]
            hope, number = max(hopes, default=(0.0, 0))
            if value - self.bounds.at(best, run) <= self.gap * abs(value) or hope <= 0:
                break
            group = self.columns.groups[-number]
            done.add(group.number)
            self.pricing.search.most_s = max(1.0, allowance.current().seconds_left / SHARE)
            found = self.pricing.bound(group, best.duals, self.bounds.floor(group, best.share))
            best.each[group.number] = max(best.each[group.number], found)
        return self._best(counts, self._whole()[0]) if len(self.columns) > known else counts


def part(share: float) -> AbstractContextManager[Allowance]:
    """Open a share of the time that is left as an allowance of its own."""
    return allowance.opened(share * allowance.current().seconds_left)
