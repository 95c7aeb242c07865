"""A better instant answer without proof where local steps are allowed: the drafts of `greedy`, then
plans zone by zone.
"""

from __future__ import annotations

from placer.problem.problem import Problem
from placer.solving.answer import Answer, SolveOptions

from ._drafts.construction import Drafting, answered

PROVES = False
"""It has no bounds."""
DRAWS_ALIKE = True
"""It drafts machines of one kind where these are asked for."""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Construct placements, and improve those with local steps, without a bound.

    ``options``: time limit; the search is deterministic and ends by itself, gap, nodes and seed are
    not used. It is never worse than `greedy`. If it finds none, that proves nothing, unless no
    machine is admitted at all.
    """
    return improved(Drafting(problem, options))


def improved(drafting: Drafting) -> Answer:
    """Go on from the drafts of a question, as `solve`."""
    return answered(drafting, _improve)


def _improve(made: Drafting) -> None:
    from ._drafts.zones import ZoneSearch

    if made.drafts:
        ZoneSearch(made.judge).run()
