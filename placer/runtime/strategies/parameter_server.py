"""Synchronous parameter server: one process sums what the workers push; they pull the sum and take the same optimizer step."""

from __future__ import annotations

from typing import Any

from placer.runtime.context import Context

WIRED = True
REPLICATED = True
ELASTIC = True


def open(context: Context) -> Any:  # noqa: A001 - the protocol's word
    """Nothing lasts from step to step."""


def step(context: Context, state: Any, step: int) -> float:
    """Calculate, push, pull, update; the server says who is still there."""
    import torch

    wire, server = context.connected, context.plan.workers
    gradient, loss = context.calculated(step, context.settings.target_batch_size)
    with context.meter.phase("push"):
        wire.swap([(server, wire.codec.encode(gradient))], [])
    message = wire.codec.empty(context.trainer.elements)
    with context.meter.phase("pull"):  # the wait for the slowest worker and for the sum is in it
        if context.settings.elastic:
            there = torch.empty(context.plan.workers, dtype=torch.uint8)
            wire.swap([], [(server, there)], control=True)
            context.members = tuple(int(rank) for rank in there.nonzero().flatten())
        wire.swap([], [(server, message)])
    context.applied(wire.codec.decode(message))
    return loss


def serve(context: Context, state: Any, step: int) -> None:
    """Sum what comes, in the order of the ranks, and hand it back.

    Notes
    -----
    Where a worker is gone, the sum is scaled to the mean over the samples that came.
    """
    import torch

    wire, elastic = context.connected, context.settings.elastic
    shares, batch = context.shares(), context.settings.target_batch_size
    came = {rank: wire.codec.empty(context.trainer.elements) for rank in context.members}
    with context.meter.phase("push"):
        lost = wire.swap([], list(came.items()), tolerate=elastic)
    with context.meter.phase("reduce"):
        total = torch.zeros(context.trainer.elements)
        for rank in context.members:
            if rank not in lost:
                total += wire.codec.decode(came[rank])
        _without(context, lost, step)
        counted = sum(shares[rank] for rank in context.members)
        message = wire.codec.encode(total * (batch / counted) if counted < batch else total)
    with context.meter.phase("pull"):
        if elastic:
            there = torch.zeros(context.plan.workers, dtype=torch.uint8)
            there[list(context.members)] = 1
            _without(context, wire.swap([(rank, there) for rank in context.members], [], tolerate=True, control=True), step)
        lost = wire.swap([(rank, message) for rank in context.members], [], tolerate=elastic)
    _without(context, lost, step)


def _without(context: Context, lost: set[int], step: int) -> None:
    from placer.runtime.lost import PeerLostError

    for rank in sorted(lost):
        context.gone(rank, step)
    if not context.members:
        raise PeerLostError(min(lost), "the last worker is gone")


def close(context: Context, state: Any) -> None:
    """Nothing is left open."""
