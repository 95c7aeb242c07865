"""All-reduce as PyTorch has none: compressed to 8 bits, over several TCP streams, a step late,
between islands of unequal shape, or hierarchical, where PyTorch averages inside each region. First
processes of the worlds sum the gradients in a flat butterfly and hand the sum on.
"""

from __future__ import annotations

from typing import Any

from placer.launch.runtime.training.context import Context, Exchange
from placer.launch.runtime.wire.butterfly import butterfly_sum

WIRED = True


def open(context: Context) -> Any:  # noqa: A001 - the protocol's word
    """Return no state: nothing lasts from step to step."""


def exchange(context: Context, state: Any) -> Exchange:
    """Sum the gradients of all worlds."""
    where = " between leaders" if len(context.leaders) < context.plan.workers else ""
    return lambda mine: butterfly_sum(context.connected, mine, context.leaders, where)


def serve(context: Context, state: Any, step: int) -> None:
    """Do nothing: there is no hub."""


def close(context: Context, state: Any) -> None:
    """Do nothing: nothing is open."""
