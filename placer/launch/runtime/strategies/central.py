"""Central serverless aggregation: workers upload to an object store, one function averages there,
workers poll and download.

The function is a process here. That a bucket calls it after each upload is played by the run's own
store of keys; all else goes through the S3 API, request by request as in Phalak et al. (2024), eq.
5: n + 1 writes, 2 n reads, n lists, and polls.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from typing import Any

from placer.errors import PlacerError
from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.stores.object_store import ObjectStore
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.training.memory import check_fits
from placer.launch.runtime.wire.codec import Codec

WIRED = False
REPLICATED = True
ELASTIC = True
PATIENCE = 2.0
"""Workers wait so many time-outs for the mean: the function waits one for a slow worker."""
LOOK_S = 0.005
"""Seconds between two looks for notifications."""


def open(context: Context) -> ObjectStore:  # noqa: A001 - the protocol's word
    """Connect to the bucket; the function checks that it can hold what it sums."""
    if context.rank >= context.plan.workers:
        check_fits(context.plan, context.rank, context.trainer.elements)
    return open_bucket(
        context,
        context.rank
        if context.rank >= context.plan.workers
        else context.plan.hub_over(context.rank),
    )


def open_bucket(context: Context, function: int) -> ObjectStore:
    """Connect to the bucket that a function reads; a local one is made by that function."""
    settings, bucket = context.settings, context.plan.hub_at(function).bucket
    assert bucket is not None
    address = settings.endpoints.get(bucket.name, settings.endpoint_url)
    local = bucket.name in settings.endpoints
    store = ObjectStore(bucket.name, address, context.meter, settings.timeout_s, direct=local)
    if address and context.rank == function:
        store.create()
        context.store.set(f"bucket/{function}", "1")
    elif address:
        wait_for(context, f"bucket/{function}", function, settings.timeout_s)
    context.meter.clear()
    return store


def step(context: Context, state: ObjectStore, step: int) -> float:
    """Calculate, upload, poll, download, update."""
    import torch

    plan, meter, codec = context.plan, context.meter, Codec(context.plan.exchange.compression)
    function = plan.hub_over(context.rank)
    place, storage = plan.place_of(context.rank), store_place(context, function)
    gradient, loss = context.gradient(step, context.settings.target_batch_size)
    body = codec.encode(gradient).numpy().tobytes()
    with meter.phase("upload"):
        state.put(gradient_key(context, step, context.rank), body)
    meter.sent(place, storage, len(body))
    context.store.set(f"uploaded/{step}/{context.rank}", "1")
    body, notes = poll_mean(context, state, mean_key(context, step), function)
    meter.sent(storage, place, len(body))
    context.members = tuple(json.loads(notes["members"]))
    if context.rank not in context.members:
        raise PeerLostError(
            function, f"rank {context.rank} was too slow: the function went on without it"
        )
    context.update(codec.decode(torch.frombuffer(bytearray(body), dtype=torch.uint8)))
    return loss


def poll_mean(
    context: Context, store: ObjectStore, key: str, function: int
) -> tuple[bytes, dict[str, str]]:
    """Poll for the mean until it is there. The request that brings it counts as download, the rest
    as waiting.
    """
    waited = time.perf_counter()
    while True:
        asked = time.perf_counter()
        mean = store.get(key)
        now = time.perf_counter()
        if mean is not None:
            context.meter.seconds["download"] += now - asked
            return mean
        context.meter.seconds["aggregate"] += now - asked
        if is_dead(context, function):
            raise PeerLostError(function, "the function is gone")
        if now - waited > PATIENCE * context.settings.timeout_s:
            raise PeerLostError(
                function, f"no mean after {PATIENCE * context.settings.timeout_s:g} s"
            )
        with context.meter.phase("aggregate"):
            time.sleep(context.settings.poll_s)


def serve(context: Context, state: ObjectStore, step: int) -> None:
    """List on each upload; when all are there fetch them, put the mean, and delete what nobody
    reads any longer.
    """
    took_part = gathered_ranks(context)
    put_mean(context, state, step)
    delete_step(context, state, step, took_part)


def put_mean(context: Context, store: ObjectStore, step: int) -> None:
    """Put the mean of what this function gathers."""
    meter, codec = context.meter, Codec(context.plan.exchange.compression)
    shares, batch = context.shares(), context.settings.target_batch_size
    total = sum_gradients(context, store, step, "fetch")
    counted = sum(shares[rank] for rank in context.members)
    body = codec.encode(total * (batch / counted) if counted < batch else total).numpy().tobytes()
    with meter.phase("put"):
        store.put(mean_key(context, step), body, members=json.dumps(context.members))
    meter.sent(context.plan.place_of(context.rank), store_place(context, context.rank), len(body))


def sum_gradients(context: Context, store: ObjectStore, step: int, phase: str) -> Any:
    """Wait for what this function gathers, fetch it, and add it up."""
    import torch

    meter, codec, rank = context.meter, Codec(context.plan.exchange.compression), context.rank
    total = torch.zeros(context.trainer.elements)
    there = wait_for_uploads(context, store, step)
    with meter.phase(phase):
        for other in there:
            body = fetch(context, store, gradient_key(context, step, other))
            meter.sent(store_place(context, rank), context.plan.place_of(rank), len(body))
            total += codec.decode(torch.frombuffer(bytearray(body), dtype=torch.uint8))
    return total


def delete_step(
    context: Context, store: ObjectStore, step: int, took_part: Collection[int]
) -> None:
    """Delete the gradients of a step and the mean of the one before, which all have read."""
    old = [mean_key(context, step - 1)] if step - 1 >= context.start else []
    with context.meter.phase("delete"):
        store.delete([*(gradient_key(context, step, rank) for rank in took_part), *old])


def gathered_ranks(context: Context) -> list[int]:
    """List the ranks whose gradients this function sums: workers that are still there, or the
    functions of the regions.
    """
    workers = context.plan.workers
    return [
        rank
        for rank in context.plan.hub_at(context.rank).gathers
        if rank >= workers or rank in context.members
    ]


def wait_for_uploads(context: Context, store: ObjectStore, step: int) -> list[int]:
    """Wait until all have uploaded, and return who has. Where that is allowed, dead and slow ranks
    are left out.

    Notes
    -----
    A cloud's function runs, and is paid, from the first upload on: the time before is apart,
    ``idle``.
    """
    began, came, there = time.perf_counter(), 0.0, gathered_ranks(context)
    waiting = set(there)
    of_regions = max(there) >= context.plan.workers
    patience_s = context.settings.timeout_s * (
        PATIENCE if of_regions else 1.0
    )  # a region's function waits one for its workers
    while waiting:
        for rank in sorted(waiting):
            if context.store.check([f"uploaded/{step}/{rank}"]):
                came = came or time.perf_counter()
                store.list(f"{context.settings.attempt}/{step}/gradient-")
                waiting.remove(rank)
            elif is_dead(context, rank) or time.perf_counter() - began > patience_s:
                if not context.settings.elastic or len(context.members) == 1:
                    raise PeerLostError(rank, f"no gradient of step {step}")
                waiting.remove(rank)
                there.remove(rank)
                context.drop_worker(rank, step)
        if waiting:
            time.sleep(LOOK_S)
    now = time.perf_counter()
    context.meter.seconds["idle"] += (came or now) - began
    context.meter.seconds["wait"] += now - (came or now)
    return there


def fetch(context: Context, store: ObjectStore, key: str) -> bytes:
    """Read an object that was announced; retry for a while if it is not there yet."""
    until = time.perf_counter() + context.settings.timeout_s
    while (body_and_notes := store.get(key)) is None:
        if time.perf_counter() > until:
            raise PlacerError(
                f"object '{key}' is not in bucket '{store.bucket}'",
                "it was uploaded: who deletes there?",
                exit_code=1,
            )
        time.sleep(context.settings.poll_s)
    return body_and_notes[0]


def close(context: Context, state: ObjectStore) -> None:
    """Delete the last mean when all have read it."""
    acknowledge(context)
    if context.rank >= context.plan.workers:
        state.delete([mean_key(context, context.settings.steps - 1)])


def acknowledge(context: Context) -> None:
    """Report that this rank has read the last mean; a function first waits for its ranks."""
    plan = context.plan
    for rank in gathered_ranks(context) if context.rank >= plan.workers else ():
        wait_for(context, f"done/{rank}", rank, context.settings.timeout_s)
    context.store.set(f"done/{context.rank}", "1")


def is_dead(context: Context, rank: int) -> bool:
    """Return whether the launcher has reported a rank as dead."""
    return bool(context.store.check([f"dead/{rank}"]))


def wait_for(context: Context, key: str, rank: int, timeout_s: float) -> None:
    """Wait for a key that a rank sets, as long as that rank lives."""
    until = time.perf_counter() + timeout_s
    while (
        not context.store.check([key])
        and not is_dead(context, rank)
        and time.perf_counter() < until
    ):
        time.sleep(LOOK_S)


def store_place(context: Context, function: int) -> str:
    """Return the place of the store that a function reads."""
    bucket = context.plan.hub_at(function).bucket
    assert bucket is not None
    return bucket.place


def gradient_key(context: Context, step: int, rank: int) -> str:
    """Return the key of the gradient of a rank in the store."""
    return f"{context.settings.attempt}/{step}/gradient-{rank}"


def mean_key(context: Context, step: int) -> str:
    """Return the key of the mean in the store."""
    return f"{context.settings.attempt}/{step}/mean"
