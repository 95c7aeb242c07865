"""An instant answer without proof: the best equal machines in one place or two, then more machines
while that helps.
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
    """Construct a placement and add machines while that helps.

    ``options``: time limit; the construction is deterministic and ends by itself, gap, nodes and
    seed are not used. Returned: feasible, without a bound: a better placement may exist. If there
    is none, that proves nothing, unless no machine is admitted at all.
    """
    return drafted(Drafting(problem, options))


def drafted(drafting: Drafting) -> Answer:
    """Make the drafts of a question, as `solve`."""
    return answered(drafting, lambda made: made.drafts)
