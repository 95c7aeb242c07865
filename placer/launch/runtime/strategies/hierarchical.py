"""Hierarchical serverless aggregation: a store and a function in each region, then one global pair
(Phalak et al., 2024).

A worker uses its region's store as it would use the only one of central aggregation, and the global
function gathers from those of the regions as it would from workers. A region's function sends its
sum on, and is called again by the mean, which it copies to its own store.
"""

from __future__ import annotations

import json

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.stores.object_store import ObjectStore
from placer.launch.runtime.strategies import central
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire.codec import Codec

WIRED = False
REPLICATED = True
ELASTIC = False
Stores = tuple[ObjectStore, ObjectStore | None]


def open(context: Context) -> Stores:  # noqa: A001 - the protocol's word
    """Connect to one's own store; a function of a region also to the global one."""
    plan, own = context.plan, central.open(context)
    is_regional = plan.workers <= context.rank < plan.ranks - 1
    return own, central.open_bucket(context, plan.hub_over(context.rank)) if is_regional else None


def step(context: Context, state: Stores, step: int) -> float:
    """Calculate, upload to the region's store, poll there, download, update."""
    return central.step(context, state[0], step)


def serve(context: Context, state: Stores, step: int) -> None:
    """Sum what is in the region's store and send it on, then copy the mean back; or make the mean
    of these sums.
    """
    own, above = state
    if above is None:
        central.put_mean(context, own, step)
        context.store.set(f"mean/{step}", "1")
    else:
        _forward(context, own, above, step)
        _copy(context, own, above, step)
    central.delete_step(context, own, step, central.gathered_ranks(context))


def _forward(context: Context, own: ObjectStore, above: ObjectStore, step: int) -> None:
    """Put the sum of the region into the global store."""
    plan, rank = context.plan, context.rank
    body = (
        Codec(plan.exchange.compression)
        .encode(central.sum_gradients(context, own, step, "fetch in regions"))
        .numpy()
        .tobytes()
    )
    with context.meter.phase("forward"):
        above.put(central.gradient_key(context, step, rank), body)
    context.meter.sent(
        plan.place_of(rank), central.store_place(context, plan.hub_over(rank)), len(body)
    )
    context.store.set(f"uploaded/{step}/{rank}", "1")


def _copy(context: Context, own: ObjectStore, above: ObjectStore, step: int) -> None:
    """Copy the mean from the global store to the region's."""
    place, last = context.plan.place_of(context.rank), context.plan.hub_over(context.rank)
    with context.meter.phase("idle"):
        central.wait_for(
            context, f"mean/{step}", last, central.PATIENCE * context.settings.timeout_s
        )
    if not context.store.check([f"mean/{step}"]):
        raise PeerLostError(last, "no mean")
    with context.meter.phase("copy"):
        body = central.fetch(context, above, central.mean_key(context, step))
    context.meter.sent(central.store_place(context, last), place, len(body))
    with context.meter.phase("put in regions"):
        own.put(central.mean_key(context, step), body, members=json.dumps(context.members))
    context.meter.sent(place, central.store_place(context, context.rank), len(body))


def close(context: Context, state: Stores) -> None:
    """Delete the last mean when all have read it."""
    central.close(context, state[0])
