"""Closes a small portfolio: all columns that an optimum may need, then one whole-number program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from placer.advice.portfolio.improvement import chosen_whole, worth
from placer.advice.portfolio.pricing.price import Pricing, Within
from placer.advice.portfolio.question.columns import Column, Columns, Group
from placer.advice.portfolio.question.resources import Resource
from placer.records import replace
from placer.solving import allowance

FASTER = 1 + 1e-7
"""Least speed over that of a placement by which the next one is faster."""
MOST_QUESTIONS, MOST_LIMITS = 1_000, 20_000
"""Questions about one group of jobs, and limits that are looked at; more are given up."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """Values from which a column of each group cannot make the choice better."""

    values: tuple[float, ...]


def completed(
    pricing: Pricing, best: dict[Column, int], threshold: Threshold, gap: float
) -> tuple[dict[Column, int], bool]:
    """Ask for all columns of which no other takes less and costs less, and choose among them.

    Parameters
    ----------
    gap
        Relative gap of each question, and so of the choice.

    Returns
    -------
    tuple[dict[Column, int], bool]
        The best choice; and whether it is proved to be the best of all, to the gap.

    Notes
    -----
    A column in the way of a better choice can be replaced by one that takes no more of anything
    and costs no more. Such columns are found by asking for the best one, and again with less of
    each resource that it takes; where speed counts, also for a faster one.
    """
    columns, whole = pricing.columns, True
    for group in columns.groups:
        whole = all_columns(pricing, group, threshold.values[group.number], gap) and whole
    chosen = chosen_whole(columns)
    if chosen is None:
        return best, False
    if worth(columns, chosen.counts) < worth(columns, best):
        best = dict(chosen.counts)
    return best, whole and chosen.proved


def all_columns(pricing: Pricing, group: Group, threshold: float, gap: float) -> bool:
    """Add all columns of a group below a value that no other column replaces; tells whether none is
    missing.
    """
    waiting, seen = [Within()], set[tuple[object, ...]]()
    answers: list[tuple[Within, Column]] = []
    for _ in range(MOST_LIMITS):
        if not waiting:
            return True
        if allowance.current().spent or len(answers) >= MOST_QUESTIONS:
            return False
        limit = waiting.pop()
        # The best column within wider limits is the best within these, if it keeps them.
        column = next((c for wide, c in answers if limit.inside(wide) and limit.admits(c)), None)
        if column is None:
            bound, made = pricing.within(group, limit, gap)
            if bound >= threshold:
                continue
            if not made:  # the solver was stopped, or its placement breaks a limit of the portfolio
                return False
            column = made[0]
            answers.append((limit, column))
        for child in _less(pricing.columns, column, limit):
            key = tuple(sorted(child.caps.items())), child.slots, child.floor
            if key not in seen:
                seen.add(key)
                waiting.append(child)
    return not waiting


def _less(columns: Columns, column: Column, limit: Within) -> Iterator[Within]:
    """Yield what excludes a column: less of each thing that others may want, or more speed."""
    used: dict[Resource, float] = {}
    for (resource, _), amount in column.use.items():
        used[resource] = amount
    for resource, amount in used.items():
        yield limit.less_of(resource, amount - 1)
    if columns.portfolio.by_speed:
        yield replace(limit, floor=column.samples_per_second * FASTER)
    if columns.portfolio.slots is not None and column.slots > 1:
        yield replace(limit, slots=column.slots - 1)


def threshold_of(
    columns: Columns, best: dict[Column, int], least: tuple[float, ...], bound: float
) -> Threshold:
    """Return the values from which columns cannot make a choice better in which all jobs run.

    Parameters
    ----------
    least
        Bound on the reduced value of each group's columns at some prices.
    bound
        Bound on the portfolio at these prices.
    """
    key = worth(columns, best)
    if any(key[:-1]) or bound == -inf:
        return Threshold(values=(inf,) * len(columns.groups))
    room = key[-1] - bound
    return Threshold(values=tuple(value + room for value in least))
