"""A better instant answer without proof: what `greedy` constructs, then small changes while they help, then from a shaken draft again."""

from __future__ import annotations

import random
from itertools import zip_longest

from placer.problem import Problem
from placer.result import Answer, SolveOptions, Status

from ._draft import NEVER, Draft, Judge
from ._first import Start, answered, construct, judge_of
from ._market import Market
from ._mode import Mode
from ._moves import Descent, Neighbourhood
from ._spread import SpreadDrafts
from ._target import OutOfTimeError

SPREAD = 8
"""Spread drafts of each number of machines that are ranked."""
STARTS = 6
"""Drafts that are improved."""
IMPROVED = 400
"""Drafts that the improvement of one may rank."""
MOST = 1_800
"""Drafts that are ranked in all, some 40 microseconds each."""
KICKS = 6
"""Shaken drafts that are improved."""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Construct placements and improve them by small changes.

    Parameters
    ----------
    problem
        The question.
    options
        Time limit, and the seed of the shaking; the search ends by itself, gap and nodes are not used.

    Returns
    -------
    Answer
        Feasible, without a bound and never worse than that of `greedy`: a better placement may exist. If none was found,
        that proves nothing, unless no machine is admitted at all.
    """
    market = Market.of(problem)
    if not market.pools:
        return Answer(status=Status.INFEASIBLE, placement=None, bound=None, candidates=0)
    judge = judge_of(market, options)
    try:
        _search(judge, options.seed)
    except (OutOfTimeError, KeyboardInterrupt):
        return answered(judge, out_of_time=True)
    return answered(judge, out_of_time=False)


def _search(judge: Judge, seed: int) -> None:
    start = construct(judge)
    around = Neighbourhood(judge, start.near)
    descent = Descent(judge, (around.moved, around.swapped, around.grown, around.shrunk, around.exchanged))
    for draft in _starts(judge, start):
        descent.run(draft, min(MOST, judge.tried + IMPROVED))
    draw = random.Random(seed)  # noqa: S311
    for _ in range(KICKS):
        if judge.best is None or judge.tried >= MOST:
            return
        descent.run(_shaken(judge.best, around, judge, draw), min(MOST, judge.tried + IMPROVED))


def _starts(judge: Judge, start: Start) -> list[Draft]:
    """The best drafts of each strategy and number of regions, and of each set of places, in turn."""
    drafts = list(start.drafts)
    if judge.most > 1 and judge.wish.max_regions > 1:
        modes = [Mode(judge.problem, name, steps) for name, steps in judge.problem.modes]
        drafts += SpreadDrafts(judge, start.near).of(modes, SPREAD)
    drafts.sort(key=lambda draft: (judge.rank(draft), draft.counts, draft.mode))
    ways: dict[tuple[str, int], Draft] = {}
    places: dict[tuple[str, ...], Draft] = {}
    for draft in drafts:
        there = tuple(sorted(judge.by_place(draft)))
        ways.setdefault((draft.mode[0], len(there)), draft)
        places.setdefault(there, draft)
    mixed = [draft for pair in zip_longest(ways.values(), places.values()) for draft in pair if draft is not None]
    return list(dict.fromkeys(mixed))[:STARTS]


def _shaken(draft: Draft, around: Neighbourhood, judge: Judge, draw: random.Random) -> Draft:
    """Some random changes, one after the other."""
    for _ in range(draw.choice((1, 2, 3))):
        kind = draw.choice((around.moved, around.swapped, around.grown, around.shrunk, around.exchanged))
        others = [other for other in map(judge.fitted, kind(draft)) if judge.rank(other) < NEVER]
        draft = draw.choice(others) if others else draft
    return draft
