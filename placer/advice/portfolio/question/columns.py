"""Columns: one placement of one job from one slot on, with its true cost and what it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from placer.advice.portfolio.question.jobs import HOUR_S, Job, Portfolio
from placer.advice.portfolio.question.resources import Held, Limits
from placer.cost_model.limits import evaluated
from placer.problem.placement import Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class Duals:
    """Prices of what jobs share, in units of the objective: of resources in slots, of a dollar."""

    prices: Mapping[Held, float] = field(default_factory=dict)
    budget: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Column:
    """A placement of a job of one group.

    ``usd`` are true dollars: per hour, or in total with slots. ``value`` is what it adds to the
    objective, of which the least is best: the same dollars where cost is what counts.
    """

    group: int
    placement: Placement
    usd: float
    value: float
    samples_per_second: float
    use: Mapping[Held, float]
    start: int = 0
    slots: int = 1

    def reduced(self, duals: Duals) -> float:
        """Return its value with what it takes at some prices."""
        taken = sum(duals.prices.get(held, 0.0) * amount for held, amount in self.use.items())
        return self.value + duals.budget * self.usd + taken


@dataclass(frozen=True, kw_only=True)
class Group:
    """Jobs that ask the same and count the same: any of them may have any column."""

    number: int
    job: Job
    members: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of jobs."""
        return len(self.members)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Makes columns of placements, and keeps them group by group."""

    portfolio: Portfolio
    _kept: dict[int, dict[Placement, tuple[Column, ...]]] = field(default_factory=dict)

    @cached_property
    def limits(self) -> Limits:
        """The limited sums."""
        return Limits(portfolio=self.portfolio)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Jobs that ask the same and count the same, together."""
        members: dict[tuple[object, ...], list[int]] = {}
        for number, job in enumerate(self.portfolio.jobs):
            key = job.kind, job.priority, job.weight, job.max_share
            members.setdefault(key, []).append(number)
        return tuple(
            Group(number=i, job=self.portfolio.jobs[numbers[0]], members=tuple(numbers))
            for i, numbers in enumerate(members.values())
        )

    @property
    def kept(self) -> list[Column]:
        """All columns."""
        return [column for group in self.groups for column in self.of(group)]

    def __len__(self) -> int:
        return sum(len(made) for own in self._kept.values() for made in own.values())

    def of(self, group: Group) -> list[Column]:
        """List the columns of a group."""
        return [column for made in self._kept.get(group.number, {}).values() for column in made]

    def add(self, group: Group, placement: Placement) -> tuple[Column, ...]:
        """Add the columns of a placement, from each possible slot on; none if it breaks a limit."""
        own = self._kept.setdefault(group.number, {})
        if placement not in own:
            own[placement] = tuple(self._made(group, placement))
        return own[placement]

    def _made(self, group: Group, placement: Placement) -> Iterator[Column]:
        job, slots = group.job, self.portfolio.slots
        outcome, broken = evaluated(placement, job.problem)
        if outcome is None or broken:
            return
        seconds, held = HOUR_S, 1
        if slots is not None:
            seconds = job.seconds(outcome.samples_per_second)
            held = slots.needed(seconds)
        window, usd = self.portfolio.window(job), outcome.usd.total * seconds / HOUR_S
        use = self.limits.use(placement, job.problem)
        for start in range(window.start, window.stop - held + 1):
            yield Column(
                group=group.number,
                placement=placement,
                usd=usd,
                value=self.portfolio.value(job, usd, outcome.samples_per_second),
                samples_per_second=outcome.samples_per_second,
                use={
                    (resource, slot): amount
                    for slot in range(start, start + held)
                    for resource, amount in use.items()
                },
                start=start,
                slots=held,
            )

    def cheapest(self, group: Group) -> Column | None:
        """Return the column of a group of least dollars; None if it has none."""
        return min(self.of(group), key=lambda column: column.usd, default=None)

    def least(self, group: Group, duals: Duals, floor: float = 0.0) -> float:
        """Return the least reduced value of the known columns of a group that reach a speed."""
        own = (c for c in self.of(group) if c.samples_per_second >= floor)
        return min((column.reduced(duals) for column in own), default=inf)
