"""Columns: one placement of one job from one slot on, with its true cost and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from placer.advice.portfolio.question.jobs import HOUR_S, Job, Portfolio
from placer.advice.portfolio.question.resources import Held, Limits
from placer.cost_model.estimate import Outcome
from placer.cost_model.limits import evaluated
from placer.problem.placement import Placement

SLACK = 1e-9
"""Relative slack when a time is compared with slots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Duals:
    """Prices of what jobs share, in the unit of the objective: for a unit of each resource in each
    slot, and for each dollar of the budget.
    """

    prices: Mapping[Held, float] = field(default_factory=dict)
    budget: float = 0.0

    def mixed(self, other: Duals, share: float) -> Duals:
        """Return prices between these and others, whose share is given."""
        keys = {**self.prices, **other.prices}
        mixed = {
            key: (1 - share) * self.prices.get(key, 0.0) + share * other.prices.get(key, 0.0)
            for key in keys
        }
        return Duals(
            prices={key: usd for key, usd in mixed.items() if usd > 0},
            budget=(1 - share) * self.budget + share * other.budget,
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Column:
    """A placement of a job of one group.

    Notes
    -----
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

    @property
    def key(self) -> tuple[object, ...]:
        """Return what tells it from other columns."""
        return self.group, self.placement, self.start


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


def groups_of(portfolio: Portfolio) -> tuple[Group, ...]:
    """Put jobs together that ask the same and count the same."""
    members: dict[tuple[object, ...], list[int]] = {}
    for number, job in enumerate(portfolio.jobs):
        members.setdefault((job.kind, job.priority, job.weight, job.max_share), []).append(number)
    return tuple(
        Group(number=i, job=portfolio.jobs[numbers[0]], members=tuple(numbers))
        for i, numbers in enumerate(members.values())
    )


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Makes columns of placements, and keeps them."""

    portfolio: Portfolio
    limits: Limits
    groups: tuple[Group, ...]
    kept: dict[tuple[object, ...], Column] = field(default_factory=dict)
    _outcomes: dict[tuple[object, ...], Outcome | None] = field(default_factory=dict)

    def add(self, group: Group, placement: Placement, starts: range | None = None) -> list[Column]:
        """Add the columns of a placement, from each slot on that is asked for.

        Returns
        -------
        list[Column]
            Those that its job may have; empty if it breaks a limit of the job.
        """
        made = []
        for start in self.starts(group, placement) if starts is None else starts:
            key = group.number, placement, start
            column = self.kept.get(key) or self.made(group, placement, start)
            if column is not None:
                self.kept[key] = column
                made.append(column)
        return made

    def starts(self, group: Group, placement: Placement) -> range:
        """Return the slots from which a placement of a group is through in time."""
        held = self.slots_held(group, placement)
        window = self.portfolio.window(group.job)
        return range(0) if held is None else range(window.start, window.stop - held + 1)

    def slots_held(self, group: Group, placement: Placement) -> int | None:
        """Return how many slots a placement holds; None if it breaks a limit of the job."""
        outcome = self.outcome(group, placement)
        if outcome is None:
            return None
        slots = self.portfolio.slots
        return 1 if slots is None else slots.needed(self.seconds(group, outcome))

    def seconds(self, group: Group, outcome: Outcome) -> float:
        """Return how long a job runs; with slots."""
        job = group.job
        if job.wish.samples is not None:
            return job.wish.samples / outcome.samples_per_second
        assert job.duration_s is not None
        return job.duration_s

    def outcome(self, group: Group, placement: Placement) -> Outcome | None:
        """Return what a placement does and costs; None if it breaks a limit of the job."""
        key = group.job.kind, placement
        if key not in self._outcomes:
            outcome, broken = evaluated(placement, group.job.problem)
            self._outcomes[key] = None if broken else outcome
        return self._outcomes[key]

    def made(self, group: Group, placement: Placement, start: int) -> Column | None:
        """Build a column; None if the placement breaks a limit of the job, or is not through in
        time.
        """
        outcome, held = self.outcome(group, placement), self.slots_held(group, placement)
        window = self.portfolio.window(group.job)
        if outcome is None or held is None:
            return None
        if start < window.start or start + held > window.stop:
            return None
        usd = outcome.usd.total
        if self.portfolio.slots is not None:
            usd *= self.seconds(group, outcome) / HOUR_S
        use = self.limits.use(placement, group.job.problem)
        return Column(
            group=group.number,
            placement=placement,
            usd=usd,
            value=self.portfolio.value(group.job, usd, outcome.samples_per_second),
            samples_per_second=outcome.samples_per_second,
            use={
                (resource, slot): amount
                for slot in range(start, start + held)
                for resource, amount in use.items()
            },
            start=start,
            slots=held,
        )

    def of(self, group: int) -> list[Column]:
        """List the columns of a group."""
        return [column for column in self.kept.values() if column.group == group]

    def by_group(self) -> list[list[Column]]:
        """List the columns group by group."""
        lists: list[list[Column]] = [[] for _ in self.groups]
        for column in self.kept.values():
            lists[column.group].append(column)
        return lists
