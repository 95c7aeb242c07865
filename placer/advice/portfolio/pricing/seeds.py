"""First columns of a job: equal machines in each place, the cheapest there that are fast enough."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from placer.advice.portfolio.question.columns import Columns, Group
from placer.advice.portfolio.question.jobs import without_money
from placer.cost_model.convergence import multiplier_of
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Problem
from placer.problem.workers.pool import Pool
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

MOST_SEEDS = 24
"""Placements that are evaluated for one job: the cheapest by what they promise."""
HEURISTIC_S = 2.0
"""Seconds of a solver without a proof, for jobs that no equal machines of one place serve."""
MORE = (0, 1)
"""Machines beside those that would be enough if an exchange took no time."""
MOST_PLACES = 24
"""Other places of a placement at most: the cheapest ones."""


def seeds(columns: Columns, group: Group, floor: float) -> None:
    """Add the cheapest equal machines of a job at each place that reach so many samples/s."""
    seen, problem = set[tuple[str, str]](), group.job.problem
    for _, number, count in sorted(_promising(problem, floor)):
        pool = problem.pools[number]
        where = pool.offer.place, pool.offer.market
        if len(seen) >= MOST_SEEDS or allowance.current().spent:
            break
        if where not in seen:
            placement = _placement(pool, count, problem)
            if placement is not None and columns.add(group, placement):
                seen.add(where)
    if not seen and not allowance.current().spent:
        asked = replace(problem, requirements=without_money(problem.requirements, floor))
        found = solve(asked, "greedy", SolveOptions(time_limit_s=HEURISTIC_S, break_ties=False))
        if found.placement is not None:
            columns.add(group, found.placement)


def _promising(problem: Problem, floor: float) -> Iterator[tuple[float, int, int]]:
    """Yield equal workers that may be fast enough: USD/h, number of the pool, and how many."""
    wish = problem.requirements
    alone = multiplier_of(exchange_for(NO_EXCHANGE, 1, problem), problem).value
    for number, pool in enumerate(problem.pools):
        speed = pool.alone.value / alone
        least = max(wish.min_workers, ceil(floor / speed * (1 - 1e-9)) if speed > 0 else 0, 1)
        for count in {least + more for more in MORE} if least > 1 else {1, 2}:
            if count <= min(pool.max_count, wish.max_workers) and (count > 1 or speed >= floor):
                yield count * pool.usd_per_hour, number, count


def _placement(pool: Pool, count: int, problem: Problem) -> Placement | None:
    if count > 1 and ("all-reduce", 1) not in problem.modes:
        return None
    exchange = exchange_for(NO_EXCHANGE if count == 1 else "all-reduce", count, problem)
    return Placement(groups=(pool.group(count),), exchange=exchange)


def elsewhere(placement: Placement, problem: Problem) -> Iterator[Placement]:
    """Yield a placement of one place in other places that offer the same machines: many providers
    ask the same in all, a search names one, and jobs that share quotas need the others.
    """
    exchange = placement.exchange
    parts = exchange.server, exchange.aggregator, exchange.storage
    if len(placement.places) != 1 or any(part is not None for part in parts):
        return
    catalog, (home,) = problem.catalog, placement.places
    kinds = [group.offer_kind[1:] for group in placement.groups]
    found = []
    for place in catalog.regions:
        offers = [catalog.offer(place, *kind) for kind in kinds]
        if place != home and all(offer is not None for offer in offers):
            each = zip(offers, placement.groups, strict=True)
            usd = sum(o.usd_per_hour * g.machine_count for o, g in each if o is not None)
            found.append((usd, place))
    for _, place in sorted(found)[:MOST_PLACES]:
        groups = tuple(replace(group, place=place) for group in placement.groups)
        yield replace(placement, groups=groups)
