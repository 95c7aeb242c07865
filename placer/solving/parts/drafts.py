"""Quickly made placements of workers with a plan, and the same machines divided otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from placer.cost_model.estimate import offer_of, with_plans
from placer.cost_model.limits import violations
from placer.cost_model.objective import Objective
from placer.market.catalog import VmOffer
from placer.problem.admitted_exchanges import exchanges, exchanges_of
from placer.problem.placement import NO_EXCHANGE, Exchange, Placement
from placer.problem.problem import Problem
from placer.problem.workers.worker_sizes import Size
from placer.records import replace
from placer.solving import allowance
from placer.solving.parts.search import SAME
from placer.workload.island import Island

SIZES = 12
"""Sizes of a worker of one device that are tried until one can be placed."""
APART = 3
"""The first of these, which are tried at several places where one does not hold them."""
FEW = 8
"""Numbers of workers up to which each is tried."""
SHARES = (0.6, 0.75, 0.9)
"""Shares of the budget that machines may take where they pay for what they send too, and of the
longest step that they may calculate where they have to exchange too.
"""
FIRST_PLACES = 2
"""Places from which the nearest others are tried, where one is not enough."""
PLAIN = "all-reduce"
"""Exchange in which several workers in one place are as fast as one of all their machines."""


def numbers(problem: Problem) -> Iterator[int]:
    """Yield numbers of workers to try first: batches and quotas are mostly powers of two."""
    wish = problem.requirements
    workers = max(wish.min_workers, wish.min_regions)
    while workers <= min(wish.max_workers, problem.batch):
        yield workers
        even = workers & (workers - 1) == 0
        workers += 1 if workers < FEW else workers // (2 if even else 3)


def first_placements(
    problem: Problem,
    sizes: Iterable[Size],
    objective: Objective,
    workers: int,
    worth_s: Callable[[Size], float],
) -> Iterator[Placement]:
    """Yield some equal workers of some sizes that may be good: of each device those that calculate
    fastest, or cost least, where money is left for what they send, and time for their exchange.
    ``worth_s``: the seconds of a part of a step, at most, of something better than the best of now.
    """
    wish = problem.requirements
    budget = wish.budget_usd_per_hour or math.inf
    floor = wish.floor_samples_per_second or 0.0
    sends = wish.min_regions > 1
    found = sorted((_promise(size, objective), number, size) for number, size in enumerate(sizes))
    alike: Alike = {}
    for *_, size in found:
        alike.setdefault(_device(size), []).append(size)
    for share in SHARES if sends or floor else (1.0,):
        usd = share * budget if sends else budget
        longest_s = share * problem.batch / floor if floor else math.inf
        able = (
            size
            for *_, size in found
            if workers * size.usd_per_hour <= usd and size.calculation_s <= longest_s
        )
        yield from _of_each_device(able, workers, problem, worth_s, alike)


Alike = dict[tuple[str, int, int], list[Size]]
"""Sizes of as many equal devices, whose machines may have other networks."""


def _device(size: Size) -> tuple[str, int, int]:
    return size.kind.offers[0].gpu, size.kind.gpus, size.machines


def _promise(size: Size, objective: Objective) -> float:
    """Return what orders sizes of workers that may be good, lowest is best."""
    if objective.by_speed:
        return size.calculation_s
    usd = size.usd_per_hour
    return usd * size.calculation_s if objective.by_sample else usd


def _of_each_device(
    sizes: Iterable[Size],
    workers: int,
    problem: Problem,
    worth_s: Callable[[Size], float],
    alike: Alike,
) -> Iterator[Placement]:
    """Yield, of each device, the first size whose workers are held by one place, and before it
    those that are held by several, up to one that can be paid wherever it begins.
    """
    tried: dict[tuple[str, int], int] = {}
    spread: set[tuple[str, int]] = set()
    for size in sizes:
        if allowance.current().spent:
            return
        device = size.kind.offers[0].gpu, size.kind.gpus
        if tried.setdefault(device, 0) >= SIZES:
            continue
        tried[device] += 1
        offer, longest_s = size.kind.offers[0], worth_s(size)
        if size.calculation_s > longest_s:
            continue
        if not problem.may_reach(offer, size.machines, workers, longest_s):
            continue
        together = list(_together(size, workers, problem, alike[_device(size)]))
        if together:
            tried[device] = SIZES
            yield from together
        elif device not in spread and tried[device] <= APART:
            apart = list(_apart(size, workers, problem))
            able = [placement for placement in apart if not violations(placement, problem)]
            yield from able
            spread |= {device} if able and able == apart else set()


Rented = list[tuple[VmOffer, int]]
"""Offers, each with its number of workers."""


def _together(
    size: Size, workers: int, problem: Problem, alike: Sequence[Size]
) -> Iterator[Placement]:
    """Yield workers of a size in one place, with some that are ``alike`` where it has too few."""
    if problem.requirements.min_regions > 1:
        return
    there = _by_place(size)
    whole = _whole(there, size, workers, problem)
    if not whole and workers > 1:
        others = [_by_place(other) for other in alike if other is not size]
        for place, offers in there.items():
            offers.extend(offer for other in others for offer in other.get(place, []))
        whole = _whole(there, size, workers, problem)
    for rented in sorted(whole, key=_usd_per_hour)[:1]:
        yield from _placements(rented, size, workers, problem)


def _whole(
    there: Mapping[str, Sequence[VmOffer]], size: Size, workers: int, problem: Problem
) -> list[Rented]:
    """Return the workers of each place that holds all of them."""
    held = (_filled(offers, size, workers, problem) for offers in there.values())
    return [rented for rented in held if _count(rented) == workers]


def _apart(size: Size, workers: int, problem: Problem) -> Iterator[Placement]:
    there = _by_place(size)
    if workers > 1 and problem.requirements.max_regions > 1:
        for markets in range(1, max(map(len, there.values()), default=0) + 1):
            offers = {place: each[:markets] for place, each in there.items()}
            for first in [*there][:FIRST_PLACES]:
                rented = _spread(first, offers, size, workers, problem)
                yield from _placements(rented, size, workers, problem)


def _by_place(size: Size) -> dict[str, list[VmOffer]]:
    """Return the cheapest offers of each market by place, cheapest first."""
    found: dict[str, dict[str, VmOffer]] = {}
    for offer in sorted(size.offers, key=lambda each: each.usd_per_hour):
        found.setdefault(offer.place, {}).setdefault(offer.market, offer)
    return {place: list(each.values()) for place, each in found.items()}


def _spread(
    first: str, there: Mapping[str, Sequence[VmOffer]], size: Size, workers: int, problem: Problem
) -> Rented:
    """Return workers in a place and in the nearest others that can be paid, as many as are held."""
    wish = problem.requirements
    regions, budget = min(wish.min_regions, workers), wish.budget_usd_per_hour or math.inf
    each, rented, left = workers // regions, Rented(), workers
    for place in sorted(there, key=lambda place: (place != first, *_way(first, place, problem))):
        usd = budget / size.machines - _usd_per_hour(rented)
        due = max(0, regions - len({offer.place for offer, _ in rented}) - 1)
        if left and there[place][0].usd_per_hour * left <= usd:
            rented += _filled(there[place], size, left - each * due, problem)
            left = workers - _count(rented)
    return rented


def _filled(offers: Iterable[VmOffer], size: Size, workers: int, problem: Problem) -> Rented:
    """Return workers of a size by offers of one place, as many as quotas and stock leave."""
    rented = Rented()
    for offer in offers:
        count = min(workers, problem.machines_there(offer) // size.machines)
        if count > 0:
            rented.append((offer, count))
            workers -= count
    return rented


def _count(rented: Rented) -> int:
    return sum(count for _, count in rented)


def _usd_per_hour(rented: Rented) -> float:
    return sum(count * offer.usd_per_hour for offer, count in rented)


def _way(src: str, dst: str, problem: Problem) -> tuple[float, float]:
    """Return what orders places by the way to them, the cheapest and then the fastest first."""
    network = problem.network
    return network.usd_per_byte(src, dst), -network.link(src, dst).bytes_per_second


def _placements(rented: Rented, size: Size, workers: int, problem: Problem) -> Iterator[Placement]:
    """Yield workers of a size with their first exchanges, if all are there and paid."""
    usd = _usd_per_hour(rented) * size.machines
    if _count(rented) != workers or usd > (problem.requirements.budget_usd_per_hour or math.inf):
        return
    where: dict[str, int] = {}
    for offer, count in rented:
        where[offer.place] = where.get(offer.place, 0) + count
    built = problem.island(rented[0][0], size.machines, workers=workers)
    rivals = built.rivals if workers > 1 and isinstance(built, Island) else ()
    for plan in (None, *(rival.plan for rival in rivals)):
        pools = [problem.pool(offer, size.machines, plan, workers) for offer, _ in rented]
        able = [
            (pool, count)
            for pool, (_, count) in zip(pools, rented, strict=True)
            if pool is not None and count <= pool.max_count
        ]
        groups = tuple(pool.group(count) for pool, count in able)
        each_s = [problem.part_s(pool, workers) for pool, _ in able]
        if max(each_s, default=0.0) > min(each_s, default=0.0) * (1 + SAME):
            continue  # some would wait for others: no question is about such workers
        for exchange in _first_exchanges(where, problem) if len(groups) == len(rented) else ():
            yield Placement(groups=groups, exchange=exchange)


def _first_exchanges(where: Mapping[str, int], problem: Problem) -> Iterator[Exchange]:
    """Yield the first exchange, and between regions those with the most local steps, which wait the
    least for links.
    """
    yield from islice(exchanges(problem, where), 1)
    most = {name: steps for name, steps in problem.modes if steps > 1} if len(where) > 1 else {}
    for name, steps in most.items():
        yield from islice(exchanges_of(name, steps, problem, where), 1)


def divisions(
    placement: Placement, problem: Problem, *, less: int = 0, longest_s: float = math.inf
) -> Iterator[Placement]:
    """Yield the machines of a placement in one place, or a few less, as more or fewer workers which
    may do a step in some seconds. Machines of several markets are divided alike; a few less only
    where there is one.
    """
    groups, wish = placement.groups, problem.requirements
    question, place = problem.island_question, placement.groups[0].place
    alike = {(group.place, group.instance_type, group.gpu) for group in groups}
    if len(alike) > 1 or question is None or (less and len(groups) > 1):
        return
    machines_of = [group.machine_count - less for group in groups]
    every, together = sum(machines_of), math.gcd(*machines_of)
    offer = offer_of(groups[0], problem)
    least, most = question.limits(offer)
    for machines in range(least, min(together, most) + 1):
        workers = every // machines
        same = not less and all(machines == group.machines for group in groups)
        if together % machines or same or not wish.min_workers <= workers <= wish.max_workers:
            continue
        if not problem.may_reach(offer, machines, workers, longest_s):
            continue
        divided = tuple(
            replace(group, count=count // machines, machines=machines, inner=None)
            for group, count in zip(groups, machines_of, strict=True)
        )
        wanted = (placement.exchange.strategy, NO_EXCHANGE, PLAIN)
        found = exchanges(problem, {place: workers})
        for exchange in islice((e for e in found if e.strategy in wanted), 1):
            yield with_plans(Placement(groups=divided, exchange=exchange), problem)
