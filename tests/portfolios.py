"""Small portfolios, drawn from a seed, for which every combination can be tried."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import inf

from instances import GPUS, offer, profile, random_problem

from placer.advice.portfolio.question.jobs import Job, Portfolio
from placer.advice.portfolio.question.resources import Limits, Resource
from placer.cost_model.limits import evaluated
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements
from placer.solvers.exhaustive import placements

Choice = tuple[float, float, dict[Resource, float]]
"""USD/h, samples/s and use of one placement."""


def tiny_portfolio(seed: int) -> Portfolio:
    """Draw two to four jobs on one market of two or three places, whose quotas bind now and then."""
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


def brute_force(portfolio: Portfolio) -> tuple[float, ...]:
    """Return the best key of all combinations: weight left out from the highest priority on, then
    USD/h.
    """
    limits = Limits(portfolio=portfolio)
    lists = [_choices(job, limits) for job in portfolio.jobs]
    priorities = sorted({job.priority for job in portfolio.jobs}, reverse=True)
    best: tuple[float, ...] = (inf,)
    for combination in product(*([*choices, None] for choices in lists)):
        usd = sum(choice[0] for choice in combination if choice is not None)
        key = (
            *(
                round(
                    sum(
                        job.weight
                        for job, choice in zip(portfolio.jobs, combination, strict=True)
                        if choice is None and job.priority == priority
                    ),
                    9,
                )
                for priority in priorities
            ),
            usd,
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
    """List the placements of a job of which no other costs and takes less."""
    every: list[Choice] = []
    for placement in placements(job.problem):
        outcome, broken = evaluated(placement, job.problem)
        if outcome is not None and not broken:
            use = dict(limits.use(placement, job.problem))
            every.append((outcome.usd.total, outcome.samples_per_second, use))
    every.sort(key=lambda choice: choice[0])
    kept: list[Choice] = []
    for choice in every:
        if not any(_covers(choice[2], other[2]) for other in kept):
            kept.append(choice)
    return kept


def _covers(use: dict[Resource, float], less: dict[Resource, float]) -> bool:
    return all(use.get(resource, 0.0) >= amount for resource, amount in less.items())
