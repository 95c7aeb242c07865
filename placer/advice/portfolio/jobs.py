"""The question of a portfolio: jobs, what they share, and what is wanted of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, floor, inf
from typing import Literal

from placer.cost_model.objective import objective_named
from placer.market.catalog import MARKETS
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements, matches
from placer.records import replace

HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job of a portfolio.

    ``problem`` is its own question, whose quotas are the shared ones, cut to ``max_share`` of each.
    Jobs of a higher ``priority`` run first; among equals more ``weight`` counts more. With slots
    ``earliest_s`` and ``deadline_s`` count from the beginning of the first slot, and ``duration_s``
    is how long a job without a number of samples runs. ``team`` is whose limits hold too.
    """

    name: str
    problem: Problem = field(repr=False)
    priority: int = 0
    weight: float = 1.0
    max_share: float = 1.0
    earliest_s: float = 0.0
    deadline_s: float | None = None
    duration_s: float | None = None
    team: str = ""

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """What tells its question from those of other jobs: equal ones are solved once."""
        window = self.earliest_s, self.deadline_s, self.duration_s
        return id(self.problem.profile), id(self.problem.catalog), self.problem.requirements, window

    @property
    def wish(self) -> Requirements:
        """Wishes of its question."""
        return self.problem.requirements

    @property
    def floor(self) -> float:
        """The least samples/s; 0 where it asks for none."""
        return self.wish.floor_samples_per_second or 0.0

    def seconds(self, samples_per_second: float) -> float:
        """Return how long it runs at a speed; with slots."""
        if self.wish.samples is not None:
            return self.wish.samples / samples_per_second
        assert self.duration_s is not None
        return self.duration_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """What the jobs of one team may take together, of what all jobs share: quotas, and dollars as
    in `Portfolio`.
    """

    name: str
    quotas: tuple[Quota, ...] = ()
    budget_usd: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Machines that may be had for some slots at one price, such as a capacity block.

    ``offer`` tells its machines in the book of the jobs. ``slots`` are those that it covers whole.
    ``usd`` is paid if it is used at all; 0: it is paid for anyway.
    """

    name: str
    offer: tuple[str, str, str, int, str]
    machines: int
    slots: range
    usd: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Slots:
    """Time in slots: machines are held for whole slots, and paid by the hour that they work."""

    count: int
    hours: float

    def needed(self, seconds: float) -> int:
        """Return the slots that a job of some seconds holds."""
        return max(1, ceil(seconds / (self.hours * HOUR_S) * (1 - 1e-12)))

    def until(self, seconds: float | None) -> int:
        """Return the slots that end by a time from now."""
        if seconds is None:
            return self.count
        return min(self.count, int(seconds / (self.hours * HOUR_S) * (1 + 1e-12)))

    def after(self, seconds: float) -> int:
        """Return the first slot that begins at a time from now or later."""
        return ceil(seconds / (self.hours * HOUR_S) * (1 - 1e-12))


@dataclass(frozen=True, kw_only=True)
class Portfolio:
    """Jobs and what they share.

    Without ``slots`` all jobs run side by side, and dollars are per hour; with slots each job runs
    once from a slot on, and dollars are in total. ``quotas`` and ``quota_gpus`` are as in
    `Requirements`. ``budget_usd`` is for all jobs: per hour without slots, else in total.
    ``objective`` is ``cost``, ``throughput`` (most samples/s, each job's times its weight) or
    ``time`` (least hours of all jobs, each job's times its weight). ``fair``: the least share of
    any job is as large as possible first, of the speed that it would have alone. What blocks cost
    counts towards the budget of all, and towards that of no team.
    """

    jobs: tuple[Job, ...]
    quotas: tuple[Quota, ...] = ()
    quota_gpus: int | None = None
    budget_usd: float | None = None
    slots: Slots | None = None
    blocks: tuple[Block, ...] = ()
    teams: tuple[Team, ...] = ()
    objective: str = "cost"
    fair: bool = False

    @property
    def by_speed(self) -> bool:
        """Tell whether a faster placement of a job may be better than a slower one."""
        return self.fair or self.objective != "cost"

    @property
    def maximised(self) -> bool:
        """Tell whether more of the objective is better."""
        return objective_named(self.objective).maximised

    def value(self, job: Job, usd: float, samples_per_second: float) -> float:
        """Return what a placement adds to the objective, lowest is best: USD, weighted samples/s
        times -1, or weighted hours.
        """
        if self.maximised:
            return -job.weight * samples_per_second
        if self.objective == "time":
            assert job.wish.samples is not None
            return job.weight * job.wish.samples / samples_per_second / HOUR_S
        return usd

    @property
    def unit(self) -> Literal["USD/h", "USD"]:
        """Unit of all dollars of the portfolio."""
        return "USD/h" if self.slots is None else "USD"

    @property
    def quotas_of(self) -> dict[str, tuple[Quota, ...]]:
        """Quotas by the team whose they are; those of all jobs have no name."""
        return {"": self.quotas, **{team.name: team.quotas for team in self.teams}}

    @property
    def team_usd(self) -> dict[str, float]:
        """Budgets of the teams that have one."""
        return {t.name: t.budget_usd for t in self.teams if t.budget_usd is not None}

    def most_usd(self, job: Job) -> float:
        """Return the most dollars that a job may cost: all of the budget, or of its team's."""
        own = self.team_usd.get(job.team, inf)
        return own if self.budget_usd is None else min(own, self.budget_usd)

    def question(self, job: Job) -> Problem:
        """Return the question of a job within the quotas of its team, for searches: a spot machine
        that such a quota covers has no limit of supply there, so that it may have more placements
        than the job, and no fewer.
        """
        if not job.team or not self.quotas_of[job.team]:
            return job.problem
        wish, rows = job.problem.requirements, list(job.problem.requirements.quotas)
        for team_row in self.quotas_of[job.team]:
            own = replace(team_row, gpus=floor(job.max_share * team_row.most))
            if own.scope == "together":
                rows.append(own)
                continue
            # The last row that matches holds: after each row of the team what it leaves of others.
            most = own.most if wish.quota_gpus is None else min(own.most, wish.quota_gpus)
            rows.append(replace(own, gpus=most))
            for row in wish.quotas:
                both = _both(own, row, job.problem)
                if row.scope == "each" and all(both.values()):
                    rows.append(replace(own, gpus=min(own.most, row.most), **both))
        return replace(job.problem, requirements=replace(wish, quotas=tuple(rows)))

    def window(self, job: Job) -> range:
        """Return the slots in which a job may run."""
        if self.slots is None:
            return range(1)
        return range(self.slots.after(job.earliest_s), self.slots.until(job.deadline_s))


def _both(one: Quota, other: Quota, problem: Problem) -> dict[str, str]:
    """Return patterns of what two rows match; empty where they have nothing in common."""
    catalog = problem.catalog
    names = {"place": catalog.regions, "gpu": catalog.gpus, "market": MARKETS}

    def both(name: str) -> str:
        a, b = getattr(one, name), getattr(other, name)
        if "*" in (a, b) or a == b:
            return str(b if a == "*" else a)
        return "|".join(n for n in names[name] if matches(n, a) and matches(n, b))

    return {name: both(name) for name in names}


def without_money(wish: Requirements, floor: float | None) -> Requirements:
    """Return the wishes of a job for a search of its least dollars: a floor, and no limit on money
    or time, as these are about true prices: with a surcharge they would cut off what keeps them.
    """
    return replace(
        wish,
        objective="cost",
        min_samples_per_second=floor if floor and floor < inf else None,
        deadline_s=None,
        startup_s=0.0,
        budget_usd=None,
        budget_usd_per_hour=None,
        most_usd_per_million_samples=None,
    )
