"""The best plan of some machines for a model, by exact enumeration."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.fitting import ROUNDING, Bounds, Fit, with_microbatch
from placer.workload.island.hardware import Hardware, powers_of_two
from placer.workload.island.interval import rate_interval
from placer.workload.island.memory import Memory, host_bytes
from placer.workload.island.question import (
    Question,
    Refusal,
    carrier,
    degree_refusal,
    network_refusal,
    no_plan_refusal,
    precision_refusal,
)
from placer.workload.island.step import Step, step
from placer.workload.island.transformer_speed import FITTED
from placer.workload.island.transports import BACKWARD_TAIL, HIDDEN_SHARE
from placer.workload.island.wishes import PlanWishes

SOURCE = (
    "FLOPs over {share:.0%} of {tflops:.0f} TFLOP/s ({basis}), utilisation fitted to MPT-125M to "
    "70B on A100 (MosaicML llm-foundry){reasons}"
)


class Island(Struct, frozen=True, kw_only=True):
    """Some machines that train one copy of a model by a plan.

    samples_per_second, low, high: Sequences a second while its share of a batch is calculated and
        reduced inside the island.
    basis, source: How sure the rate is, and where it comes from.
    rivals: The same machines, one of several islands, by plans that take longer alone, and are
        faster with an exchange that they hide better; the fastest first.
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
    rivals: tuple[Island, ...] = ()


class Timed(Struct, frozen=True, kw_only=True):
    """A plan that fits, with its memory for a microbatch of one sequence, its step, and what
    decides between plans that take equally long.
    """

    plan: InnerPlan
    one_sequence: Memory
    step: Step
    seconds: float
    order: tuple[float, int]


@lru_cache(maxsize=2**13)
def island(question: Question) -> Island | Refusal:
    """Choose the plan by which some machines do their share of a step fastest, or say why there is
    none. Raises `PlacerError` if there is no such transport.
    """
    known = _bounds(question)
    refusal = network_refusal(question) or precision_refusal(question) or degree_refusal(question)
    if refusal is not None:
        return refusal
    best = _best(question, known)
    return _island(question, best[0], best[1:]) if best else no_plan_refusal(question)


def _bounds(question: Question) -> Bounds:
    kind = question.architecture, question.hardware, question.wishes, question.transport
    return bounds(*kind, joined=question.joined)


