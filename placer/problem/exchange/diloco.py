"""DiLoCo: H inner steps of AdamW on every worker alone, then one outer step of Nesterov's momentum
with the mean of their changes.

Douillard et al. (DiLoCo, 2023): the change of a worker's model over H steps is a pseudo-gradient;
their mean drives an outer optimizer, so all workers go on from the same model. The bytes are those
of local SGD.
"""

from __future__ import annotations

from placer.problem.exchange.allreduce import butterfly
from placer.problem.exchange.phase import Phase, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

TRAITS = Traits(
    transport="butterfly", payload="checkpoints", local_steps=True, outer=True, quorum=True
)


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return one all-reduce of pseudo-gradients; it happens once in H steps."""
    return butterfly(workers, gradient_bytes)
