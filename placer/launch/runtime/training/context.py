"""The context of a strategy in one process, and the errors of one that is out of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist

from placer.errors import PlacerError
from placer.launch.mesh import apportioned
from placer.launch.runtime.codec import Codec
from placer.launch.runtime.run_plan import RunPlan, Seat, Settings
from placer.launch.runtime.training.trainer import Trainer
from placer.launch.runtime.wire import Meter, Wire
from placer.problem.exchange import edge_bytes, ring_step
from placer.units import GIB, format_bytes


@dataclass(kw_only=True)
class Context:
    """The state of one process that its strategy works with.

    ``store`` is the ``torch.distributed`` store where all processes of the run meet, ``address``
    that of this machine. Strategies that are wired have a ``wire``, which connects the first
    processes of the worlds and the hubs. A server or function has a trainer too: it knows how many
    elements travel. ``wire_meter`` counts what a thread exchanges. ``attempt`` is a word of this
    run alone, by which it knows its own objects.
    """

    plan: RunPlan
    settings: Settings
    seat: Seat
    trainer: Trainer
    meter: Meter
    store: Any
    address: str
    start: int = 0
    attempt: str = ""
    wire: Wire = field(init=False)
    wire_meter: Meter = field(default_factory=Meter)

    @property
    def rank(self) -> int:
        """Return the rank of this process's worker, or of the hub that it is."""
        return self.seat.rank

    def shares(self) -> dict[int, int]:
        """Return the samples of each worker."""
        return self.plan.shares(self.settings.target_batch_size)

    @property
    def world(self) -> tuple[int, ...]:
        """List the workers of this process's world."""
        return self.plan.worlds[self.seat.world]

    @property
    def world_samples(self) -> int:
        """Return the samples of this process's world in one step."""
        shares = self.shares()
        return sum(shares[rank] for rank in self.world)

    @property
    def leaders(self) -> tuple[int, ...]:
        """Return the first worker of each world."""
        return tuple(workers[0] for workers in self.plan.worlds)

    def calculate(self, step: int, of: int, more: Any = None) -> float:
        """Leave the world's gradient, with ``more`` of the first process where the model is not
        sharded; return this worker's loss, by its share of the samples.
        """
        shares, members = self.shares(), self.seat.members
        samples: list[int] = []
        for rank in self.world:
            samples += apportioned(shares[rank], dict.fromkeys(range(members), 1.0)).values()
        began = perf_counter()
        loss, waited_s = self.trainer.calculate(step, samples, of, more)
        self.meter.seconds["calculation"] += perf_counter() - began - waited_s
        if waited_s:
            self.meter.seconds["all-reduce"] += waited_s
            self.meter.wire_s += waited_s
        self._count_average()
        return self._of_worker(loss)

    def local_step(self, step: int) -> float:
        """Take a step of the world's optimizer on its own samples; return the worker's part of the
        loss over the target batch. The update counts as calculation, as in a machine's samples/s.
        """
        samples = self.world_samples
        loss = self.calculate(step, max(1, samples))
        with self.meter.phase("calculation"):
            self.trainer.step()
        return loss * samples / self.settings.target_batch_size

    def update(self, gradient: Any) -> None:
        """Take an optimizer step of the world with a vector, which its first process has."""
        with self.meter.phase("update"):
            self.trainer.apply(gradient)
        self._count_broadcast()

    def move(self, model: Sequence[Any], change: Any) -> None:
        """Set the world's parameters to a model and a change, which its first process has."""
        with self.meter.phase("update"):
            self.trainer.move(model, change)
        self._count_broadcast()

    def step_with(self, extra: Any, *, needed: bool = False) -> None:
        """Take an optimizer step of the world with the gradient at its parameters and a vector that
        its first process may have; none without a vector that is needed.
        """
        some = [extra is not None]
        dist.broadcast_object_list(some, src=0)
        exists = bool(some[0])
        with self.meter.phase("update"):
            if exists:
                self.trainer.add(extra)
            if exists or not needed:
                self.trainer.step()
        if exists:
            self._count_broadcast()

    def ends_round(self, step: int) -> bool:
        """Return whether the exchange comes after this step; the last step always ends a round."""
        return (step + 1) % self.plan.exchange.local_steps == 0 or step + 1 == self.settings.steps

    def saves_checkpoint(self, step: int) -> bool:
        """Return whether a checkpoint comes after this step: at the end of a round."""
        settings, done, h = self.settings, step + 1, self.plan.exchange.local_steps
        rounds = -(-settings.checkpoint_every // h) * h
        return bool(
            settings.checkpoints
            and settings.checkpoint_every
            and (done % rounds == 0 or done == settings.steps)
        )

    def _of_worker(self, loss: float) -> float:
        """Add up the losses of the processes of this worker."""
        if self.seat.members == 1:
            return loss
        losses = torch.zeros(self.seat.world_size, dtype=torch.float64)
        losses[self.seat.world_rank] = loss
        dist.all_reduce(losses)
        first = self.seat.world_rank - self.seat.member
        return float(losses[first : first + self.seat.members].sum())

    def _count_average(self) -> None:
        """Count what gloo's or NCCL's ring sends from this worker to the next, by rank."""
        copies = self.trainer.model.copies
        if copies > 1 and not self.seat.member:
            payload = self.trainer.codec.payload(self.trainer.elements)
            self.count_ring(self.world, payload, copies)

    def count_ring(self, ranks: Sequence[int], byte_count: int, copies: int) -> None:
        """Count what an average of so many copies sends from this worker to the next of a ring."""
        if len(ranks) > 1:
            step = ring_step(self.plan.backend)
            following = ranks[(ranks.index(self.rank) + step) % len(ranks)]
            here, there = self.plan.place_of(self.rank), self.plan.place_of(following)
            self.meter.sent(here, there, round(edge_bytes(byte_count, copies)))

    def _count_broadcast(self) -> None:
        """Count what the first process of the world hands to its other workers."""
        if self.seat.leads and len(self.world) > 1:
            place, trainer = self.plan.place_of(self.rank), self.trainer
            size = trainer.codec.size(trainer.elements)
            self.meter.sent(place, place, size * (len(self.world) - 1))


def check_fits(plan: RunPlan, rank: int, elements: int) -> None:
    """Refuse a function that cannot hold the gradients of the model that is trained."""
    gib = plan.exchange.aggregator_memory_gib
    need = len(plan.hub_at(rank).gathers) * Codec(plan.exchange.compression).size(elements)
    if gib is not None and need > gib * GIB:
        raise memory_error(plan, rank, elements)


def memory_error(plan: RunPlan, rank: int, elements: int) -> PlacerError:
    """Build the error of a rank that got no more memory."""
    place, gib = plan.place_of(rank), plan.exchange.aggregator_memory_gib
    if rank < plan.workers:
        return PlacerError(
            f"out of memory: the worker in {place}, {plan.microbatch} samples at once by the plan",
            "give a smaller --microbatch",
            exit_code=1,
        )
    size = Codec(plan.exchange.compression).size(elements)
    words = (
        f"aggregator out of memory: the {plan.hub} in {place} holds "
        f"{len(plan.hub_at(rank).gathers)} gradients"
        f"{f' of {format_bytes(size)}' if elements else ''} and their sum"
    )
    hint = "take a server with more memory, or fewer workers"
    if gib is not None:
        words += f"; it has {gib:g} GiB"
        hint = "plan with the real size of the gradients, or fewer workers"
    return PlacerError(words, hint, exit_code=1)
