"""Hierarchical all-reduce: PyTorch averages inside each region, its first process sums with those
of the others and hands the sum on.
"""

from __future__ import annotations

from typing import Any

from placer.launch.runtime.training.context import Context, Exchange
from placer.launch.runtime.wire.butterfly import butterfly_sum

WIRED = True


def open(context: Context) -> Any:  # noqa: A001 - the protocol's word
    """Return no state: nothing lasts from step to step."""


def exchange(context: Context, state: Any) -> Exchange:
    """Sum the gradients of all regions."""
    return lambda mine: butterfly_sum(context.connected, mine, context.leaders, " between leaders")


def serve(context: Context, state: Any, step: int) -> None:
    """Do nothing: there is no hub."""


def close(context: Context, state: Any) -> None:
    """Do nothing: nothing is open."""
