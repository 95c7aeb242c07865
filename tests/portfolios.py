"""Small portfolios, drawn from a seed, for which every combination can be tried."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from itertools import product
from math import inf

import msgspec

from instances import GPUS, offer, profile, random_problem
from placer.advice.portfolio.improvement import worth
from placer.advice.portfolio.master.program import held_by
from placer.advice.portfolio.question.columns import Column, Columns, groups_of
from placer.advice.portfolio.question.jobs import Block, Job, Portfolio, Slots
from placer.advice.portfolio.question.resources import Limits, Resource, kind_of
from placer.cost_model.limits import evaluated
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements
from placer.records import replace

placements = importlib.import_module("placer.solvers.exhaustive").placements
"""Yields all placements of a question."""
Choice = tuple[float, float, dict[Resource, float]]
"""USD/h, samples/s and use of one placement."""


def tiny_portfolio(seed: int, *, alike: bool = False) -> Portfolio:
    """Draw two to four jobs on one market of two places, whose quotas bind now and then.

    Parameters
    ----------
    alike
        The jobs train one model and differ in how fast they must be.
    """
    draw = random.Random(f"portfolio {seed}")
    base = random_problem(draw.randrange(10**6))
    places = [region for region in base.catalog.regions.values() if region.provider != "backblaze"]
    offers = tuple(
        offer(
            here.provider,
            here.region,
            gpu,
            round(draw.uniform(0.1, 1.2) * gpus, 3),
            market=market,
            gpus=gpus,
            available=draw.choice((None, None, 2, 3)),
        )
        for here in places[:2]
        for gpu, gpus, market in draw.sample(
            [(g, k, m) for g in GPUS for k in (1, 2) for m in ("spot", "on_demand")],
            draw.choice((1, 2)),
        )
    )
    catalog = replace(base.catalog, offers=offers)
    quotas = tuple(_quotas(draw, sorted({o.gpu for o in offers})))
    jobs = tuple(_job(draw, number, base, quotas) for number in range(draw.choice((2, 3, 3, 4))))
    jobs = tuple(replace(job, problem=replace(job.problem, catalog=catalog)) for job in jobs)
    if alike:
        model, catalog = jobs[0].problem.profile, jobs[0].problem.catalog
        jobs = tuple(
            replace(job, problem=replace(job.problem, profile=model, catalog=catalog))
            for job in jobs
        )
    budget = draw.choice((None, None, None, round(draw.uniform(1, 8), 2)))
    return Portfolio(jobs=jobs, quotas=quotas, quota_gpus=None, budget_usd=budget)


def _quotas(draw: random.Random, gpus: list[str]) -> Iterator[Quota]:
    for gpu in gpus:
        most = draw.choice((2, 3, 4, 6))
        scope = draw.choice(("each", "each", "together"))
        yield Quota(place="*", gpu=gpu, market="*", gpus=most, scope=scope)


def _job(draw: random.Random, number: int, base: Problem, quotas: tuple[Quota, ...]) -> Job:
    rates = {gpu: round(draw.uniform(20, 400), 1) for gpu in GPUS}
    model = profile(draw.choice((0.5, 20, 200)), rates, draw.choice((4096, 32768)))
    floor = round(draw.uniform(0.3, 2.2) * draw.choice(list(rates.values())), 1)
    wish = Requirements(
        objective="cost",
        min_samples_per_second=floor,
        max_workers=3,
        exchange="all-reduce",
        quotas=quotas,
    )
    return Job(
        name=f"job-{number}",
        problem=Problem(profile=model, catalog=base.catalog, requirements=wish),
        priority=draw.choice((0, 0, 1)),
        weight=draw.choice((1.0, 1.0, 2.0)),
    )


def speed_portfolio(seed: int) -> Portfolio:
    """Draw a tiny portfolio with a budget in which speed counts: the most work, the least hours or
    fair shares; some jobs have no floor.
    """
    draw, base = random.Random(f"speed {seed}"), tiny_portfolio(seed, alike=seed % 3 == 0)
    jobs = []
    for job in base.jobs[:3]:
        wish = replace(job.problem.requirements, samples=draw.choice((10**6, 10**7)))
        if draw.random() < 0.4:
            wish = replace(wish, min_samples_per_second=None)
        jobs.append(replace(job, problem=replace(job.problem, requirements=wish)))
    objective, fair = draw.choice(
        [("throughput", False), ("time", False), ("cost", True), ("throughput", True)]
    )
    budget = round(draw.uniform(1, 6), 2)
    return replace(base, jobs=tuple(jobs), budget_usd=budget, objective=objective, fair=fair)


def brute_force(portfolio: Portfolio) -> tuple[float, ...]:
    """Return the best key of all combinations: weight left out from the highest priority on, then
    the least share of a job (times -1, where shares are to be fair), then the value.
    """
    limits = Limits(portfolio=portfolio)
    lists = [_choices(job, limits) for job in portfolio.jobs]
    if portfolio.budget_usd is not None:
        most = portfolio.budget_usd * (1 + 1e-9)
        lists = [[choice for choice in choices if choice[0] <= most] for choices in lists]
    alone = [max((choice[1] for choice in choices), default=inf) for choices in lists]
    if not portfolio.by_speed:
        lists = [_cheaper(choices, speed=False) for choices in lists]
    priorities = sorted({job.priority for job in portfolio.jobs}, reverse=True)
    best: tuple[float, ...] = (inf,)
    for combination in product(*([*choices, None] for choices in lists)):
        usd = sum(choice[0] for choice in combination if choice is not None)
        rows = [*zip(portfolio.jobs, combination, alone, strict=True)]
        missed = [
            sum(
                job.weight for job, choice, _ in rows if choice is None and job.priority == priority
            )
            for priority in priorities
        ]
        running = [(job, choice, top) for job, choice, top in rows if choice is not None]
        least = min((min(1.0, choice[1] / top) for _, choice, top in running), default=0.0)
        key = (
            *(round(weight, 9) for weight in missed),
            *([-round(least, 9)] if portfolio.fair else []),
            sum(portfolio.value(job, choice[0], choice[1]) for job, choice, _ in running),
        )
        if key < best and _fits(combination, usd, portfolio, limits):
            best = key
    return best


def _fits(
    combination: tuple[Choice | None, ...], usd: float, portfolio: Portfolio, limits: Limits
) -> bool:
    if portfolio.budget_usd is not None and usd > portfolio.budget_usd * (1 + 1e-9):
        return False
    held: dict[Resource, float] = {}
    for choice in combination:
        for resource, amount in () if choice is None else choice[2].items():
            held[resource] = held.get(resource, 0.0) + amount
    return all(amount <= limits.capacity((resource, 0)) for resource, amount in held.items())


def _choices(job: Job, limits: Limits) -> list[Choice]:
    """List the placements of a job of which no other costs and takes less and is as fast."""
    every: list[Choice] = []
    for placement in placements(job.problem):
        outcome, broken = evaluated(placement, job.problem)
        if outcome is not None and not broken:
            use = dict(limits.use(placement, job.problem))
            every.append((outcome.usd.total, outcome.samples_per_second, use))
    return _cheaper(every, speed=True)


def _cheaper(every: list[Choice], *, speed: bool) -> list[Choice]:
    """Leave out what costs and takes no less than another and, if speed counts, is no faster."""
    kept: list[Choice] = []
    for choice in sorted(every, key=lambda choice: (choice[0], -choice[1])):
        if not any(
            _covers(choice[2], other[2]) and (not speed or choice[1] <= other[1]) for other in kept
        ):
            kept.append(choice)
    return kept


def _covers(use: dict[Resource, float], less: dict[Resource, float]) -> bool:
    return all(use.get(resource, 0.0) >= amount for resource, amount in less.items())


def slot_portfolio(seed: int) -> Portfolio:
    """Draw two or three jobs of three slots with amounts, deadlines and now and then a block."""
    draw = random.Random(f"slots {seed}")
    base = tiny_portfolio(draw.randrange(10**6))
    slots = Slots(count=3, hours=1.0)
    jobs = tuple(_in_slots(draw, job) for job in base.jobs[:3])
    blocks: tuple[Block, ...] = ()
    if draw.random() < 0.5:
        catalog = jobs[0].problem.catalog
        like = draw.choice(catalog.offers)
        made = msgspec.structs.replace(
            like,
            instance_type=f"{like.instance_type}@block",
            market="on_demand",
            usd_per_hour=0.0,
            price_basis="reserved",
            available=draw.choice((1, 2)),
        )
        catalog = replace(catalog, offers=(*catalog.offers, made))
        jobs = tuple(replace(job, problem=replace(job.problem, catalog=catalog)) for job in jobs)
        first = draw.choice((0, 1))
        blocks = (
            Block(
                name="block",
                offer=kind_of(made),
                machines=made.available or 0,
                slots=range(first, first + draw.choice((1, 2))),
                usd=draw.choice((0.0, 0.3, 1.0)),
            ),
        )
    budget = draw.choice((None, None, round(draw.uniform(1, 8), 2)))
    return replace(base, jobs=jobs, slots=slots, blocks=blocks, budget_usd=budget)


def _in_slots(draw: random.Random, job: Job) -> Job:
    """Turn the floor of a job into an amount with a deadline, or into a duration."""
    floor = job.problem.requirements.min_samples_per_second or 1.0
    deadline = draw.choice((None, None, 7200.0))
    if draw.random() < 0.25:
        return replace(job, duration_s=draw.choice((3600.0, 5400.0)), deadline_s=deadline)
    wish = replace(
        job.problem.requirements,
        min_samples_per_second=None,
        samples=int(floor * draw.choice((1800, 3000, 7000))),
        deadline_s=deadline,
    )
    return replace(job, problem=replace(job.problem, requirements=wish), deadline_s=deadline)


def brute_force_in_slots(portfolio: Portfolio) -> tuple[float, ...]:
    """Return the best key of all combinations of placements and starts."""
    limits, groups = Limits(portfolio=portfolio), groups_of(portfolio)
    columns = Columns(portfolio=portfolio, limits=limits, groups=groups)
    lists: list[list[Column | None]] = []
    for group in groups:
        for _ in group.members:
            made: list[Column] = []
            for placement in placements(group.job.problem):
                made += columns.add(group, placement)
            lists.append([*_least_columns(made), None])
    best: tuple[float, ...] = (inf,)
    for combination in product(*lists):
        counts: dict[Column, int] = {}
        for column in combination:
            if column is not None:
                counts[column] = counts.get(column, 0) + 1
        held = held_by(counts)
        if any(amount > limits.capacity(key) for key, amount in held.items()):
            continue
        key = worth(columns, counts)
        if portfolio.budget_usd is not None and key[-1] > portfolio.budget_usd * (1 + 1e-9):
            continue
        best = min(best, key)
    return best


def _least_columns(columns: list[Column]) -> list[Column]:
    """Leave out columns that cost and take no less than another one."""
    kept: list[Column] = []
    for column in sorted(columns, key=lambda column: column.usd):
        if not any(all(column.use.get(k, 0) >= n for k, n in o.use.items()) for o in kept):
            kept.append(column)
    return kept
