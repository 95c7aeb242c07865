"""Why some machines cannot train a model, in one sentence."""

from __future__ import annotations

import math

from msgspec import Struct

from placer.records import replace
from placer.units import GIB
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.precision import lacks_precision, usual_precision
from placer.workload.island.question import Question
from placer.workload.island.wishes import undivided_width


class Refusal(Struct, frozen=True, kw_only=True):
    """The reason why some machines cannot train a model.

    code: ``memory``, ``host-memory``, ``batch``, ``network``, ``precision`` or ``tensor-parallel``.
    reason: One sentence.
    plan: The plan that came nearest; None where no plan was tried.
    shortage: Memory that the plan needs over what there is; infinite for reasons that no memory
        cures.
    """

    code: str
    reason: str
    plan: InnerPlan | None = None
    shortage: float = math.inf


def network_refusal(question: Question) -> Refusal | None:
    """Refuse several machines whose network nobody wrote down."""
    hardware = question.hardware
    if hardware.is_connected:
        return None
    missing = "fabric" if hardware.network_gbps else "bandwidth"
    return Refusal(
        code="network",
        reason=(
            f"{hardware.machines} machines of {hardware.gpu_count} x {hardware.gpu.gpu} cannot "
            f"form an island: the book does not say the {missing} of their network"
        ),
    )


def precision_refusal(question: Question) -> Refusal | None:
    """Refuse a wished number format that the device does not have."""
    wanted, gpu = question.wishes.precision, question.hardware.gpu
    if wanted is None or not lacks_precision(gpu, wanted):
        return None
    return Refusal(
        code="precision",
        reason=(
            f"{gpu.gpu} has no matrix products in {wanted}; it trains in {usual_precision(gpu)}"
        ),
    )


def degree_refusal(question: Question) -> Refusal | None:
    """Refuse a wished tensor parallel degree that a machine or the model cannot apply."""
    degree, hardware = question.wishes.tensor_parallel, question.hardware
    if degree is None:
        return _split_refusal(question)
    if degree > hardware.gpu_count or hardware.gpu_count % degree:
        return Refusal(
            code="tensor-parallel",
            reason=(
                f"tensor parallel degree {degree} does not fit machines of {hardware.gpu_count} x "
                f"{hardware.gpu.gpu}: a group never leaves a machine"
            ),
        )
    if width := undivided_width(question.architecture, degree):
        return Refusal(
            code="tensor-parallel",
            reason=f"tensor parallel degree {degree} does not divide {width}",
        )
    return _split_refusal(question)


def _split_refusal(question: Question) -> Refusal | None:
    """Refuse wished degrees that the machines cannot apply together."""
    if question.candidates:
        return None
    wishes, hardware = question.wishes, question.hardware
    named = (
        ("stages", wishes.pipeline),
        ("GPUs for the experts", wishes.expert_parallel),
        ("GPUs for a sequence", wishes.context_parallel),
        ("GPUs for a matrix", wishes.tensor_parallel),
    )
    words = ", ".join(f"{count} {name}" for name, count in named if count not in (None, 1))
    return Refusal(
        code="tensor-parallel",
        reason=f"{question.architecture.layers} layers and {hardware.machines} machines of "
        f"{hardware.gpu_count} x {hardware.gpu.gpu} do not divide into {words}",
    )


def no_plan_refusal(question: Question) -> Refusal:
    """Name the plan that needs least, and what it lacks: bytes of device or host, or sequences."""
    hardware, count = question.hardware, question.wishes.microbatch or 1
    room = question.room_bytes(count)
    needs = [(c.memory.of_microbatch(count).total, c) for c in question.candidates]
    fitting = [c for need, c in needs if need <= room]
    if not fitting:
        need, nearest = min(needs, key=lambda pair: pair[0])
        plan = replace(nearest.plan, microbatch=count)
        free = 1 - room / (hardware.gpu.memory_gib * GIB)
        kept = f", {free:.0%} of them kept free" if free > 0 else ""
        return Refusal(
            code="memory",
            reason=(
                f"{plan.spec[1:]} needs {need / GIB:.1f} GiB on each of {hardware.title}, which "
                f"have {hardware.gpu.memory_gib:g} GiB{kept}"
            ),
            plan=plan,
            shortage=need / room,
        )
    least = min(fitting, key=lambda candidate: candidate.host_bytes)
    if least.host_bytes > hardware.host_gib * GIB:
        return Refusal(
            code="host-memory",
            reason=(
                f"{least.plan.spec[1:]} needs {least.host_bytes / GIB:.0f} GiB of host memory on "
                f"each of {hardware.machines} machines, which have {hardware.host_gib:g} GiB"
            ),
            plan=least.plan,
            shortage=least.host_bytes / (hardware.host_gib * GIB),
        )
    return Refusal(
        code="batch",
        reason=(
            f"{question.fewest:,} sequences of a step leave data-parallel ranks of "
            f"{hardware.title} without one, in every plan that fits their memory"
        ),
    )
