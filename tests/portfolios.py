"""Small portfolios, drawn from a seed, for which every combination can be tried."""

import importlib
import random
from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import inf

from instances import GPUS, offer, profile, random_problem, wishing
from placer.advice.portfolio.columns import Column, Columns, kind_of
from placer.advice.portfolio.jobs import Block, Job, Portfolio, Slots, Team
from placer.advice.portfolio.pricing import Ledger, worth
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements
from placer.records import replace

placements = importlib.import_module("placer.solvers.exhaustive").placements
"""Yields all placements of a question."""


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


def team_portfolio(seed: int) -> Portfolio:
    """Draw a tiny portfolio of two teams, some with quotas and budgets of their own."""
    draw = random.Random(f"teams {seed}")
    base = draw.choice((tiny_portfolio, speed_portfolio, slot_portfolio))(seed)
    gpus = sorted({offer.gpu for offer in base.jobs[0].problem.catalog.offers})
    teams = tuple(
        Team(
            name=name,
            quotas=tuple(
                replace(row, gpus=draw.choice((1, 2, 3)))
                for row in _quotas(draw, draw.sample(gpus, draw.randint(0, len(gpus))))
            ),
            budget_usd=draw.choice((None, round(draw.uniform(0.3, 3), 2))),
        )
        for name in ("a", "b")
    )
    jobs = tuple(replace(job, team=draw.choice(("", "a", "b", "b"))) for job in base.jobs)
    return replace(base, jobs=jobs, teams=teams)


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
        made = replace(
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
    return replace(
        job,
        problem=wishing(
            job.problem,
            min_samples_per_second=None,
            samples=int(floor * draw.choice((1800, 3000, 7000))),
            deadline_s=deadline,
        ),
        deadline_s=deadline,
    )


def brute_force(portfolio: Portfolio) -> tuple[float, ...]:
    """Return the best key of all combinations of placements and starts, and of jobs left out:
    weight left out from the highest priority on, then the least share of a job (times -1, where
    shares are to be fair), then the value.
    """
    columns, lists, alone = Columns(portfolio=portfolio), [], dict[int, float]()
    most = inf if portfolio.budget_usd is None else portfolio.budget_usd * (1 + 1e-9)
    for group in columns.groups:
        every = [c for p in placements(group.job.problem) for c in columns.made(group, p)]
        every = [column for column in every if _fits(Ledger(columns, {column: 1}), most)]
        alone[group.number] = max((c.samples_per_second for c in every), default=inf)
        lists += [[*_best_columns(every, speed=portfolio.by_speed), None]] * group.count
    best: tuple[float, ...] = (inf,)
    for combination in product(*lists):
        counts = Counter(column for column in combination if column is not None)
        ledger = Ledger(columns, counts)
        if not _fits(ledger, most):
            continue
        *missed, value = worth(columns, counts)
        shares = [min(1.0, c.samples_per_second / alone[c.group]) for c in counts]
        fair = [-round(min(shares, default=0.0), 9)] if portfolio.fair else []
        best = min(best, (*missed, *fair, value))
    return best


def _fits(ledger: Ledger, most: float) -> bool:
    """Tell whether all that is taken is there, dollars of all jobs and of each team among it."""
    if ledger.usd > most or any(ledger.left_of(team) < -1e-9 for team in ledger.team_usd):
        return False
    return all(ledger.left(held) >= 0 for held in ledger.held)


def _best_columns(every: list[Column], *, speed: bool) -> list[Column]:
    """Leave out what costs and takes no less than another and, if speed counts, is no faster."""
    kept: list[Column] = []
    for column in sorted(every, key=lambda column: (column.usd, -column.samples_per_second)):
        if not any(
            all(column.use.get(held, 0.0) >= amount for held, amount in other.use.items())
            and (not speed or column.samples_per_second <= other.samples_per_second)
            for other in kept
        ):
            kept.append(column)
    return kept
