"""Seconds of a step: exchanges inside the island by fabric, and what of them is hidden."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import bubble, stage_hardware
from placer.workload.island.hardware import Hardware
from placer.workload.island.memory import Memory
from placer.workload.island.stage import Stage, kernel_seconds
from placer.workload.island.transformer_speed import PRESSED_SLOWDOWN, is_pressed
from placer.workload.island.transports import (
    BACKWARD_TAIL,
    HIDDEN_SHARE,
    Transport,
    exposed_seconds,
)

UNHIDDEN = 0.2
"""Part of the shorter of calculation and gathers that is not hidden behind the longer."""


class Step(Struct, frozen=True, kw_only=True, dict=True):
    """Seconds of one step of an island.

    calculation_s: Forward and backward of all microbatches of one device.
    gather_s: Gathers of weights and scatters of gradients, which run beside every microbatch.
    reduction_s: All-reduce of gradients inside each machine, which hides behind the last backward
        alone.
    network_s: All-reduce of gradients over the machines, which follows bucket by bucket.
    tensor_s: Exchanges of activations that nothing hides: in tensor parallel groups, between
        stages, to experts and back, around the devices of a sequence.
    latency_s: Optimizer, and delays that depend on neither bytes nor FLOPs.
    microbatches: Forward and backward passes of one device.
    bubble: Time in which a stage waits for the first and the last microbatch, over that of its
        work.
    """

    calculation_s: float
    gather_s: float
    reduction_s: float
    network_s: float
    tensor_s: float
    latency_s: float
    microbatches: int
    bubble: float = 0.0
    is_pressed: bool = False

    @property
    def exposed_s(self) -> float:
        """Seconds of exchanges inside the island that calculation does not hide."""
        waited = self.bubble * self.work_s
        return self.seconds - self.calculation_s - self.latency_s - waited

    @property
    def work_s(self) -> float:
        """Seconds in which a stage calculates, gathers and sends activations."""
        return self.calculation_s + self.gather_s - self._hidden_s + self.tensor_s

    @property
    def _hidden_s(self) -> float:
        """Seconds of gathers of weights that calculation hides."""
        return (1 - UNHIDDEN) * min(self.calculation_s, self.gather_s)

    @cached_property
    def seconds(self) -> float:
        """Seconds from one step to the next. Buckets pass through the machine and then through the
        network, each behind the backward of the last microbatch, as an exchange between islands of
        one zone does after them: several islands take as long as one of all their machines that
        works by the same plan.
        """
        return step_seconds(self._alone_s, self.reduction_s, self.network_s)

    @cached_property
    def machine_s(self) -> float:
        """Seconds of a step but for the reduction over machines."""
        return step_seconds(self._alone_s, self.reduction_s)

    @property
    def parts(self) -> dict[str, float]:
        """What a step consists of, in words; seconds that nothing else hides."""
        return {
            "calculation": self.calculation_s,
            "gathers of weights": self.gather_s - self._hidden_s,
            "exchanges of activations": self.tensor_s,
            "waiting for other stages": self.bubble * self.work_s,
            "reductions of gradients": self.seconds - self._alone_s,
            "optimizer and delays": self.latency_s,
        }

    @property
    def _alone_s(self) -> float:
        """Seconds of a step but for all reductions."""
        return self.work_s * (1 + self.bubble) + self.latency_s

    @cached_property
    def free_share(self) -> float:
        """Share of the time behind which an exchange may hide that the reduction over machines
        leaves to an exchange between islands: together they hide as one of all machines does.
        """
        return self.free_s / (BACKWARD_TAIL * self.seconds)

    @property
    def free_s(self) -> float:
        """Seconds of an exchange between islands that may run beside the calculation."""
        return max(0.0, BACKWARD_TAIL * self.machine_s - self.network_s)

    @property
    def joined_s(self) -> float:
        """Seconds of a step that a long exchange between islands does not hide."""
        return self.seconds - HIDDEN_SHARE * self.free_s


def step_seconds(alone_s: float, *reductions_s: float) -> float:
    """Return the seconds of a step with reductions, each of which hides behind what is before."""
    for reduction_s in reductions_s:
        alone_s += exposed_seconds(reduction_s, alone_s)
    return alone_s


def step(
    architecture: Architecture,
    hardware: Hardware,
    plan: InnerPlan,
    microbatches: int,
    calculation_s: float,
    via: Transport,
    gradient_bytes_per_parameter: float,
    *,
    memory: Memory | None = None,
    joined: bool = False,
) -> Step:
    """Return the seconds of a step.

    microbatches: Forward and backward passes of one data-parallel rank.
    calculation_s: Seconds that a device calculates for all of them; see `calculation_seconds`.
    gradient_bytes_per_parameter: Bytes of a gradient on the wire where gradients are not sharded.
    memory: What slows the allocator down, and with it the calculation, where it is large.
    joined: Whether an exchange between islands follows the reduction over machines: one collective
        does both, and its delay counts once, there.
    """
    pressed = memory is not None and is_pressed(
        memory, hardware.gpu.memory_gib * GIB, plan.microbatch * architecture.sequence_length
    )
    if pressed:
        calculation_s *= PRESSED_SLOWDOWN
    work_s = kernel_seconds(architecture, plan, microbatches, calculation_s)
    stage = Stage(architecture, hardware, stage_hardware(hardware, plan.pipeline), plan, via)
    inside, over = stage.reduction_seconds(microbatches, gradient_bytes_per_parameter)
    activations_s = stage.tensor_seconds(microbatches)
    if plan.pipeline > 1 or plan.context_parallel > 1 or architecture.experts > 1:
        activations_s += microbatches * stage.split_seconds(work_s / microbatches)
    return Step(
        calculation_s=work_s,
        gather_s=microbatches * stage.gather_seconds(),
        reduction_s=inside,
        network_s=max(0.0, over - via.network_latency_s) if joined else over,
        tensor_s=activations_s,
        latency_s=stage.layer_latency_s() + stage.optimizer_seconds(),
        microbatches=microbatches,
        bubble=bubble(plan, microbatches),
        is_pressed=pressed,
    )
