"""A better instant answer without proof where local steps are allowed: the drafts of `greedy`, then
plans zone by zone, rebuilt in part.
"""

from __future__ import annotations

from contextlib import suppress

from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.allowance import OutOfTimeError
from placer.solving.answer import Answer, SolveOptions

from ._drafts.construction import Drafting, answered, judge_of
from ._drafts.draft import Draft
from ._market.market import Market

PROVES = False
"""It has no bounds."""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Construct placements, and improve those with local steps, without a bound.

    ``options``: time limit, and the seed of what is rebuilt; the search ends by itself, gap and
    nodes are not used. It is never worse than `greedy`. If it finds none, that proves nothing,
    unless no machine is admitted at all.
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

    if made.drafts:
        ZoneSearch(made.judge).run(seed)
