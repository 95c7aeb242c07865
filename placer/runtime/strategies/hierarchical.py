"""Hierarchical serverless aggregation: a store and a function in each region, then one global pair (Phalak et al., 2024).

All functions are one process here, which does their work in the order of the phases, and all stores one S3 API: a bucket's place is the
first part of a key.
"""

from __future__ import annotations

import json
from typing import Any

from placer.runtime.codec import Codec
from placer.runtime.context import Context
from placer.runtime.object_store import ObjectStore
from placer.runtime.strategies import central

WIRED = False
REPLICATED = True
ELASTIC = False


def open(context: Context) -> ObjectStore:  # noqa: A001 - the protocol's word
    """Connect to the store; see `central.open`."""
    return central.open(context)


def step(context: Context, state: ObjectStore, step: int) -> float:
    """Calculate, upload to the region's store, poll there, download, update."""
    import torch

    plan, meter, codec = context.plan, context.meter, Codec(context.plan.exchange.compression)
    place = plan.place_of(context.rank)
    gradient, loss = context.calculated(step, context.settings.target_batch_size)
    body = codec.encode(gradient).numpy().tobytes()
    with meter.phase("upload"):
        state.put(central.gradient_key(context, step, context.rank), body)
    meter.sent(place, place, len(body))
    context.store.set(f"uploaded/{step}/{context.rank}", "1")
    body, _ = central.polled(context, state, step, _key(context, step, place, "mean"))
    meter.sent(place, place, len(body))
    context.applied(codec.decode(torch.frombuffer(bytearray(body), dtype=torch.uint8)))
    return loss


def serve(context: Context, state: ObjectStore, step: int) -> None:
    """The functions of the regions sum what is in theirs, the global one sums the sums, the mean is copied back."""
    plan, meter = context.plan, context.meter
    storage, place = str(plan.exchange.storage), str(plan.exchange.aggregator)
    with meter.phase("wait"):
        central.uploads(context, state, step)
    for region, ranks in plan.regions:
        with meter.phase("fetch in regions"):
            total = _summed(context, state, [central.gradient_key(context, step, rank) for rank in ranks], step, region, region)
        _put(context, state, _key(context, step, region, "sum"), total, "forward", region, storage)
    with meter.phase("fetch"):
        total = _summed(context, state, [_key(context, step, region, "sum") for region, _ in plan.regions], step, storage, place)
    _put(context, state, _key(context, step, "", "mean"), total, "put", place, storage)
    for region, _ in plan.regions:
        with meter.phase("copy"):
            mean = _summed(context, state, [_key(context, step, "", "mean")], step, storage, region)
        _put(context, state, _key(context, step, region, "mean"), mean, "put in regions", region, region)
    with meter.phase("delete"):
        state.delete([central.gradient_key(context, step, rank) for rank in context.members])
        state.delete([_key(context, step, region, "sum") for region, _ in plan.regions])
        if step > context.start:
            _forget(context, state, step - 1)


def _summed(context: Context, store: ObjectStore, keys: list[str], step: int, src: str, dst: str) -> Any:
    """Fetch some objects and add them up."""
    import torch

    codec, total = Codec(context.plan.exchange.compression), torch.zeros(context.trainer.elements)
    for key in keys:
        body = central.fetched(context, store, key)
        context.meter.sent(src, dst, len(body))
        total += codec.decode(torch.frombuffer(bytearray(body), dtype=torch.uint8))
    return total


def _put(context: Context, store: ObjectStore, key: str, vector: Any, phase: str, src: str, dst: str) -> None:
    body = Codec(context.plan.exchange.compression).encode(vector).numpy().tobytes()
    with context.meter.phase(phase):
        store.put(key, body, members=json.dumps(context.members))
    context.meter.sent(src, dst, len(body))


def _forget(context: Context, store: ObjectStore, step: int) -> None:
    """Delete the means of a step."""
    store.delete([_key(context, step, region, "mean") for region in ("", *(place for place, _ in context.plan.regions))])


def _key(context: Context, step: int, region: str, what: str) -> str:
    return f"{context.settings.attempt}/{step}/{what}-{region}"


def close(context: Context, state: ObjectStore) -> None:
    """Delete the last means when all have read them."""
    central.all_done(context)
    if context.rank == context.plan.workers:
        _forget(context, state, context.settings.steps - 1)
