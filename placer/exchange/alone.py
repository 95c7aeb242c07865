"""One worker: nothing is exchanged, no framework slows it."""

from __future__ import annotations

from collections.abc import Sequence

from placer.exchange.phase import Phase
from placer.placement import Exchange

FRAMEWORK = "none"
DIVISION = "adaptive"
TRANSPORT = "none"


def phases(workers: Sequence[tuple[str, int]], gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return no phase."""
    return ()
