"""All-reduce: every worker sums the gradients of the target batch in a flat butterfly, then takes the same optimizer step."""

from __future__ import annotations

from typing import Any

from placer.runtime.butterfly import butterfly_sum
from placer.runtime.context import Context

WIRED = True
REPLICATED = True
ELASTIC = False


def open(context: Context) -> Any:  # noqa: A001 - the protocol's word
    """Nothing lasts from step to step."""


def step(context: Context, state: Any, step: int) -> float:
    """Calculate, sum, update."""
    gradient, loss = context.calculated(step, context.settings.target_batch_size)
    context.applied(butterfly_sum(context.connected, gradient, context.members))
    return loss


def serve(context: Context, state: Any, step: int) -> None:
    """There is no hub."""


def close(context: Context, state: Any) -> None:
    """Nothing is left open."""
