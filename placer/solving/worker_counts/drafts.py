"""Placements of workers with a plan that are quickly made: the first of a search, and the same
machines divided otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice

from placer.cost_model.estimate import offer_of, with_plans
from placer.cost_model.objective import Objective
from placer.market.catalog import VmOffer
from placer.problem.admitted_exchanges import exchanges
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Problem
from placer.problem.worker_sizes import Size
from placer.records import replace
from placer.solving import allowance

FIRST = 8
"""Placements that are made of the fewest workers."""
NEXT = 2
"""Placements that are made of each larger number of workers that is tried."""
TIMES = 4
"""Multiple of a number of workers that is tried next."""
SHARES = (0.6, 0.75, 0.9)
"""Shares of the budget that machines may take, where they pay for what they send too."""
FIRST_PLACES = 2
"""Places from which the nearest others are tried, where workers have to be in several regions."""
PLAIN = "all-reduce"
"""Exchange in which several workers in one place are as fast as one of all their machines."""


def first_placements(problem: Problem, objective: Objective) -> Iterator[Placement]:
    """Yield equal workers that may be good: of each device those that calculate fastest, or cost
    least, where money is left for what they send.
    """
    wish, most = problem.requirements, FIRST
    workers = max(wish.min_workers, wish.min_regions)
    budget = wish.budget_usd_per_hour or math.inf
    while workers <= min(wish.max_workers, problem.batch):
        allowance.check()
        found = sorted(
            (_promise(size, problem.sequences(workers), objective), number, size)
            for number, size in enumerate(problem.worker_sizes(workers))
        )
        for share in SHARES if wish.min_regions > 1 else (1.0,):
            best: dict[tuple[str, int], Size] = {}
            for *_, size in found:
                if workers * size.usd_per_hour <= share * budget:
                    best.setdefault((size.kind.offers[0].gpu, size.kind.gpus), size)
            yield from islice(
                (p for s in best.values() for p in _placed(s, workers, problem)), most
            )
        workers, most = TIMES * workers, NEXT


def _promise(size: Size, sequences: int, objective: Objective) -> float:
    """Return what orders sizes of workers that may be good, lowest is best."""
    seconds, usd = size.kind.calculation_s(size.machines, sequences), size.usd_per_hour
    if objective.by_speed:
        return seconds
    return usd * seconds if objective.name == "cost-per-sample" else usd


def _placed(size: Size, workers: int, problem: Problem) -> Iterator[Placement]:
    """Yield some workers of a size at its cheapest place, or at a cheap one and the nearest others
    that can be paid, where there must be several.
    """
    cheapest: dict[str, VmOffer] = {}
    for offer in sorted(size.offers, key=lambda each: each.usd_per_hour):
        cheapest.setdefault(offer.place, offer)
    wish = problem.requirements
    regions, budget = min(wish.min_regions, workers), wish.budget_usd_per_hour or math.inf
    if regions == 1:
        yield from _rented([*cheapest.values()][:1], size, workers, problem)
        return
    for first in [*cheapest][:FIRST_PLACES]:
        here = workers - workers // regions * (regions - 1)
        left = budget / size.machines - here * cheapest[first].usd_per_hour
        near = sorted(
            (p for p, o in cheapest.items() if o.usd_per_hour * (workers - here) <= left),
            key=lambda place: _way(first, place, problem),
        )
        others = [cheapest[place] for place in near if place != first][: regions - 1]
        yield from _rented([cheapest[first], *others], size, workers, problem)


def _way(src: str, dst: str, problem: Problem) -> tuple[float, float]:
    """Return what orders places by the way to them, the cheapest and then the fastest first."""
    network = problem.network
    return network.usd_per_byte(src, dst), -network.link(src, dst).bytes_per_second


def _rented(
    offers: Sequence[VmOffer], size: Size, workers: int, problem: Problem
) -> Iterator[Placement]:
    """Yield some workers of a size, shared by offers, where these can be had and paid."""
    wish, among = problem.requirements, len(offers)
    if among < min(wish.min_regions, workers) or not among:
        return
    each = workers // among
    counts = [workers - each * (among - 1), *([each] * (among - 1))]
    usd = sum(n * o.usd_per_hour for o, n in zip(offers, counts, strict=True)) * size.machines
    if usd > (wish.budget_usd_per_hour or math.inf):
        return
    pools = [problem.pool(offer, size.machines, workers=workers) for offer in offers]
    groups = tuple(
        pool.group(n)
        for pool, n in zip(pools, counts, strict=True)
        if pool is not None and n <= pool.max_count
    )
    if len(groups) == among:
        where = {group.place: group.count for group in groups}
        for exchange in islice(exchanges(problem, where), 1):
            yield Placement(groups=groups, exchange=exchange)


def divisions(placement: Placement, problem: Problem, less: int = 0) -> Iterator[Placement]:
    """Yield the machines of a placement in one place, or a few less, as more or fewer workers."""
    (group, *others), wish = placement.groups, problem.requirements
    question, every = problem.island_question, group.machine_count - less
    if others or question is None:
        return
    least, most = question.limits(offer_of(group, problem))
    for workers in range(wish.min_workers, min(every, wish.max_workers) + 1):
        machines, left = divmod(every, workers)
        same = not less and workers == group.count
        if left or same or not least <= machines <= most:
            continue
        alike = replace(group, count=workers, machines=machines, inner=None)
        wanted = (placement.exchange.strategy, NO_EXCHANGE, PLAIN)
        found = exchanges(problem, {group.place: workers})
        for exchange in islice((e for e in found if e.strategy in wanted), 1):
            yield with_plans(Placement(groups=(alike,), exchange=exchange), problem)
