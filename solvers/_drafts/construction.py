"""The construction that `greedy` ends with and `local_search` starts from: drafts of one region and
of several.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property

import numpy as np

from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.allowance import OutOfTimeError, Reason
from placer.solving.answer import Answer, SolveOptions, Status, stopped_by

from .._market.market import Market
from .._mode import Mode
from .._target import Target
from .draft import NEVER, Draft, Judge
from .neighbourhood import Descent, NearPlaces, Neighbourhood
from .one_place import OnePlaceDrafts, single_machines
from .several_regions import SeveralRegionDrafts

SPREAD = 3
"""Spread drafts of each number of machines that are ranked."""
SPENT = 0.8
"""Share of a budget below which machines of another region are drafted beside those of one."""
GROWN = 2
"""Drafts that are grown."""
UNEVEN = 4
"""Times as many workers as another region has that make a draft uneven."""
GROWTH = 300
"""Drafts that growing may rank, beside those before."""


class Drafting:
    """The drafts of a question, made once for `greedy` and for what goes on from them."""

    def __init__(self, problem: Problem, options: SolveOptions) -> None:
        self.market = Market.of(problem)
        self.judge = judge_of(self.market, options)
        self.near = NearPlaces(self.judge)

    @cached_property
    def drafts(self) -> list[Draft]:
        """Single, equal and spread machines, the best of them grown; best first."""
        return construct(self.judge, self.near)


def judge_of(market: Market, options: SolveOptions) -> Judge:
    """Build the judge of a question; it counts drafts, and no nodes."""
    target = Target.of(
        market.problem,
        gap=0.0,
        deadline=time.monotonic() + options.time_limit_s,
        on_better=options.on_better,
        beat=options.beat,
    )
    if options.beat is not None:
        target.demand(options.beat)
    if options.start is not None:
        target.offer(options.start)
    return Judge(market, target)


def construct(judge: Judge, near: NearPlaces) -> list[Draft]:
    """Rank single, equal and spread machines, and grow the best while that helps; best first."""
    wish, (one_place, several_regions) = judge.wish, _ways(judge)
    modes = [Mode(judge.problem, name, steps) for name, steps in judge.problem.modes]
    drafts: list[Draft] = []
    if judge.market.fewest_regions <= 1 or judge.rules:
        if wish.min_workers <= 1:
            drafts += single_machines(judge)
        if judge.most > 1:
            one = one_place(judge)
            drafts += [draft for mode in modes for draft in one.drafts(mode)]
    spread = (
        judge.most > 1
        and wish.max_regions > 1
        and (judge.market.fewest_regions > 1 or judge.target.best is None or _wants_more(judge))
    )
    if spread:
        drafts += several_regions(judge, near).of(modes, SPREAD)
    seldom = any(steps > 1 for _, steps in judge.problem.modes)
    if not judge.alike and seldom and judge.most > 1 and wish.max_regions > 1:
        from .like_drafts import LikeRegionDrafts

        drafts += LikeRegionDrafts(judge, near).over_many(modes)
    if not drafts and judge.target.beat is None:
        drafts += _fallback_drafts(judge, modes)
    drafts = _ranked(judge, _with_used(near, drafts, modes) if judge.rules else drafts)
    around = Neighbourhood(judge, near)
    kinds = (around.grown, around.exchanged)
    grow = Descent(judge, (around.shrunk, *kinds) if judge.alike else kinds)
    most = GROWN if spread or not judge.alike else 1
    grown = [grow.run(draft, judge.tried + GROWTH) for draft in _diverse(judge, drafts)[:most]]
    if judge.target.best is None and judge.target.beat is None:
        repair = Descent(judge, (around.shrunk, around.swapped, around.grown))
        lacking = _ranked(judge, [*grown, *_fastest(judge)])[:1]
        grown += [repair.run(draft, judge.tried + GROWTH) for draft in lacking]
    return _ranked(judge, [*grown, *drafts])


def _fastest(judge: Judge) -> list[Draft]:
    """Return the fastest drafts where there is a floor: rough rounds miss one that few reach."""
    problem, target = judge.problem, judge.target
    if not target.floor_samples_per_second:
        return []
    wish = replace(problem.requirements, min_samples_per_second=None, deadline_s=None)
    fast = replace(problem, requirements=replace(wish, objective="throughput"))
    fastest = Judge(judge.market, Target.of(fast, gap=0.0, deadline=target.deadline))
    return construct(fastest, NearPlaces(fastest))


def _ways(judge: Judge) -> tuple[type[OnePlaceDrafts], type[SeveralRegionDrafts]]:
    """Return what drafts machines in one place and in several, of one device where they must be."""
    if not judge.alike:
        return OnePlaceDrafts, SeveralRegionDrafts
    from .like_drafts import LikePlaceDrafts, LikeRegionDrafts  # questions with a proof do not

    return LikePlaceDrafts, LikeRegionDrafts


def _wants_more(judge: Judge) -> bool:
    """Return whether like machines of several regions may be better than those of one: money is
    left, or they need not meet in every step.
    """
    if not judge.alike or judge.best is None:
        return False
    spent = sum(judge.market.usd[i] * n for i, n in judge.best.counts)
    most = judge.target.budget_usd_per_hour if judge.target.objective.by_speed else np.inf
    left = bool(spent < SPENT * most < np.inf)
    return left or any(steps > 1 for _, steps in judge.problem.modes)


def _with_used(near: NearPlaces, drafts: list[Draft], modes: list[Mode]) -> list[Draft]:
    """Return the machines that must be used alone, and beside the drafts or half of each."""
    alone = [
        near.judge.fitted(Draft.of(base, (mode.strategy, mode.local_steps)))
        for base in near.bases()
        for mode in modes
    ]
    halves = [
        Draft.of({i: (n + 1) // 2 for i, n in draft.counts}, draft.mode, draft.hub)
        for draft in drafts
    ]
    return [*alone, *(near.with_used(draft) for draft in (*drafts, *halves))]


def _ranked(judge: Judge, drafts: list[Draft]) -> list[Draft]:
    unique = [draft for draft in dict.fromkeys(drafts) if judge.rank(draft) < NEVER]
    return sorted(unique, key=lambda draft: (judge.rank(draft), draft.counts, draft.mode))


def _diverse(judge: Judge, drafts: list[Draft]) -> list[Draft]:
    """Return the best draft of each set of pools, best first, but after the first the best one that
    is divided among regions in the other way: evenly, or many machines beside single ones.
    """
    first_of: dict[tuple[tuple[int, ...], bool], Draft] = {}
    for draft in drafts:
        pools = tuple(i for i, _ in draft.counts)
        first_of.setdefault((pools, _uneven(judge, draft)), draft)
    found = list(first_of.values())
    return found[:1] + sorted(
        found[1:], key=lambda draft: _uneven(judge, draft) == _uneven(judge, found[0])
    )


def _uneven(judge: Judge, draft: Draft) -> bool:
    """Return whether a region has several times the workers of another."""
    workers = judge.by_place(draft).values()
    return max(workers) >= UNEVEN * min(workers)


def _fallback_drafts(judge: Judge, modes: list[Mode]) -> list[Draft]:
    """List single machines to grow from when no screened draft may be."""
    market = judge.market
    value = min(range(len(market.pools)), key=lambda i: (market.usd[i] / market.speed[i], i))
    fast = min(range(len(market.pools)), key=lambda i: (-market.speed[i], i))
    return [
        Draft.of({i: 1}, (mode.strategy, mode.local_steps))
        for i in dict.fromkeys((value, fast))
        for mode in modes
    ]


def answered(drafting: Drafting, search: Callable[[Drafting], object]) -> Answer:
    """Return the best placement of a search by drafts, with what stopped it; nothing is proved,
    unless no machine is admitted at all.
    """
    if not drafting.market.pools:
        return Answer(status=Status.INFEASIBLE, placement=None, bound=None, candidates=0)
    judge, reason = drafting.judge, None
    try:
        search(drafting)
    except OutOfTimeError as why:
        reason = why.reason
    except KeyboardInterrupt:
        reason = Reason.CANCELLED
    best = judge.target.best
    ended = Status.FEASIBLE if best is not None else Status.UNKNOWN
    return Answer(
        status=ended if reason is None else stopped_by(reason),
        placement=None if best is None else best.canonical(),
        bound=None,
        candidates=judge.tried,
        interrupted=reason is Reason.CANCELLED,
    )
