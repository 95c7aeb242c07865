"""Column generation: master program, prices, new columns, until the bound is as good as asked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import inf

from placer.advice.portfolio.complete import completed, threshold_of
from placer.advice.portfolio.greedy import Ledger, one_by_one
from placer.advice.portfolio.improvement import chosen_whole, improved, worth
from placer.advice.portfolio.master.bounds import Known, lagrangean
from placer.advice.portfolio.master.program import Relaxed, relaxed
from placer.advice.portfolio.pricing.price import Pricing
from placer.advice.portfolio.pricing.search import Search
from placer.advice.portfolio.pricing.seeds import seeds
from placer.advice.portfolio.question.columns import Column, Columns, Duals, Group, groups_of
from placer.advice.portfolio.question.jobs import Portfolio
from placer.advice.portfolio.question.resources import Limits
from placer.solving import allowance
from placer.solving.answer import SolveOptions

MOST_ROUNDS = 60
"""Rounds of prices at most."""
PRICING_GAP = 0.4
"""Gap of one search over the gap that is asked for the portfolio."""
MOST_CLOSED = 8
"""Groups of jobs up to which all columns are asked for, where the gap is not small."""
SHARE = 3.0
"""One search to the end takes no more than the time that is left over this."""
NODES = 60
"""Nodes of one search where the gap is not small."""
ROUGH_GAP = 1e-3
KEEP = 0.5
"""Share of the best prices so far in the next ones: prices of the program alone swing (Wentges,
1997).
"""
CLOSED = 1e-6
"""Relative gap of a choice among all columns, at least."""
CHOOSING_S = 2.0
"""Seconds after the end in which whole numbers of the known columns are chosen."""
OUT = 10.0
"""Leaving out a job costs so many times what all jobs cost alone: any job is worth its place."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the search for a portfolio ended with.

    Notes
    -----
    ``counts``: columns and how many jobs of the group have each. ``bound``: the same jobs cannot do
    better. ``greedy`` is the choice one by one. ``alone`` is each group's best column with the
    market to itself. ``proved_out``: no choice leaves out less. ``stopped``: time or the user ended
    it.
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
    seconds: float
    stopped: bool


