"""Seconds of what one stage of a plan sends, gathers and updates in a step."""

from __future__ import annotations

import math
from typing import NamedTuple

from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import HOP_LATENCY_S, LAYER_S, expert_divisor, expert_layers
from placer.workload.island.hardware import Hardware
from placer.workload.island.memory import ELEMENT_BYTES, sharding_group, stage_parameters
from placer.workload.island.transformer_speed import attention_share
from placer.workload.island.transports import (
    HIDDEN_SHARE,
    Transport,
    attained_bytes_per_s,
    network_seconds,
    node_seconds,
)
from placer.workload.software import software

INTERLEAVED_HOPS = 0.4
"""Part of a hop that an interleaved schedule does not hide; assumed."""
NODE_SHARE, NETWORK_SHARE = 0.6, 0.9
"""Shares of the bandwidth inside and outside of a machine that an all-to-all attains; assumed."""
EXPERT_BYTES = 12.0
"""Bytes moved for each parameter of a device's experts in a microbatch: weights in both passes, and
gradients.
"""
SHARDED_NODE_SHARE = 0.77
"""Share of the bandwidth inside a machine that gathers and scatters of single layers attain."""
LAYER_LATENCY_S = 50e-6
"""Seconds by which one gather or scatter of a layer delays a step, for each doubling of devices."""
COPY_BYTES = 2.0
"""Of each trained parameter in BF16, which the optimizer writes beside weights in FP32."""


