"""What a step of unlike workers becomes where a launcher gives each the same part."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.estimate import Estimate, pool_of
from placer.cost_model.timing.crew import samples_per_round, worker_rate
from placer.cost_model.timing.step import StepSeconds, bucketed, overlap_window, overlapped
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.answer import Warn
from placer.units import format_speed
from placer.workload.peer import RINGS

ALIKE = 1.02
"""Speeds that differ less are taken as one."""


def unlike_workers(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what equal parts would make of a step that is divided by the speeds of its workers.

    Notes
    -----
    Hivemind divides by speed, as its workers accumulate until the batch is full; what NCCL and
    Gloo run under usually gives each worker the same part. Data that has its place is divided by
    that.
    """
    speeds = _speeds(problem, placement)
    slowest = min(speeds.values())
    exchange = placement.exchange
    if (
        exchange.transport not in RINGS
        or problem.island_question is not None  # they are timed with equal parts
        or traits(exchange.strategy).division != "adaptive"
        or problem.requirements.datasets
        or placement.workers < 2
        or max(speeds.values()) < ALIKE * slowest
    ):
        return
    speed = equal_parts_speed(problem, placement, got)
    names = ", ".join(sorted({group.worker_name for group in placement.groups}))
    text = format_speed(speed, got.tokens_per_sample)
    share = 100 * (1 - speed / got.samples_per_second.value)
    yield Warn(
        code="mixed-devices",
        message=f"{names} share each step by speed; with equal parts {text} (-{share:.0f} %)",
    )


def equal_parts_speed(problem: Problem, placement: Placement, got: Estimate) -> float:
    """Return the samples/s where each worker has the same part: all wait for the slowest."""
    samples, step = samples_per_round(placement.exchange, problem), got.step
    calculation = samples / placement.workers / min(_speeds(problem, placement).values())
    equal = StepSeconds(calculation=calculation, communication=step.communication)
    if placement.exchange.overlap:
        return samples / overlapped(equal).total
    return samples / bucketed(equal, overlap_window(placement.exchange)).total


def _speeds(problem: Problem, placement: Placement) -> dict[str, float]:
    """Return the samples/s of one worker of each group."""
    framework = traits(placement.exchange.strategy).framework
    return {
        group.spec: worker_rate(pool_of(group, problem), framework).value
        for group in placement.groups
    }
