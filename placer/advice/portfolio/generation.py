"""Column generation: master program, prices, new columns, until the bound is as good as asked."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
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
from placer.solving.allowance import Allowance
from placer.solving.answer import SolveOptions

MOST_ROUNDS = 60
"""Rounds of prices at most."""
CLOSING_GAP = 0.4
"""Gap of a choice among all columns over the gap that is asked for the portfolio."""
PRICING_GAP = 0.01
"""Gap of one search over that gap: nearly nothing, as most searches take no longer for it."""
SMALL = 0.1
"""Share of that gap below which what all jobs may gain together is not searched for."""
MOST_CLOSED = 8
"""Groups of jobs up to which all columns are asked for, where the gap is not small."""
SHARE = 3.0
"""One search to the end takes no more than the time that is left over this."""
ROUGH_S, ROUGH_SHARE = 0.5, 1 / 60
"""One search takes no longer where the gap is not small: seconds, or this share of all time if that
is more.
"""
ROUGH_GAP = 1e-3
"""Gaps from here on are not small."""
ROUNDS_TIME, PROOFS_TIME, ONE_BY_ONE_TIME = 0.7, 0.8, 0.6
"""Shares of the time that is left for rounds of prices, then for proofs at the best prices, then
for the choice one by one.
"""
BETWEEN = (0.25, 0.5, 0.75)
"""Shares of the best prices so far in prices that are looked at with all that is proved by now."""
LATEST = 6
"""Prices of the latest rounds that are looked at again."""
CLOSED = 1e-6
"""Relative gap of a choice among all columns, at least."""
CHOOSING_S = 0.8
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
    seconds: float = 0.0
    stopped: bool = False
    shares: tuple[float, float] | None = None


@dataclass(kw_only=True)
class Generation:
    """The state of a column generation.

    Notes
    -----
    Mutable. ``settled`` are prices of the program at which no search has found a better column.
    """

    portfolio: Portfolio
    columns: Columns
    pricing: Pricing
    known: list[Known]
    gap: float
    tried: list[Duals] = field(default_factory=list)
    best: Duals = field(default_factory=Duals)
    best_bound: float = -inf
    settled: Duals | None = None
    rounds: int = 0
    closed_at: float | None = None
    _asked: tuple[Duals, set[int]] = field(default_factory=lambda: (Duals(), set()))

    @property
    def closing_gap(self) -> float:
        """Return the relative gap of a choice among all columns."""
        return max(CLOSED, self.gap * CLOSING_GAP if self.gap >= ROUGH_GAP else 0.0)

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

    @cached_property
    def families(self) -> dict[tuple[object, ...], list[Group]]:
        """Groups of each family of jobs; none of several where a job has slots of its own."""
        families: dict[tuple[object, ...], list[Group]] = {}
        for group in self.groups:
            own = () if self.portfolio.slots is None else (group.number,)
            families.setdefault((*group.job.family, *own), []).append(group)
        return families

    @cached_property
    def _family_of(self) -> dict[int, list[Group]]:
        return {group.number: family for family in self.families.values() for group in family}

    def learn(self, group: Group, duals: Duals, bound: float) -> None:
        """Keep what is proved of a job, for all jobs of its family that must be as fast."""
        floor = self.portfolio.floor(group.job)
        for other in self._family_of[group.number]:
            if self.portfolio.floor(other.job) >= floor:
                self.known[other.number].learn(duals, bound)

    def price(self, group: Group, duals: Duals) -> None:
        """Price one job: keep what is proved, and what is found for slower jobs of its family."""
        before = len(self.columns.kept)
        self.learn(group, duals, self.pricing.bound(group, duals))
        if self.portfolio.slots is None:
            for column in list(self.columns.kept.values())[before:]:
                self._hand_on(column, duals)

    def _hand_on(self, column: Column, duals: Duals) -> None:
        """Add a placement to the columns of jobs of the family that have no better one."""
        value = column.reduced(duals)
        for other in self._family_of[column.group]:
            if self.portfolio.floor(other.job) <= column.samples_per_second:
                own = (c.reduced(duals) for c in self.columns.of(other.number))
                if value < min(own, default=inf):
                    self.pricing.keep(other, column.placement)

    def hope(self, group: Group, duals: Duals, columns: list[Column], out: float) -> float:
        """Return by how much the bound may rise by pricing a job: 0 where a search is as near."""
        reached = min((c.reduced(duals) for c in columns), default=inf)
        limit = min(reached, out)
        hope = limit - min(limit, self.known[group.number].at(duals))
        near = self.pricing.search.options.gap * abs(limit) * (1 + 1e-6)
        return group.count * hope if hope > near else 0.0

    def round(self, program: Relaxed) -> bool:
        """Price the jobs that may have better columns; tells whether there was any."""
        found = self.price_at(program.duals, program.value)
        self.settled = None if found or allowance.current().spent else program.duals
        return found

    def price_at(self, duals: Duals, value: float) -> bool:
        """Price the jobs of which most is to be hoped at some prices; tells whether there was any.

        Parameters
        ----------
        value
            About what the portfolio is worth: what is small beside it waits.
        """
        enough = self.gap * SMALL * abs(value) / max(1, len(self.groups))
        out = self.out()
        for group in self.groups:
            self.known[group.number].learn(duals, self.pricing.least(group, duals))
        if self._asked[0] != duals:
            self._asked = duals, set()
        asked = self._asked[1]
        priced = False
        for _, group in self._hopes(duals, out):
            if group.number in asked or group.number in self.pricing.hard:
                continue
            own = self.columns.of(group.number)
            if self.hope(group, duals, own, out[group.number]) <= enough:
                continue
            if allowance.current().spent:
                break
            asked.add(group.number)
            self.price(group, duals)
            priced = True
        self.tried.append(duals)
        self._bounded(duals, out)
        return priced

    def _hopes(self, duals: Duals, out: list[float]) -> list[tuple[float, Group]]:
        """List the jobs that may be priced, the most hope first."""
        lists = self.columns.by_group()
        hopes = [
            (self.hope(group, duals, lists[group.number], out[group.number]), group)
            for group in self.groups
            if group.number not in self.pricing.hard
            and (self._asked[0] != duals or group.number not in self._asked[1])
        ]
        return sorted((pair for pair in hopes if pair[0] > 0), key=lambda pair: -pair[0])

    def _bounded(self, duals: Duals, out: list[float]) -> None:
        bound = lagrangean(self.columns, self.known, duals, out)
        if bound > self.best_bound:
            self.best_bound, self.best = bound, duals

    def settle(self) -> None:
        """Take the prices at which what is proved by now gives the best bound: those of the latest
        programs, and prices between them and the best so far.
        """
        if allowance.current().spent or not self.tried:
            return
        out, last = self.out(), relaxed(self.columns, self.out()).duals
        between = [last.mixed(self.best, share) for share in BETWEEN]
        for duals in (*self.tried[-LATEST:], last, *between):
            self._bounded(duals, out)
        self.tried.append(self.best)

    def tighten(self, value: float) -> None:
        """Search the jobs that are proved worst to the end, at the prices of the program if no
        search has found a better column there, then at the best ones so far.

        Parameters
        ----------
        value
            Of the choice so far: a bound within the gap of it is enough.

        Notes
        -----
        No prices can have a better bound than those of a program with all columns.
        """
        self.pricing.hard.clear()
        self.settle()
        if self.settled is not None:
            self._tighten_at(self.settled, value)
        self._tighten_at(self.best, value)

    def _tighten_at(self, duals: Duals, value: float) -> None:
        out, done = self.out(), set[int]()
        while not allowance.current().spent:
            self._bounded(duals, out)
            lists = self.columns.by_group()
            hopes = [
                (self.hope(group, duals, lists[group.number], out[group.number]), group)
                for group in self.groups
                if group.number not in done
            ]
            hope, group = max(hopes, key=lambda pair: pair[0], default=(0.0, None))
            enough = self.best_bound >= value - self.gap * abs(value)
            if enough or hope <= 0 or group is None:
                break
            self.pricing.search.most_s = max(1.0, allowance.current().seconds_left / SHARE)
            done.add(group.number)
            self.price(group, duals)

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
    """Choose who runs where and when, at the least cost, in the allowance that is open.

    Parameters
    ----------
    options
        Gap of the portfolio.
    """
    limits, groups = Limits(portfolio=portfolio), groups_of(portfolio)
    columns = Columns(portfolio=portfolio, limits=limits, groups=groups)
    each = SolveOptions(gap=max(options.gap * PRICING_GAP, 1e-6), cancel=options.cancel)
    search = Search(columns=columns, options=each)
    rough = options.gap >= ROUGH_GAP and len(groups) > MOST_CLOSED
    if rough:
        left = allowance.current().seconds_left
        search.most_s = max(ROUGH_S, ROUGH_SHARE * left) if left < inf else search.most_s
    pricing = Pricing(columns=columns, search=search)
    known = [Known(group=group, limits=limits) for group in groups]
    state = Generation(
        portfolio=portfolio, columns=columns, pricing=pricing, known=known, gap=options.gap
    )
    for family in state.families.values():
        for group in family:
            known[group.number].learn(Duals(), pricing.least(group, Duals()))
            if not allowance.current().spent:
                seeds(columns, group, portfolio.floor(group.job))
    order = sorted(groups, key=lambda group: (-group.job.priority, group.members[0]))
    greedy: dict[Column, int] | None = None
    if not rough:
        while state.price_at(Duals(), sum(g.count * _least(columns.of(g.number)) for g in groups)):
            pass
        greedy = _all_alone(state)
    proved_out = greedy is not None
    counts = greedy
    if greedy is None:
        greedy = one_by_one(pricing, order, searched=not rough)
        if rough:
            counts, greedy = _large(state, greedy, order)
        else:
            counts, proved_out = _small(state, greedy)
    assert counts is not None
    run = [0] * len(groups)
    for column, count in counts.items():
        run[column.group] += count
    return Found(
        columns=columns,
        counts=counts,
        greedy=greedy,
        alone={
            g.number: min(columns.of(g.number), key=_usd) for g in groups if columns.of(g.number)
        },
        bound=state.bound_of(run)
        if state.closed_at is None
        else state.closed_at * (1 - state.closing_gap),
        duals=state.best,
        proved_out=proved_out or sum(run) == len(portfolio.jobs),
        rounds=state.rounds,
        searches=pricing.search.searches,
    )


def _large(
    state: Generation, greedy: dict[Column, int], order: list[Group]
) -> tuple[dict[Column, int], dict[Column, int]]:
    """Share out the time among prices, proofs, the choice one by one, and what makes a choice
    better; returns the choice and the one by one.
    """
    columns = state.columns

    def best_of(*choices: dict[Column, int]) -> dict[Column, int]:
        return min(choices, key=lambda choice: worth(columns, choice))

    with part(ROUNDS_TIME):
        _rounds(state)
    counts = best_of(greedy, _whole(columns))
    with part(PROOFS_TIME):
        before = len(columns.kept)
        state.tighten(worth(columns, counts)[-1])
        if len(columns.kept) > before:
            _rounds(state)
            counts = best_of(counts, _whole(columns))
            state.settle()
    with part(ONE_BY_ONE_TIME):
        greedy = best_of(greedy, one_by_one(state.pricing, order))
    counts = best_of(counts, greedy)
    return improved(state.pricing, counts, state.known, state.best, _enough(state)), greedy


def _usd(column: Column) -> float:
    return column.usd


def _least(columns: list[Column]) -> float:
    return min((column.usd for column in columns), default=0.0)


def part(share: float) -> AbstractContextManager[Allowance]:
    """Open a share of the time that is left as an allowance of its own."""
    return allowance.opened(share * allowance.current().seconds_left)


def _all_alone(state: Generation) -> dict[Column, int] | None:
    """Return every job with the placement that it would have alone, if they fit together."""
    ledger, counts = Ledger(state.columns), dict[Column, int]()
    if state.portfolio.blocks:
        return None
    for group in state.groups:
        column = min(state.columns.of(group.number), key=_usd, default=None)
        if column is None:
            return None
        for _ in range(group.count):
            if not ledger.fits(column):
                return None
            ledger.take(column)
        counts[column] = group.count
    return counts


def _rounds(state: Generation) -> None:
    """Generate columns until the master program is within the gap of the bound."""
    while state.rounds < MOST_ROUNDS and not allowance.current().spent:
        program = relaxed(state.columns, state.out())
        state.rounds += 1
        if program.value - state.best_bound <= state.gap / 4 * abs(program.value):
            break
        if not state.round(program):
            break


def _whole(columns: Columns) -> dict[Column, int]:
    """Choose whole numbers of the known columns; no job where that finds nothing."""
    with allowance.closing(CHOOSING_S):
        chosen = chosen_whole(columns)
    return {} if chosen is None else dict(chosen.counts)


def _enough(state: Generation) -> float:
    """Return the value up to which a choice is good enough."""
    return state.best_bound + state.gap * abs(state.best_bound)


def _small(state: Generation, greedy: dict[Column, int]) -> tuple[dict[Column, int], bool]:
    """Generate columns from a first choice on, choose among them, and ask for all that may be
    missing; tells whether no choice leaves out less.
    """
    columns = state.columns
    _rounds(state)
    best = min(greedy, _whole(columns), key=lambda choice: worth(columns, choice))
    best = improved(state.pricing, best, state.known, state.best, _enough(state))
    if worth(columns, best)[-1] <= _enough(state) and _everyone(state, best):
        return best, True
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
