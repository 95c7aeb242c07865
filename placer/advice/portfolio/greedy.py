"""One by one: each job takes the best that those before it have left."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from placer.advice.portfolio.pricing.price import Pricing, Within
from placer.advice.portfolio.question.columns import Column, Columns, Group
from placer.advice.portfolio.question.resources import Held, Resource
from placer.solving import allowance

SLACK = 1e-9
"""Slack of a sum against its limit."""


class Ledger:
    """What is held of everything that is shared, and what is left."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.held: dict[Held, float] = {}
        self.bought: set[int] = set()
        self.usd = 0.0
        self._value = 0.0

    @property
    def total(self) -> float:
        """Value of all that is taken; blocks are paid for in dollars."""
        return self.usd if self.columns.portfolio.objective == "cost" else self._value

    def take(self, column: Column, count: int = 1) -> None:
        """Take what a column holds, so many times; a negative count gives it back."""
        self.usd += count * column.usd
        self._value += count * column.value
        for block in self._needed(column):
            self.bought.add(block)
            self.usd += self.columns.portfolio.blocks[block].usd
        for held, amount in column.use.items():
            self.held[held] = self.held.get(held, 0.0) + count * amount

    def left(self, held: Held) -> float:
        """Return what is left of a resource in a slot."""
        return self.columns.limits.capacity(held) - self.held.get(held, 0.0)

    def fits(self, column: Column) -> bool:
        """Tell whether a column fits into what is left."""
        budget = self.columns.portfolio.budget_usd
        if budget is not None and self.usd + self._usd(column) > budget * (1 + SLACK):
            return False
        return all(amount <= self.left(held) + SLACK for held, amount in column.use.items())

    def value(self, column: Column) -> float:
        """Return the value of a column with the blocks that it would be the first to use."""
        return column.value + self._usd(column) - column.usd

    def caps(self, slots: Iterable[int]) -> dict[Resource, float]:
        """Return what is left of each resource throughout some slots, where anything is taken."""
        among, left = set(slots), dict[Resource, float]()
        for (resource, slot), amount in self.held.items():
            if slot in among and amount > 0:
                most = max(0.0, self.left((resource, slot)))
                left[resource] = min(most, left.get(resource, most))
        return left

    def _usd(self, column: Column) -> float:
        blocks = self.columns.portfolio.blocks
        return column.usd + sum(blocks[i].usd for i in self._needed(column))

    def _needed(self, column: Column) -> set[int]:
        """Return the blocks that nobody has bought yet and a column may need."""
        limits, blocks = self.columns.limits, self.columns.portfolio.blocks
        return {
            i
            for resource, slot in column.use
            for i in limits.blocks.get(resource, ())
            if slot in blocks[i].slots and i not in self.bought
        }


def one_by_one(
    pricing: Pricing, order: Iterable[Group], *, searched: bool = True
) -> dict[Column, int]:
    """Place jobs one after the other, each by the solver on what is left.

    Parameters
    ----------
    searched
        False: only columns that are known already are looked at.

    Returns
    -------
    dict[Column, int]
        Chosen columns; jobs that find nothing are not in it.
    """
    ledger, chosen = Ledger(pricing.columns), dict[Column, int]()
    for group in order:
        for _ in range(group.count):
            best = next_best(pricing, group, ledger, searched=searched)
            if best is None:
                break
            ledger.take(best)
            chosen[best] = chosen.get(best, 0) + 1
    return chosen


def next_best(
    pricing: Pricing, group: Group, ledger: Ledger, *, searched: bool = True
) -> Column | None:
    """Return the best column of one more job on what is left, as the solver finds it."""
    columns = pricing.columns.of(group.number)
    best = _best(columns, ledger)
    least = min((column.usd for column in columns), default=inf)
    if searched and (best is None or best.usd > least) and not allowance.current().spent:
        pricing.within(group, Within(caps=ledger.caps(range(pricing.columns.portfolio.slot_count))))
        best = _best(pricing.columns.of(group.number), ledger)
    return best


def _best(columns: Iterable[Column], ledger: Ledger) -> Column | None:
    fitting = (column for column in columns if ledger.fits(column))
    return min(fitting, key=ledger.value, default=None)
