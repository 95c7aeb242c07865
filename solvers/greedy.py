"""An instant answer without proof: the best equal machines in one place or two, then more machines
while that helps.
"""

from __future__ import annotations

from placer.problem.problem import Problem
from placer.solving.allowance import OutOfTimeError
from placer.solving.answer import Answer, SolveOptions, Status

from ._drafts.construction import answer_of, construct, judge_of
from ._drafts.neighbourhood import NearPlaces
from ._market.market import Market

PROVES = False
"""It has no bounds."""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Construct a placement and add machines while that helps.

    ``options``: time limit; the construction is deterministic and ends by itself, gap, nodes and
    seed are not used. Returned: feasible, without a bound: a better placement may exist. If there
    is none, that proves nothing, unless no machine is admitted at all.
    """
    market = Market.of(problem)
    if not market.pools:
        return Answer(status=Status.INFEASIBLE, placement=None, bound=None, candidates=0)
    judge = judge_of(market, options)
    try:
        construct(judge, NearPlaces(judge))
    except (OutOfTimeError, KeyboardInterrupt) as why:
        return answer_of(judge, why)
    return answer_of(judge)
