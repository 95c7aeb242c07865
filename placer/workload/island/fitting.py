"""Plans that fit some machines, and bounds on the time that they take."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import NamedTuple

from placer.records import replace
from placer.units import GIB
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import LAYER_S, expert_layers
from placer.workload.island.hardware import lacks_precision
from placer.workload.island.question import Candidate, Kind, Question
from placer.workload.island.step import UNHIDDEN, Step, step_seconds
from placer.workload.island.transformer_speed import calculation_seconds
from placer.workload.island.transports import BACKWARD_TAIL, HIDDEN_SHARE

ROUNDING = 1e-9
"""Relative slack of a bound, so that sums in another order are not cut off."""


class Fit(NamedTuple):
    """A plan that fits the devices, before its microbatch is known. ``number`` orders plans of
    equal time, simple ones first. Each of ``ranks`` takes ``most`` sequences at once at most, and
    calculates one in ``sequence_s``; ``fixed_s`` of a microbatch do not depend on its sequences; a
    stage waits for ``waits`` microbatches.
    """

    number: int
    candidate: Candidate
    ranks: int
    most: int
    sequence_s: float
    fixed_s: float
    waits: float

    @property
    def gpu_s(self) -> float:
        """Seconds of a sequence with the largest microbatch, over all ranks."""
        return (self.sequence_s + self.fixed_s / self.most) / self.ranks

    def least_s(self, share: int, each_s: float) -> float:
        """Return the seconds that microbatches take at least which hold the sequences of a rank, of
        which each takes ``each_s`` beside what is fixed. Larger microbatches have less fixed time,
        and stages wait longer for them: the best size is taken, whole or not.
        """
        count = float(min(self.most, share))
        if self.waits:
            best = math.sqrt(share * self.fixed_s / (self.waits * each_s))
            count = max(1.0, min(count, best))
        return (share / count + self.waits) * (self.fixed_s + count * each_s)


class Large(NamedTuple):
    """What a microbatch of a plan takes by its step with the largest one: a sequence calculates
    ``calculation_s`` and sends ``sent_s``; each microbatch gathers for ``gather_s``.
    """

    calculation_s: float
    sent_s: float
    gather_s: float
    step: Step


class Least(NamedTuple):
    """Seconds that a plan takes at least on the GPUs of a rank: ``sequence_s`` for each sequence;
    beside ``fixed_s`` for one microbatch, and no less than ``least_fixed_s`` for each sequence; and
    ``rest_s`` for a step.
    """

    sequence_s: float
    fixed_s: float
    least_fixed_s: float
    rest_s: float

    def seconds(self, share: int) -> float:
        """Return the seconds of a step in which a rank has so many sequences."""
        fixed_s = max(self.fixed_s, share * self.least_fixed_s)
        return share * self.sequence_s + fixed_s + self.rest_s

    def is_better_than_all(self, others: Iterable[Least]) -> bool:
        """Tell whether each other plan of as many GPUs is slower in some figure."""
        sequence_s, fixed_s, least_fixed_s, rest_s = self
        for other in others:
            if (
                other.sequence_s <= sequence_s
                and other.rest_s <= rest_s
                and other.least_fixed_s <= least_fixed_s
                and other.fixed_s <= fixed_s
            ):
                return False
        return True


@lru_cache(maxsize=2**13)
def fitting(kind: Kind) -> tuple[Fit, ...]:
    """List the plans that fit the memory of some machines, those first that calculate a sequence
    fastest with all devices.
    """
    architecture, room = kind.architecture, kind.gpu.memory_gib * GIB
    free = (1 - kind.wishes.headroom) * room
    seconds: dict[tuple[object, ...], float] = {}
    fits = []
    for number, candidate in enumerate(kind.candidates):
        plan, need, total, _ = candidate
        if total > room:
            continue
        each = need.activations + need.logits
        most = max(1, int((free - (total - each)) / each))
        key = plan.tensor_parallel, plan.pipeline, plan.context_parallel, plan.checkpointing
        if key not in seconds:
            seconds[key] = calculation_seconds(architecture, kind.gpu, plan, 1)
        fits.append(
            Fit(
                number=number,
                candidate=candidate,
                ranks=kind.gpu_count * kind.machines // plan.rank_gpus,
                most=most,
                sequence_s=seconds[key],
                fixed_s=expert_layers(architecture) / plan.pipeline * LAYER_S,
                waits=(plan.pipeline - 1) / plan.virtual_stages,
            )
        )
    return tuple(sorted(fits, key=lambda fit: fit.gpu_s))


class Bounds:
    """Bounds from below on the seconds of plans on the machines of a question, whatever their share
    of a step.

    Mutable: each plan is timed once, with its largest microbatch, when somebody asks for it. No
    smaller microbatch calculates or sends a sequence in less.
    """

    def __init__(self, question: Question) -> None:
        self.question, self.hardware = question, question.hardware
        self._large: dict[int, Large] = {}
        # Of the first plans, by the GPUs of a rank: those that nobody had to time, fastest first,
        # also by their waits; and of the others those that no other is as fast as (`_with_fewer`).
        self._compared = 0
        self._untimed = dict[tuple[int, float], list[Fit]]()
        self._fronts = dict[int, list[Least]]()

    @cached_property
    def fits(self) -> list[Fit]:
        """Plans that fit devices and hosts; none without a network or the wished format."""
        hardware, wanted = self.hardware, self.question.wishes.precision
        if not hardware.is_connected or (wanted and lacks_precision(hardware.gpu, wanted)):
            return []
        host = hardware.host_gib * GIB
        return [fit for fit in fitting(self.question.kind) if fit.candidate.host_bytes <= host]

    def reach(self, sequences: int, fewest: int, longest_s: float) -> bool:
        """Tell whether some plan may do a share of a step in some seconds."""
        for fit in self.fits:
            if sequences * fit.gpu_s * (1 - ROUNDING) > longest_s:
                return False
            share = -(-sequences // fit.ranks)
            if (
                fit.ranks <= fewest
                and share * fit.sequence_s <= longest_s
                and fit.least_s(share, fit.sequence_s) * (1 - ROUNDING) <= longest_s
                and self.least_s(fit, share)[0] <= longest_s
            ):
                return True
        return False

    def reach_with(self, machines: int, sequences: int, fewest: int, longest_s: float) -> bool:
        """Tell whether some plan of so many machines or fewer, more than half of these, may do a
        share of a step in some seconds; of a model with experts, whose stages are always tried.
        These machines are a power of two, and no domain of NVLink. Then all plans of fewer machines
        are plans of these too, with no more memory and no smaller microbatches. What a microbatch
        calculates and sends does not depend on their number; gathers and reductions over the
        network rise with (k - 1)/k, and others are left out.
        """
        gpus = self.hardware.gpu_count * machines
        calculated_s = sequences / gpus * self.hardware.gpus * (1 - ROUNDING)
        longest_s *= 1 + ROUNDING

        for rank_gpus, rows in self._fronts.items():
            ranks = gpus // rank_gpus
            if 0 < ranks <= fewest:
                share = -(-sequences // ranks)
                for row in rows:
                    if row.seconds(share) <= longest_s:
                        return True
        for fit in self.fits[self._compared :]:
            if calculated_s * fit.gpu_s > longest_s:
                break
            self._compared += 1
            key = fit.candidate.plan.rank_gpus, fit.waits
            self._untimed.setdefault(key, []).append(fit)
        for (rank_gpus, _), untimed in self._untimed.items():
            ranks = gpus // rank_gpus
            if 0 < ranks <= fewest:
                share = -(-sequences // ranks)
                if self._any_within(rank_gpus, untimed, share, longest_s):
                    return True
        return False

    def _any_within(self, rank_gpus: int, untimed: list[Fit], share: int, longest_s: float) -> bool:
        """Time those of some plans, and take them off the list, that may do so many sequences in
        some seconds by what they calculate, until one may by all that is known.
        """
        rows, slower = self._fronts.setdefault(rank_gpus, []), list[Fit]()
        found = False
        for number, fit in enumerate(untimed):
            # As do all that follow: no microbatch is larger than the one that ``gpu_s`` is of.
            if found or (share + fit.waits) * fit.gpu_s * fit.ranks > longest_s:
                slower += untimed[number:]
                break
            if fit.least_s(share, fit.sequence_s) > longest_s:
                slower.append(fit)
                continue
            row = self._with_fewer(fit)
            if row.is_better_than_all(rows):
                rows.append(row)
                found = row.seconds(share) <= longest_s
        untimed[:] = slower
        return found

    def _with_fewer(self, fit: Fit) -> Least:
        """Return the seconds that a plan of fewer machines takes at least."""
        large, plan = self._of(fit), fit.candidate.plan
        over = _network_share(self.hardware.machines // 2 + 1, plan.pipeline) / (
            _network_share(self.hardware.machines, plan.pipeline) or 1.0
        )
        once_s = sequence_s = large.calculation_s + large.sent_s
        if not fit.waits:
            gather_s = over * large.gather_s / fit.most
            sequence_s += gather_s - (1 - UNHIDDEN) * min(gather_s, large.calculation_s)
        rest_s = (1 - HIDDEN_SHARE) * over * large.step.network_s
        return Least(
            sequence_s=sequence_s,
            fixed_s=fit.fixed_s,
            least_fixed_s=fit.fixed_s / fit.most,
            rest_s=rest_s + fit.waits * (fit.fixed_s + once_s),
        )

    def least_s(self, fit: Fit, share: int) -> tuple[float, float]:
        """Return the seconds that a plan takes at least for the sequences of its fullest rank,
        alone and beside a long exchange between islands: `Step.seconds` and `Step.joined_s`.
        """
        large = self._of(fit)
        timed, work_s = large.step, self._work_s(fit, large, share)
        machine_s = step_seconds(work_s + timed.latency_s, timed.reduction_s) * (1 - ROUNDING)
        alone_s = step_seconds(machine_s, timed.network_s)
        return alone_s, (1 - HIDDEN_SHARE * BACKWARD_TAIL) * machine_s + timed.network_s

    def _of(self, fit: Fit) -> Large:
        """Return what a plan takes with its largest microbatch."""
        large = self._large.get(fit.number)
        if large is None:
            large = self._large[fit.number] = self._largest(fit)
        return large

    def _work_s(self, fit: Fit, large: Large, share: int) -> float:
        """Return the seconds in which a stage calculates, gathers, sends and waits at least."""
        plan = fit.candidate.plan
        if plan.virtual_stages > 1:  # a multiple of the stages
            share = max(share, plan.pipeline)
        work_s = fit.least_s(share, large.calculation_s + large.sent_s)
        count = -(-share // fit.most)
        if not fit.waits:  # gathers hide calculation, or are hidden
            gather_s = count * large.gather_s
            calculation_s = share * large.calculation_s
            work_s += gather_s - (1 - UNHIDDEN) * min(gather_s, calculation_s)
        return work_s

    def _largest(self, fit: Fit) -> Large:
        """Time one microbatch of a plan, the largest."""
        plan, count = with_microbatch(fit.candidate.plan, fit.most), fit.most
        timed = self.question.step(plan, 1, count * fit.sequence_s, fit.candidate.memory)
        # More calculation hides more of what a divided sequence sends: that is left out.
        sent_s = timed.tensor_s - fit.fixed_s if plan.context_parallel == 1 else 0.0
        return Large(timed.calculation_s / count, sent_s / count, timed.gather_s, timed)


@lru_cache(maxsize=2**13)
def with_microbatch(plan: InnerPlan, count: int) -> InnerPlan:
    """Return a plan with microbatches of so many sequences."""
    return replace(plan, microbatch=count)


def _network_share(machines: int, stages: int) -> float:
    """Return the share of a payload that each machine of a stage sends in half a ring."""
    each = machines / stages
    return max(0.0, 1 - 1 / each)
