"""The best plan of some machines for a model, by exact enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from placer.market.catalog import Gpu
from placer.records import replace
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.collectives import BACKWARD_TAIL, HIDDEN_SHARE
from placer.workload.island.hardware import Hardware, powers_of_two
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
        Sequences a second while its share of a batch is calculated and reduced inside the island.
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
    rivals
        Plans of one of several islands that take longer alone, and are faster with an exchange that
        they hide better; the fastest first.
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
    rivals: tuple[InnerPlan, ...] = ()


DEGREES_OF = attrgetter("tensor_parallel", "pipeline", "context_parallel")


class Draft(NamedTuple):
    """A plan that fits, before its microbatch is known: sequences of the fullest rank, and the
    seconds in which it calculates them.
    """

    candidate: Candidate
    sequences: int
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
    sequences: int = 1,
    transport_name: str = "nccl",
    host_gib: float = math.inf,
    fewest: int | None = None,
    joined: bool = False,
) -> Island | Refusal:
    """Choose the plan by which some machines do their share of a step fastest.

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
    sequences
        Their share of a step. Each rank takes whole microbatches of whole sequences, and the step
        lasts as long as the fullest rank.
    transport_name
        A key of `TRANSPORTS`: the exchange between islands. Inside an island GPUs use NCCL and
        CPUs Gloo, whatever runs between islands.
    host_gib
        Host memory of one machine.
    fewest
        Sequences of the island that has the fewest of several; each of its ranks has one at least.
    joined
        Whether it is one of several, which exchange gradients in each step.

    Returns
    -------
    Island | Refusal
        The fastest plan, or why there is none.

    Raises
    ------
    PlacerError
        If there is no such transport.
    """
    question = question_of(
        architecture,
        gpu,
        gpu_count,
        network_gbps,
        fabric,
        machines,
        wishes,
        sequences,
        transport_name,
        host_gib,
        fewest,
        joined,
    )
    refusal = network_refusal(question) or precision_refusal(question) or degree_refusal(question)
    if refusal is not None:
        return refusal
    best = _best(question)
    return _island(question, best[0], best[1:]) if best else no_plan_refusal(question)


def question_of(
    architecture: Architecture,
    gpu: Gpu,
    gpu_count: int,
    network_gbps: float | None,
    fabric: str,
    machines: int,
    wishes: PlanWishes = FREE,
    sequences: int = 1,
    transport_name: str = "nccl",
    host_gib: float = math.inf,
    fewest: int | None = None,
    joined: bool = False,
) -> Question:
    """Return what `island` is asked with these words."""
    return Question(
        architecture=architecture,
        hardware=Hardware(
            gpu=gpu,
            gpu_count=gpu_count,
            network_gbps=network_gbps,
            fabric=fabric,
            machines=machines,
            host_gib=host_gib,
        ).joined,
        wishes=wishes,
        sequences=sequences,
        fewest=sequences if fewest is None else fewest,
        joined=joined,
        via=inner_transport(gpu, transport(transport_name)),
    )


def plans_within(question: Question, longest_s: float) -> dict[float, InnerPlan]:
    """Map the seconds of a step, up to some, to a plan that takes so long: all plans that fit, not
    the fastest alone.
    """
    found: dict[float, InnerPlan] = {}
    for draft in _by_calculation(question):
        if draft.calculation_s * (1 - HIDDEN_SHARE * BACKWARD_TAIL) > longest_s:
            break
        wished = question.wishes.microbatch
        most = _most_sequences(question, draft)
        for count in range(1, most + 1) if wished is None else (most,) if most else ():
            timed = _with_microbatch(question, draft, count, -(-draft.sequences // count))
            if timed.seconds <= longest_s:
                found.setdefault(float(f"{timed.seconds:.9g}"), timed.plan)
    return found


def inner_transport(gpu: Gpu, wanted: Transport) -> Transport:
    """Return the transport inside an island: Gloo for CPUs and on request, else NCCL."""
    return TRANSPORTS["gloo" if gpu.kind != "gpu" or wanted.name == "gloo" else "nccl"]


def _best(question: Question) -> list[Timed]:
    """Try plans in the order of their calculation alone, until that takes longer than the best
    step; the fastest first, and those of one of several islands that a longer exchange makes best.

    Notes
    -----
    With an exchange of c seconds a step takes ``seconds + c - HIDDEN_SHARE * min(c, free_s)``,
    which rises from ``seconds`` to ``joined_s + c``: a plan that is slower in both is never best.
    """
    shortest = 1 - HIDDEN_SHARE * BACKWARD_TAIL if question.joined else 1.0
    best: list[Timed] = []
    for draft in _by_calculation(question):
        if best and draft.calculation_s * shortest >= _last_s(question, best[-1]):
            break
        for timed in _timings(question, draft):
            slower = best and timed.seconds >= best[0].seconds
            if not slower or _last_s(question, timed) < _last_s(question, best[-1]):
                best = _undominated(question, [*best, timed])
    return best


def _last_s(question: Question, timed: Timed) -> float:
    """Return the seconds of a plan by which no other of the best is faster."""
    return timed.step.joined_s if question.joined else timed.seconds


def _undominated(question: Question, plans: list[Timed]) -> list[Timed]:
    """Keep the plans that are best for some exchange, the fastest alone first."""
    kept: list[Timed] = []
    for timed in sorted(plans, key=lambda each: each.seconds):
        last = _last_s(question, timed)
        if not kept or (last < _last_s(question, kept[-1]) and timed.seconds > kept[-1].seconds):
            kept.append(timed)
    return kept


def _by_calculation(question: Question) -> list[Draft]:
    """List the plans that fit and give each rank a sequence, fastest calculation first; of equals
    simple ones first.
    """
    architecture, hardware = question.architecture, question.hardware
    seconds: dict[tuple[object, ...], float] = {}
    capacity, host = capacity_bytes(hardware.gpu), hardware.host_gib * GIB
    drafts = []
    for candidate in question.candidates:
        plan, ranks = candidate.plan, question.ranks(candidate.plan)
        if (
            question.fewest < ranks
            or candidate.total_bytes > capacity
            or candidate.host_bytes > host
        ):
            continue
        share = -(-question.sequences // ranks)
        key = *DEGREES_OF(plan), plan.checkpointing
        if key not in seconds:
            seconds[key] = calculation_seconds(architecture, hardware.gpu, plan, share)
        drafts.append(Draft(candidate, share, seconds[key]))
    return sorted(drafts, key=lambda draft: draft.calculation_s)


def _timings(question: Question, draft: Draft) -> Iterator[Timed]:
    """Time a plan with each microbatch that may be best; none if the wished one does not fit.

    Notes
    -----
    For a number of microbatches the smallest that holds all sequences is best, for it calculates
    the fewest that no rank was given. More microbatches cost gathers and launches, and save only
    such idle sequences: where none is idle, no further number need be tried.
    """
    count, share = _most_sequences(question, draft), draft.sequences
    if question.wishes.microbatch is not None:
        if count:
            yield _with_microbatch(question, draft, count, -(-share // count))
        return
    if draft.candidate.plan.pipeline > 1:
        yield from _staged(question, draft, count)
        return
    while count:
        microbatches = -(-share // count)
        count = -(-share // microbatches)
        yield _with_microbatch(question, draft, count, microbatches)
        if count * microbatches == share:
            break
        count -= 1


def _staged(question: Question, draft: Draft, most: int) -> Iterator[Timed]:
    """Time a plan with stages: larger microbatches are fewer, and stages wait longer for them, so
    that each power of two is tried.
    """
    for count in powers_of_two(most):
        yield _with_microbatch(question, draft, count, -(-draft.sequences // count))


def _with_microbatch(question: Question, draft: Draft, count: int, microbatches: int) -> Timed:
    """Time a plan with some microbatches of ``count`` sequences each; interleaved stages take a
    multiple of their number.
    """
    architecture, hardware = question.architecture, question.hardware
    plan, one = _plan_with(draft.candidate.plan, count), draft.candidate.memory
    if plan.virtual_stages > 1:
        microbatches = -(-microbatches // plan.pipeline) * plan.pipeline
    pressed = is_pressed(one, capacity_bytes(hardware.gpu), count * architecture.sequence_length)
    calculated = draft.calculation_s * count * microbatches / draft.sequences
    timed = step(
        architecture,
        hardware,
        plan,
        microbatches,
        calculated * (PRESSED_SLOWDOWN if pressed else 1.0),
        question.via,
        question.wishes.gradient_bytes_per_parameter,
        joined=question.joined,
    )
    return Timed(plan=plan, one_sequence=one, step=timed, seconds=timed.seconds, is_pressed=pressed)


@lru_cache(maxsize=4096)
def _plan_with(plan: InnerPlan, count: int) -> InnerPlan:
    return replace(plan, microbatch=count)


def capacity_bytes(gpu: Gpu) -> float:
    """Return the memory of a device; bytes."""
    return gpu.memory_gib * GIB


def _most_sequences(question: Question, draft: Draft) -> int:
    """Return the most sequences that a rank can take at once, or the wished count, and no more than
    the rank has; 0 if the wished count does not fit.
    """
    _, one, total, _ = draft.candidate
    wished, each = question.wishes.microbatch, one.activations + one.logits
    room = int((question.room_bytes(2) - (total - each)) / each)
    if wished is None:
        return max(1, min(room, draft.sequences))
    count = min(wished, draft.sequences)
    return count if count <= max(1, room) else 0


def _island(question: Question, best: Timed, rivals: Sequence[Timed] = ()) -> Island:
    """Give the best plan its rate, interval and source."""
    architecture, hardware = question.architecture, question.hardware
    doubt, basis = rate_interval(
        architecture, hardware, best.plan, best.step, question.via, best.is_pressed
    )
    gpu, rate = hardware.gpu, question.sequences / best.seconds
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
        rivals=tuple(rival.plan for rival in rivals),
    )
