"""Streaming DiLoCo: the model in fragments, each exchanged every H steps in its turn, beside the
inner steps.

Douillard et al. (Streaming DiLoCo, 2025): P fragments take turns, so the bytes under way at a time
are those of DiLoCo over P, and the sum of a fragment is applied when the next one begins, H / P
steps later. Over H steps every pair carries what it carries in DiLoCo.
"""

from __future__ import annotations

from placer.problem.exchange.allreduce import butterfly
from placer.problem.exchange.phase import Phase, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

MOST_FRAGMENTS = 8
"""Fragments of Douillard et al. (2025) at 1 B parameters: 24 layers, three in a fragment."""
TRAITS = Traits(
    transport="butterfly",
    payload="checkpoints",
    local_steps=True,
    may_overlap=True,
    always_overlaps=True,
    outer=True,
    quorum=True,
)


def fragments(local_steps: int) -> int:
    """Return the number of fragments: no more than there are steps to begin one in.

    >>> fragments(4), fragments(100)
    (4, 8)
    """
    return min(MOST_FRAGMENTS, local_steps)


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return the all-reduces of all fragments together; each happens once in H steps."""
    return butterfly(workers, gradient_bytes)
