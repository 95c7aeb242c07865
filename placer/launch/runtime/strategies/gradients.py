"""Gradients that are summed between worlds in each step, as PyTorch does not: compressed to 8 bits,
over several TCP streams, a step late, between islands of unequal shape, between regions, or by a
server. First processes of the worlds exchange and hand the sum on.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter
from typing import Any

from placer.launch.runtime.strategies.strategy import Strategy
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire.butterfly import butterfly_sum


class AllReduce(Strategy):
    """A flat butterfly over the worlds: workers, or regions inside which PyTorch averages.

    Notes
    -----
    ``late`` is the exchange under way where the plan overlaps; the other processes of a world only
    know that there is one.
    """

    wired = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.late: Future[tuple[Any, float]] | bool = False
        self.thread = ThreadPoolExecutor(1, "exchange")

    def summed(self, gradient: Any) -> Any:
        """Sum the gradients of all worlds."""
        return butterfly_sum(self.context.connected, gradient, self.context.leaders)

    def step(self, step: int) -> float:
        """Calculate, exchange, update.

        Notes
        -----
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
        wire, server = self.context.connected, self.context.plan.workers
        with self.context.meter.phase("push"):
            wire.swap([(server, wire.codec.encode(gradient))], [])
        message = wire.codec.empty(self.context.trainer.elements)
        with self.context.meter.phase("pull"):  # the wait for the slowest worker is in it
            wire.swap([], [(server, message)])
        return wire.codec.decode(message)

    def serve(self, step: int) -> None:
        """Sum what comes, in the order of the ranks, and hand it back."""
        import torch

        wire, meter, elements = (
            self.context.connected,
            self.context.meter,
            self.context.trainer.elements,
        )
        came = {rank: wire.codec.empty(elements) for rank in self.context.leaders}
        with meter.phase("push"):
            wire.swap([], list(came.items()))
        with meter.phase("reduce"):
            total = torch.zeros(elements)
            for message in came.values():
                total += wire.codec.decode(message)
            encoded = wire.codec.encode(total)
        with meter.phase("pull"):
            wire.swap([(rank, encoded) for rank in came], [])
