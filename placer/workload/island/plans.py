"""The best plan of some machines for a model, by exact enumeration, and how far its rate may be
from its estimate.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from placer.market.catalog import Gpu
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.fitting import ROUNDING, Bounds, Fit, with_microbatch
from placer.workload.island.hardware import Hardware, has_bf16, powers_of_two
from placer.workload.island.memory import Memory, host_bytes
from placer.workload.island.question import (
    Question,
    Refusal,
    carrier,
    early_refusal,
    no_plan_refusal,
)
from placer.workload.island.stage import kernel_seconds
from placer.workload.island.step import Step
from placer.workload.island.transformer_speed import (
    UTILISATION,
    attention_share,
    calculation_seconds,
    is_late,
)
from placer.workload.island.transports import BACKWARD_TAIL, HIDDEN_SHARE, Transport
from placer.workload.island.wishes import PlanWishes
from placer.workload.software import EIGHT_BIT, FASTEST_ATTENTION, TUNED, software

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
    order: tuple[float, int]


@lru_cache(maxsize=2**13)
def island(question: Question) -> Island | Refusal:
    """Choose the plan by which some machines do their share of a step fastest, or say why there is
    none. Raises `PlacerError` if there is no such transport.
    """
    known = _bounds(question)
    if (refusal := early_refusal(question)) is not None:
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
            if timed.step.seconds <= longest_s:
                found.setdefault(float(f"{timed.step.seconds:.9g}"), timed.plan)
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
    carrier(hardware.gpu, transport_name)  # refuses an unknown one
    return Bounds(
        Question(
            architecture=architecture,
            hardware=hardware,
            wishes=wishes,
            transport=transport_name,
            joined=joined,
        )
    )


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
            if not best or alone_s <= best[0].step.seconds or lasts <= _last_s(question, best[-1]):
                heapq.heappush(drafts, (alone_s, number, True, fit, share))
            continue
        for timed in _timings(question, fit, share):
            slower = best and timed.step.seconds > best[0].step.seconds
            if not slower or _last_s(question, timed) <= _last_s(question, best[-1]):
                best = _undominated(question, [*best, timed])
    return best


def _last_s(question: Question, timed: Timed) -> float:
    """Return the seconds of a plan by which no other of the best is faster."""
    return timed.step.joined_s if question.joined else timed.step.seconds


def _undominated(question: Question, plans: list[Timed]) -> list[Timed]:
    """Keep the plans that are best for some exchange, the fastest alone first."""
    kept: list[Timed] = []
    for timed in sorted(plans, key=lambda each: (each.step.seconds, each.order)):
        last = _last_s(question, timed)
        if not kept or (
            last < _last_s(question, kept[-1]) and timed.step.seconds > kept[-1].step.seconds
        ):
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
    plan, one = with_microbatch(fit.candidate.plan, count), fit.candidate.memory
    microbatches = -(-share // count)
    if plan.virtual_stages > 1:
        microbatches = -(-microbatches // plan.pipeline) * plan.pipeline
    timed = question.step(plan, microbatches, fit.sequence_s * count * microbatches, one)
    order = fit.sequence_s * share, fit.number
    return Timed(plan=plan, one_sequence=one, step=timed, order=order)


def _island(question: Question, best: Timed, rivals: Sequence[Timed] = ()) -> Island:
    """Give the best plan its rate, interval and source."""
    architecture, hardware = question.architecture, question.hardware
    doubt, basis = rate_interval(architecture, hardware, best.plan, best.step, question.via)
    gpu, rate = hardware.gpu, question.sequences / best.step.seconds
    return Island(
        samples_per_second=rate,
        low=rate * doubt.low,
        high=rate * doubt.high,
        basis=basis,
        source=SOURCE.format(
            share=UTILISATION,
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


WITHOUT_REMOTE_MEMORY = 1.5
"""Multiple of the slow end of a collective over Ethernet without remote memory access; assumed."""
FITTED_DEVICES = ("A100-40", "A100-80", "A800")


class Doubt(Struct, frozen=True, kw_only=True):
    """One reason for error: multiples of the rate, and what it is."""

    low: float
    high: float
    reason: str = ""


FIT = Doubt(low=0.87, high=1.1)
"""Five of a hundred runs each lie below and above, where a model is left out of the fit."""
OTHER_DEVICE = Doubt(low=0.8, high=1.1, reason="fitted on A100 only")
OLD_DEVICE = Doubt(low=0.7, high=1.05, reason="kernels of today are written for later devices")
NOT_MEASURED = Doubt(low=0.85, high=1.1, reason="matrix products estimated from the data sheet")
PRESSED = Doubt(low=0.85, high=1.1, reason="memory nearly full")
PARALLEL_MATRICES = Doubt(low=0.8, high=1.1, reason="tensor parallelism not measured")
OTHER_SHARDING = Doubt(low=0.95, high=1.05, reason="fitted on zero-3 only")
OTHER_PRECISION = Doubt(low=0.75, high=1.15, reason="precision not measured")
NO_NVLINK = Doubt(low=0.8, high=1.1, reason="devices joined by PCIe")
PROCESSOR = Doubt(low=0.5, high=1.6, reason="CPUs assumed to reach the utilisation of GPUs")
EXPERTS = Doubt(low=1 / 1.6, high=1.6, reason="mixture of experts assumed")
GATHERED_EXPERTS = Doubt(low=1 / 2, high=1.6, reason="mixture of gathered experts assumed")
"""Qwen3-30B-A3B on 64 H100 under FSDP attains 0.53 of it (mlc-ai/pith-train, pull request 40)."""
FASTER_SOFTWARE = Doubt(low=1.0, high=1.22, reason="software may be faster than llm-foundry's")
"""Compiled kernels: fms-fsdp and torchtune on A100 and H100 are up to 1.28 times as fast."""
STAGES = Doubt(low=0.85, high=1.2, reason="stages fitted to no run")
DIVIDED = Doubt(low=0.85, high=1.05, reason="divided sequences measured once")


def rate_interval(
    architecture: Architecture, hardware: Hardware, plan: InnerPlan, step: Step, via: Transport
) -> tuple[Doubt, str]:
    """Return the multiples of a rate between which it is expected, and the basis of the rate.
    Reasons are taken as independent: their logarithms add as squares.
    """
    gpu = hardware.gpu
    experts = EXPERTS if plan.expert_parallel > 1 else GATHERED_EXPERTS
    doubts = [
        FIT,
        *([OTHER_DEVICE] if gpu.gpu not in FITTED_DEVICES else []),
        *([OLD_DEVICE] if gpu.kind == "gpu" and not has_bf16(gpu) else []),
        *([NOT_MEASURED] if gpu.attainable_basis != "measured" else []),
        *([PRESSED] if step.is_pressed else []),
        *([PARALLEL_MATRICES] if plan.tensor_parallel > 1 else []),
        *([OTHER_SHARDING] if plan.sharding != "zero-3" else []),
        *([_adapters(architecture, hardware, plan, step)] if architecture.has_adapters else []),
        *([OTHER_PRECISION] if plan.precision not in ("bf16", "fp16") else []),
        *([NO_NVLINK] if hardware.gpu_count > 1 and not gpu.nvlink_gb_per_s else []),
        *([experts] if architecture.is_sparse else []),
        *([FASTER_SOFTWARE] if _may_be_compiled(architecture, gpu, plan) else []),
        *([STAGES] if plan.pipeline > 1 else []),
        *([DIVIDED] if plan.context_parallel > 1 else []),
        _exchange(step, hardware, via),
        *([_attention(architecture, hardware, plan)] if is_late(gpu) else []),
        *([PROCESSOR] if gpu.kind != "gpu" else []),
    ]
    low = math.exp(-math.hypot(*(math.log(d.low) for d in doubts)))
    high = math.exp(math.hypot(*(math.log(d.high) for d in doubts)))
    reasons = "; ".join(d.reason for d in doubts if d.reason)
    is_assumed = architecture.is_sparse or gpu.kind != "gpu"
    return Doubt(low=low, high=high, reason=reasons), "assumed" if is_assumed else "estimated"


def _may_be_compiled(architecture: Architecture, gpu: Gpu, plan: InnerPlan) -> bool:
    named = plan.software.removesuffix(EIGHT_BIT)
    is_free = named in ("", "torch-compiled", "torchtune") and not architecture.has_adapters
    return is_free and gpu.kind == "gpu"


def _exchange(step: Step, hardware: Hardware, via: Transport) -> Doubt:
    """Return what the error of the collectives means for the rate."""
    share, slow = step.exposed_s / step.seconds, via.slow
    if hardware.machines > 1 and hardware.fabric == "ethernet":
        slow *= WITHOUT_REMOTE_MEMORY
    return Doubt(low=1 / (1 + share * (slow - 1)), high=1 / (1 + share * (via.fast - 1)))


def _attention(architecture: Architecture, hardware: Hardware, plan: InnerPlan) -> Doubt:
    """Return what the fastest kernel would gain on its share, where nobody names another."""
    slowest = software(plan.software).attention_tflops
    named = plan.software.removesuffix(EIGHT_BIT)
    fastest = slowest if named in ("torch-2023", "torch-compiled") else FASTEST_ATTENTION
    share = attention_share(architecture, hardware.gpu, plan)
    return Doubt(low=1.0, high=1 / (1 - share * (1 - slowest / fastest)))


def _adapters(architecture: Architecture, hardware: Hardware, plan: InnerPlan, step: Step) -> Doubt:
    """Return the error of steps with adapters; where nobody names the software, up to the fastest
    that runs them.
    """
    runs = software(plan.software, has_adapters=True).adapters
    if plan.software:
        return Doubt(low=runs.low, high=runs.high)
    calculated = calculation_seconds(
        architecture, hardware.gpu, plan, plan.microbatch * step.microbatches
    )
    tuned = replace(plan, software="torch-compiled")
    faster = kernel_seconds(architecture, tuned, step.microbatches, calculated)
    gain = step.seconds / (step.seconds - step.calculation_s + faster)
    return Doubt(
        low=runs.low, high=max(runs.high, gain * TUNED.high), reason="software of adapters unknown"
    )
