"""Model averaging: synchronous inside each region; every H steps one region averages the models of
all.
"""

from __future__ import annotations

from typing import Any

from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire.butterfly import broadcast, butterfly_sum

WIRED = True
REPLICATED = False
ELASTIC = False


def open(context: Context) -> dict[str, Any]:  # noqa: A001 - the protocol's word
    """Return the model that all had after the last average."""
    return {"common": context.trainer.vector()}


def step(context: Context, state: dict[str, Any], step: int) -> float:
    """Take a step with the mean gradient of the region; at the end of a round, average over the
    regions by their samples.
    """
    wire, batch = context.connected, context.settings.target_batch_size
    ranks, shares = context.region(), context.shares()
    samples = sum(shares[rank] for rank in ranks)
    gradient, loss = context.gradient(step, samples)
    context.update(butterfly_sum(wire, gradient, ranks, " inside regions"))
    if context.ends_round(step):
        change = (context.trainer.vector() - state["common"]) * (samples / batch)
        if context.rank == ranks[0]:
            change = _through_hub(context, change, context.leaders)
        state["common"] = state["common"] + broadcast(wire, change, ranks)
        context.trainer.load_vector(state["common"])
    return loss * samples / batch


def _through_hub(context: Context, change: Any, leaders: tuple[int, ...]) -> Any:
    """Send the change up to the hub's leader and take the sum of all down."""
    wire, codec = context.connected, context.connected.codec
    hub = dict(context.plan.regions)[str(context.plan.exchange.aggregator)][0]
    if context.rank != hub:
        with context.meter.phase("up"):
            wire.swap([(hub, codec.encode(change))], [])
        message = codec.empty(len(change))
        with context.meter.phase("down"):
            wire.swap([], [(hub, message)])
        return codec.decode(message)
    came = {rank: codec.empty(len(change)) for rank in leaders if rank != hub}
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
