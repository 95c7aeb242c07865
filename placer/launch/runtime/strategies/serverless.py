"""Central and hierarchical serverless aggregation: workers upload to an object store, a function
averages there, workers poll and download (`placer.launch.serverless.protocol`).

The function is the one in the cloud, or a process of this run that executes the same code. The
store of keys, at which all processes meet, then plays the bucket that calls it: its events are
those of S3. All else goes through the S3 API, request by request as in Phalak et al. (2024), eq. 5:
n + 1 writes, 2 n reads, n lists, and polls. A worker of a hierarchical plan uses its region's store
as it would use the only one; what differs is which functions the plan has, and where each writes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import torch

from placer.launch.runtime.codec import Codec
from placer.launch.runtime.object_store import ObjectStore
from placer.launch.runtime.processes.loopback_store import shared_store
from placer.launch.runtime.strategies.strategy import Strategy
from placer.launch.runtime.training.context import Context, check_fits
from placer.launch.runtime.wire import PeerLostError
from placer.launch.serverless.functions import region_of
from placer.launch.serverless.protocol import (
    Event,
    Function,
    gradient_key,
    invoke_function,
    mean_key,
    objects_of,
    part_of,
    round_name,
    s3_event,
)

LOOK_S = 0.005
"""Seconds between two looks for calls."""
PATIENCE = 2.0
"""Workers wait so many time-outs for the mean, and ask for it again after the first. So does a
global function: one of a region waits one for its workers.
"""


class LocalCalls:
    """Calls of functions that are processes of this run, by a store of keys on each one's machine.

    A call is one message, which passes the link to that machine once.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.stores: dict[int, Any] = {}
        self.sent: Counter[int] = Counter()
        self.taken: Counter[int] = Counter()

    def store(self, function: int) -> Any:
        """Serve the store of this function, or connect to that of another."""
        if function not in self.stores:
            context, serves = self.context, function == self.context.rank
            self.stores[function] = shared_store(
                context.store,
                f"calls/{function}",
                context.address,
                context.settings.join_s,
                serves=serves,
            )
        return self.stores[function]

    def send(self, function: int, event: Event) -> None:
        """Call a function."""
        self.sent[function] += 1
        key = f"{self.context.rank}/{self.sent[function]}"
        self.store(function).set(key, json.dumps(event))

    def take(self, callers: Collection[int]) -> dict[str, Any] | None:
        """Return a call of this function by one of its callers, None if there is none."""
        store = self.store(self.context.rank)
        for caller in callers:
            key = f"{caller}/{self.taken[caller] + 1}"
            if store.check([key]):
                event: dict[str, Any] = json.loads(store.get(key))
                store.delete_key(key)
                self.taken[caller] += 1
                return event
        return None


def open_store(context: Context, function: int) -> ObjectStore:
    """Connect to the bucket that a function reads; a local one is made by that function."""
    settings, bucket = context.settings, context.plan.hub_at(function).bucket
    assert bucket is not None
    address = settings.endpoints.get(bucket.name, settings.endpoint_url)
    in_cloud = bucket.place.startswith("aws/") and not address
    store = ObjectStore(
        bucket.name,
        address,
        context.meter,
        settings.timeout_s,
        direct=bucket.name in settings.endpoints,
        region=region_of(bucket.place) if in_cloud else None,
        way=(context.plan.place_of(context.rank), bucket.place),
    )
    if address and context.rank == function:
        store.create()
        context.store.set(f"bucket/{function}", "1")
    elif address:
        until = time.perf_counter() + settings.timeout_s
        while not context.store.check([f"bucket/{function}"]) and time.perf_counter() < until:
            time.sleep(LOOK_S)
    context.meter.clear()
    return store


