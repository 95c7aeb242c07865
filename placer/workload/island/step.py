"""Seconds of a step: exchanges inside the island by fabric, and what of them is hidden."""

from __future__ import annotations

import math
from functools import cached_property

from msgspec import Struct

from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import (
    HOP_LATENCY_S,
    INTERLEAVED_HOPS,
    bubble,
    expert_divisor,
    expert_seconds,
    hop_bytes_per_s,
    stage_hardware,
)
from placer.workload.island.hardware import Hardware
from placer.workload.island.memory import ELEMENT_BYTES, Memory, sharding_group, stage_parameters
from placer.workload.island.transformer_speed import PRESSED_SLOWDOWN, attention_share, is_pressed
from placer.workload.island.transports import (
    BACKWARD_TAIL,
    HIDDEN_SHARE,
    Transport,
    attained_bytes_per_s,
    exposed_seconds,
    network_seconds,
    node_seconds,
)
from placer.workload.software import software

SHARDED_NODE_SHARE = 0.77
"""Share of the bandwidth inside a machine that gathers and scatters of single layers attain."""
UNHIDDEN = 0.2
"""Part of the shorter of calculation and gathers that is not hidden behind the longer."""
LAYER_LATENCY_S = 50e-6
"""Seconds by which one gather or scatter of a layer delays a step, for each doubling of devices."""
COPY_BYTES = 2.0
"""Of each trained parameter in BF16, which the optimizer writes beside weights in FP32."""


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
    whole, hardware = hardware, stage_hardware(hardware, plan.pipeline)
    inside, over = _reduction_seconds(
        architecture, hardware, plan, microbatches, via, gradient_bytes_per_parameter
    )
    work_s = kernel_seconds(architecture, plan, microbatches, calculation_s)
    activations_s = _tensor_seconds(architecture, hardware, plan, microbatches, via)
    if plan.pipeline > 1 or plan.context_parallel > 1 or architecture.experts > 1:
        each = work_s / microbatches
        activations_s += microbatches * _split_seconds(architecture, whole, plan, each, via)
    return Step(
        calculation_s=work_s,
        gather_s=microbatches * _gather_seconds(architecture, hardware, plan, via),
        reduction_s=inside,
        network_s=max(0.0, over - via.network_latency_s) if joined else over,
        tensor_s=activations_s,
        latency_s=(
            _layer_latency_s(architecture, hardware, plan)
            + _optimizer_seconds(architecture, hardware, plan)
        ),
        microbatches=microbatches,
        bubble=bubble(plan, microbatches),
        is_pressed=pressed,
    )


def _split_seconds(
    architecture: Architecture,
    hardware: Hardware,
    plan: InnerPlan,
    calculation_s: float,
    via: Transport,
) -> float:
    """Return the seconds by which stages, experts and divided sequences lengthen a microbatch that
    takes a stage ``calculation_s``. Forward and backward pass a microbatch on. Divided sequences
    pass keys and values on, once forward and twice backward, beside attention, which hides most of
    it.
    """
    stage = stage_hardware(hardware, plan.pipeline)
    element = ELEMENT_BYTES[plan.precision]
    tokens = plan.microbatch * architecture.sequence_length / plan.context_parallel
    tokens /= plan.tensor_parallel
    network = attained_bytes_per_s(stage.network_gbps or 0.0, via)
    seconds = expert_seconds(architecture, stage, plan, tokens, element, network)
    if plan.pipeline > 1:
        over = attained_bytes_per_s(hardware.network_gbps or 0.0, via)
        rate = hop_bytes_per_s(hardware, over)
        hop = tokens * element * architecture.width / rate + HOP_LATENCY_S
        pieces = plan.virtual_stages
        seconds += 2 * hop * (1.0 if pieces == 1 else INTERLEAVED_HOPS * pieces)
    if plan.context_parallel > 1:
        layers = architecture.layers / plan.pipeline
        kept = 2 * element * tokens * architecture.kv_width
        passed = 3 * (plan.context_parallel - 1) * kept / (via.node_share * stage.node_bytes_per_s)
        attention = attention_share(architecture, hardware.gpu, plan) * calculation_s
        exchanged = layers * passed
        seconds += exchanged - HIDDEN_SHARE * min(exchanged, attention)
    return seconds


def kernel_seconds(
    architecture: Architecture, plan: InnerPlan, microbatches: int, calculation_s: float
) -> float:
    """Return the seconds of a device's kernels: those that it calculates, and no less than the
    launches take. Full checkpointing launches forward twice. Kernels of adapters are small, so that
    launches and calculation hinder each other: their squares add. Never below ``calculation_s``, by
    which the search for a plan is ended.
    """
    runs = software(plan.software, has_adapters=architecture.has_adapters)
    layers = microbatches * architecture.layers / plan.pipeline
    if not architecture.has_adapters:
        passes = 4 / 3 if plan.checkpointing == "full" else 1.0
        return max(calculation_s, passes * runs.launch_s * layers)
    adapters = runs.adapters
    is_quantized = architecture.frozen_bytes_per_parameter < ELEMENT_BYTES[plan.precision]
    times = adapters.times * (adapters.dequantized if is_quantized else 1.0)
    return math.hypot(times * calculation_s, adapters.launch_s * layers)