@dataclass(kw_only=True)
class Generation:
    """The state of a column generation.

    Notes
    -----
    Mutable.
    """

    portfolio: Portfolio
    columns: Columns
    pricing: Pricing
    known: list[Known]
    gap: float
    tried: list[Duals] = field(default_factory=list)
    best: Duals = field(default_factory=Duals)
    best_bound: float = -inf
    rounds: int = 0
    closed_at: float | None = None

    @property
    def closing_gap(self) -> float:
        """Return the relative gap of a choice among all columns."""
        return max(CLOSED, self.gap * PRICING_GAP if self.gap >= ROUGH_GAP else 0.0)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups of jobs."""
        return self.columns.groups

    def out(self) -> list[float]:
        """Return the value of leaving out one job of each group."""
        alone = sum(
            group.count * min((c.usd for c in self.columns.of(group.number)), default=0.0)
            for group in self.groups
        )
        unit = OUT * max(alone, 1e-6)
        return [unit * group.job.weight for group in self.groups]

    def price(self, group: Group, duals: Duals) -> None:
        """Price one job and keep what is proved."""
        self.known[group.number].learn(duals, self.pricing.bound(group, duals))

    def round(self, program: Relaxed) -> bool:
        """Price the jobs that may have better columns; tells whether the bound moved or a column
        was found.
        """
        duals = program.duals
        if self.best_bound > -inf:
            duals = duals.mixed(self.best, KEEP)
        columns, before = len(self.columns.kept), self.best_bound
        for target in (duals, program.duals):
            self.price_at(target, program.value)
            if len(self.columns.kept) > columns or self.best_bound > before + 1e-9 * abs(before):
                return True
        return False

    def price_at(self, duals: Duals, value: float) -> None:
        """Price the jobs that may have better columns at some prices.

        Parameters
        ----------
        value
            About what the portfolio is worth: what is small beside it waits.
        """
        enough = self.gap * PRICING_GAP * abs(value) / max(1, len(self.groups))
        out, lists = self.out(), self.columns.by_group()
        hopes = []
        for group in self.groups:
            reached = min((c.reduced(duals) for c in lists[group.number]), default=inf)
            limit = min(reached, out[group.number])
            hope = group.count * (limit - min(limit, self.known[group.number].at(duals)))
            hopes.append((hope, group))
        for hope, group in sorted(hopes, key=lambda pair: -pair[0]):
            if hope > enough and not allowance.current().spent:
                self.price(group, duals)
        self.tried.append(duals)
        bound = lagrangean(self.columns, self.known, duals, out)
        if bound > self.best_bound:
            self.best_bound, self.best = bound, duals

    def tighten(self, value: float) -> None:
        """Search the jobs that are proved worst to the end, at the best prices so far.

        Parameters
        ----------
        value
            Of the choice so far: a bound within the gap of it is enough.
        """
        self.pricing.hard.clear()
        self.pricing.search.nodes, self.pricing.search.most_s = None, inf
        out, lists = self.out(), self.columns.by_group()
        hopes = []
        for group in self.groups:
            reached = min((c.reduced(self.best) for c in lists[group.number]), default=inf)
            limit = min(reached, out[group.number])
            least = self.known[group.number].at(self.best)
            hopes.append((group.count * (limit - least), group))
        for hope, group in sorted(hopes, key=lambda pair: -pair[0]):
            bound = lagrangean(self.columns, self.known, self.best, out)
            if bound >= value - self.gap * abs(value) or hope <= 0:
                break
            if allowance.current().spent:
                break
            self.pricing.search.most_s = max(1.0, allowance.current().seconds_left / SHARE)
            self.price(group, self.best)

    def bound_of(self, run: list[int]) -> float | None:
        """Return a bound on the value of running so many jobs of each group, if one is known."""
        known = [
            Known(
                group=Group(number=k.group.number, job=k.group.job, members=k.group.members[:n]),
                limits=k.limits,
                proofs=k.proofs,
            )
            for k, n in zip(self.known, run, strict=True)
        ]
        must = [inf] * len(self.groups)
        columns = Columns(
            portfolio=self.columns.portfolio,
            limits=self.columns.limits,
            groups=tuple(k.group for k in known),
        )
        if self.closed_at is not None:
            return self.closed_at * (1 - self.closing_gap)
        bounds = [lagrangean(columns, known, duals, must) for duals in (Duals(), *self.tried)]
        best = max((bound for bound in bounds if bound < inf), default=-inf)
        return None if best == -inf else best


def solved(portfolio: Portfolio, options: SolveOptions) -> Found:
    """Choose who runs where and when.

    Parameters
    ----------
    options
        Gap of the portfolio and time for all of it.
    """
    started = time.perf_counter()
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel) as own:
        found = _solved(portfolio, options, started)
        stopped = own.spent is not None
    return replace(found, stopped=stopped)


def _solved(portfolio: Portfolio, options: SolveOptions, started: float) -> Found:
    limits, groups = Limits(portfolio=portfolio), groups_of(portfolio)
    columns = Columns(portfolio=portfolio, limits=limits, groups=groups)
    each = SolveOptions(gap=max(options.gap * PRICING_GAP, 1e-6), cancel=options.cancel)
    nodes = NODES if options.gap >= ROUGH_GAP else None
    pricing = Pricing(columns=columns, search=Search(columns=columns, options=each, nodes=nodes))
    known = [Known(group=group, limits=limits) for group in groups]
    state = Generation(
        portfolio=portfolio, columns=columns, pricing=pricing, known=known, gap=options.gap
    )
    for group in groups:
        known[group.number].learn(Duals(), pricing.least(group))
        if not allowance.current().spent:
            seeds(columns, group, portfolio.floor(group.job))
    state.price_at(Duals(), sum(g.count * _least(columns.of(g.number)) for g in groups))
    alone = {g.number: min(columns.of(g.number), key=_usd) for g in groups if columns.of(g.number)}
    order = sorted(groups, key=lambda group: (-group.job.priority, group.members[0]))
    counts = _all_alone(state, alone)
    greedy, proved_out = counts, counts is not None
    if counts is None:
        greedy = one_by_one(pricing, order)
        counts, proved_out = _generated(state, greedy)
    assert greedy is not None
    if nodes is not None and state.closed_at is None:
        counts = _tightened(state, counts)
    run = [0] * len(groups)
    for column, count in counts.items():
        run[column.group] += count
    return Found(
        columns=columns,
        counts=counts,
        greedy=greedy,
        alone=alone,
        bound=state.bound_of(run)
        if state.closed_at is None
        else state.closed_at * (1 - state.closing_gap),
        duals=state.best,
        proved_out=proved_out or sum(run) == len(portfolio.jobs),
        rounds=state.rounds,
        searches=pricing.search.searches,
        seconds=time.perf_counter() - started,
        stopped=False,
    )


def _tightened(state: Generation, counts: dict[Column, int]) -> dict[Column, int]:
    """Return a choice after the worst proofs are taken up again."""
    value = worth(state.columns, counts)[-1]
    before = len(state.columns.kept)
    state.tighten(value)
    if len(state.columns.kept) > before:
        with allowance.closing(CHOOSING_S):
            again = chosen_whole(state.columns)
        if again is not None and worth(state.columns, again.counts) < worth(state.columns, counts):
            return dict(again.counts)
    return counts


def _usd(column: Column) -> float:
    return column.usd


def _least(columns: list[Column]) -> float:
    return min((column.usd for column in columns), default=0.0)


def _all_alone(state: Generation, alone: dict[int, Column]) -> dict[Column, int] | None:
    """Return every job with the placement that it would have alone, if they fit together."""
    ledger, counts = Ledger(state.columns), dict[Column, int]()
    if state.portfolio.blocks:
        return None
    for group in state.groups:
        column = alone.get(group.number)
        if column is None:
            return None
        for _ in range(group.count):
            if not ledger.fits(column):
                return None
            ledger.take(column)
        counts[column] = group.count
    return counts


def _generated(state: Generation, greedy: dict[Column, int]) -> tuple[dict[Column, int], bool]:
    """Generate columns from a first choice on, and choose whole numbers of them."""
    columns = state.columns
    while state.rounds < MOST_ROUNDS and not allowance.current().spent:
        out = state.out()
        program = relaxed(columns, out)
        state.rounds += 1
        if program.value - state.best_bound <= state.gap / 4 * abs(program.value):
            break
        if not state.round(program):
            break
    with allowance.closing(CHOOSING_S):
        best, first = greedy, chosen_whole(columns)
        if first is not None and worth(columns, first.counts) < worth(columns, best):
            best = dict(first.counts)
    enough = state.best_bound + state.gap * abs(state.best_bound)
    best = improved(state.pricing, best, state.known, state.best, enough)
    if worth(columns, best)[-1] <= enough and _everyone(state, best):
        return best, True
    if state.gap >= ROUGH_GAP and len(state.groups) > MOST_CLOSED:
        return best, False
    least = tuple(proofs.at(state.best) for proofs in state.known)
    bound = lagrangean(columns, state.known, state.best, [inf] * len(state.groups))
    best, proved = completed(
        state.pricing, best, threshold_of(columns, best, least, bound), state.closing_gap
    )
    if proved:
        state.closed_at = worth(columns, best)[-1]
    return best, proved


def _everyone(state: Generation, counts: dict[Column, int]) -> bool:
    """Tell whether every job runs."""
    return sum(counts.values()) == len(state.portfolio.jobs)
