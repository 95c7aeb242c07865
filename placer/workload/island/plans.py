"""The best plan of some machines for a model, by exact enumeration."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from placer.market.catalog import Gpu
from placer.records import replace
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.hardware import Hardware
from placer.workload.island.interval import rate_interval
from placer.workload.island.memory import Memory, host_bytes
from placer.workload.island.question import Candidate, Question
from placer.workload.island.refusals import (
    Refusal,
    degree_refusal,
    network_refusal,
    no_plan_refusal,
    precision_refusal,
)
from placer.workload.island.step import Step, step
from placer.workload.island.transformer_speed import (
    FITTED,
    PRESSED_SLOWDOWN,
    calculation_seconds,
    is_pressed,
)
from placer.workload.island.transports import TRANSPORTS, Transport, transport
from placer.workload.island.wishes import FREE, PlanWishes

SOURCE = (
    "FLOPs over {share:.0%} of {tflops:.0f} TFLOP/s ({basis}), utilisation fitted to MPT-125M to "
    "70B on A100 (MosaicML llm-foundry){reasons}"
)


class Island(Struct, frozen=True, kw_only=True):
    """Some machines that train one copy of a model by a plan.

    Parameters
    ----------
    samples_per_second, low, high
        Sequences a second while a batch is calculated and reduced inside the island.
    basis, source
        How sure the rate is, and where it comes from.
    plan
        Sharding, tensor parallel degree, checkpointing, microbatch and precision.
    memory
        Bytes on each device.
    host_bytes
        Bytes on each machine's host.
    step
        Seconds of a step.
    """

    samples_per_second: float
    low: float
    high: float
    basis: str
    source: str
    plan: InnerPlan
    memory: Memory
    host_bytes: float
    step: Step

    @property
    def step_s(self) -> float:
        """Seconds that each step takes however small its batch."""
        return self.step.fixed_s

    @property
    def marginal_samples_per_second(self) -> float:
        """Sequences a second without `step_s`: what more of a batch takes."""
        seconds = self.step.seconds
        return self.samples_per_second * seconds / (seconds - self.step_s)


HEADROOM = 0.05
"""Share of a device's memory that a chosen microbatch leaves free; assumed."""


class Draft(NamedTuple):
    """A plan that fits, before its microbatch is known: sequences of the busiest rank, and the
    seconds of its calculation.
    """

    candidate: Candidate
    share: int
    calculation_s: float


class Timed(Struct, frozen=True, kw_only=True):
    """A plan that fits, with its memory for a microbatch of one sequence and its step."""

    plan: InnerPlan
    one_sequence: Memory
    step: Step
    seconds: float
    is_pressed: bool


@lru_cache(maxsize=2**13)
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
    question = Question(
        architecture=architecture,
        hardware=Hardware(
            gpu=gpu,
            gpu_count=gpu_count,
            network_gbps=network_gbps,
            fabric=fabric,
            machines=machines,
        ),
        wishes=wishes,
        batch=batch_sequences,
        via=inner_transport(gpu, transport(transport_name)),
    )
    refusal = network_refusal(question) or precision_refusal(question) or degree_refusal(question)
    if refusal is not None:
        return refusal
    best = _fastest(question)
    return no_plan_refusal(question) if best is None else _island(question, best)


def inner_transport(gpu: Gpu, wanted: Transport) -> Transport:
    """Return the transport inside an island: Gloo for CPUs and on request, else NCCL."""
    return TRANSPORTS["gloo" if gpu.kind != "gpu" or wanted.name == "gloo" else "nccl"]


def _fastest(question: Question) -> Timed | None:
    """Try plans in the order of their calculation alone, until that takes longer than the best
    step.
    """
    best: Timed | None = None
    for draft in _by_calculation(question):
        if best is not None and draft.calculation_s >= best.seconds:
            break
        timed = _timed(question, draft)
        if timed is not None and (best is None or timed.seconds < best.seconds):
            best = timed
    return best


def _by_calculation(question: Question) -> list[Draft]:
    """List the plans that fit and give each rank a sequence, fastest calculation first; of equals
    simple ones first.
    """
    architecture, hardware = question.architecture, question.hardware
    seconds: dict[tuple[int, str], float] = {}
    gpus, capacity = hardware.gpus, capacity_bytes(hardware.gpu)
    drafts = []
    for candidate in question.candidates:
        plan = candidate.plan
        ranks = gpus // plan.tensor_parallel
        if question.batch < ranks or candidate.total_bytes > capacity:
            continue
        share, key = -(-question.batch // ranks), (plan.tensor_parallel, plan.checkpointing)
        if key not in seconds:
            seconds[key] = calculation_seconds(architecture, hardware.gpu, plan, share)
        drafts.append(Draft(candidate, share, seconds[key]))
    return sorted(drafts, key=lambda draft: draft.calculation_s)


def _timed(question: Question, draft: Draft) -> Timed | None:
    """Time a plan with its largest microbatch; None if the wished one does not fit.

    Notes
    -----
    A larger microbatch never takes longer, so that no smaller one need be tried.
    """
    architecture, hardware = question.architecture, question.hardware
    capacity = capacity_bytes(hardware.gpu)
    count = _microbatch(draft, capacity, question.wishes.microbatch)
    if count < 1:
        return None
    plan, one = _with_microbatch(draft.candidate.plan, count), draft.candidate.memory
    pressed = is_pressed(one, capacity, count * architecture.sequence_length)
    timed = step(
        architecture,
        hardware,
        plan,
        draft.share,
        draft.calculation_s * (PRESSED_SLOWDOWN if pressed else 1.0),
        question.via,
        question.wishes.gradient_bytes_per_parameter,
    )
    return Timed(
        plan=plan,
        one_sequence=one,
        step=timed,
        seconds=timed.seconds,
        is_pressed=pressed,
    )


@lru_cache(maxsize=4096)
def _with_microbatch(plan: InnerPlan, count: int) -> InnerPlan:
    return replace(plan, microbatch=count)


def capacity_bytes(gpu: Gpu) -> float:
    """Return the memory of a device; bytes."""
    return gpu.memory_gib * GIB


def _microbatch(draft: Draft, capacity: float, wished: int | None) -> int:
    """Return the largest power of two of sequences that fits, or the wished count, but no more
    than the rank's share; 0 if the wished one does not fit.

    Notes
    -----
    More than one sequence leaves `HEADROOM` free: the count of bytes is an estimate, and a
    smaller microbatch costs little.
    """
    _, one, total = draft.candidate
    each = one.activations + one.logits
    fixed = total - each
    if wished is not None:
        count = min(wished, draft.share)
        return count if fixed + count * each <= capacity else 0
    room = int(((1 - HEADROOM) * capacity - fixed) / each)
    return 1 << (max(1, min(room, draft.share)).bit_length() - 1)


def _island(question: Question, best: Timed) -> Island:
    """Give the best plan its rate, interval and source."""
    architecture, hardware = question.architecture, question.hardware
    doubt, basis = rate_interval(
        architecture, hardware, best.plan, best.step, question.via, best.is_pressed
    )
    gpu, rate = hardware.gpu, question.batch / best.seconds
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
        plan=best.plan,
        memory=best.one_sequence.of_microbatch(best.plan.microbatch),
        host_bytes=host_bytes(architecture, best.plan, hardware.gpu_count, hardware.machines),
        step=best.step,
    )