class Stage(NamedTuple):
    """One stage of a plan on its machines, those of all stages, and what joins them."""

    architecture: Architecture
    whole: Hardware
    hardware: Hardware
    plan: InnerPlan
    via: Transport

    @property
    def layers(self) -> float:
        """Layers of a stage on average."""
        return self.architecture.layers / self.plan.pipeline

    @property
    def trained(self) -> float:
        """Share of the parameters that are trained."""
        return self.architecture.trainable_parameters / self.architecture.parameters

    @property
    def element_bytes(self) -> float:
        """Bytes of an activation and of a computed weight."""
        return ELEMENT_BYTES[self.plan.precision]

    @property
    def sharded_ranks(self) -> int:
        """Devices that divide the states of one replica."""
        return sharding_group(self.plan, self.hardware.gpu_count, self.hardware.machines)

    @property
    def tokens(self) -> float:
        """Tokens of a microbatch in one tensor parallel group."""
        length = self.architecture.sequence_length
        return self.plan.microbatch * length / self.plan.context_parallel

    @property
    def layer_exchanges(self) -> int:
        """Exchanges of activations in each layer: two in forward and two in backward, and two more
        where forward is repeated.
        """
        return 6 if self.plan.checkpointing == "full" else 4

    def split_seconds(self, calculation_s: float) -> float:
        """Return the seconds by which stages, experts and divided sequences lengthen a microbatch
        that takes a stage ``calculation_s``. Forward and backward pass a microbatch on, over the
        network where the slowest hop leaves the machine. Divided sequences pass keys and values
        on, once forward and twice backward, beside attention, which hides most of it.
        """
        architecture, whole, hardware, plan, via = self
        sent = self.tokens / plan.tensor_parallel * self.element_bytes
        seconds = self._expert_seconds(sent)
        if plan.pipeline > 1:
            rate = whole.node_bytes_per_s
            if whole.machines > 1:
                rate = attained_bytes_per_s(whole.network_gbps or 0.0, via) / whole.gpu_count
            hop = sent * architecture.width / rate + HOP_LATENCY_S
            pieces = plan.virtual_stages
            seconds += 2 * hop * (1.0 if pieces == 1 else INTERLEAVED_HOPS * pieces)
        if plan.context_parallel > 1:
            kept = 2 * sent * architecture.kv_width
            rate = via.node_share * hardware.node_bytes_per_s
            exchanged = self.layers * (3 * (plan.context_parallel - 1) * kept / rate)
            attention = attention_share(architecture, whole.gpu, plan) * calculation_s
            seconds += exchanged - HIDDEN_SHARE * min(exchanged, attention)
        return seconds

    def _expert_seconds(self, unit_bytes: float) -> float:
        """Return the seconds of one microbatch that its experts add to their products. A token goes
        to each expert; with `software` that sends it once to a machine, to those machines that hold
        one. Routing is taken as balanced.

        unit_bytes: One figure of each token of a device, as it is sent.
        """
        architecture, _, hardware, plan, via = self
        layers = expert_layers(architecture) / plan.pipeline
        if not layers:
            return 0.0
        held = architecture.expert_parameters / plan.pipeline / expert_divisor(plan)
        moved = EXPERT_BYTES * held / (hardware.gpu.memory_gb_per_s * 1e9)
        ranks = plan.expert_parallel
        if ranks == 1:
            return layers * LAYER_S + moved
        inside = min(ranks, hardware.gpu_count)
        machines = -(-ranks // inside)
        width, chosen = architecture.width * unit_bytes, architecture.experts_per_token
        near = chosen * width * (inside - 1) / inside / (NODE_SHARE * hardware.node_bytes_per_s)
        far, runs = 0.0, software(plan.software)
        if machines > 1:
            hops = float(chosen)
            if runs.sends_once:
                hops = machines * (1 - (1 - 1 / machines) ** chosen)
            network = attained_bytes_per_s(hardware.network_gbps or 0.0, via)
            device = NETWORK_SHARE * network / hardware.gpu_count
            far = hops * (machines - 1) / machines * width / device
        exchange = (1 - runs.expert_overlap) * self.layer_exchanges * max(near, far)
        return layers * (LAYER_S + exchange) + moved

    def layer_latency_s(self) -> float:
        """Return the delays of gathers and scatters of single layers."""
        ranks = self.sharded_ranks
        if self.plan.sharding not in ("zero-3", "hybrid") or ranks == 1:
            return 0.0
        return (
            3 * self.architecture.layers / self.plan.pipeline * LAYER_LATENCY_S * math.log2(ranks)
        )

    def optimizer_seconds(self) -> float:
        """Return the seconds in which a device updates its share of the weights over its memory
        bandwidth: it reads gradients, and reads and writes moments and weights.
        """
        runs = software(self.plan.software)
        moved = runs.gradient_bytes + 2 * (runs.optimizer_bytes + runs.master_bytes)
        moved += COPY_BYTES if runs.master_bytes > COPY_BYTES else 0.0
        parameters = sum(stage_parameters(self.architecture, self.plan.pipeline))
        share = self.trained * parameters / self.plan.tensor_parallel / self.sharded_ranks
        return share * moved / (self.hardware.gpu.memory_gb_per_s * 1e9)

    def gather_seconds(self) -> float:
        """Return the seconds in which a microbatch gathers weights twice and scatters the gradients
        of what is trained once: inside the machines and, for zero-3, over them.
        """
        architecture, _, hardware, plan, via = self
        if plan.sharding not in ("zero-3", "hybrid"):
            return 0.0
        frozen = min(self.element_bytes, architecture.frozen_bytes_per_parameter)
        bytes_ = 3 * self.element_bytes * self.trained + 2 * frozen * (1 - self.trained)
        dense, experts = stage_parameters(architecture, plan.pipeline)
        payload = bytes_ * (dense / plan.tensor_parallel + experts / expert_divisor(plan))
        ranks = hardware.gpu_count // plan.tensor_parallel
        share = min(SHARDED_NODE_SHARE, via.node_share)
        inside = (ranks - 1) / ranks * payload / (share * hardware.node_bytes_per_s)
        if plan.sharding == "hybrid" or hardware.machines == 1:
            return inside
        network = attained_bytes_per_s(hardware.network_gbps or 0.0, via) / plan.tensor_parallel
        return inside + (hardware.machines - 1) / hardware.machines * payload / network

    def reduction_seconds(
        self, microbatches: int, bytes_per_parameter: float
    ) -> tuple[float, float]:
        """Return the seconds in which replicas reduce gradients, inside each machine and over the
        machines: an all-reduce, which zero-1 splits into its halves, of which zero-2 repeats the
        first for each microbatch.
        """
        architecture, _, hardware, plan, via = self
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

    def tensor_seconds(self, microbatches: int) -> float:
        """Return the seconds of the all-reduces of activations in a tensor parallel group."""
        degree = self.plan.tensor_parallel
        if degree == 1:
            return 0.0
        payload = self.element_bytes * self.tokens * self.architecture.width
        count = self.layer_exchanges * self.layers * microbatches
        shown = 1 - software(self.plan.software).tensor_overlap
        return (
            shown * count * node_seconds(payload, degree, self.hardware.node_bytes_per_s, self.via)
        )


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
