"""The construction that `greedy` ends with and `local_search` starts from."""

from __future__ import annotations

import time

from msgspec import Struct

from placer.solving.allowance import OutOfTimeError, Reason
from placer.solving.answer import Answer, SolveOptions, Status, stopped_by

from .._market.market import Market
from .._mode import Mode
from .._target import Target
from .draft import NEVER, Draft, Judge
from .moves import Descent, Neighbourhood
from .neighbours import NearPlaces
from .one_place import OnePlaceDrafts, single_machines
from .several_regions import SeveralRegionDrafts

SPREAD = 3
"""Spread drafts of each number of machines that are ranked."""
GROWN = 2
"""Drafts that are grown."""
UNEVEN = 4
"""Times as many workers as another region has that make a draft uneven."""
GROWTH = 300
"""Drafts that growing may rank, beside those before."""


class Start(Struct, frozen=True, dict=True):
    """Drafts of a construction, best first, and the parts that made them."""

    drafts: tuple[Draft, ...]
    judge: Judge
    near: NearPlaces


def judge_of(market: Market, options: SolveOptions) -> Judge:
    """Build the judge of a question; it counts its own drafts, so a limit on nodes means nothing to
    it.
    """
    target = Target.of(
        market.problem,
        gap=0.0,
        deadline=time.monotonic() + options.time_limit_s,
        on_better=options.on_better,
    )
    if options.start is not None:
        target.offer(options.start)
    return Judge(market, target)


def construct(judge: Judge) -> Start:
    """Rank single machines, equal machines and spread ones, and grow the best of each while that
    helps.
    """
    near, wish = NearPlaces(judge), judge.wish
    modes = [Mode(judge.problem, name, steps) for name, steps in judge.problem.modes]
    drafts: list[Draft] = []
    if judge.market.fewest_regions <= 1 or judge.rules:
        if wish.min_workers <= 1:
            drafts += single_machines(judge)[:3]
        if judge.most > 1:
            one = OnePlaceDrafts(judge)
            drafts += [draft for mode in modes for draft in one.drafts(mode)]
    if (
        judge.most > 1
        and wish.max_regions > 1
        and (judge.market.fewest_regions > 1 or judge.target.best is None)
    ):
        drafts += SeveralRegionDrafts(judge, near).of(modes, SPREAD)
    if not drafts:
        drafts += _fallback_drafts(judge, modes)
    drafts = _ranked(judge, _with_used(near, drafts, modes) if judge.rules else drafts)
    around = Neighbourhood(judge, near)
    grow = Descent(judge, (around.grown, around.exchanged))
    grown = [grow.run(draft, judge.tried + GROWTH) for draft in _diverse(judge, drafts)[:GROWN]]
    if judge.target.best is None:
        repair = Descent(judge, (around.shrunk, around.swapped, around.grown))
        grown += [repair.run(draft, judge.tried + GROWTH) for draft in _ranked(judge, grown)[:1]]
    return Start(tuple(_ranked(judge, [*grown, *drafts])), judge, near)


def _with_used(near: NearPlaces, drafts: list[Draft], modes: list[Mode]) -> list[Draft]:
    """Return the machines that must be used alone, and beside the drafts or half of each."""
    alone = [
        near.judge.fitted(Draft.of(base, (mode.strategy, mode.local_steps)))
        for base in near.bases.all()
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
    """List single machines to grow from when no screened draft may be: the best value, and the
    fastest.
    """
    market = judge.market
    value = min(range(len(market.pools)), key=lambda i: (market.usd[i] / market.speed[i], i))
    fast = min(range(len(market.pools)), key=lambda i: (-market.speed[i], i))
    return [
        Draft.of({i: 1}, (mode.strategy, mode.local_steps))
        for i in dict.fromkeys((value, fast))
        for mode in modes
    ]


def answer_of(judge: Judge, stopped: OutOfTimeError | KeyboardInterrupt | None = None) -> Answer:
    """Return the best placement of a judge as an answer, with what stopped it; nothing is
    proved.
    """
    best = judge.target.best
    reason = stopped.reason if isinstance(stopped, OutOfTimeError) else Reason.CANCELLED
    ended = Status.FEASIBLE if best is not None else Status.UNKNOWN
    status = ended if stopped is None else stopped_by(reason)
    placement = None if best is None else best.canonical()
    return Answer(
        status=status,
        placement=placement,
        bound=None,
        candidates=judge.tried,
        interrupted=stopped is not None and reason is Reason.CANCELLED,
    )
