"""Synchronous parameter server: one process sums what the workers push; they pull the sum and take
the same optimizer step.
"""

from __future__ import annotations

from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire.wire import Message

WIRED = True
REPLICATED = True
ELASTIC = True


def open(context: Context) -> Any:  # noqa: A001 - the protocol's word
    """Return no state: nothing lasts from step to step."""


def step(context: Context, state: Any, step: int) -> float:
    """Calculate, push, pull, update; the server says who is still there."""
    import torch

    wire, server = context.connected, context.plan.workers
    gradient, loss = context.gradient(step, context.settings.target_batch_size)
    with context.meter.phase("push"):
        wire.swap([(server, wire.codec.encode(gradient))], [])
    message = wire.codec.empty(context.trainer.elements)
    with context.meter.phase("pull"):  # the wait for the slowest worker and for the sum is in it
        if context.settings.elastic:
            there = torch.empty(context.plan.workers, dtype=torch.uint8)
            wire.swap([], [(server, there)], control=True)
            context.members = tuple(int(rank) for rank in there.nonzero().flatten())
        wire.swap([], [(server, message)])
    context.update(wire.codec.decode(message))
    return loss


def serve(context: Context, state: Any, step: int) -> None:
    """Sum what comes, in the order of the ranks, and hand it back.

    Notes
    -----
    Where a worker is gone, the sum is scaled to the mean over the samples that came.
    """
    import torch

    shares, batch = context.shares(), context.settings.target_batch_size
    came = {
        rank: context.connected.codec.empty(context.trainer.elements) for rank in context.members
    }
    with context.meter.phase("push"):
        lost = _swap(context, [], list(came.items()))
    with context.meter.phase("reduce"):
        _without(context, lost, step)
        total = torch.zeros(context.trainer.elements)
        for rank in context.members:
            total += context.connected.codec.decode(came[rank])
        counted = sum(shares[rank] for rank in context.members)
        message = context.connected.codec.encode(
            total * (batch / counted) if counted < batch else total
        )
    with context.meter.phase("pull"):
        if context.settings.elastic:
            there = torch.zeros(context.plan.workers, dtype=torch.uint8)
            there[list(context.members)] = 1
            _without(
                context,
                _swap(context, [(rank, there) for rank in context.members], [], control=True),
                step,
            )
        _without(context, _swap(context, [(rank, message) for rank in context.members], []), step)


def _swap(
    context: Context, sends: list[Message], receives: list[Message], *, control: bool = False
) -> set[int]:
    """Exchange messages with all; in an elastic run with a deadline for each peer."""
    if context.settings.elastic:
        return context.connected.swap_each(
            sends, receives, context.settings.timeout_s, control=control
        )
    return context.connected.swap(sends, receives, control=control)


def _without(context: Context, lost: set[int], step: int) -> None:
    for rank in sorted(lost):
        context.drop_worker(rank, step)
    if not context.members:
        raise PeerLostError(min(lost), "the last worker is gone")


def close(context: Context, state: Any) -> None:
    """Do nothing: nothing is open."""
