"""Model averaging: PyTorch averages gradients inside each region; every H steps one region averages
the models of all.
"""

from __future__ import annotations

from typing import Any

from placer.launch.runtime.training.context import Context

WIRED = True


def open(context: Context) -> dict[str, Any]:  # noqa: A001 - the protocol's word
    """Return the model that all had after the last average."""
    return {"common": context.trainer.vector()}


def step(context: Context, state: dict[str, Any], step: int) -> float:
    """Take a step of the region; at the end of a round, average over the regions by their samples.

    Notes
    -----
    What travels is the change since the last average: rounded to FP16 it keeps more of it.
    """
    loss = context.local_step(step)
    if context.ends_round(step):
        share = context.world_samples / context.settings.target_batch_size
        change = (context.trainer.vector() - state["common"]) * share
        state["common"] = state["common"] + _through_hub(context, change)
        context.load(state["common"])
    return loss


def follow(context: Context, state: dict[str, Any], step: int) -> float:
    """Take a step in a process whose region's first one averages."""
    loss = context.local_step(step)
    if context.ends_round(step):
        context.trainer.vector()  # of a sharded model all processes give their parts
        context.load(None)
    return loss


def _through_hub(context: Context, change: Any) -> Any:
    """Send the change up to the hub's first worker and take the sum of all down."""
    wire, codec = context.connected, context.connected.codec
    regions = dict(context.plan.regions)
    hub = regions[str(context.plan.exchange.aggregator)][0]
    if context.rank != hub:
        with context.meter.phase("up"):
            wire.swap([(hub, codec.encode(change))], [])
        message = codec.empty(len(change))
        with context.meter.phase("down"):
            wire.swap([], [(hub, message)])
        return codec.decode(message)
    came = {rank: codec.empty(len(change)) for rank in context.leaders if rank != hub}
    with context.meter.phase("up"):
        wire.swap([], list(came.items()))
    total = change.clone()
    for answer in came.values():
        total += codec.decode(answer)
    message = codec.encode(total)
    with context.meter.phase("down"):
        wire.swap([(rank, message) for rank in came], [])
    return codec.decode(message)


def serve(context: Context, state: Any, step: int) -> None:
    """Do nothing: there is no hub process."""


def close(context: Context, state: Any) -> None:
    """Do nothing: nothing is open."""
