"""Model averaging and ASGD-GA: PyTorch averages the gradients of each step inside a region, and
every H steps regions exchange.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any

from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.strategies.strategy import Strategy
from placer.launch.runtime.training.context import Context


class ModelAveraging(Strategy):
    """Every H steps one region averages the models of all by their samples.

    Notes
    -----
    What travels is the change since the last average: rounded to FP16 it keeps more of it.
    """

    wired = True

    def begin(self) -> None:
        """Keep the model that all had after the last average."""
        self.common = self.context.trainer.vector()

    def step(self, step: int) -> float:
        """Take a step of the region; at the end of a round, average."""
        context = self.context
        loss = context.local_step(step)
        if context.ends_round(step):
            own = context.trainer.vector()  # of a sharded model all processes give their parts
            if context.seat.leads:
                share = context.world_samples / context.settings.target_batch_size
                self.common = self.common + self._through_hub((own - self.common) * share)
            context.load(self.common if context.seat.leads else None)
        return loss

    def _through_hub(self, change: Any) -> Any:
        """Send the change up to the hub's first worker and take the sum of all down."""
        context, wire, codec = self.context, self.context.connected, self.context.connected.codec
        hub = dict(context.plan.regions)[str(context.plan.exchange.aggregator)][0]
        if context.rank != hub:
            with context.meter.phase("up"):
                wire.swap([(hub, codec.encode(change))], [])
            message = codec.empty(len(change))
            with context.meter.phase("down"):
                wire.swap([], [(hub, message)])
            return codec.decode(message)
        came = {rank: codec.empty(len(change)) for rank in context.leaders if rank != hub}
        with context.meter.phase("up"):
            wire.swap([], list(came.items()))
        total = change.clone()
        for answer in came.values():
            total += codec.decode(answer)
        message = codec.encode(total)
        with context.meter.phase("down"):
            wire.swap([(rank, message) for rank in came], [])
        return codec.decode(message)


def partner(leaders: tuple[int, ...], leader: int, exchange: int) -> int:
    """Return the leader to whom a leader sends in an exchange: all others take turns.

    Examples
    --------
    >>> [partner((0, 2, 4), 0, e) for e in range(4)]
    [2, 4, 2, 4]
    """
    count = len(leaders)
    return leaders[(leaders.index(leader) + 1 + exchange % (count - 1)) % count]


class Gossip(Strategy):
    """ASGD-GA: every H steps each region sends the gradients it accumulated to one other and goes
    on.

    Notes
    -----
    Partners rotate as in `placer.problem.exchange`; each gets what was accumulated since it
    last had its turn, so no gradient is lost. What comes is added to the gradient of the next step.
    Gradients are weighted with their share of the target batch, so own and late ones of all regions
    add up to the mean gradient. The first process of a region has ``accumulated`` gradients for
    each other region, ``posted`` sends under way, and what ``came``.
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
        import torch

        context, leaders = self.context, self.context.leaders
        h = context.plan.steps_per_round
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
        wire = self.context.connected
        for _ in range(count):
            message = wire.codec.empty(self.context.trainer.elements)
            try:
                wire.take(peer, message)
            except PeerLostError as lost:
                self.came.put(lost)
                return
            self.came.put(wire.codec.decode(message))

    def step(self, step: int) -> float:
        """Average inside the region, add what came, update; at the end of a round send and go
        on.
        """
        context = self.context
        loss = context.calculate(step, context.settings.target_batch_size)
        gradient = context.trainer.gradient()
        for accumulated in self.accumulated.values():
            accumulated.add_(gradient)
        context.step_with(self._arrived())
        if self.accumulated and context.ends_round(step):
            turn = step // context.plan.steps_per_round
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
        wire = self.context.connected
        message = wire.codec.encode(self.accumulated[to]).clone()
        self.posted += [(to, work, message) for work in wire.post(to, message)]
        self.accumulated[to].zero_()

    def _settle(self) -> None:
        """Wait until the last sends are taken: their memory is free then."""
        posted, self.posted = self.posted, []
        for to, work, _ in posted:
            self.context.connected.wait(to, work)

    def close(self) -> None:
        """Send what has not had its turn, take all that is on its way, and one last step with
        it.
        """
        context = self.context
        if self.accumulated:
            last = (context.settings.steps - 1) // context.plan.steps_per_round
            for to in set(self.accumulated) - {partner(context.leaders, context.rank, last)}:
                self._send(to)
        for thread in self.takers:
            thread.join()
        self._settle()
        context.step_with(self._arrived(), needed=True)