class LocalFunction:
    """A function in this process: how many calls came of each round, and what it wrote."""

    def __init__(self, context: Context) -> None:
        plan, rank = context.plan, context.rank
        check_fits(plan, rank, context.trainer.elements)
        function = plan.hub_at(rank).function
        assert function is not None
        self.context, self.local_calls = context, LocalCalls(context)
        self.local_calls.store(rank)
        self.calls: Counter[str] = Counter()
        self.written: set[str] = set()
        self.regional = function.target != function.source
        ranks = {
            (hub.function.name, hub.place): plan.workers + number
            for number, hub in enumerate(plan.hubs)
            if hub.function is not None
        }

        def invoke(other: Mapping[str, str], event: Event) -> None:
            self.local_calls.send(ranks[other["name"], other["place"]], event)

        self.store = open_store(context, rank)
        stores = {function.source.name: self.store}
        if self.regional:
            stores[function.target.name] = open_store(context, plan.hub_over(rank))
        self.function = Function(function.settings(), lambda bucket, region: stores[bucket], invoke)

    def serve(self, step: int) -> None:
        """Take calls until the mean of a step is written and every upload of it has called.

        A bucket calls once for each upload, whichever call finds all parts: as many lists are
        counted as were planned. A cloud's function runs, and is paid, from the first upload on: the
        time before is apart, ``idle``.
        """
        context, meter = self.context, self.context.meter
        round_ = round_name(context.attempt, step)
        mean = mean_key(context.plan.name, round_)
        above = [context.plan.hub_over(context.rank)] if self.regional else []
        callers = [*context.plan.hub_at(context.rank).gathers, *above]
        began = time.perf_counter()
        while mean not in self.written or self.calls[round_] < len(callers):
            event = self.local_calls.take(callers)
            if event is None:
                self._check(step, round_, time.perf_counter() - began)
                with meter.phase("wait" if self.calls[round_] else "idle"):
                    time.sleep(LOOK_S)
                continue
            now, before = time.perf_counter(), sum(meter.seconds.values())
            for _, key in objects_of(event):
                self.calls[key.split("/")[2]] += 1
            new = self.function.handle(event)
            requests_s = sum(meter.seconds.values()) - before
            meter.seconds["sum"] += time.perf_counter() - now - requests_s
            if new:
                self.written |= {*new}
                self._told(new)
                began = time.perf_counter()
        self.written = {key for key in self.written if f"/{round_}" not in key}
        del self.calls[round_]

    def _told(self, keys: Collection[str]) -> None:
        """Call the function above, as its bucket does where both are in one place."""
        plan, context = self.context.plan, self.context
        function = plan.hub_at(context.rank).function
        assert function is not None
        for key in keys if self.regional and not function.calls else ():
            if "/gradients/" in key:
                above = plan.hub_over(context.rank)
                self.local_calls.send(above, s3_event(function.target.name, key))

    def _check(self, step: int, round_: str, waited_s: float) -> None:
        """Refuse to wait for the dead, or for longer than the time-out."""
        plan, context = self.context.plan, self.context
        forwarded = self.regional and any(f"/{round_}/" in key for key in self.written)
        gathers = [plan.hub_over(context.rank)] if forwarded else plan.hub_at(context.rank).gathers
        patience = PATIENCE if max(gathers) >= plan.workers else 1.0
        if waited_s > context.settings.timeout_s * patience:
            there = {part_of(key)[0] for key in self.store.list(f"{plan.name}/gradients/{round_}/")}
            missing = [rank for rank in gathers if str(rank) not in there]
            words = "no mean" if forwarded else f"no gradient of step {step}"
            raise PeerLostError((missing or gathers)[0], words)


class Serverless(Strategy):
    """A worker's side, or a function."""

    def begin(self) -> None:
        """Connect to the bucket; a function checks that it can hold what it averages."""
        context, plan = self.context, self.context.plan
        if context.rank >= plan.workers:
            self.local = LocalFunction(context)
        elif context.seat.leads:
            self.hub = plan.hub_over(context.rank)
            if plan.deployed:
                check_fits(plan, self.hub, context.trainer.elements)
            self.store, self.local_calls = open_store(context, self.hub), LocalCalls(context)

    def step(self, step: int) -> float:
        """Calculate, upload, poll, download, update."""
        context, samples = self.context, self.context.shares()[self.context.rank]
        loss = context.calculate(step, max(1, samples))
        gradient = context.trainer.gradient()
        context.update(self._mean(gradient, step, samples) if context.seat.leads else None)
        return loss * samples / context.settings.target_batch_size

    def _mean(self, gradient: Any, step: int, samples: int) -> Any:
        """Upload a gradient, and look for the mean until it is there."""
        context, plan, settings = self.context, self.context.plan, self.context.settings
        codec, round_ = Codec(plan.exchange.compression), round_name(context.attempt, step)
        parts = len(plan.hub_at(self.hub).gathers)
        key = gradient_key(plan.name, round_, context.rank, parts)
        body = codec.encode(gradient).numpy().tobytes()
        self._put(key, body, samples)
        began, asked_again = time.perf_counter(), False
        while (mean := self.store.get(mean_key(plan.name, round_))) is None:
            waited_s = time.perf_counter() - began
            if waited_s > PATIENCE * settings.timeout_s:
                raise PeerLostError(self.hub, f"no mean after {PATIENCE * settings.timeout_s:g} s")
            if waited_s > settings.timeout_s and not asked_again:
                self._put(key, body, samples)
                asked_again = True
            with context.meter.phase("poll"):
                time.sleep(settings.poll_s)
        return codec.decode(torch.frombuffer(bytearray(mean[0]), dtype=torch.uint8))

    def _put(self, key: str, body: bytes, samples: int) -> None:
        """Write a gradient, and call the function where the bucket does not."""
        plan, function = self.context.plan, self.context.plan.hub_at(self.hub).function
        assert function is not None
        self.store.put(key, body, samples=samples)
        event = s3_event(self.store.bucket, key)
        if not plan.deployed:
            self.local_calls.send(self.hub, event)
        elif not function.called_by_bucket:
            import boto3

            there = {"name": function.name, "region": function.region}
            invoke_function(boto3, there, event)

    def serve(self, step: int) -> None:
        """Execute the function until the mean of a step is where its workers poll."""
        self.local.serve(step)
