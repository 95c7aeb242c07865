"""Prices a job whose throughput counts: the least dollars at several floors bound all between."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import replace
from math import inf

from placer.advice.portfolio.pricing.search import Cheapest, Search
from placer.advice.portfolio.question.columns import Columns, Duals, Group
from placer.advice.portfolio.question.resources import Resource, capped
from placer.solving import allowance

MOST_FLOORS = 12
"""Floors that are asked for at one set of prices."""
ENOUGH = 0.003
"""Distance of a bound from the best column at which no more floors are asked for; of a weight."""


def bound_by_floors(search: Search, columns: Columns, group: Group, duals: Duals) -> float:
    """Add the columns that give most throughput for their dollars at some prices.

    Returns
    -------
    float
        No column of the job has a smaller reduced value. Between two floors a placement costs at
        least what the lower one does, and counts at most the upper one.
    """
    alone = columns.alone.get(group.number)
    if alone is None:
        return inf
    weight, problem = group.job.weight, group.job.problem
    top = alone * (1 + 1e-9)
    first = columns.portfolio.floor(group.job)
    if duals.budget <= 0 and not duals.prices:
        return -weight * columns.alone_bound[group.number] / alone
    best = min((c.reduced(duals) for c in columns.of(group.number)), default=0.0)
    factor = max(duals.budget, 1e-9)
    surcharges = {held[0]: usd / factor for held, usd in duals.prices.items()}
    top = columns.alone_bound[group.number]

    def cost(floor: float) -> tuple[float, float]:
        """Return the least dollars at a floor, and the samples/s of the placement."""
        found = search.cheapest(problem, surcharges, floor)
        speed = floor
        if found.placement is not None:
            made = columns.add(group, found.placement)
            speed = max((c.samples_per_second for c in made), default=floor)
        return factor * found.bound, speed

    usd, reached = cost(first)
    if usd == inf:
        return inf
    intervals: list[tuple[float, float, float, float]] = []

    def push(low: float, high: float, least: float) -> None:
        heapq.heappush(intervals, (least - weight * high / alone, low, high, least))

    push(reached, top, usd)
    closed = usd - weight * reached / alone
    for _ in range(MOST_FLOORS):
        bound, low, high, least = intervals[0]
        best = min(best, *(c.reduced(duals) for c in columns.of(group.number)))
        if bound >= best - ENOUGH * weight or allowance.current().spent:
            break
        heapq.heappop(intervals)
        middle = (low + high) / 2
        more, reached = cost(middle)
        push(low, middle, least)
        if more < inf:
            push(middle, high, more)
        if not intervals:
            break
    return min([closed, *(entry[0] for entry in intervals)])


def fastest_within(
    search: Search,
    columns: Columns,
    group: Group,
    caps: Mapping[Resource, float],
    most_usd: float,
    gap: float | None,
) -> Cheapest:
    """Find the most throughput of a job within some limits; its value is negative."""
    problem = group.job.problem
    wish = problem.requirements
    budget = min(most_usd, wish.budget_usd_per_hour or inf)
    asked = replace(
        problem,
        requirements=replace(
            wish,
            objective="throughput",
            budget_usd_per_hour=None if budget == inf else budget,
        ),
    )
    if caps:
        asked = capped(asked, caps)
    found = search.asked(asked, problem, {}, gap)
    alone = columns.alone.get(group.number)
    if found.bound == inf:
        return found
    if found.placement is not None and alone is None:
        outcome = columns.outcome(group, found.placement)
        if outcome is not None:
            alone = columns.alone[group.number] = outcome.samples_per_second
            columns.alone_bound[group.number] = found.bound
    if alone is None:
        return Cheapest(bound=-inf, placement=found.placement)
    return Cheapest(bound=-group.job.weight * found.bound / alone, placement=found.placement)
