"""One worker: nothing is exchanged, no framework slows it."""

from __future__ import annotations

from placer.problem.exchange.phase import Phase, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

TRAITS = Traits(framework="none", transport="none")


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return no phase."""
    return ()
