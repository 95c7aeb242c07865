"""All-reduce: every worker sums the gradients of the target batch in a flat butterfly, then takes
the same optimizer step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire.butterfly import butterfly_sum

WIRED = True
REPLICATED = True
ELASTIC = False


def open(context: Context) -> Any:  # noqa: A001 - the protocol's word
    """Return no state: nothing lasts from step to step."""


def calculate(context: Context, state: Any, step: int) -> tuple[Any, float]:
    """Calculate gradient and loss of the rank's share."""
    return context.gradient(step, context.settings.target_batch_size)


def exchange(context: Context, state: Any, mine: Any) -> Callable[[], Any]:
    """Sum the gradients of all."""
    return lambda: butterfly_sum(context.connected, mine, context.members)


def apply(context: Context, state: Any, result: Any) -> None:
    """Take an optimizer step with the sum."""
    context.update(result)


def serve(context: Context, state: Any, step: int) -> None:
    """Do nothing: there is no hub."""


def close(context: Context, state: Any) -> None:
    """Do nothing: nothing is open."""
