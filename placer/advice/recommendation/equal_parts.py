"""What equal parts make of a step: of unlike workers, and of a batch that does not divide."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.estimate import Estimate, evaluate, pool_of, replanned
from placer.cost_model.timing.site_groups import samples_per_round, worker_rate
from placer.cost_model.timing.step import StepSeconds, bucketed, overlap_window, overlapped
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.answer import Warn
from placer.units import format_speed
from placer.workload.peer import RINGS

LEAST_IDLE = 0.02
"""Share of the devices' time from which it is worth a word that they wait."""
ALIKE = 1.02
"""Speeds that differ less are taken as one."""


def unlike_workers(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what equal parts would make of a step that is divided by the speeds of its workers.

    Hivemind divides by speed, as its workers accumulate until the batch is full; what NCCL and Gloo
    run under usually gives each worker the same part. Data that has its place is divided by that.
    """
    speeds = _speeds(problem, placement)
    slowest = min(speeds.values())
    exchange = placement.exchange
    if (
        exchange.transport not in RINGS
        or traits(exchange.strategy).division != "adaptive"
        or problem.requirements.datasets
        or placement.workers < 2
        or max(speeds.values()) < ALIKE * slowest
    ):
        return
    names = ", ".join(sorted({group.worker_name for group in placement.groups}))
    if problem.island_question is not None:
        yield Warn(
            code="mixed-devices",
            message=f"{names} have equal parts of each step, and all wait for the slowest",
        )
        return
    speed = equal_parts_speed(problem, placement, got)
    text = format_speed(speed, got.tokens_per_sample)
    share = 100 * (1 - speed / got.samples_per_second.value)
    yield Warn(
        code="mixed-devices",
        message=f"{names} share each step by speed; with equal parts {text} (-{share:.0f} %)",
    )


def uneven_batch(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield that ranks wait as the batch does not divide among them, with near ones that do."""
    if any(group.behind for group in placement.groups):
        return  # parts with other ranks share each microbatch
    plans = {(group.machines * group.gpu_count, group.inner) for group in placement.groups}
    (gpus, inner), *others = plans
    if inner is None or others:
        return
    ranks = placement.workers * gpus // inner.rank_gpus
    fullest = -(-problem.batch // ranks)
    idle = 1 - problem.batch / (ranks * fullest)
    if idle < LEAST_IDLE:
        return
    near = [
        f"--tbs {batch:,}: {format_speed(speed, got.tokens_per_sample)}"
        for batch in (ranks * (fullest - 1), ranks * fullest)
        for speed in _speeds_at(placement, problem, batch)
    ]
    yield Warn(
        code="uneven-batch",
        message=f"{problem.batch:,} sequences do not divide among {ranks:,} ranks: the fullest has "
        f"{fullest:,}, and {100 * idle:.0f} % of the devices' time is idle ({'; '.join(near)})",
    )


def _speeds_at(placement: Placement, problem: Problem, batch: int) -> Iterator[float]:
    """Yield the samples/s of the same workers at another batch, if they can do it."""
    from placer.solving.batches.interval import with_batch  # few answers need it

    if batch < 1:
        return
    other = with_batch(problem, batch)
    placed = replanned(placement, other)
    if all(group.inner is not None for group in placed.groups):
        yield evaluate(placed, other).processed_per_second


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
        group.spec: worker_rate(pool_of(group, problem, placement.workers), framework).value
        for group in placement.groups
    }
