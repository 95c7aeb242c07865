"""What is held of everything that is shared: jobs one by one, and who displaced whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf

from placer.advice.portfolio.columns import Column, Columns, Duals, Group, Held, Resource, Unit
from placer.advice.portfolio.pricing import Pricing
from placer.advice.portfolio.search import Sought
from placer.documents.schemas.many import Displaced, ResourceWorth
from placer.solving import allowance

SLACK = 1e-9
"""Slack of a sum against its limit."""


class Ledger:
    """What is held of everything that is shared, and what is left."""

    def __init__(self, columns: Columns, counts: Mapping[Column, int] | None = None) -> None:
        self.columns = columns
        self.held: dict[Held, float] = {}
        self.bought: set[int] = set()
        self.usd = 0.0
        self.team_usd: dict[str, float] = {}
        self._value = 0.0
        for column, count in (counts or {}).items():
            self.take(column, count)

    @property
    def total(self) -> float:
        """Value of all that is taken; blocks are paid for in dollars."""
        return self.usd if self.columns.portfolio.objective == "cost" else self._value

    def take(self, column: Column, count: int = 1) -> None:
        """Take what a column holds, so many times."""
        team = self.columns.groups[column.group].job.team
        self.usd += count * column.usd + self._paid(column)
        self.team_usd[team] = self.team_usd.get(team, 0.0) + count * column.usd
        self.bought |= self._needed(column)
        self._value += count * column.value
        for held, amount in column.use.items():
            self.held[held] = self.held.get(held, 0.0) + count * amount

    def left(self, held: Held) -> float:
        """Return what is left of a resource in a slot."""
        return self.columns.limits.capacity(held) - self.held.get(held, 0.0)

    def left_of(self, team: str) -> float:
        """Return the dollars that are left of a team's budget; infinite without one."""
        return self.columns.portfolio.team_usd.get(team, inf) - self.team_usd.get(team, 0.0)

    def best(self, group: Group) -> Column | None:
        """Return the best known column of one more job that fits, with blocks it buys."""
        fitting = (column for column in self.columns.of(group) if self._fits(column))
        return min(fitting, key=lambda column: column.value + self._paid(column), default=None)

    def caps(self, team: str) -> dict[Resource, float]:
        """Return what is left to a team of each resource in all slots, where anything is taken."""
        left: dict[Resource, float] = {}
        for (resource, slot), amount in self.held.items():
            if amount > 0 and resource.team in ("", team):
                most = max(0.0, self.left((resource, slot)))
                left[resource] = min(most, left.get(resource, most))
        return left

    def _fits(self, column: Column) -> bool:
        budget = self.columns.portfolio.budget_usd
        usd = self.usd + column.usd + self._paid(column)
        team = self.columns.groups[column.group].job.team
        if budget is not None and usd > budget * (1 + SLACK):
            return False
        if column.usd > self.left_of(team) * (1 + SLACK) + SLACK:
            return False
        return all(amount <= self.left(held) + SLACK for held, amount in column.use.items())

    def _paid(self, column: Column) -> float:
        """Return the dollars of the blocks that a column would be the first to use."""
        return sum(self.columns.portfolio.blocks[i].usd for i in self._needed(column))

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
    pricing: Pricing, taken: Mapping[Column, int] | None = None, *, searched: bool = True
) -> dict[Column, int]:
    """Place jobs one after the other, by priority and order, each on what is left beside ``taken``.

    ``searched``: a job whose best column does not fit is asked about again; else only known columns
    are looked at. Jobs that find nothing are not among the chosen columns.
    """
    columns, chosen = pricing.columns, dict(taken or {})
    ledger, run = Ledger(columns, chosen), running(columns, chosen)
    for group in sorted(columns.groups, key=lambda g: (-g.job.priority, g.members[0])):
        for _ in range(group.count - run[group.number]):
            best, alone = ledger.best(group), columns.cheapest(group)
            fits = best is not None and alone is not None and best.usd <= alone.usd
            if searched and not fits and not allowance.current().spent:
                caps = ledger.caps(group.job.team)
                pricing.cheapest(group, Sought(floor=pricing.slowest(group), caps=caps))
                best = ledger.best(group)
            if best is None:
                break
            ledger.take(best)
            chosen[best] = chosen.get(best, 0) + 1
    return chosen


