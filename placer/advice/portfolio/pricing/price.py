"""Prices one job: under prices of what is shared, and within what others have left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from placer.advice.portfolio.pricing.elsewhere import elsewhere
from placer.advice.portfolio.pricing.search import Search
from placer.advice.portfolio.pricing.windows import bound_in_slots, cheapest_in_slots
from placer.advice.portfolio.question.columns import Column, Columns, Duals, Group
from placer.advice.portfolio.question.resources import Resource
from placer.problem.placement import Placement
from placer.records import replace

HARD = 0.97
"""A search that is stopped with a bound below this share of what is known waits for the others."""


@dataclass(frozen=True, kw_only=True)
class Within:
    """What a placement may take of some resources and of slots, and how fast it must be."""

    caps: Mapping[Resource, float] = field(default_factory=dict)
    slots: int | None = None
    floor: float = 0.0

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

    def less_of(self, resource: Resource, amount: float) -> Within:
        """Return the same with less of a resource."""
        return replace(self, caps={**self.caps, resource: amount})


@dataclass(frozen=True, kw_only=True)
class Pricing:
    """Finds columns of a job, and bounds on all of its columns.

    Notes
    -----
    ``hard`` are groups whose search ended far from a proof: they are bounded by fractions of
    workers until time is left for more.
    """

    columns: Columns
    search: Search
    hard: set[int] = field(default_factory=set)

    def bound(self, group: Group, duals: Duals) -> float:
        """Add the best column of a job at some prices to those that are kept.

        Returns
        -------
        float
            No column of the job has a smaller reduced value; infinite if it has none at all.
        """
        portfolio = self.columns.portfolio
        if portfolio.slots is not None:
            return bound_in_slots(self.search, self.columns, group, duals)
        factor = 1 + duals.budget
        surcharges = {held[0]: usd / factor for held, usd in duals.prices.items()}
        kept = self.columns.of(group.number)
        best = min(kept, key=lambda column: column.reduced(duals), default=None)
        known = inf if best is None else best.reduced(duals) / factor
        start = None if best is None else best.placement
        floor, problem = portfolio.floor(group.job), group.job.problem
        found = self.search.cheapest(problem, surcharges, floor, known=known, start=start)
        if found.bound < known * HARD:
            self.hard.add(group.number)
        if found.placement is not None:
            self.keep(group, found.placement)
        return factor * found.bound

    def keep(self, group: Group, placement: Placement) -> list[Column]:
        """Keep the columns of a placement, and those of the same machines in other places; returns
        the former.
        """
        before = len(self.columns.kept)
        made = self.columns.add(group, placement)
        if self.columns.portfolio.slots is None and len(self.columns.kept) > before:
            for other in elsewhere(placement, group.job.problem):
                self.columns.add(group, other)
        return made

    def least(self, group: Group, duals: Duals) -> float:
        """Return a bound on the reduced value of a job's columns that takes no search."""
        portfolio = self.columns.portfolio
        if portfolio.slots is not None:
            return 0.0
        factor, floor = 1 + duals.budget, portfolio.floor(group.job)
        surcharges = {held[0]: usd / factor for held, usd in duals.prices.items()}
        least = self.search.relaxed(group.job.problem, surcharges, floor, per_sample=False)
        return factor * max(0.0, least)

    def within(
        self, group: Group, limit: Within, gap: float | None = None
    ) -> tuple[float, list[Column]]:
        """Add the best columns of a job within some limits, at no prices.

        Returns
        -------
        tuple[float, list[Column]]
            No such column has a smaller value, which is infinite if there is none; and the columns
            of the best placement, one for each slot that it may begin in.
        """
        portfolio = self.columns.portfolio
        if portfolio.slots is not None:
            found = cheapest_in_slots(
                self.search, self.columns, group, limit.caps, limit.slots, gap
            )
        else:
            floor = max(portfolio.floor(group.job), limit.floor)
            kept = (c for c in self.columns.of(group.number) if limit.admits(c))
            best = min(kept, key=lambda column: column.usd, default=None)
            if best is not None and gap is None and group.number in self.hard:
                return 0.0, [best]
            found = self.search.cheapest(
                group.job.problem,
                {},
                floor,
                caps=limit.caps,
                gap=gap,
                known=inf if best is None else best.usd,
                start=None if best is None else best.placement,
            )
            if found.placement is None and best is not None:
                return found.bound, [best]
        made = [] if found.placement is None else self.keep(group, found.placement)
        return found.bound, made