def _layer_latency_s(architecture: Architecture, hardware: Hardware, plan: InnerPlan) -> float:
    """Return the delays of gathers and scatters of single layers."""
    ranks = sharding_group(plan, hardware.gpu_count, hardware.machines)
    if plan.sharding not in ("zero-3", "hybrid") or ranks == 1:
        return 0.0
    return 3 * architecture.layers / plan.pipeline * LAYER_LATENCY_S * math.log2(ranks)


def _optimizer_seconds(architecture: Architecture, hardware: Hardware, plan: InnerPlan) -> float:
    """Return the seconds in which a device updates its share of the weights over its memory
    bandwidth: it reads gradients, and reads and writes moments and weights.
    """
    runs = software(plan.software)
    moved = runs.gradient_bytes + 2 * (runs.optimizer_bytes + runs.master_bytes)
    moved += COPY_BYTES if runs.master_bytes > COPY_BYTES else 0.0
    group = sharding_group(plan, hardware.gpu_count, hardware.machines)
    parameters = sum(stage_parameters(architecture, plan.pipeline))
    trained = architecture.trainable_parameters / architecture.parameters * parameters
    share = trained / plan.tensor_parallel / group
    return share * moved / (hardware.gpu.memory_gb_per_s * 1e9)


def _gather_seconds(
    architecture: Architecture, hardware: Hardware, plan: InnerPlan, via: Transport
) -> float:
    """Return the seconds in which a microbatch gathers weights twice and scatters the gradients of
    what is trained once: inside the machines and, for zero-3, over them.
    """
    if plan.sharding not in ("zero-3", "hybrid"):
        return 0.0
    element = ELEMENT_BYTES[plan.precision]
    trained = architecture.trainable_parameters / architecture.parameters
    frozen = min(element, architecture.frozen_bytes_per_parameter)
    bytes_ = 3 * element * trained + 2 * frozen * (1 - trained)
    dense, experts = stage_parameters(architecture, plan.pipeline)
    payload = bytes_ * (dense / plan.tensor_parallel + experts / expert_divisor(plan))
    ranks = hardware.gpu_count // plan.tensor_parallel
    share = min(SHARDED_NODE_SHARE, via.node_share)
    inside = (ranks - 1) / ranks * payload / (share * hardware.node_bytes_per_s)
    if plan.sharding == "hybrid" or hardware.machines == 1:
        return inside
    network = attained_bytes_per_s(hardware.network_gbps or 0.0, via) / plan.tensor_parallel
    return inside + (hardware.machines - 1) / hardware.machines * payload / network


def _reduction_seconds(
    architecture: Architecture,
    hardware: Hardware,
    plan: InnerPlan,
    microbatches: int,
    via: Transport,
    bytes_per_parameter: float,
) -> tuple[float, float]:
    """Return the seconds in which replicas reduce gradients, inside each machine and over the
    machines: an all-reduce, which zero-1 splits into its halves, of which zero-2 repeats the first
    for each microbatch.
    """
    if plan.sharding == "zero-3":
        return 0.0, 0.0
    dense, experts = stage_parameters(architecture, plan.pipeline)
    machines = max(1.0, plan.expert_parallel / hardware.gpu_count)
    share = bytes_per_parameter * architecture.trainable_parameters / architecture.parameters
    payload = share * (dense + experts / machines)
    over = 0.0
    if hardware.machines > 1:
        over = network_seconds(payload, hardware.machines, hardware.network_gbps or 0.0, via)
    if plan.sharding == "hybrid":
        return 0.0, over
    ranks = hardware.gpu_count // plan.tensor_parallel
    inside = node_seconds(payload / plan.tensor_parallel, ranks, hardware.node_bytes_per_s, via)
    times = (microbatches + 1) / 2 if plan.sharding == "zero-2" else 1.0
    return times * inside, times * over


def _tensor_seconds(
    architecture: Architecture,
    hardware: Hardware,
    plan: InnerPlan,
    microbatches: int,
    via: Transport,
) -> float:
    """Return the seconds of the all-reduces of activations in a tensor parallel group: two in
    forward and two in backward of each layer, and two more where forward is repeated.
    """
    degree = plan.tensor_parallel
    if degree == 1:
        return 0.0
    tokens = plan.microbatch * architecture.sequence_length / plan.context_parallel
    payload = ELEMENT_BYTES[plan.precision] * tokens * architecture.width
    layers = architecture.layers / plan.pipeline
    count = (6 if plan.checkpointing == "full" else 4) * layers * microbatches
    shown = 1 - software(plan.software).tensor_overlap
    return shown * count * node_seconds(payload, degree, hardware.node_bytes_per_s, via)
