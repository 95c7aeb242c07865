"""Makes a choice better: jobs without what is scarce, jobs that were left out, all over again."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from placer.advice.portfolio.greedy import Ledger, next_best
from placer.advice.portfolio.master.bounds import Known
from placer.advice.portfolio.master.program import Chosen, held_by, whole
from placer.advice.portfolio.pricing.price import Pricing, Within
from placer.advice.portfolio.question.columns import Column, Columns, Duals, Group
from placer.advice.portfolio.question.resources import Resource
from placer.solving import allowance

WHOLE_S = 5.0
"""Seconds of one whole-number program at most."""


def worth(columns: Columns, counts: Mapping[Column, int]) -> tuple[float, ...]:
    """Return a sort key of a choice, lowest is best: weight left out by priority, then value."""
    run = [0] * len(columns.groups)
    for column, count in counts.items():
        run[column.group] += count
    missed: dict[int, float] = {}
    for group in columns.groups:
        priority = -group.job.priority
        lost = (group.count - run[group.number]) * group.job.weight
        missed[priority] = missed.get(priority, 0.0) + lost
    ledger = Ledger(columns)
    for column, count in counts.items():
        ledger.take(column, count)
    return (*(round(missed[priority], 9) for priority in sorted(missed)), ledger.total)


def improved(
    pricing: Pricing, counts: dict[Column, int], known: list[Known], duals: Duals, enough: float
) -> dict[Column, int]:
    """Ask for columns without what is scarce and choose again, until that brings nothing, time is
    up, or the value is good enough.
    """
    columns = pricing.columns
    best, asked = counts, set[tuple[int, Resource]]()
    while not allowance.current().spent:
        key = worth(columns, best)
        if not _everyone_left_out_asked(pricing, best) and key[-1] <= enough and not any(key[:-1]):
            break
        before = len(columns.kept)
        _ask_around(pricing, best, known, duals, asked)
        if len(columns.kept) == before:
            break
        again = chosen_whole(columns)
        if again is None or worth(columns, again.counts) >= key:
            break
        best = dict(again.counts)
    return best


def chosen_whole(columns: Columns) -> Chosen | None:
    """Choose whole numbers of the columns, in the time that is left; None if none were found."""
    seconds = min(WHOLE_S, max(0.2, allowance.current().seconds_left / 2))
    chosen = whole(columns, seconds)
    return chosen if chosen.counts or chosen.proved else None


def _everyone_left_out_asked(pricing: Pricing, counts: dict[Column, int]) -> bool:
    """Ask again for each job that was left out, on what is left; tells whether any was."""
    ledger = Ledger(pricing.columns)
    run = [0] * len(pricing.columns.groups)
    for column, count in counts.items():
        ledger.take(column, count)
        run[column.group] += count
    left = False
    for group in pricing.columns.groups:
        if run[group.number] < group.count and not allowance.current().spent:
            left = True
            next_best(pricing, group, ledger)
    return left


def _ask_around(
    pricing: Pricing,
    counts: Mapping[Column, int],
    known: list[Known],
    duals: Duals,
    asked: set[tuple[int, Resource]],
) -> None:
    """Ask the jobs that cost most over their bound for a placement without something scarce."""
    scarce = _scarce(pricing.columns, counts, duals)
    pairs: list[tuple[float, Group, Resource]] = []
    for column in counts:
        group = pricing.columns.groups[column.group]
        over = column.reduced(duals) - max(known[group.number].at(duals), -1e18)
        users = {resource for resource, _ in column.use if resource in scarce}
        pairs += [(over, group, resource) for resource in users]
    for _, group, resource in sorted(pairs, key=lambda pair: -pair[0]):
        if (group.number, resource) in asked:
            continue
        if allowance.current().spent:
            break
        asked.add((group.number, resource))
        pricing.within(group, Within(caps={resource: 0.0}))


def _scarce(columns: Columns, counts: Mapping[Column, int], duals: Duals) -> set[Resource]:
    """Return the resources that have a price, or of which nothing useful is left."""
    least: dict[Resource, float] = {}
    for column in columns.kept.values():
        for (resource, _), amount in column.use.items():
            least[resource] = min(amount, least.get(resource, inf))
    full = {
        held[0]
        for held, amount in held_by(counts).items()
        if columns.limits.capacity(held) - amount < least.get(held[0], inf)
    }
    return full | {resource for resource, _ in duals.prices}
