"""Local SGD and DiLoCo: H steps on every worker alone, then one all-reduce of the models or their
changes.

Stich (ICLR 2019) averages models; DiLoCo (Douillard et al., 2023) sends the change of the model to
an outer optimizer: the same bytes.
"""

from __future__ import annotations

from placer.problem.exchange.allreduce import butterfly
from placer.problem.exchange.phase import Phase, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

TRAITS = Traits(
    transport="butterfly", payload="checkpoints", local_steps=True, may_overlap=True, quorum=True
)


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return one all-reduce; it happens once in H steps."""
    return butterfly(workers, gradient_bytes)
