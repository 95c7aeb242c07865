"""Alternatives that a user is most likely to ask about: what is cheap and was not chosen."""

from __future__ import annotations

from collections.abc import Iterator

from placer.advice.explanation.subject import (
    Subject,
    exchange_subject,
    gpu_subject,
    place_subject,
    read_subject,
    regions_subject,
)
from placer.cost_model.estimate import evaluate
from placer.cost_model.objective import objective_of
from placer.problem.admitted_exchanges import exchanges
from placer.problem.problem import Pool
from placer.records import replace
from placer.solving.result import Result


def tempting(result: Result) -> tuple[Subject, ...]:
    """Choose the alternatives that are explained unless some are named.

    Returns
    -------
    tuple of Subject
        The region and the GPU with the best price for their speed that are not used, the exchange
        that suits the machines next best, the other market, and a second region (or one region
        alone), as far as there are such.
    """
    return tuple(_tempting(result))


def _tempting(result: Result) -> Iterator[Subject]:
    problem, placement = result.problem, result.placement
    assert placement is not None
    wish = problem.requirements
    used_gpus = {group.gpu for group in placement.groups}
    place = _cheapest(pool for pool in problem.pools if pool.offer.place not in placement.places)
    if place is not None:
        yield place_subject(place.offer.place)
    gpu = _cheapest(pool for pool in problem.pools if pool.offer.gpu not in used_gpus)
    if gpu is not None:
        yield gpu_subject(gpu.offer.gpu, (gpu.offer.gpu,), problem)
    exchange = _next_exchange(result)
    if exchange is not None:
        yield exchange_subject(exchange, problem)
    markets = {group.market for group in placement.groups}
    if len(markets) == 1 and wish.market == "any":
        yield read_subject("spot" if markets == {"on_demand"} else "on-demand", problem)
    count = len(placement.places)
    if (
        wish.max_regions > count
        and len({pool.offer.place for pool in problem.pools}) > count
        and wish.max_workers > 1
    ):
        yield regions_subject(count + 1)


def _cheapest(pools: Iterator[Pool]) -> Pool | None:
    """Return the machine with the lowest price for its speed."""
    return min(
        pools,
        key=lambda p: (p.usd_per_hour / p.alone.value, p.offer.place, p.offer.device),
        default=None,
    )


def _next_exchange(result: Result) -> str | None:
    """Return the admitted exchange that suits the chosen machines best after their own; for one
    machine the plain all-reduce.
    """
    problem, placement = result.problem, result.placement
    assert placement is not None
    names = [name for name, _ in problem.modes if name != placement.exchange.strategy]
    if placement.workers == 1:
        return "all-reduce" if "all-reduce" in names else next(iter(names), None)
    options = [e for e in exchanges(problem, placement.workers_by_place) if e.strategy in names]
    objective = objective_of(problem.requirements)
    scored = [
        (
            objective.score(evaluate(replace(placement, exchange=e), problem)),
            e.strategy,
        )
        for e in options
    ]
    return min(scored)[1] if scored else None