def running(columns: Columns, counts: Mapping[Column, int]) -> list[int]:
    """Return how many jobs of each group run."""
    run = [0] * len(columns.groups)
    for column, count in counts.items():
        run[column.group] += count
    return run


def worth(columns: Columns, counts: Mapping[Column, int]) -> tuple[float, ...]:
    """Return a sort key of a choice, lowest is best: weight left out by priority, then value."""
    missed: dict[int, float] = {}
    for group, run in zip(columns.groups, running(columns, counts), strict=True):
        priority = -group.job.priority
        lost = (group.count - run) * group.job.weight
        missed[priority] = missed.get(priority, 0.0) + lost
    total = Ledger(columns, counts).total
    return (*(round(missed[priority], 9) for priority in sorted(missed)), total)


def displacements(
    ledger: Ledger, assigned: Mapping[int, Column], job: int, alone: Column
) -> Iterator[Displaced]:
    """Yield what keeps a job from its column ``alone``; where speed counts, dollars too."""
    portfolio, own = ledger.columns.portfolio, assigned.get(job)

    def holders(amount: Callable[[Column], float]) -> tuple[str, ...]:
        each = ((-amount(column), number) for number, column in assigned.items() if number != job)
        rows = sorted((least, portfolio.jobs[number].name) for least, number in each if least)
        return tuple(name for _, name in rows)

    seen = set[str]()
    for key, wanted in sorted(alone.use.items(), key=lambda item: item[0][1]):
        resource, slot = key
        left = ledger.left(key) + (0.0 if own is None else own.use.get(key, 0.0))
        if wanted > left + SLACK and resource.words not in seen:
            seen.add(resource.words)
            yield Displaced(
                resource=resource.words,
                unit=resource.unit,
                place=resource.place,
                wanted=wanted,
                left=max(0.0, left),
                by=holders(lambda column, key=key: column.use.get(key, 0.0)),  # type: ignore[misc]
                slot=slot,
            )
    team, back = portfolio.jobs[job].team, 0.0 if own is None else own.usd

    def of_team(column: Column) -> float:
        return column.usd if ledger.columns.groups[column.group].job.team == team else 0.0

    budgets = [(f"of the budget of team {team}", ledger.left_of(team) + back, of_team)]
    if portfolio.budget_usd is not None and portfolio.by_speed:
        left = portfolio.budget_usd - ledger.usd + back
        budgets.append(("of the budget", left, lambda column: column.usd))
    for words, left, amount in budgets:
        if alone.usd > left * (1 + SLACK) + SLACK:
            yield Displaced(
                resource=words,
                unit=portfolio.unit,
                place="",
                wanted=alone.usd,
                left=max(0.0, left),
                by=holders(amount),
                slot=0,
            )


def worths(duals: Duals, objective: str) -> tuple[ResourceWorth, ...]:
    """List what is scarce, the dearest first; in dollars of the budget where cost is no aim."""
    if objective != "cost" and not duals.budget:
        return ()
    dollar = 1.0 if objective == "cost" else duals.budget
    prices: dict[tuple[str, Unit], dict[int, float]] = {}
    for (resource, slot), usd in duals.prices.items():
        prices.setdefault((resource.words, resource.unit), {})[slot] = usd / dollar
    rows = (
        ResourceWorth(resource=words, unit=unit, usd=sum(usd.values()), slots=tuple(sorted(usd)))
        for (words, unit), usd in prices.items()
    )
    return tuple(sorted((row for row in rows if row.usd > 0), key=lambda row: -row.usd))
