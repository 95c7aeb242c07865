"""Experts that GPUs divide among each other: seconds in which tokens go to them and come back."""

from __future__ import annotations

from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.hardware import Hardware
from placer.workload.software import software

NODE_SHARE, NETWORK_SHARE = 0.6, 0.9
"""Shares of the bandwidth inside and outside of a machine that an all-to-all attains; assumed."""
LAYER_S = 3.8e-3
"""Seconds of a layer of experts and a microbatch beside its products: router, permutation,
launches. From one run of Qwen3-30B on H100 (Megatron-Bridge); torch's own kernels are no faster.
"""
EXPERT_BYTES = 12.0
"""Bytes moved for each parameter of a device's experts in a microbatch: weights in both passes, and
gradients.
"""


def expert_layers(architecture: Architecture) -> int:
    """Count the layers that have experts."""
    return 0 if architecture.experts == 1 else architecture.layers - architecture.dense_layers


def expert_seconds(
    architecture: Architecture,
    hardware: Hardware,
    plan: InnerPlan,
    tokens: float,
    element: float,
    network_bytes_per_s: float,
) -> float:
    """Return the seconds of one microbatch in one stage that its experts add to their products. A
    token goes to each expert; with `software` that sends it once to a machine, to those machines
    that hold one. Twice forward and twice backward, and twice more where forward is repeated.
    Routing is taken as balanced.

    tokens: Of the microbatch on one device.
    element: Bytes of an activation.
    network_bytes_per_s: Of a machine of the stage.
    """
    layers = expert_layers(architecture) / plan.pipeline
    if not layers:
        return 0.0
    held = architecture.expert_parameters / plan.pipeline / expert_divisor(plan)
    moved = EXPERT_BYTES * held / (hardware.gpu.memory_gb_per_s * 1e9)
    return (
        layers
        * (LAYER_S + _exchange(architecture, hardware, plan, tokens * element, network_bytes_per_s))
        + moved
    )


def expert_divisor(plan: InnerPlan) -> int:
    """Return the parts into which each layer's experts are cut."""
    return plan.expert_parallel if plan.expert_parallel > 1 else plan.tensor_parallel


def _exchange(
    architecture: Architecture,
    hardware: Hardware,
    plan: InnerPlan,
    unit_bytes: float,
    network_bytes_per_s: float,
) -> float:
    """Return the seconds in which one layer sends its tokens away and back."""
    ranks = plan.expert_parallel
    if ranks == 1:
        return 0.0
    inside = min(ranks, hardware.gpu_count)
    machines = -(-ranks // inside)
    width, chosen = architecture.width * unit_bytes, architecture.experts_per_token
    near = chosen * width * (inside - 1) / inside / (NODE_SHARE * hardware.node_bytes_per_s)
    hops = float(chosen)
    if software(plan.software).sends_once:
        hops = machines * (1 - (1 - 1 / machines) ** chosen)
    device = NETWORK_SHARE * network_bytes_per_s / hardware.gpu_count
    far = hops * (machines - 1) / machines * width / device if machines > 1 else 0.0
    shown = 1 - software(plan.software).expert_overlap
    return shown * (6 if plan.checkpointing == "full" else 4) * max(near, far)
