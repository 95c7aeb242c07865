"""A local function runtime: a process of a run that executes the cloud function's own code, called
with the events that S3 would send.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from typing import Any

from placer.documents.manifest.types import Bucket
from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.stores.object_store import ObjectStore
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.training.memory import check_fits
from placer.launch.serverless.functions import CloudFunction, region_of
from placer.launch.serverless.protocol import Event, Function, mean_key, part_of, round_name

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
    return _open(context, function, ObjectStore)


def _open(context: Context, function: int, kind: type[ObjectStore]) -> ObjectStore:
    settings, bucket = context.settings, context.plan.hub_at(function).bucket
    assert bucket is not None
    address = settings.endpoints.get(bucket.name, settings.endpoint_url)
    in_cloud = bucket.place.startswith("aws/") and not address
    store = kind(
        bucket.name,
        address,
        context.meter,
        settings.timeout_s,
        direct=bucket.name in settings.endpoints,
        region=region_of(bucket.place) if in_cloud else None,
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


class Measured(ObjectStore):
    """A store whose requests by a function count as phases and bytes of the round."""

    phases: Mapping[str, str]
    here: str
    place: str

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """Read; see `placer.launch.serverless.protocol.Bucket.get`."""
        with self.meter.phase(self.phases["get"]):
            found = super().get(key)
        if found is not None:
            self.meter.sent(self.place, self.here, len(found[0]))
        return found

    def put(self, key: str, body: Any, *, once: bool = False, **notes: Any) -> None:
        """Write; see `placer.launch.serverless.protocol.Bucket.put`."""
        with self.meter.phase(self.phases["put"]):
            super().put(key, body, once=once, **notes)
        self.meter.sent(self.here, self.place, len(body))

    def delete(self, keys: Collection[str]) -> None:
        """Delete; see `placer.launch.serverless.protocol.Bucket.delete`."""
        with self.meter.phase("delete"):
            super().delete(keys)


class LocalFunction:
    """A function of the plan in this process."""

    def __init__(self, context: Context) -> None:
        plan, rank = context.plan, context.rank
        check_fits(plan, rank, context.trainer.elements)
        function = plan.hub_at(rank).function
        assert function is not None
        self.regional = function.target != function.source
        self.calls = 0
        ranks = {
            (hub.function.name, hub.place): plan.workers + number
            for number, hub in enumerate(plan.hubs)
            if hub.function is not None
        }

        def invoke(other: Mapping[str, str], event: Event) -> None:
            call_local(context.store, ranks[other["name"], other["place"]], event)

        stores = {
            function.source.name: self._store(context, rank, function, function.source),
        }
        if self.regional:
            above = self._store(context, plan.hub_over(rank), function, function.target)
            stores[function.target.name] = above
        self.store = stores[function.source.name]
        self.function = Function(function.settings(), lambda bucket, region: stores[bucket], invoke)
        self.above = plan.hub_over(rank) if self.regional else rank

    def _store(
        self, context: Context, rank: int, function: CloudFunction, bucket: Bucket
    ) -> Measured:
        own = bucket == function.source
        phases = {"get": "fetch", "put": "put"}
        if self.regional:
            phases = (
                {"get": "fetch in regions", "put": "put in regions"}
                if own
                else {"get": "copy", "put": "forward"}
            )
        store = _open(context, rank, Measured)
        assert isinstance(store, Measured)
        store.phases, store.here, store.place = phases, function.place, bucket.place
        return store

    def serve(self, context: Context, step: int) -> None:
        """Take calls until the mean of a step is written.

        Raises
        ------
        PeerLostError
            If a part does not come, and the run may not go on without it.

        Notes
        -----
        A cloud's function runs, and is paid, from the first upload on: the time before is apart,
        ``idle``.
        """
        round_ = round_name(context.settings.attempt, step)
        mean, meter = mean_key(context.plan.name, round_), context.meter
        began, came, forwarded = time.perf_counter(), 0.0, False
        while True:
            event = self._next(context)
            if event is None:
                self._check(context, step, round_, time.perf_counter() - began, forwarded)
                time.sleep(LOOK_S)
                continue
            now, before = time.perf_counter(), sum(meter.seconds.values())
            came = came or now
            written = [key for key in self.function.handle(event) if f"/{round_}" in key]
            if not written:
                continue
            requests_s = sum(meter.seconds.values()) - before
            reads = "copy" if forwarded else self.store.phases["get"]
            meter.seconds[reads] += time.perf_counter() - now - requests_s  # the sum
            meter.seconds["idle"] += came - began
            meter.seconds["wait"] += now - came
            if mean in written:
                return
            began, came, forwarded = time.perf_counter(), 0.0, True

    def _next(self, context: Context) -> dict[str, Any] | None:
        """Take the next call, if there is one."""
        key = f"call/{context.rank}/{self.calls + 1}"
        if not context.store.check([key]):
            return None
        event: dict[str, Any] = json.loads(context.store.get(key))
        context.store.delete_key(key)
        self.calls += 1
        return event

    def _check(
        self, context: Context, step: int, round_: str, waited_s: float, forwarded: bool
    ) -> None:
        """Refuse to wait for the dead, or for longer than the time-out."""
        plan, settings = context.plan, context.settings
        gathers = [self.above] if forwarded else list(plan.hub_at(context.rank).gathers)
        words = "no mean" if forwarded else f"no gradient of step {step}"
        of_regions = max(gathers) >= plan.workers
        if waited_s > settings.timeout_s * (PATIENCE if of_regions else 1.0):
            prefix = f"{plan.name}/gradients/{round_}/"
            there = {part_of(key)[0] for key in self.store.list(prefix)}
            missing = [rank for rank in gathers if str(rank) not in there]
            raise PeerLostError((missing or gathers)[0], words)
