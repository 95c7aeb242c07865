"""What one process does in each step. The base is what PyTorch does by itself; the others exchange
gradients or models between worlds, whose first processes hand them on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any

import torch

from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire import PeerLostError, butterfly_sum, sum_as_hub, sum_of_hub


class Strategy:
    """An exchange in one process; the base averages the gradients of one world, as DDP and FSDP do.

    All processes of a world call the same methods in the same order. Where the first process alone
    exchanges, the others hand in None for what they do not have. ``wired``: the first processes of
    the worlds, and hubs, are connected by gloo.
    """

    wired = False

    def __init__(self, context: Context) -> None:
        self.context = context

    def begin(self) -> None:
        """Begin at the step of the context, with the model from which all go on."""

    def steps(self) -> Iterator[int]:
        """Count the steps."""
        yield from range(self.context.start, self.context.settings.steps)

    def step(self, step: int) -> float:
        """Take an optimizer step of a worker; return its part of the loss over the target batch."""
        loss = self.context.calculate(step, self.context.settings.target_batch_size)
        with self.context.meter.phase("update"):
            self.context.trainer.step()
        return loss

    def serve(self, step: int) -> None:
        """Do a hub's part of one step."""

    def tensors(self) -> dict[str, Any]:
        """Return the tensors of a checkpoint beside model and optimizer; loading fills them."""
        return {}

    def close(self) -> None:
        """End the exchange; the model is the last one then."""

    def leave(self) -> None:
        """Let the others go on without this process."""


class AllReduce(Strategy):
    """A flat butterfly over the worlds: workers, or regions inside which PyTorch averages. ``late``
    is the exchange under way where the plan overlaps; a world's other processes only know of it.
    """

    wired = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.late: Future[tuple[Any, float]] | bool = False
        self.thread = ThreadPoolExecutor(1, "exchange")

    def summed(self, gradient: Any) -> Any:
        """Sum the gradients of all worlds."""
        return butterfly_sum(self.context.wire, gradient, self.context.leaders)

    def step(self, step: int) -> float:
        """Calculate, exchange, update.

        Where the plan overlaps, the exchange runs in a thread beside the next calculation, and its
        sum is one step late. Nothing stays under way before a checkpoint or at the end, so a
        checkpoint is a model on which all agree.
        """
        context, settings = self.context, self.context.settings
        loss = context.calculate(step, settings.target_batch_size)
        gradient = context.trainer.gradient()
        if not context.plan.exchange.overlap:
            context.update(self.summed(gradient) if context.seat.leads else None)
            return loss
        before, self.late = self.late, self._begun(gradient)
        if before:
            context.update(self._ended(before, flush=False))
        if context.saves_checkpoint(step) or step + 1 == settings.steps:
            under_way, self.late = self.late, False
            context.update(self._ended(under_way, flush=True))
        return loss

    def _begun(self, gradient: Any) -> Future[tuple[Any, float]] | bool:
        """Begin an exchange in the thread, after the one that is under way."""
        if not self.context.seat.leads:
            return True

        def timed() -> tuple[Any, float]:
            began = perf_counter()
            return self.summed(gradient), perf_counter() - began

        return self.thread.submit(timed)

    def _ended(self, under_way: Future[tuple[Any, float]] | bool, *, flush: bool) -> Any:
        """Wait for an exchange; None in a process that does not exchange."""
        if isinstance(under_way, bool):
            return None
        began = perf_counter()
        result, seconds = under_way.result()
        waited, meter = perf_counter() - began, self.context.meter
        meter.absorb(self.context.wire_meter)
        if flush:
            meter.overlap(flushed_s=waited)
        else:
            meter.overlap(exchange_s=seconds, waited_s=waited)
        return result


class ParameterServer(AllReduce):
    """One process sums what the workers push; they pull the sum."""

    def summed(self, gradient: Any) -> Any:
        """Push a gradient, pull the sum."""
        context = self.context
        return sum_of_hub(context.wire, context.plan.workers, gradient, ("push", "pull"))

    def serve(self, step: int) -> None:
        """Sum what comes, in the order of the ranks, and hand it back."""
        context, none = self.context, torch.zeros(self.context.trainer.elements)
        sum_as_hub(context.wire, context.leaders, none, ("push", "pull"))


