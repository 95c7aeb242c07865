"""Hierarchical all-reduce: sum inside each region, between the leaders of the regions, and hand the
sum to the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire.butterfly import broadcast, butterfly_sum

WIRED = True
REPLICATED = True
ELASTIC = False


def open(context: Context) -> Any:  # noqa: A001 - the protocol's word
    """Return no state: nothing lasts from step to step."""


def calculate(context: Context, state: Any, step: int) -> tuple[Any, float]:
    """Calculate gradient and loss of the rank's share."""
    return context.gradient(step, context.settings.target_batch_size)


def exchange(context: Context, state: Any, mine: Any) -> Callable[[], Any]:
    """Sum the gradients of all in three stages."""
    wire = context.connected
    ranks, leaders = context.region(), context.leaders

    def summed() -> Any:
        total = butterfly_sum(wire, mine, ranks, " inside regions")
        if context.rank == ranks[0]:
            total = butterfly_sum(wire, total, leaders, " between leaders")
        return broadcast(wire, total, ranks)

    return summed


def apply(context: Context, state: Any, result: Any) -> None:
    """Take an optimizer step with the sum."""
    context.update(result)


def serve(context: Context, state: Any, step: int) -> None:
    """Do nothing: there is no hub."""


def close(context: Context, state: Any) -> None:
    """Do nothing: nothing is open."""
