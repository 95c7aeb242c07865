"""Synchronous parameter server: one process sums what the workers push; they pull the sum and take
the same optimizer step.
"""

from __future__ import annotations

from typing import Any

from placer.launch.runtime.training.context import Context, Exchange

WIRED = True


def open(context: Context) -> Any:  # noqa: A001 - the protocol's word
    """Return no state: nothing lasts from step to step."""


def exchange(context: Context, state: Any) -> Exchange:
    """Push a gradient, pull the sum."""
    wire, server = context.connected, context.plan.workers

    def summed(gradient: Any) -> Any:
        with context.meter.phase("push"):
            wire.swap([(server, wire.codec.encode(gradient))], [])
        message = wire.codec.empty(context.trainer.elements)
        with context.meter.phase("pull"):  # the wait for the slowest worker is in it
            wire.swap([], [(server, message)])
        return wire.codec.decode(message)

    return summed


def serve(context: Context, state: Any, step: int) -> None:
    """Sum what comes, in the order of the ranks, and hand it back."""
    import torch

    wire = context.connected
    came = {rank: wire.codec.empty(context.trainer.elements) for rank in context.leaders}
    with context.meter.phase("push"):
        wire.swap([], list(came.items()))
    with context.meter.phase("reduce"):
        total = torch.zeros(context.trainer.elements)
        for message in came.values():
            total += wire.codec.decode(message)
        encoded = wire.codec.encode(total)
    with context.meter.phase("pull"):
        wire.swap([(rank, encoded) for rank in came], [])


def close(context: Context, state: Any) -> None:
    """Do nothing: nothing is open."""
