"""What the plan inside a worker gains over the next simpler one, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placer.cost_model.estimate import offer_of
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.workers.islands import StepPart
from placer.records import replace
from placer.solving.answer import Warn
from placer.units import format_seconds
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


def plan_notes(problem: Problem, placement: Placement) -> Iterator[Warn]:
    """Yield, for each plan with a degree or shards, what the best simpler plan would reach."""
    question = problem.island_question
    if question is None or placement.workers > problem.batch:
        return
    part = StepPart(problem.batch, placement.workers)
    told = set()
    for group in placement.groups:
        plan, kind = group.inner, (group.worker_name, group.inner)
        simpler = None if plan is None else _without(plan, question.plan_wishes())
        if plan is None or simpler is None or kind in told:
            continue
        told.add(kind)
        offer = offer_of(group, problem)
        built = problem.island(offer, group.machines, plan, placement.workers)
        if isinstance(built, Island):
            name, wishes = simpler
            gpu = problem.catalog.gpu(offer.gpu)
            other = question.built(offer, gpu, group.machines, part, wishes)
            yield Warn(code="plan", message=f"{name} {_gain(built, other)}")


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
