"""What is said about plans inside workers: simpler ones, unlike parts, stages between places."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from placer.cost_model.estimate import Estimate, evaluate, offer_of, pool_of, replanned
from placer.cost_model.timing.site_groups import (
    StepSeconds,
    bucketed,
    overlap_window,
    overlapped,
    samples_per_round,
    worker_rate,
)
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.workers.islands import StepPart
from placer.records import replace
from placer.solving.answer import Warn
from placer.units import format_seconds, format_speed, format_usd
from placer.workload.constants import RINGS
from placer.workload.inner_plan import SHARDINGS, InnerPlan
from placer.workload.island import Island, PlanWishes

DEGREES = (
    ("pipeline", "pp"),
    ("context_parallel", "cp"),
    ("expert_parallel", "ep"),
    ("tensor_parallel", "tp"),
)
"""Degrees of a plan that a simpler one has not, the first to go first."""
LEAST_SHARE = 0.005
"""Relative difference up to which plans are equally fast."""
OUTER_STEPS = 100
"""Local steps of the DiLoCo that stages are compared with."""
ACTIVATION_BYTES = 2.0
"""Bytes of an activation and of its gradient in BF16."""
LEAST_IDLE = 0.02
"""Share of the devices' time from which it is worth a word that they wait."""
ALIKE = 1.02
"""Speeds that differ less are taken as one."""


def plan_notes(problem: Problem, placement: Placement) -> Iterator[Warn]:
    """Yield, for each plan with a degree or shards, what the best simpler plan would reach."""
    question, told = problem.island_question, set()
    if question is None or placement.workers > problem.batch:
        return
    part = StepPart(problem.batch, placement.workers)
    for group in placement.groups:
        plan, kind = group.inner, (group.worker_name, group.inner)
        simpler = None if plan is None else _without(plan, question.plan_wishes())
        if simpler is None or kind in told:
            continue
        told.add(kind)
        offer = offer_of(group, problem)
        built = problem.island(offer, group.machines, plan, placement.workers)
        if isinstance(built, Island):
            name, wishes = simpler
            other = question.built(offer, group.machines, part, wishes)
            yield Warn("plan", f"{name} {_gain(built, other)}")


def _without(plan: InnerPlan, asked: PlanWishes) -> tuple[str, PlanWishes] | None:
    """Name the first part of a plan that a simpler one has not, with wishes for such."""
    above = [(name, key) for name, key in DEGREES if getattr(plan, name) > 1]
    fixed: dict[str, Any] = {name: 1 for name, _ in DEGREES if getattr(plan, name) == 1}
    if above:
        name, key = above[0]
        words, fixed[name] = f"{key}={getattr(plan, name)}", 1
    elif plan.sharding == SHARDINGS[0]:
        return None
    else:
        name, words = "sharding", plan.sharding
        fixed[name] = SHARDINGS[SHARDINGS.index(plan.sharding) - 1]
    if getattr(asked, name) is not None:
        return None
    return words, replace(asked, **fixed)


def _gain(built: Island, other: object) -> str:
    """Say how much more a plan carries than a simpler one, and which part of a step is why."""
    if not isinstance(other, Island):
        reason = getattr(other, "reason", "no plan fits")
        return f"is needed: without it {reason}"
    mine, theirs = built.step, other.step
    ratio = theirs.seconds / mine.seconds
    if abs(ratio - 1) < LEAST_SHARE:
        return f"is as fast as {other.plan.spec[1:]}"
    slow, fast = (theirs, mine) if ratio > 1 else (mine, theirs)
    name = max(slow.parts, key=lambda part: slow.parts[part] - fast.parts[part])
    there, here = (
        f"{format_seconds(step.parts[name])} ({100 * step.parts[name] / step.seconds:.0f} %)"
        for step in (theirs, mine)
    )
    return (
        f"carries {ratio:.3g} times as much as {other.plan.spec[1:]}: of a step there {there} are "
        f"{name}, here {here}"
    )


def stages_between(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield how a worker of several offers was timed, and for a language model in several places
    what each token would cost as activations, as gradients and as models now and then.

    A hop costs ``2 x 2 d`` bytes a token, there and back. DiLoCo over two places sends the model
    both ways in int8 every H steps: ``2 N / (H B)`` bytes a token for steps of B tokens. Both at
    the price of the cheapest pair of the places.
    """
    if any(group.behind for group in placement.groups):
        yield Warn(
            "several-devices",
            "stages of several devices: every stage counts as the slowest, and no hop "
            "between them is hidden; placer looks for such workers in explain --why-not stages "
            "alone, and starts none",
        )
    shape = problem.profile.architecture
    if shape is None or len(placement.places) < 2:
        return
    price = problem.network.usd_per_byte
    usd, a, b = min((price(a, b) + price(b, a), a, b) for a, b in combinations(placement.places, 2))
    if not usd:
        return
    hop = usd_per_billion_tokens(ACTIVATION_BYTES * shape.width, usd)
    tokens = problem.batch * shape.sequence_length
    outer = usd_per_billion_tokens(problem.profile.parameters / OUTER_STEPS / tokens, usd)
    now = got.usd_per_hour.egress / got.usd_per_hour.total * (got.usd_per_billion_tokens or 0.0)
    yield Warn(
        "stages-between-places",
        f"stages between {a} and {b} cost {2 * ACTIVATION_BYTES:.0f} x {shape.width:,} "
        f"bytes a token and hop: {format_usd(hop)} per billion tokens, where this placement pays "
        f"{format_usd(now)} for egress, and DiLoCo every {OUTER_STEPS} steps in int8 "
        f"{format_usd(outer)}; of 18 questions that were studied, stages over places were best "
        "in none",
    )


def usd_per_billion_tokens(bytes_per_token: float, usd_per_byte: float) -> float:
    """Return the price of what each token sends one way and back.

    Activations of a width of 8,192 at 0.02 USD/GiB each way: 1e9 x 16,384 B x 0.04 / 2**30.

    >>> round(usd_per_billion_tokens(2 * 8192, 0.04 / 2**30), 1)
    610.4
    """
    return 1e9 * bytes_per_token * usd_per_byte


def unlike_workers(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what equal parts would make of a step that is divided by the speeds of its workers.

    Hivemind divides by speed, as its workers accumulate until the batch is full; what NCCL and Gloo
    run under usually gives each worker the same part. Data that has its place is divided by that.
    """
    speeds, exchange = _speeds(problem, placement), placement.exchange
    by_speed = traits(exchange.strategy).division == "adaptive" and exchange.transport in RINGS
    alike = max(speeds.values()) < ALIKE * min(speeds.values())
    if not by_speed or problem.requirements.datasets or placement.workers < 2 or alike:
        return
    names = ", ".join(sorted({group.worker_name for group in placement.groups}))
    if problem.island_question is not None:
        text = f"{names} have equal parts of each step, and all wait for the slowest"
    else:
        speed = equal_parts_speed(problem, placement, got)
        less = f"(-{100 * (1 - speed / got.samples_per_second.value):.0f} %)"
        equal = format_speed(speed, got.tokens_per_sample)
        text = f"{names} share each step by speed; with equal parts {equal} {less}"
    yield Warn("mixed-devices", text)


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
        "uneven-batch",
        f"{problem.batch:,} sequences do not divide among {ranks:,} ranks: the fullest has "
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
