"""Hierarchical all-reduce: sum inside each region, between the leaders of the regions, and hand the sum to the others."""

from __future__ import annotations

from typing import Any

from placer.runtime.butterfly import broadcast, butterfly_sum
from placer.runtime.context import Context
from placer.runtime.regions import region_of

WIRED = True
REPLICATED = True
ELASTIC = False


def open(context: Context) -> Any:  # noqa: A001 - the protocol's word
    """Nothing lasts from step to step."""


def step(context: Context, state: Any, step: int) -> float:
    """Calculate, sum in three stages, update."""
    wire = context.connected
    ranks, leaders = region_of(context)
    gradient, loss = context.calculated(step, context.settings.target_batch_size)
    total = butterfly_sum(wire, gradient, ranks, " inside regions")
    if context.rank == ranks[0]:
        total = butterfly_sum(wire, total, leaders, " between leaders")
    context.applied(broadcast(wire, total, ranks))
    return loss


def serve(context: Context, state: Any, step: int) -> None:
    """There is no hub."""


def close(context: Context, state: Any) -> None:
    """Nothing is left open."""
