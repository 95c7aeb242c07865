"""A local function runtime: a process of a run that executes the cloud function's own code, called
with the events that S3 would send.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.stores.object_store import ObjectStore
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.training.memory import check_fits
from placer.launch.serverless.functions import region_of
from placer.launch.serverless.protocol import (
    Event,
    Function,
    mean_key,
    objects_of,
    part_of,
    round_name,
    s3_event,
)

LOOK_S = 0.005
"""Seconds between two looks for calls."""
PATIENCE = 2.0
"""A global function waits so many time-outs: a function of a region waits one for its workers."""


def call_local(store: Any, rank: int, event: Event) -> None:
    """Call a function that is a process of this run.

    Parameters
    ----------
    store
        A ``torch.distributed`` store at which all ranks meet.
    rank
        Of the function.
    """
    number = store.add(f"calls/{rank}", 1)
    store.set(f"call/{rank}/{number}", json.dumps(event))


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
    """A function of the plan in this process.

    Notes
    -----
    Of each round it knows how many calls came, and the keys that it has written.
    """

    def __init__(self, context: Context) -> None:
        plan, rank = context.plan, context.rank
        check_fits(plan, rank, context.trainer.elements)
        function = plan.hub_at(rank).function
        assert function is not None
        self.context, self.taken = context, 0
        self.calls: Counter[str] = Counter()
        self.written: set[str] = set()
        self.regional = function.target != function.source
        ranks = {
            (hub.function.name, hub.place): plan.workers + number
            for number, hub in enumerate(plan.hubs)
            if hub.function is not None
        }

        def invoke(other: Mapping[str, str], event: Event) -> None:
            call_local(context.store, ranks[other["name"], other["place"]], event)

        self.store = open_store(context, rank)
        stores = {function.source.name: self.store}
        if self.regional:
            stores[function.target.name] = open_store(context, plan.hub_over(rank))
        self.function = Function(function.settings(), lambda bucket, region: stores[bucket], invoke)

    def serve(self, step: int) -> None:
        """Take calls until the mean of a step is written and every upload of it has called.

        Raises
        ------
        PeerLostError
            If a part does not come, and the run may not go on without it.

        Notes
        -----
        A bucket calls once for each upload, whichever call finds all parts: as many lists are
        counted as were planned. A cloud's function runs, and is paid, from the first upload on: the
        time before is apart, ``idle``.
        """
        context, meter = self.context, self.context.meter
        round_ = round_name(context.attempt, step)
        mean = mean_key(context.plan.name, round_)
        calls = len(context.plan.hub_at(context.rank).gathers) + self.regional
        began = time.perf_counter()
        while mean not in self.written or self.calls[round_] < calls:
            event = self._next()
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
                call_local(context.store, above, s3_event(function.target.name, key))

    def _next(self) -> dict[str, Any] | None:
        """Take the next call, if there is one."""
        store, key = self.context.store, f"call/{self.context.rank}/{self.taken + 1}"
        if not store.check([key]):
            return None
        event: dict[str, Any] = json.loads(store.get(key))
        store.delete_key(key)
        self.taken += 1
        return event

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
