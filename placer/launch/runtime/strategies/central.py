"""Central and hierarchical serverless aggregation: workers upload to an object store, a function
averages there, workers poll and download (`placer.launch.serverless.protocol`).

The function is the one in the cloud, or a process of this run that executes the same code. The
store of keys, at which all processes meet, then plays the bucket that calls it: its events are
those of S3. All else goes through the S3 API, request by request as in Phalak et al. (2024), eq. 5:
n + 1 writes, 2 n reads, n lists, and polls. A worker of a hierarchical plan uses its region's store
as it would use the only one; what differs is which functions the plan has, and where each writes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.stores.local_function import LocalFunction, call_local, open_store
from placer.launch.runtime.stores.object_store import ObjectStore
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.training.memory import check_fits
from placer.launch.runtime.wire.codec import Codec
from placer.launch.serverless.functions import CloudFunction
from placer.launch.serverless.protocol import (
    gradient_key,
    invoke_function,
    mean_key,
    round_name,
    s3_event,
)

WIRED = False
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
    if context.plan.deployed:
        check_fits(context.plan, rank, context.trainer.elements)
    return Upload(open_store(context, rank), function, rank)


def step(context: Context, state: Upload, step: int) -> float:
    """Calculate, upload, poll, download, update."""
    import torch

    plan, settings, meter = context.plan, context.settings, context.meter
    codec, samples = Codec(plan.exchange.compression), context.shares()[context.rank]
    gradient, loss = context.gradient(step, max(1, samples))
    body = codec.encode(gradient).numpy().tobytes()
    parts = len(plan.hub_at(state.rank).gathers)
    key = gradient_key(plan.name, round_name(settings.attempt, step), context.rank, parts)
    with meter.phase("upload"):
        state.put(context, key, body, samples=samples)
    place, storage = plan.place_of(context.rank), state.function.source.place
    meter.sent(place, storage, len(body))
    body, _ = _mean(context, state, step, key, body, samples)
    meter.sent(storage, place, len(body))
    context.update(codec.decode(torch.frombuffer(bytearray(body), dtype=torch.uint8)))
    return loss * samples / settings.target_batch_size


def follow(context: Context, state: Upload, step: int) -> float:
    """Take a step in a process whose worker's first one uploads."""
    samples = context.shares()[context.rank]
    loss = context.follow(step, max(1, samples))
    return loss * samples / context.settings.target_batch_size


def _mean(
    context: Context, state: Upload, step: int, key: str, body: bytes, samples: int
) -> tuple[bytes, Mapping[str, Any]]:
    """Poll for the mean until it is there. The request that brings it counts as download, the rest
    as waiting.
    """
    settings, meter = context.settings, context.meter
    round_ = round_name(settings.attempt, step)
    began, asked_again = time.perf_counter(), False
    while True:
        asked = time.perf_counter()
        mean = state.store.get(mean_key(context.plan.name, round_))
        now = time.perf_counter()
        if mean is not None:
            meter.seconds["download"] += now - asked
            return mean
        meter.seconds["aggregate"] += now - asked
        if now - began > PATIENCE * settings.timeout_s:
            words = f"no mean after {PATIENCE * settings.timeout_s:g} s"
            raise PeerLostError(state.rank, words)
        if now - began > settings.timeout_s and not asked_again:
            state.put(context, key, body, samples=samples)
            asked_again = True
        with meter.phase("aggregate"):
            time.sleep(settings.poll_s)


def serve(context: Context, state: LocalFunction, step: int) -> None:
    """Execute the function, call by call, until the mean of a step is where its workers poll."""
    state.serve(context, step)


def close(context: Context, state: Upload | LocalFunction) -> None:
    """End; the last mean stays in the bucket, as nobody knows when all have read it."""
