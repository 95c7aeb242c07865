"""Columns, a placement of a job from a slot on, and the sums of what they take of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import floor, inf
from typing import Literal, NamedTuple

from placer.advice.portfolio.jobs import HOUR_S, Job, Portfolio
from placer.cost_model.limits import evaluated, quota_use
from placer.market.catalog import Catalog, VmOffer
from placer.market.scaled_market import with_offers
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Quota
from placer.problem.workers.resources import NO_QUOTA_GPUS
from placer.records import replace

Unit = Literal["GPU", "machine"]
OfferKind = tuple[str, str, str, int, str]
"""Place, instance type, GPU, GPUs of a machine and market: what tells an offer from others."""


class Resource(NamedTuple):
    """Something of which there is a limited sum: GPUs of a ``quota`` (of one place, GPU and
    market), GPUs of a ``joint`` quota (patterns), or ``machines`` of one offer; of quotas those of
    all jobs, or of a ``team``.
    """

    kind: str
    place: str
    gpu: str
    market: str
    instance_type: str = ""
    gpu_count: int = 1
    team: str = ""

    @property
    def words(self) -> str:
        """Return what it is in words."""
        market = "" if self.market == "*" else f" {self.market.replace('_', '-')}"
        if self.kind == "machines":
            return f"{self.instance_type}{market} in {self.place}"
        gpu = "GPU" if self.gpu == "*" else self.gpu
        where = "all places together" if self.place == "*" else self.place
        return f"{gpu}{market} in {where}{f' of team {self.team}' if self.team else ''}"

    @property
    def anyones(self) -> Resource:
        """Return what it is, whoever limits it."""
        return self._replace(team="")

    @property
    def unit(self) -> Unit:
        """Return what is counted."""
        return "machine" if self.kind == "machines" else "GPU"

    @property
    def offer_kind(self) -> OfferKind:
        """Return what tells the offer of some machines from others."""
        return self.place, self.instance_type, self.gpu, self.gpu_count, self.market

    def quota(self, gpus: int) -> Quota:
        """Return the row of a quota file that allows so many GPUs of it."""
        scope = "together" if self.kind == "joint" else "each"
        return Quota(place=self.place, gpu=self.gpu, market=self.market, gpus=gpus, scope=scope)


SLACK = 1e-9
"""Relative slack of dollars."""
Held = tuple[Resource, int]
"""A resource in one slot."""


def kind_of(offer: VmOffer) -> OfferKind:
    """Return what tells an offer from others."""
    return offer.place, offer.instance_type, offer.gpu, offer.gpu_count, offer.market


def machines_of(kind: OfferKind) -> Resource:
    """Return the machines of an offer as a resource."""
    place, instance_type, gpu, gpu_count, market = kind
    return Resource("machines", place, gpu, market, instance_type, gpu_count)


def surcharged(catalog: Catalog, surcharges: Mapping[Resource, float]) -> Catalog:
    """Return a book whose machines cost more by USD/h for one GPU or machine of each resource."""
    paid = {resource: usd for resource, usd in surcharges.items() if usd > 0}
    if not paid:
        return catalog
    extra = surcharge_of(paid)
    offers = (
        replace(offer, usd_per_hour=offer.usd_per_hour + more) if (more := extra(offer)) else offer
        for offer in catalog.offers
    )
    return with_offers(catalog, tuple(offers))


def surcharge_of(surcharges: Mapping[Resource, float]) -> Callable[[VmOffer], float]:
    """Return what one machine of an offer costs more by the hour."""
    quotas: dict[tuple[str, str, str], float] = {}
    for r, usd in surcharges.items():
        if r.kind == "quota":
            quotas[r[1:4]] = quotas.get(r[1:4], 0.0) + usd
    joint = [(r.quota(0), usd) for r, usd in surcharges.items() if r.kind == "joint"]
    machines = {r.offer_kind: usd for r, usd in surcharges.items() if r.kind == "machines"}
    each: dict[tuple[str, str, str], float] = {}

    def extra(offer: VmOffer) -> float:
        bucket = offer.place, offer.gpu, offer.market
        usd = each.get(bucket)
        if usd is None:
            usd = quotas.get(bucket, 0.0) + sum(usd for row, usd in joint if row.covers(*bucket))
            each[bucket] = usd
        return usd * offer.gpu_count + (machines.get(kind_of(offer), 0.0) if machines else 0.0)

    return extra


def capped(problem: Problem, caps: Mapping[Resource, float]) -> Problem:
    """Return a question that may take no more than so much of some resources."""
    wish, catalog, rows = problem.requirements, problem.catalog, dict[Resource, Quota]()
    for r, most in caps.items():
        if r.kind != "machines":
            own = int(most) if r.kind == "joint" else problem.quota(r.place, r.gpu, r.market)
            known = rows[r.anyones].most if r.anyones in rows else own
            rows[r.anyones] = r.quota(min(int(most), own, known))
    machines = {r.offer_kind: int(most) for r, most in caps.items() if r.kind == "machines"}
    if machines:
        offers = (
            replace(offer, available=machines[kind_of(offer)])
            if kind_of(offer) in machines
            else offer
            for offer in catalog.offers
        )
        catalog = with_offers(catalog, tuple(offers))
    wish = replace(wish, quotas=(*wish.quotas, *rows.values()))
    return replace(problem, catalog=catalog, requirements=wish)


@dataclass(frozen=True, kw_only=True, slots=True)
class Duals:
    """Prices of what jobs share, in units of the objective: of resources in slots, of a dollar, and
    of a dollar of each team.
    """

    prices: Mapping[Held, float] = field(default_factory=dict)
    budget: float = 0.0
    teams: Mapping[str, float] = field(default_factory=dict)

    def of(self, team: str) -> Duals:
        """Return the prices that a job of a team pays."""
        prices = {held: usd for held, usd in self.prices.items() if held[0].team in ("", team)}
        return Duals(prices=prices, budget=self.budget + self.teams.get(team, 0.0))


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
        """Return its value with what it takes at the prices that its job pays."""
        taken = sum(duals.prices.get(held, 0.0) * amount for held, amount in self.use.items())
        return self.value + duals.budget * self.usd + taken


@dataclass(frozen=True, kw_only=True)
class Group:
    """Jobs that ask the same and count the same: any of them may have any column. ``question`` is
    what searches are asked: their own one within the quotas of their team.
    """

    number: int
    job: Job
    question: Problem
    members: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of jobs."""
        return len(self.members)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Makes columns of placements, keeps them group by group, and knows what limits their sums."""

    portfolio: Portfolio
    _kept: dict[int, dict[Placement, tuple[Column, ...]]] = field(default_factory=dict)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Jobs that ask the same and count the same, together."""
        members: dict[tuple[object, ...], list[int]] = {}
        for number, job in enumerate(self.portfolio.jobs):
            key = job.kind, job.priority, job.weight, job.max_share, job.team
            members.setdefault(key, []).append(number)
        first = [self.portfolio.jobs[numbers[0]] for numbers in members.values()]
        return tuple(
            Group(number=i, job=job, question=self.portfolio.question(job), members=tuple(numbers))
            for i, (job, numbers) in enumerate(zip(first, members.values(), strict=True))
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
        """Add the columns of a placement, from each possible slot on; none if it breaks a limit of
        the job, or of its team by itself.
        """
        own = self._kept.setdefault(group.number, {})
        if placement not in own:
            made = self.made(group, placement)
            own[placement] = tuple(column for column in made if self._within_team(column))
        return own[placement]

    def _within_team(self, column: Column) -> bool:
        """Tell whether a team may have a column, and its job so much of the team's quotas."""
        job = self.groups[column.group].job
        if column.usd > self.portfolio.team_usd.get(job.team, inf) * (1 + SLACK):
            return False
        own = ((held, amount) for held, amount in column.use.items() if held[0].team)
        return all(amount <= floor(job.max_share * self.capacity(held)) for held, amount in own)

    def made(self, group: Group, placement: Placement) -> Iterator[Column]:
        """Yield the columns of a placement; none if it breaks a limit of the job."""
        job, slots = group.job, self.portfolio.slots
        outcome, broken = evaluated(placement, job.problem)
        if outcome is None or broken:
            return
        seconds, held = HOUR_S, 1
        if slots is not None:
            seconds = job.seconds(outcome.samples_per_second)
            held = slots.needed(seconds)
        window, usd = self.portfolio.window(job), outcome.usd.total * seconds / HOUR_S
        use = self.use(placement, job)
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

    def least(self, group: Group, duals: Duals, speed: float = 0.0) -> float:
        """Return the least reduced value of the known columns of a group that reach a speed."""
        own = (c for c in self.of(group) if c.samples_per_second >= speed)
        duals = duals.of(group.job.team)
        return min((column.reduced(duals) for column in own), default=inf)

    @cached_property
    def _joint(self) -> dict[Resource, int]:
        joint: dict[Resource, int] = {}
        for team, rows in self.portfolio.quotas_of.items():
            for row in rows:
                if row.scope == "together":
                    key = Resource("joint", row.place, row.gpu, row.market, team=team)
                    joint[key] = min(row.most, joint.get(key, row.most))
        return joint

    @cached_property
    def _machines(self) -> dict[Resource, int]:
        """Machines of each offer of which only some exist."""
        jobs = self.portfolio.jobs
        return {
            machines_of(kind_of(offer)): offer.available
            for catalog in {id(job.problem.catalog): job.problem.catalog for job in jobs}.values()
            for offer in catalog.offers
            if offer.available is not None
        }

    @cached_property
    def blocks(self) -> dict[Resource, tuple[int, ...]]:
        """Positions of the blocks of each offer that has any."""
        found: dict[Resource, tuple[int, ...]] = {}
        for i, block in enumerate(self.portfolio.blocks):
            key = machines_of(block.offer)
            found[key] = (*found.get(key, ()), i)
        return found

    def capacity(self, held: Held) -> float:
        """Return how much there is of a resource in a slot, blocks that are not bought among it."""
        resource, slot = held
        if resource in self.blocks:
            blocks = (self.portfolio.blocks[i] for i in self.blocks[resource])
            return sum(block.machines for block in blocks if slot in block.slots)
        if resource.kind == "machines":
            return self._machines.get(resource, NO_QUOTA_GPUS)
        if resource.kind == "joint":
            return self._joint[resource]
        return self._quota(resource)

    def _quota(self, resource: Resource) -> int:
        """Return the GPUs of one place, GPU and market: the last row that matches."""
        key = resource.place, resource.gpu, resource.market
        gpus = None if resource.team else self.portfolio.quota_gpus
        for row in self.portfolio.quotas_of[resource.team]:
            if row.scope == "each" and row.covers(*key):
                gpus = row.most
        return NO_QUOTA_GPUS if gpus is None else gpus

    def use(self, placement: Placement, job: Job) -> dict[Resource, float]:
        """Return what a placement of a job takes of each limited resource while it runs."""
        used: dict[Resource, float] = {}
        for bucket, gpus in quota_use(placement, job.problem).items():
            for own in {Resource("quota", *bucket, team=team) for team in ("", job.team)}:
                if self._quota(own) < NO_QUOTA_GPUS:
                    used[own] = used.get(own, 0) + gpus
            for joint in self._joint:
                if joint.team in ("", job.team) and joint.quota(0).covers(*bucket):
                    used[joint] = used.get(joint, 0) + gpus
        server = placement.exchange.server
        for group in (*placement.groups, *([] if server is None else [server])):
            machines = machines_of(group.offer_kind)
            if machines in self._machines or machines in self.blocks:
                used[machines] = used.get(machines, 0) + group.machine_count
        return used
