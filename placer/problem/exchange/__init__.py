"""Exchange strategies, one file each: a strategy returns phases of transfers; seconds and dollars
read them.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Protocol, cast

from placer.errors import unknown
from placer.problem.exchange.phase import Phase, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

STRATEGIES = {
    "none": "placer.problem.exchange.no_exchange",
    "all-reduce": "placer.problem.exchange.allreduce",
    "hierarchical-all-reduce": "placer.problem.exchange.hierarchical_allreduce",
    "central": "placer.problem.exchange.central",
    "hierarchical": "placer.problem.exchange.hierarchical",
    "parameter-server": "placer.problem.exchange.parameter_server",
    "local-sgd": "placer.problem.exchange.local_sgd",
    "model-averaging": "placer.problem.exchange.model_averaging",
    "asgd-ga": "placer.problem.exchange.asgd_ga",
    "diloco": "placer.problem.exchange.diloco",
    "streaming-diloco": "placer.problem.exchange.streaming_diloco",
}
"""Name on the command line and module; a new strategy is one file and one line here."""


class Strategy(Protocol):
    """What a strategy module offers."""

    TRAITS: Traits

    def phases(
        self, workers: Workers, gradient_bytes: float, exchange: Exchange
    ) -> tuple[Phase, ...]:
        """Return the transfers from one exchange to the next; ``workers`` are (place, count)."""


@lru_cache
def strategy(name: str) -> Strategy:
    """Find a strategy by name; `PlacerError` with the nearest name otherwise."""
    module = STRATEGIES.get(name)
    if module is None:
        raise unknown("exchange", name, STRATEGIES)
    return cast(Strategy, importlib.import_module(module))


def traits(name: str) -> Traits:
    """Return what sets a strategy apart; see `Traits`."""
    return strategy(name).TRAITS


def goes_on_without(name: str, *, overlap: bool) -> bool:
    """Return whether an exchange can go on with a quorum of the workers: not where a late average
    corrects a worker's own change.
    """
    can = traits(name)
    return can.quorum and (can.always_overlaps or not overlap)


def overlaps(name: str, *, wanted: bool) -> bool:
    """Return whether an exchange runs beside the calculation, where the user wants that or not."""
    can = traits(name)
    return can.always_overlaps or (wanted and can.may_overlap)
