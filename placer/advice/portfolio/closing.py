"""Closes a small portfolio: all columns that an optimum may need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from placer.advice.portfolio.pricing.price import Pricing
from placer.advice.portfolio.question.columns import Column, Columns, Group
from placer.advice.portfolio.question.resources import Resource
from placer.records import replace
from placer.solving import allowance

FASTER = 1 + 1e-7
"""Least speed over that of a placement by which the next one is faster."""
MOST_QUESTIONS, MOST_LIMITS = 1_000, 20_000
"""Questions about one group of jobs, and limits that are looked at; more are given up."""


@dataclass(frozen=True, kw_only=True)
class Within:
    """What a placement may take of some resources and of slots, and how fast it must be."""

    caps: Mapping[Resource, float] = field(default_factory=dict)
    slots: int | None = None
    floor: float = 0.0

    @property
    def key(self) -> tuple[object, ...]:
        """Return what tells it from other limits."""
        return tuple(sorted(self.caps.items())), self.slots, self.floor

    def admits(self, column: Column) -> bool:
        """Tell whether a column keeps these limits."""
        if column.samples_per_second < self.floor or column.slots > (self.slots or column.slots):
            return False
        return all(amount <= self.caps.get(held[0], inf) for held, amount in column.use.items())

    def inside(self, other: Within) -> bool:
        """Tell whether whatever keeps these limits keeps others too."""
        return (
            self.floor >= other.floor
            and (self.slots or inf) <= (other.slots or inf)
            and all(self.caps.get(key, inf) <= most for key, most in other.caps.items())
        )


def all_columns(pricing: Pricing, group: Group, threshold: float, gap: float) -> bool:
    """Add all columns of a group below some dollars of which no other takes no more of anything and
    costs no more; tells whether none is missing.

    Such columns are found by asking for the best one, and again with less of each resource that it
    takes; where speed counts, also for a faster one.
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
            bound, column = _best(pricing, group, limit, gap)
            if bound >= threshold:
                continue
            if column is None:  # the solver was stopped, or its placement is not through in time
                return False
            answers.append((limit, column))
        fresh = [child for child in _less(pricing.columns, column, limit) if child.key not in seen]
        seen |= {child.key for child in fresh}
        waiting += fresh
    return not waiting


def _best(pricing: Pricing, group: Group, limit: Within, gap: float) -> tuple[float, Column | None]:
    """Ask for the column of least dollars within some limits; returns a bound beside it."""
    floor = max(pricing.slowest(group, limit.slots), limit.floor)
    if floor == inf:
        return inf, None
    kept = (column for column in pricing.columns.of(group) if limit.admits(column))
    best = min(kept, key=lambda column: column.usd, default=None)
    bound, made = pricing.cheapest(
        group,
        {},
        floor,
        caps=limit.caps,
        gap=gap,
        known=inf if best is None else best.usd,
        start=None if best is None else best.placement,
    )
    return bound, made[0] if made else best


def _less(columns: Columns, column: Column, limit: Within) -> Iterator[Within]:
    """Yield what excludes a column: less of each thing that others may want, or more speed."""
    used = {resource: amount for (resource, _), amount in column.use.items()}
    for resource, amount in used.items():
        yield replace(limit, caps={**limit.caps, resource: amount - 1})
    if columns.portfolio.by_speed:
        yield replace(limit, floor=column.samples_per_second * FASTER)
    amount_counts = columns.groups[column.group].job.wish.samples is not None
    if columns.portfolio.slots is not None and amount_counts:
        yield replace(limit, slots=column.slots - 1)