def plans_within(longest_s: float, question: Question) -> tuple[InnerPlan, ...]:
    """List all plans by which some machines do their share of a step within some seconds, not the
    fastest alone: one for each time that it takes.
    """
    found: dict[float, InnerPlan] = {}
    for fit in _bounds(question).fits:
        share, wished = -(-question.sequences // fit.ranks), question.wishes.microbatch
        most = min(fit.most, share)
        if fit.ranks > question.least or (wished is not None and min(wished, share) > most):
            continue
        for count in range(1, most + 1) if wished is None else (min(wished, share),):
            timed = _with_microbatch(question, fit, share, count)
            if timed.seconds <= longest_s:
                found.setdefault(float(f"{timed.seconds:.9g}"), timed.plan)
    return tuple(found.values())


@lru_cache(maxsize=2**13)
def bounds(
    architecture: Architecture,
    hardware: Hardware,
    wishes: PlanWishes,
    transport_name: str,
    *,
    joined: bool,
) -> Bounds:
    """Return the plans that fit some machines, with bounds on their seconds; as `island` takes
    them.
    """
    via = carrier(hardware.gpu, transport_name)
    return Bounds(architecture, hardware, wishes, via, joined=joined)


def _best(question: Question, known: Bounds) -> list[Timed]:
    """Time plans in the order of their bounds, until these are longer than the best step; the
    fastest first, and those of one of several islands that a longer exchange makes best. With an
    exchange of c seconds a step takes ``seconds + c - HIDDEN_SHARE * min(c, free_s)``, which rises
    from ``seconds`` to ``joined_s + c``: a plan that is slower in both is never best. Of plans that
    take equally long the one that calculates less is kept, then the simpler.
    """
    best: list[Timed] = []
    drafts = []
    for fit in known.fits:
        if fit.ranks <= question.least:
            share = -(-question.sequences // fit.ranks)
            drafts.append((fit.least_s(share, fit.sequence_s), fit.number, False, fit, share))
    heapq.heapify(drafts)
    shortest = 1 - HIDDEN_SHARE * BACKWARD_TAIL if question.joined else 1.0
    while drafts:
        least_s, number, is_bounded, fit, share = heapq.heappop(drafts)
        if best and least_s * shortest * (1 - ROUNDING) > _last_s(question, best[-1]):
            break
        if not is_bounded:
            alone_s, joined_s = known.least_s(fit, share)
            lasts = joined_s if question.joined else alone_s
            if not best or alone_s <= best[0].seconds or lasts <= _last_s(question, best[-1]):
                heapq.heappush(drafts, (alone_s, number, True, fit, share))
            continue
        for timed in _timings(question, fit, share):
            slower = best and timed.seconds > best[0].seconds
            if not slower or _last_s(question, timed) <= _last_s(question, best[-1]):
                best = _undominated(question, [*best, timed])
    return best


def _last_s(question: Question, timed: Timed) -> float:
    """Return the seconds of a plan by which no other of the best is faster."""
    return timed.step.joined_s if question.joined else timed.seconds


def _undominated(question: Question, plans: list[Timed]) -> list[Timed]:
    """Keep the plans that are best for some exchange, the fastest alone first."""
    kept: list[Timed] = []
    for timed in sorted(plans, key=lambda each: (each.seconds, each.order)):
        last = _last_s(question, timed)
        if not kept or (last < _last_s(question, kept[-1]) and timed.seconds > kept[-1].seconds):
            kept.append(timed)
    return kept


def _timings(question: Question, fit: Fit, share: int) -> Iterator[Timed]:
    """Time a plan for the sequences of its fullest rank, with each microbatch that may be best;
    none if the wished one does not fit. For a number of microbatches the smallest that holds all
    sequences is best, for it calculates the fewest that no rank was given. More microbatches cost
    gathers and launches, and save only such idle sequences: where none is idle, no further number
    need be tried.
    """
    wished, count = question.wishes.microbatch, min(fit.most, share)
    if wished is not None:
        count = min(wished, share)
        if count <= fit.most:
            yield _with_microbatch(question, fit, share, count)
        return
    if fit.candidate.plan.pipeline > 1:
        # Larger microbatches are fewer, and stages wait longer for them.
        for power in powers_of_two(count):
            yield _with_microbatch(question, fit, share, power)
        return
    while count:
        microbatches = -(-share // count)
        count = -(-share // microbatches)
        yield _with_microbatch(question, fit, share, count)
        if count * microbatches == share:
            break
        count -= 1


def _with_microbatch(question: Question, fit: Fit, share: int, count: int) -> Timed:
    """Time a plan with microbatches of ``count``; interleaved stages take multiples of them."""
    architecture, hardware = question.architecture, question.hardware
    plan, one = with_microbatch(fit.candidate.plan, count), fit.candidate.memory
    microbatches = -(-share // count)
    if plan.virtual_stages > 1:
        microbatches = -(-microbatches // plan.pipeline) * plan.pipeline
    timed = step(
        architecture,
        hardware,
        plan,
        microbatches,
        fit.sequence_s * count * microbatches,
        question.via,
        question.wishes.gradient_bytes_per_parameter,
        memory=one,
        joined=question.joined,
    )
    return Timed(
        plan=plan,
        one_sequence=one,
        step=timed,
        seconds=timed.seconds,
        order=(fit.sequence_s * share, fit.number),
    )


def _island(question: Question, best: Timed, rivals: Sequence[Timed] = ()) -> Island:
    """Give the best plan its rate, interval and source."""
    architecture, hardware = question.architecture, question.hardware
    doubt, basis = rate_interval(architecture, hardware, best.plan, best.step, question.via)
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
        rivals=tuple(_island(question, rival) for rival in rivals),
    )
