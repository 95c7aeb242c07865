"""What GPUs of an island divide: stages with their layers, and experts."""

from __future__ import annotations

from functools import lru_cache

from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.hardware import Hardware

HOP_LATENCY_S = 30e-6
"""Seconds in which one activation begins to arrive at the next stage; assumed."""


def stage_shape(gpu_count: int, machines: int, stages: int) -> tuple[int, int] | None:
    """Return the devices of a machine and the machines that one stage has; None if stages would
    have different ones. Stages leave a machine last, as their exchange is the smallest.

    >>> stage_shape(8, 4, 2), stage_shape(8, 4, 8), stage_shape(8, 3, 2)
    ((8, 2), (4, 1), None)
    """
    if machines % stages == 0:
        return gpu_count, machines // stages
    in_machine = stages // machines
    if stages % machines or gpu_count % in_machine:
        return None
    return gpu_count // in_machine, 1


def stage_hardware(hardware: Hardware, stages: int) -> Hardware:
    """Return the machines of one stage; a stage of half a machine has half of its network."""
    if stages == 1:
        return hardware
    shape = stage_shape(hardware.gpu_count, hardware.machines, stages)
    assert shape is not None
    gpu_count, machines = shape
    share = gpu_count / hardware.gpu_count
    gbps = None if hardware.network_gbps is None else hardware.network_gbps * share
    return replace(hardware, gpu_count=gpu_count, machines=machines, network_gbps=gbps)


@lru_cache(maxsize=4096)
def stage_layers(architecture: Architecture, stages: int) -> tuple[int, ...]:
    """Return the layers of each stage so that the slowest has least to do: the last, which also has
    the output layer, may have fewer. With a vocabulary of 128,256 the output layer of Llama 3.1 70B
    takes as long as 1.2 layers.
    """
    if stages == 1:
        return (architecture.layers,)
    head, layers = _head_layers(architecture), architecture.layers

    def slowest(last: int) -> float:
        return max(-(-(layers - last) // (stages - 1)), last + head)

    last = min(range(1, layers // stages + 1), key=lambda count: (slowest(count), -count))
    each, more = divmod(layers - last, stages - 1)
    return (*(each + (i < more) for i in range(stages - 1)), last)


def piece_layers(architecture: Architecture, plan: InnerPlan) -> tuple[int, ...]:
    """Return the layers of each piece in the order of the model; piece ``i`` is of stage
    ``i % plan.pipeline``. The last piece has the output layer too, and none of its own where a
    stage has too few.
    """
    stages, pieces = stage_layers(architecture, plan.pipeline), plan.virtual_stages
    return tuple(
        layers // pieces + (piece < layers % pieces) for piece in range(pieces) for layers in stages
    )


@lru_cache(maxsize=4096)
def slowest_share(architecture: Architecture, stages: int) -> float:
    """Return the slowest stage's share of the calculation, at least one part of all stages."""
    if stages == 1:
        return 1.0
    head, layers = _head_layers(architecture), stage_layers(architecture, stages)
    return max(*layers[:-1], layers[-1] + head) / (architecture.layers + head)


def _head_layers(architecture: Architecture) -> float:
    """Return the calculation of the output layer in layers."""
    head = architecture.vocabulary * architecture.width
    attention = 2 * architecture.attention_width * architecture.attended_tokens
    return head / ((architecture.computed_parameters - head) / architecture.layers + attention)


def bubble(plan: InnerPlan, microbatches: int) -> float:
    """Return the time in which a stage waits for the first and last microbatch, over its work."""
    return (plan.pipeline - 1) / plan.virtual_stages / microbatches


def kept_microbatches(plan: InnerPlan) -> float:
    """Return the activations that the first stage keeps, over those of one microbatch in all
    layers: one microbatch for each stage, and more where stages are cut into pieces.
    """
    if plan.virtual_stages == 1:
        return 1.0
    return 1 + (plan.pipeline - 1) / (plan.pipeline * plan.virtual_stages)


LAYER_S = 3.8e-3
"""Seconds of a layer of experts and a microbatch beside its products: router, permutation,
launches. From one run of Qwen3-30B on H100 (Megatron-Bridge); torch's own kernels are no faster.
"""


def expert_layers(architecture: Architecture) -> int:
    """Count the layers that have experts."""
    return 0 if architecture.experts == 1 else architecture.layers - architecture.dense_layers


def expert_divisor(plan: InnerPlan) -> int:
    """Return the parts into which each layer's experts are cut."""
    return plan.expert_parallel if plan.expert_parallel > 1 else plan.tensor_parallel
