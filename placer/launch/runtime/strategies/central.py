"""Central serverless aggregation: workers upload to an object store, one function averages there,
workers poll and download (`placer.launch.serverless.protocol`).

The function is the one in the cloud, or a process of this run that executes the same code. The
store of keys, at which all processes meet, then plays the bucket that calls it: its events are
those of S3. All else goes through the S3 API, request by request as in Phalak et al. (2024), eq. 5:
n + 1 writes, 2 n reads, n lists, and polls.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.stores.local_function import LocalFunction, call_local, open_store
from placer.launch.runtime.stores.object_store import ObjectStore
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire.codec import Codec
from placer.launch.serverless.functions import CloudFunction
from placer.launch.serverless.protocol import (
    gradient_key,
    invoke_function,
    mean_key,
    proceed_key,
    round_name,
    s3_event,
)

WIRED = False
REPLICATED = True
ELASTIC = True
PATIENCE = 2.0
"""Workers wait so many time-outs for the mean: after the first they ask for it again."""


@dataclass
class Upload:
    """A worker's side of the exchange: the store, and the function that reads it."""

    store: ObjectStore
    function: CloudFunction
    rank: int

    def put(self, context: Context, key: str, body: bytes, **notes: Any) -> None:
        """Write an object, and call the function where the bucket does not."""
        self.store.put(key, body, **notes)
        event = s3_event(self.store.bucket, key)
        if not context.plan.deployed:
            call_local(context.store, self.rank, event)
        elif not self.function.called_by_bucket:
            import boto3

            there = {"name": self.function.name, "region": self.function.region}
            invoke_function(boto3, there, event)


def open(context: Context) -> Upload | LocalFunction:  # noqa: A001 - the protocol's word
    """Connect to the bucket; a function checks that it can hold what it averages."""
    if context.rank >= context.plan.workers:
        return LocalFunction(context)
    rank = context.plan.hub_over(context.rank)
    function = context.plan.hub_at(rank).function
    assert function is not None
    return Upload(open_store(context, rank), function, rank)


def step(context: Context, state: Upload, step: int) -> float:
    """Calculate, upload, poll, download, update."""
    import torch

    plan, settings, meter = context.plan, context.settings, context.meter
    codec, samples = Codec(plan.exchange.compression), context.shares()[context.rank]
    gradient, loss = context.gradient(step, max(1, samples))
    body = codec.encode(gradient).numpy().tobytes()
    parts = len([rank for rank in plan.hub_at(state.rank).gathers if rank in context.members])
    key = gradient_key(plan.name, round_name(settings.attempt, step), context.rank, parts)
    with meter.phase("upload"):
        state.put(context, key, body, samples=samples)
    place, storage = plan.place_of(context.rank), state.function.source.place
    meter.sent(place, storage, len(body))
    body, notes = _mean(context, state, step, key, body, samples)
    meter.sent(storage, place, len(body))
    _go_on_with(context, state.rank, step, notes)
    context.update(codec.decode(torch.frombuffer(bytearray(body), dtype=torch.uint8)))
    return loss * samples / settings.target_batch_size


def _mean(
    context: Context, state: Upload, step: int, key: str, body: bytes, samples: int
) -> tuple[bytes, Mapping[str, Any]]:
    """Poll for the mean until it is there. The request that brings it counts as download, the rest
    as waiting.
    """
    settings, meter = context.settings, context.meter
    round_ = round_name(settings.attempt, step)
    began, asked_again, asked_for = time.perf_counter(), False, len(context.members)
    while True:
        asked = time.perf_counter()
        mean = state.store.get(mean_key(context.plan.name, round_))
        now = time.perf_counter()
        if mean is not None:
            meter.seconds["download"] += now - asked
            return mean
        meter.seconds["aggregate"] += now - asked
        lost = dead_ranks(context, context.members)
        enough = len(context.members) - len(lost)
        if hubs := dead_ranks(context, range(context.plan.workers, context.plan.ranks)):
            raise PeerLostError(hubs[0], "the function is gone")
        if lost and not settings.elastic:
            raise PeerLostError(lost[0], f"no gradient of step {step}")
        if now - began > PATIENCE * settings.timeout_s:
            words = f"no mean after {PATIENCE * settings.timeout_s:g} s"
            raise PeerLostError(state.rank, words)
        if now - began > settings.timeout_s:
            enough = 1
            if not asked_again and not settings.elastic:
                state.put(context, key, body, samples=samples)
                asked_again = True
        if settings.elastic and enough < asked_for:
            state.put(context, proceed_key(context.plan.name, round_, enough), b"")
            asked_for = enough
        with meter.phase("aggregate"):
            time.sleep(settings.poll_s)


def _go_on_with(context: Context, function: int, step: int, notes: Mapping[str, Any]) -> None:
    """Go on with the workers of a mean; without a note those are all."""
    members = tuple(int(rank) for rank in notes.get("members", context.members))
    if context.rank not in members:
        words = f"rank {context.rank} was too slow: the function went on without it"
        raise PeerLostError(function, words)
    for rank in set(context.members) - set(members):
        if context.rank == min(members):  # one of them tells the user
            context.drop_worker(rank, step)
    context.members = members


def dead_ranks(context: Context, ranks: Collection[int]) -> list[int]:
    """List the ranks that the launcher has reported as dead."""
    return [rank for rank in ranks if context.store.check([f"dead/{rank}"])]


def serve(context: Context, state: LocalFunction, step: int) -> None:
    """Execute the function, call by call, until the mean of a step is where its workers poll."""
    state.serve(context, step)


def close(context: Context, state: Upload | LocalFunction) -> None:
    """End; the last mean stays in the bucket, as nobody knows when all have read it."""
