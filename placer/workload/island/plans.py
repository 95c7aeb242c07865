"""The best plan of some machines for a model, by exact enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from placer.market.catalog import Gpu
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import CHECKPOINTING, SHARDINGS, TENSOR_DEGREES, InnerPlan
from placer.workload.island.answers import Island, Refusal
from placer.workload.island.hardware import Hardware
from placer.workload.island.interval import rate_interval
from placer.workload.island.memory import Memory, host_bytes, memory
from placer.workload.island.transformer_speed import (
    FITTED,
    PRESSED_SLOWDOWN,
    Step,
    is_pressed,
    step,
    token_seconds,
)
from placer.workload.island.transports import TRANSPORTS, Transport, transport
from placer.workload.island.wishes import FREE, PlanWishes, undivided_width

SOURCE = (
    "FLOPs over {share:.0%} of {tflops:.0f} TFLOP/s ({basis}), utilisation fitted to MPT-125M to "
    "70B on A100 (MosaicML llm-foundry){reasons}"
)


@lru_cache(maxsize=2**16)
def island(
    architecture: Architecture,
    gpu: Gpu,
    gpu_count: int,
    network_gbps: float | None,
    fabric: str,
    machines: int,
    wishes: PlanWishes = FREE,
    batch_sequences: int = 1,
    transport_name: str = "nccl",
) -> Island | Refusal:
    """Choose the plan by which some machines train a model fastest.

    Parameters
    ----------
    architecture
        The model; its sequence length is that of the question.
    gpu, gpu_count, network_gbps, fabric
        Devices of one machine, its network in Gb/s (None: unknown) and its fabric (empty:
        unknown).
    machines
        How many machines; k in the formulas.
    wishes
        Parts of the plan that are fixed.
    batch_sequences
        Sequences of one step of this island.
    transport_name
        A key of `TRANSPORTS`: the exchange between islands. Inside an island GPUs use NCCL and
        CPUs Gloo, whatever runs between islands.

    Returns
    -------
    Island | Refusal
        The fastest plan, or why there is none.

    Raises
    ------
    PlacerError
        If there is no such transport.
    """
    hardware = Hardware(
        gpu=gpu,
        gpu_count=gpu_count,
        network_gbps=network_gbps,
        fabric=fabric,
        machines=machines,
    )
    refusal = _network_refusal(hardware) or _degree_refusal(architecture, hardware, wishes)
    if refusal is not None:
        return refusal
    via = inner_transport(gpu, transport(transport_name))
    best: Island | None = None
    for plan in _plans(architecture, hardware, wishes):
        best = _better(architecture, hardware, plan, wishes, batch_sequences, via, best)
    if best is None:
        return _no_plan_refusal(architecture, hardware, wishes, batch_sequences)
    return best


def inner_transport(gpu: Gpu, wanted: Transport) -> Transport:
    """Return the transport inside an island: Gloo for CPUs and on request, else NCCL."""
    return TRANSPORTS["gloo" if gpu.kind != "gpu" or wanted.name == "gloo" else "nccl"]


def _network_refusal(hardware: Hardware) -> Refusal | None:
    if hardware.machines == 1 or (hardware.network_gbps and hardware.fabric):
        return None
    missing = "bandwidth" if not hardware.network_gbps else "fabric"
    return Refusal(
        code="network",
        reason=(
            f"{hardware.machines} machines of {hardware.gpu_count} x {hardware.gpu.gpu} cannot "
            f"form an island: the book does not say the {missing} of their network"
        ),
    )


def _degree_refusal(
    architecture: Architecture, hardware: Hardware, wishes: PlanWishes
) -> Refusal | None:
    degree = wishes.tensor_parallel
    if degree is None:
        return None
    reason = ""
    if degree > hardware.gpu_count or hardware.gpu_count % degree:
        reason = (
            f"tensor parallel degree {degree} does not fit machines of {hardware.gpu_count} x "
            f"{hardware.gpu.gpu}: a group never leaves a machine"
        )
    elif width := undivided_width(architecture, degree):
        reason = f"tensor parallel degree {degree} does not divide {width}"
    return Refusal(code="tensor-parallel", reason=reason) if reason else None


def _plans(
    architecture: Architecture, hardware: Hardware, wishes: PlanWishes
) -> Iterator[InnerPlan]:
    """List the plans with a microbatch of one, simple ones first."""
    precision = wishes.precision or "bf16"
    kept = CHECKPOINTING if wishes.checkpointing is None else (wishes.checkpointing,)
    for degree in _degrees(architecture, hardware, wishes):
        for sharding in _shardings(hardware, degree, wishes):
            for checkpointing in kept:
                yield InnerPlan(
                    sharding=sharding,
                    tensor_parallel=degree,
                    checkpointing=checkpointing,
                    precision=precision,
                )


def _degrees(architecture: Architecture, hardware: Hardware, wishes: PlanWishes) -> tuple[int, ...]:
    if wishes.tensor_parallel is not None:
        return (wishes.tensor_parallel,)
    return tuple(
        degree
        for degree in TENSOR_DEGREES
        if hardware.gpu_count % degree == 0 and not undivided_width(architecture, degree)
    )


def _shardings(hardware: Hardware, degree: int, wishes: PlanWishes) -> tuple[str, ...]:
    """List the shardings that differ from simpler ones on some machines; a wished one as it is."""
    if wishes.sharding is not None:
        return (wishes.sharding,)
    ranks = hardware.gpu_count // degree
    if ranks * hardware.machines == 1:
        return ("none",)
    return SHARDINGS if hardware.machines > 1 and ranks > 1 else SHARDINGS[:-1]


def _better(
    architecture: Architecture,
    hardware: Hardware,
    plan: InnerPlan,
    wishes: PlanWishes,
    batch: int,
    via: Transport,
    best: Island | None,
) -> Island | None:
    """Return the plan with its largest microbatch if it is faster than the best, else the best."""
    ranks = hardware.gpus // plan.tensor_parallel
    if batch < ranks:
        return best
    share = -(-batch // ranks)
    tokens = share * architecture.sequence_length
    least_s = tokens * token_seconds(architecture, hardware.gpu, plan) / plan.tensor_parallel
    if best is not None and least_s >= best.step.seconds:
        return best
    one = memory(architecture, plan, hardware.gpu_count, hardware.machines)
    microbatch = _microbatch(one, hardware, share, wishes.microbatch)
    if microbatch < 1:
        return best
    plan = replace(plan, microbatch=microbatch)
    used = one.of_microbatch(microbatch)
    pressed = is_pressed(
        used, capacity_bytes(hardware.gpu), microbatch * architecture.sequence_length
    )
    timed = step(
        architecture,
        hardware,
        plan,
        share,
        via,
        wishes.gradient_bytes_per_parameter,
        PRESSED_SLOWDOWN if pressed else 1.0,
    )
    if best is not None and timed.seconds >= best.step.seconds * (1 - 1e-9):
        return best
    return _island(architecture, hardware, plan, used, timed, batch, via, pressed)


def capacity_bytes(gpu: Gpu) -> float:
    """Return the memory of a device; bytes."""
    return gpu.memory_gib * GIB


def _microbatch(one: Memory, hardware: Hardware, share: int, wished: int | None) -> int:
    """Return the largest power of two of sequences that fits, or the wished count; 0 if none
    fits.

    Notes
    -----
    A larger microbatch never takes longer, so that no smaller one need be tried. A share below
    the wished count shrinks it.
    """
    each = one.activations + one.logits
    room = int((capacity_bytes(hardware.gpu) - one.total + each) / each)
    if wished is not None:
        count = min(wished, share)
        return count if count <= room else 0
    most = min(room, share)
    return 1 << (most.bit_length() - 1) if most >= 1 else 0


def _island(
    architecture: Architecture,
    hardware: Hardware,
    plan: InnerPlan,
    used: Memory,
    timed: Step,
    batch: int,
    via: Transport,
    pressed: bool,
) -> Island:
    rate = batch / timed.seconds
    doubt, basis = rate_interval(architecture, hardware, plan, timed, via, pressed)
    gpu = hardware.gpu
    return Island(
        samples_per_second=rate,
        low=rate * doubt.low,
        high=rate * doubt.high,
        basis=basis,
        source=SOURCE.format(
            share=FITTED.share,
            tflops=gpu.attainable_tflops,
            basis=gpu.attainable_basis,
            reasons=f"; {doubt.reason}" if doubt.reason else "",
        ),
        plan=plan,
        memory=used,
        host_bytes=host_bytes(architecture, plan, hardware.gpu_count, hardware.machines),
        step=timed,
    )


def _no_plan_refusal(
    architecture: Architecture, hardware: Hardware, wishes: PlanWishes, batch: int
) -> Refusal:
    """Name the plan that needs least memory, and what it lacks: bytes or sequences."""
    count = wishes.microbatch or 1
    tried = [
        (memory(architecture, plan, hardware.gpu_count, hardware.machines), plan)
        for plan in _plans(architecture, hardware, wishes)
    ]
    used, plan = min(tried, key=lambda pair: pair[0].of_microbatch(count).total)
    need, capacity = used.of_microbatch(count).total, capacity_bytes(hardware.gpu)
    plan = replace(plan, microbatch=count)
    if need > capacity:
        return Refusal(
            code="memory",
            reason=(
                f"{plan.spec[1:]} needs {need / GIB:.1f} GiB on each of {hardware.title}, which "
                f"have {hardware.gpu.memory_gib:g} GiB"
            ),
            plan=plan,
        )
    ranks = hardware.gpus // plan.tensor_parallel
    return Refusal(
        code="batch",
        reason=(
            f"a batch of {batch:,} sequences leaves some of the {ranks} data-parallel ranks of "
            f"{hardware.title} without one"
        ),
        plan=plan,
    )
