"""Exchange strategies, one file each: a strategy returns phases of transfers; seconds and dollars read them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol, cast

from placer.errors import unknown
from placer.exchange.phase import Phase
from placer.placement import Exchange

STRATEGIES = {
    "none": "placer.exchange.alone",
    "all-reduce": "placer.exchange.allreduce",
    "central": "placer.exchange.central",
}
"""Name on the command line and module; a new strategy is one file and one line here."""


class Strategy(Protocol):
    """What a strategy module offers.

    Notes
    -----
    ``FRAMEWORK`` names the efficiency that slows its workers; ``DIVISION`` is ``adaptive`` (fast
    workers do more of the batch) or ``equal``; ``TRANSPORT`` names the timing in placer.timing.
    """

    FRAMEWORK: str
    DIVISION: str
    TRANSPORT: str

    def phases(self, workers: Sequence[tuple[str, int]], gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
        """Return the transfers of one exchange; ``workers`` are (place, count)."""


def strategy(name: str) -> Strategy:
    """Find a strategy by name; `PlacerError` with the nearest name otherwise."""
    module = STRATEGIES.get(name)
    if module is None:
        raise unknown("exchange", name, STRATEGIES)
    return cast(Strategy, importlib.import_module(module))
