"""Placements that keep shares of the speed, made of one that breaks them."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.estimate import replanned
from placer.cost_model.limits import parts_of
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import traits
from placer.problem.placement import NO_EXCHANGE, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.shares import broken_shares, crowded
from placer.problem.workers.pool import Pool
from placer.records import replace

MOST_STEPS = 128
"""Changes of one placement."""


def repaired(placement: Placement, problem: Problem) -> Iterator[Placement]:
    """Yield placements that keep the shares, with fewer and fewer workers, of one without a hub.
    Other limits are not looked at.
    """
    if traits(placement.exchange.strategy).hub:
        return
    wish, groups = problem.requirements, list(placement.groups)
    for _ in range(MOST_STEPS):
        made = _placement(placement, groups, problem)
        if made is None:
            return
        broken = dict(broken_shares(wish.max_shares, wish.on_demand_floor, parts_of(made, problem)))
        if not broken:
            yield made
            groups = _fewer(groups, max(groups, key=lambda group: group.market != "on_demand"))
        elif "on-demand" in broken:
            other = next((group for group in groups if group.market != "on_demand"), None)
            twin = None if other is None else _on_demand(other, problem)
            if other is None or twin is None:
                return
            groups = _more(_fewer(groups, other), twin)
        else:
            areas = {
                area
                for limit in wish.max_shares
                for area, _ in crowded(limit, parts_of(made, problem))
            }
            limits = {limit.area: limit for limit in wish.max_shares}
            full = [
                group
                for group in groups
                if any(limit.pattern(group.place) in areas for limit in limits.values())
            ]
            if not full:
                return
            groups = _fewer(groups, full[0])
        if not groups:
            return


def _placement(
    placement: Placement, groups: list[WorkerGroup], problem: Problem
) -> Placement | None:
    """Return some groups with the exchange of a placement; None where they cannot have it."""
    workers = sum(group.count for group in groups)
    if workers < 1:
        return None
    strategy = placement.exchange.strategy if workers > 1 else NO_EXCHANGE
    steps = placement.exchange.local_steps if workers > 1 else 1
    exchange = exchange_for(strategy, workers, problem, local_steps=steps)
    return replanned(Placement(groups=tuple(groups), exchange=exchange), problem).canonical()


def _fewer(groups: list[WorkerGroup], group: WorkerGroup) -> list[WorkerGroup]:
    """Return the groups with one worker less of one of them."""
    return [
        replace(each, count=each.count - 1) if each is group else each
        for each in groups
        if each is not group or each.count > 1
    ]


def _more(groups: list[WorkerGroup], pool: Pool) -> list[WorkerGroup]:
    """Return the groups with one worker more of a kind."""
    one = replace(pool.group(1), inner=None)
    for at, each in enumerate(groups):
        if replace(each, count=1, inner=None) == one:
            return [*groups[:at], replace(each, count=each.count + 1), *groups[at + 1 :]]
    return [*groups, one]


def _on_demand(group: WorkerGroup, problem: Problem) -> Pool | None:
    """Return the same worker on demand in the same place; None if there is none."""
    offer = next(
        (
            pool.offer
            for pool in problem.pools
            if pool.offer.market == "on_demand"
            and pool.place == group.place
            and (pool.offer.gpu, pool.offer.gpu_count) == (group.gpu, group.gpu_count)
        ),
        None,
    )
    return None if offer is None else problem.pool(offer, group.machines)