class ModelAveraging(Strategy):
    """Every H steps one region averages the models of all by their samples. What travels, between
    regions and inside them, is the change since the last average: rounded to FP16 it keeps more.
    """

    wired = True

    def begin(self) -> None:
        """Keep the model that all had after the last average, in each process what it holds."""
        self.common = self.context.trainer.copies()

    def step(self, step: int) -> float:
        """Take a step of the region; at the end of a round, average."""
        context = self.context
        loss = context.local_step(step)
        if context.ends_round(step):
            # Of a sharded model all processes give their parts.
            own, common = context.trainer.vector(), context.trainer.vector(self.common)
            share = context.world_samples / context.settings.target_batch_size
            change = self._through_hub((own - common) * share) if context.seat.leads else None
            context.move(self.common, change)
        return loss

    def _through_hub(self, change: Any) -> Any:
        """Send the change up to the hub's first worker and take the sum of all down."""
        context = self.context
        hub = dict(context.plan.regions)[str(context.plan.exchange.aggregator)][0]
        if context.rank != hub:
            return sum_of_hub(context.wire, hub, change, ("up", "down"))
        others = [rank for rank in context.leaders if rank != hub]
        return sum_as_hub(context.wire, others, change, ("up", "down"))


def partner(leaders: tuple[int, ...], leader: int, exchange: int) -> int:
    """Return the leader to whom a leader sends in an exchange: all others take turns.

    >>> [partner((0, 2, 4), 0, e) for e in range(4)]
    [2, 4, 2, 4]
    """
    count = len(leaders)
    return leaders[(leaders.index(leader) + 1 + exchange % (count - 1)) % count]


class Gossip(Strategy):
    """ASGD-GA: every H steps each region sends the gradients it accumulated to one other and goes
    on.

    Partners rotate as in `placer.problem.exchange`; each gets what was accumulated since it
    last had its turn, so no gradient is lost. What comes is added to the gradient of the next step.
    Gradients are weighted with their share of the target batch, so own and late ones of all regions
    add up to the mean gradient.
    """

    wired = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.accumulated: dict[int, Any] = {}
        self.posted: list[tuple[int, Any, Any]] = []
        self.came: SimpleQueue[Any] = SimpleQueue()
        self.takers: list[threading.Thread] = []

    def begin(self) -> None:
        """Begin to take what other regions will send: one thread each, so that nothing waits."""
        context, leaders = self.context, self.context.leaders
        h = context.plan.exchange.local_steps
        turns = range(context.start // h, -(-context.settings.steps // h))
        for peer in leaders if context.seat.leads and turns else ():
            if peer == context.rank:
                continue
            self.accumulated[peer] = torch.zeros(context.trainer.elements)
            rest = partner(leaders, peer, turns[-1]) != context.rank  # sent at the end
            count = sum(partner(leaders, peer, turn) == context.rank for turn in turns) + rest
            self.takers.append(threading.Thread(target=self._take, args=(peer, count), daemon=True))
            self.takers[-1].start()

    def _take(self, peer: int, count: int) -> None:
        wire = self.context.wire
        for _ in range(count):
            message = wire.codec.empty(self.context.trainer.elements)
            try:
                wire.take(peer, message)
            except PeerLostError as lost:
                self.came.put(lost)
                return
            self.came.put(wire.codec.decode(message))

    def step(self, step: int) -> float:
        """Average inside the region what it calculates and what came, update; after a round send
        and go on. The average hands on what came; processes that share one model add it after that.
        """
        context, came = self.context, self._arrived()
        sharded = context.trainer.model.sharded
        loss = context.calculate(
            step, context.settings.target_batch_size, None if sharded else came
        )
        gradient = context.trainer.gradient()
        own = gradient if sharded or came is None else gradient - came
        for accumulated in self.accumulated.values():
            accumulated.add_(own)
        if sharded:
            context.step_with(came)
        else:
            with context.meter.phase("update"):
                context.trainer.step()
        if self.accumulated and context.ends_round(step):
            turn = step // context.plan.exchange.local_steps
            with context.meter.phase("send"):
                self._settle()
                self._send(partner(context.leaders, context.rank, turn))
        return loss

    def _arrived(self) -> Any:
        """Sum the gradients that came since the last look; None if there are none."""
        total = None
        while True:
            try:
                arrival = self.came.get_nowait()
            except Empty:
                return total
            if isinstance(arrival, PeerLostError):
                raise arrival
            total = arrival if total is None else total + arrival

    def _send(self, to: int) -> None:
        """Hand over what was accumulated for a region, without waiting, and begin anew."""
        wire = self.context.wire
        message = wire.codec.encode(self.accumulated[to]).clone()
        self.posted += [(to, work, message) for work in wire.post(to, message)]
        self.accumulated[to].zero_()

    def _settle(self) -> None:
        """Wait until the last sends are taken: their memory is free then."""
        posted, self.posted = self.posted, []
        for to, work, _ in posted:
            self.context.wire.wait(to, work)

    def close(self) -> None:
        """Send what has not had its turn, take what is on its way, and a last step with it."""
        context = self.context
        if self.accumulated:
            last = (context.settings.steps - 1) // context.plan.exchange.local_steps
            for to in set(self.accumulated) - {partner(context.leaders, context.rank, last)}:
                self._send(to)
        for thread in self.takers:
            thread.join()
        self._settle()
        context.step_with(self._arrived(), needed=True)
