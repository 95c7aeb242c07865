"""Central serverless aggregation: workers upload to an object store, one function averages there, workers poll and download.

The function is a process here. That a bucket calls it after each upload is played by the run's own store of keys; all else
goes through the S3 API, request by request as in Phalak et al. (2024), eq. 5: n + 1 writes, 2 n reads, n lists, and polls.
"""

from __future__ import annotations

import json
import time

from placer.errors import PlacerError
from placer.runtime.codec import Codec
from placer.runtime.context import Context
from placer.runtime.lost import PeerLostError
from placer.runtime.memory import check_fits
from placer.runtime.object_store import ObjectStore

WIRED = False
REPLICATED = True
ELASTIC = True
PATIENCE = 2.0
"""Workers wait so many time-outs for the mean: the function waits one for a slow worker."""
LOOK_S = 0.005
"""Seconds between two looks for notifications."""


def open(context: Context) -> ObjectStore:  # noqa: A001 - the protocol's word
    """Connect to the bucket; the function checks that it can hold what it sums."""
    plan, settings = context.plan, context.settings
    if plan.bucket is None:
        raise PlacerError("the manifest has no bucket", "write it again with --manifest")
    store = ObjectStore(plan.bucket, settings.endpoint_url, context.meter, settings.timeout_s)
    if context.rank == plan.workers:
        check_fits(plan, context.trainer.elements)
    if settings.endpoint_url and context.rank == plan.workers:
        store.create()
        context.store.set("bucket", "1")
    elif settings.endpoint_url:
        _wait_for(context, "bucket", plan.workers, settings.timeout_s)
    context.meter.clear()
    return store


def step(context: Context, state: ObjectStore, step: int) -> float:
    """Calculate, upload, poll, download, update."""
    import torch

    plan, meter, codec = context.plan, context.meter, Codec(context.plan.exchange.compression)
    place, storage = plan.place_of(context.rank), str(plan.exchange.storage)
    gradient, loss = context.calculated(step, context.settings.target_batch_size)
    body = codec.encode(gradient).numpy().tobytes()
    with meter.phase("upload"):
        state.put(gradient_key(context, step, context.rank), body)
    meter.sent(place, storage, len(body))
    context.store.set(f"uploaded/{step}/{context.rank}", "1")
    body, notes = polled(context, state, step, _mean(context, step))
    meter.sent(storage, place, len(body))
    context.members = tuple(json.loads(notes["members"]))
    if context.rank not in context.members:
        raise PeerLostError(plan.workers, f"rank {context.rank} was too slow: the function went on without it")
    context.applied(codec.decode(torch.frombuffer(bytearray(body), dtype=torch.uint8)))
    return loss


def polled(context: Context, store: ObjectStore, step: int, key: str) -> tuple[bytes, dict[str, str]]:
    """Ask for the mean until it is there; the answer that brings it is the download, the rest is the wait."""
    function, waited = context.plan.workers, time.perf_counter()
    while True:
        asked = time.perf_counter()
        found = store.get(key)
        now = time.perf_counter()
        if found is not None:
            context.meter.seconds["download"] += now - asked
            return found
        context.meter.seconds["aggregate"] += now - asked
        if is_dead(context, function):
            raise PeerLostError(function, "the function is gone")
        if now - waited > PATIENCE * context.settings.timeout_s:
            raise PeerLostError(function, f"no mean after {PATIENCE * context.settings.timeout_s:g} s")
        with context.meter.phase("aggregate"):
            time.sleep(context.settings.poll_s)


def serve(context: Context, state: ObjectStore, step: int) -> None:
    """List on each upload; when all are there fetch them, put the mean, and delete what nobody reads any more."""
    import torch

    meter, codec = context.meter, Codec(context.plan.exchange.compression)
    storage, place = str(context.plan.exchange.storage), str(context.plan.exchange.aggregator)
    shares, batch, took_part = context.shares(), context.settings.target_batch_size, context.members
    with meter.phase("wait"):
        uploads(context, state, step)
    total, counted = torch.zeros(context.trainer.elements), 0
    with meter.phase("fetch"):
        for rank in context.members:
            body = fetched(context, state, gradient_key(context, step, rank))
            meter.sent(storage, place, len(body))
            total += codec.decode(torch.frombuffer(bytearray(body), dtype=torch.uint8))
            counted += shares[rank]
    body = codec.encode(total * (batch / counted) if counted < batch else total).numpy().tobytes()
    with meter.phase("put"):
        state.put(_mean(context, step), body, members=json.dumps(context.members))
    meter.sent(place, storage, len(body))
    with meter.phase("delete"):
        old = [_mean(context, step - 1)] if step - 1 >= context.start else []
        state.delete([*(gradient_key(context, step, rank) for rank in took_part), *old])


def uploads(context: Context, store: ObjectStore, step: int) -> None:
    """Wait until all members have uploaded; who died, or is too slow, is left out where that is allowed."""
    waiting, began = set(context.members), time.perf_counter()
    while waiting:
        for rank in sorted(waiting):
            if context.store.check([f"uploaded/{step}/{rank}"]):
                store.list(f"{context.settings.attempt}/{step}/gradient-")
                waiting.remove(rank)
            elif is_dead(context, rank) or time.perf_counter() - began > context.settings.timeout_s:
                if not context.settings.elastic or len(context.members) == 1:
                    raise PeerLostError(rank, f"no gradient of step {step}")
                waiting.remove(rank)
                context.gone(rank, step)
        if waiting:
            time.sleep(LOOK_S)


def fetched(context: Context, store: ObjectStore, key: str) -> bytes:
    """Read an object that was announced; one that is not there yet is asked for again for a while."""
    until = time.perf_counter() + context.settings.timeout_s
    while (found := store.get(key)) is None:
        if time.perf_counter() > until:
            raise PlacerError(f"object '{key}' is not in bucket '{store.bucket}'", "it was uploaded: who deletes there?", exit_code=1)
        time.sleep(context.settings.poll_s)
    return found[0]


def close(context: Context, state: ObjectStore) -> None:
    """Delete the last mean when all have read it."""
    all_done(context)
    if context.rank == context.plan.workers:
        state.delete([_mean(context, context.settings.steps - 1)])


def all_done(context: Context) -> None:
    """Workers say that they have read the last mean; the function waits for them."""
    if context.rank < context.plan.workers:
        context.store.set(f"done/{context.rank}", "1")
        return
    for rank in context.members:
        _wait_for(context, f"done/{rank}", rank, context.settings.timeout_s)


def is_dead(context: Context, rank: int) -> bool:
    """Whether the launcher saw a process end that should not have."""
    return bool(context.store.check([f"dead/{rank}"]))


def _wait_for(context: Context, key: str, rank: int, timeout_s: float) -> None:
    """Wait for a key that a rank sets, as long as that rank lives."""
    until = time.perf_counter() + timeout_s
    while not context.store.check([key]) and not is_dead(context, rank) and time.perf_counter() < until:
        time.sleep(LOOK_S)


def gradient_key(context: Context, step: int, rank: int) -> str:
    """Name of the gradient of a rank in the store."""
    return f"{context.settings.attempt}/{step}/gradient-{rank}"


def _mean(context: Context, step: int) -> str:
    return f"{context.settings.attempt}/{step}/mean"
