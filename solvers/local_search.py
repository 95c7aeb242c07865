"""A better instant answer without proof: drafts of `greedy`, plans zone by zone where local steps
are allowed, improved by small changes, then rebuilt in part.
"""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import zip_longest

from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.allowance import OutOfTimeError
from placer.solving.answer import Answer, SolveOptions

from ._drafts.construction import Drafting, answered, judge_of
from ._drafts.draft import Draft, Judge
from ._drafts.neighbourhood import Descent, NearPlaces, Neighbourhood
from ._drafts.several_regions import SeveralRegionDrafts
from ._market.market import Market
from ._mode import Mode

SPREAD = 4
"""Spread drafts of each number of machines that are ranked."""
STARTS = 5
"""Drafts that are improved."""
IMPROVED = 400
"""Drafts that the improvement of one may rank."""
MOST = 1_800
"""Drafts that are ranked in all, some 40 microseconds each."""
IN_VAIN = 12
"""Rebuilt drafts in a row that are no better before the search ends."""
BARRED = 0.5
"""Chance that what was added before is left out this time."""
REBUILT = 100
"""Drafts that may be ranked to fill up one from which some machines were taken away."""

PROVES = False
"""It has no bounds."""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Construct placements and improve them by small changes, without a bound.

    ``options``: time limit, and the seed of the shaking; the search ends by itself, gap and nodes
    are not used. It is never worse than `greedy`. If it finds none, that proves nothing, unless no
    machine is admitted at all.
    """
    return improved(Drafting(problem, options), options.seed)


def improved(drafting: Drafting, seed: int) -> Answer:
    """Go on from the drafts of a question, as `solve`."""
    return answered(drafting, lambda made: _improve(made, seed))


def go_on(problem: Problem, options: SolveOptions) -> Placement | None:
    """Rebuild a placement in part where local steps are allowed, longer than a first answer may
    take.

    ``options``: the placement as ``start``, and the time limit. Returned: the best one: that of the
    options, or a better one.
    """
    from ._drafts.zones import MORE, ZoneSearch

    market = Market.of(problem)
    judge = judge_of(market, options)
    draft = None if options.start is None else Draft.from_placement(options.start, market)
    if draft is not None:
        with suppress(OutOfTimeError):
            ZoneSearch(judge, MORE).go_on(draft, options.seed)
    return judge.target.best


def _improve(made: Drafting, seed: int) -> None:
    from ._drafts.zones import ZoneSearch

    judge, near, drafts = made.judge, made.near, made.drafts
    zones = ZoneSearch(judge)
    zones.run(seed)
    if zones.leads:
        return  # it has taken machines away and chosen them again, many at once
    around = Neighbourhood(judge, near)
    descent = Descent(
        judge, (around.moved, around.swapped, around.grown, around.shrunk, around.exchanged)
    )
    for draft in _starts(judge, near, drafts):
        descent.run(draft, min(MOST, judge.tried + IMPROVED))
    _rebuild(judge, near, descent, random.Random(seed))  # noqa: S311


def _rebuild(judge: Judge, near: NearPlaces, descent: Descent, draw: random.Random) -> None:
    """Take a group from the best draft and fill up, until many in a row are no better."""
    whole, vain = judge.best, 0
    added: set[int] = set()
    while whole is not None and judge.tried < MOST and vain < IN_VAIN:
        pool, count = draw.choice(whole.counts)
        ruined = whole.changed({pool: -draw.choice((count, (count + 1) // 2))})
        barred = frozenset({pool, *(i for i in sorted(added) if draw.random() < BARRED)})
        if ruined.counts:
            growth = Descent(judge, (Neighbourhood(judge, near, barred).grown,))
            grown = growth.run(near.with_used(ruined), min(MOST, judge.tried + REBUILT))
            added |= {i for i, _ in grown.counts} - {i for i, _ in ruined.counts}
            descent.run(grown, min(MOST, judge.tried + IMPROVED))
        vain += 1
        if judge.best is not whole:
            whole, vain, added = judge.best, 0, set()


def _starts(judge: Judge, near: NearPlaces, drafts: list[Draft]) -> list[Draft]:
    """List the best drafts of each strategy, number of regions and set of places."""
    drafts = list(drafts)
    if judge.most > 1 and judge.wish.max_regions > 1:
        modes = [Mode(judge.problem, name, steps) for name, steps in judge.problem.modes]
        drafts += [
            near.with_used(draft) for draft in SeveralRegionDrafts(judge, near).of(modes, SPREAD)
        ]
    drafts.sort(key=lambda draft: (judge.rank(draft), draft.counts, draft.mode))
    ways: dict[tuple[str, int], Draft] = {}
    places: dict[tuple[str, ...], Draft] = {}
    for draft in drafts:
        there = tuple(sorted(judge.by_place(draft)))
        ways.setdefault((draft.mode[0], len(there)), draft)
        places.setdefault(there, draft)
    mixed = [
        draft
        for pair in zip_longest(ways.values(), places.values())
        for draft in pair
        if draft is not None
    ]
    return list(dict.fromkeys(mixed))[:STARTS]
