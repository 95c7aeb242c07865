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
from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.stores.local_function import LocalFunction, call_local, open_store
from placer.launch.runtime.strategies.strategy import Strategy
from placer.launch.runtime.training.memory import check_fits
from placer.launch.runtime.wire.codec import Codec
from placer.launch.serverless.protocol import (
    gradient_key,
    invoke_function,
    mean_key,
    round_name,
    s3_event,
)

PATIENCE = 2.0
"""Workers wait so many time-outs for the mean: after the first they ask for it again."""


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
            self.store = open_store(context, self.hub)

    def step(self, step: int) -> float:
        """Calculate, upload, poll, download, update."""
        context, samples = self.context, self.context.shares()[self.context.rank]
        loss = context.calculate(step, max(1, samples))
        gradient = context.trainer.gradient()
        context.update(self._mean(gradient, step, samples) if context.seat.leads else None)
        return loss * samples / context.settings.target_batch_size

    def _mean(self, gradient: Any, step: int, samples: int) -> Any:
        """Upload a gradient, and look for the mean until it is there."""
        import torch

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
            call_local(self.context.store, self.hub, event)
        elif not function.called_by_bucket:
            import boto3

            there = {"name": function.name, "region": function.region}
            invoke_function(boto3, there, event)

    def serve(self, step: int) -> None:
        """Execute the function, call by call, until the mean of a step is where its workers
        poll.
        """
        self.local.serve(step)
