"""Quickly made placements of workers with a plan, and the same machines divided otherwise."""

from __future__ import annotations

import math
from collections import Counter
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


Rented = list[tuple[VmOffer, int]]
"""Offers, each with its number of workers."""


class Drafts:
    """Makes placements of some equal ``workers``. ``worth_s``: the seconds of a part of a step, at
    most, of something better than the best of now. ``alike`` are sizes of as many equal devices,
    whose machines may have other networks.
    """

    def __init__(self, problem: Problem, workers: int, worth_s: Callable[[Size], float]) -> None:
        self.problem, self.workers, self.worth_s = problem, workers, worth_s
        self.budget = problem.requirements.budget_usd_per_hour or math.inf
        self.alike: dict[tuple[str, int, int], list[Size]] = {}

    def of(self, sizes: Iterable[Size], objective: Objective) -> Iterator[Placement]:
        """Yield some workers of some sizes that may be good: of each device those that calculate
        fastest, or cost least, where money is left for what they send, and time for their exchange.
        """
        wish = self.problem.requirements
        floor = wish.floor_samples_per_second or 0.0
        sends = wish.min_regions > 1
        promised = ((_promise(size, objective), n, size) for n, size in enumerate(sizes))
        ordered = [size for *_, size in sorted(promised)]
        for size in ordered:
            self.alike.setdefault((*_device(size), size.machines), []).append(size)
        for share in SHARES if sends or floor else (1.0,):
            usd = share * self.budget if sends else self.budget
            longest_s = share * self.problem.batch / floor if floor else math.inf
            yield from self._of_each_device(
                size
                for size in ordered
                if self.workers * size.usd_per_hour <= usd and size.calculation_s <= longest_s
            )

    def _of_each_device(self, sizes: Iterable[Size]) -> Iterator[Placement]:
        """Yield, of each device, the first size whose workers are held by one place, and before it
        those that are held by several, up to one that can be paid wherever it begins.
        """
        problem, tried, spread = self.problem, Counter[tuple[str, int]](), set[tuple[str, int]]()
        for size in sizes:
            if allowance.current().spent:
                return
            device, offer = _device(size), size.kind.offers[0]
            if tried[device] >= SIZES:
                continue
            tried[device] += 1
            longest_s = self.worth_s(size)
            if size.calculation_s > longest_s:
                continue
            if not problem.may_reach(offer, size.machines, self.workers, longest_s):
                continue
            together = list(self._together(size))
            if together:
                tried[device] = SIZES
                yield from together
            elif device not in spread and tried[device] <= APART:
                apart = list(self._apart(size))
                able = [placement for placement in apart if not violations(placement, problem)]
                yield from able
                spread |= {device} if able and able == apart else set()

    def _together(self, size: Size) -> Iterator[Placement]:
        """Yield workers of a size in one place, with some that are alike where it has too few."""
        if self.problem.requirements.min_regions > 1:
            return
        there = _by_place(size)
        whole = self._whole(there, size)
        if not whole and self.workers > 1:
            alike = self.alike[*_device(size), size.machines]
            others = [_by_place(other) for other in alike if other is not size]
            for place, offers in there.items():
                offers.extend(offer for other in others for offer in other.get(place, []))
            whole = self._whole(there, size)
        for rented in sorted(whole, key=_usd_per_hour)[:1]:
            yield from self._placements(rented, size)

    def _whole(self, there: Mapping[str, Sequence[VmOffer]], size: Size) -> list[Rented]:
        """Return the workers of each place that holds all of them."""
        held = (self._filled(offers, size, self.workers) for offers in there.values())
        return [rented for rented in held if _count(rented) == self.workers]

    def _apart(self, size: Size) -> Iterator[Placement]:
        there = _by_place(size)
        if self.workers > 1 and self.problem.requirements.max_regions > 1:
            for markets in range(1, max(map(len, there.values()), default=0) + 1):
                offers = {place: each[:markets] for place, each in there.items()}
                for first in [*there][:FIRST_PLACES]:
                    yield from self._placements(self._spread(first, offers, size), size)

    def _spread(self, first: str, there: Mapping[str, Sequence[VmOffer]], size: Size) -> Rented:
        """Return workers in a place and in the nearest others that can be paid, as many as are
        held; of these the cheapest and then the fastest to reach come first.
        """
        network, rented, left = self.problem.network, Rented(), self.workers
        regions = min(self.problem.requirements.min_regions, self.workers)

        def way(place: str) -> tuple[bool, float, float]:
            link = network.link(first, place)
            return place != first, network.usd_per_byte(first, place), -link.bytes_per_second

        for place in sorted(there, key=way):
            usd = self.budget / size.machines - _usd_per_hour(rented)
            due = max(0, regions - len({offer.place for offer, _ in rented}) - 1)
            if left and there[place][0].usd_per_hour * left <= usd:
                rented += self._filled(there[place], size, left - self.workers // regions * due)
                left = self.workers - _count(rented)
        return rented

    def _filled(self, offers: Iterable[VmOffer], size: Size, workers: int) -> Rented:
        """Return workers of a size by offers of one place, as many as quotas and stock leave."""
        rented = Rented()
        for offer in offers:
            count = min(workers, self.problem.machines_there(offer) // size.machines)
            if count > 0:
                rented.append((offer, count))
                workers -= count
        return rented

    def _placements(self, rented: Rented, size: Size) -> Iterator[Placement]:
        """Yield workers of a size with their first exchanges, if all are there and paid."""
        problem, workers = self.problem, self.workers
        if _count(rented) != workers or _usd_per_hour(rented) * size.machines > self.budget:
            return
        where = Counter[str]()
        for offer, count in rented:
            where[offer.place] += count
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
            for exchange in self._exchanges(where) if len(groups) == len(rented) else ():
                yield Placement(groups=groups, exchange=exchange)

    def _exchanges(self, where: Mapping[str, int]) -> Iterator[Exchange]:
        """Yield the first exchange, and between regions those with the most local steps, which wait
        the least for links.
        """
        yield from islice(exchanges(self.problem, where), 1)
        modes = self.problem.modes if len(where) > 1 else ()
        most = {name: steps for name, steps in modes if steps > 1}
        for name, steps in most.items():
            yield from islice(exchanges_of(name, steps, self.problem, where), 1)


def _device(size: Size) -> tuple[str, int]:
    return size.kind.offers[0].gpu, size.kind.gpus


def _promise(size: Size, objective: Objective) -> float:
    """Return what orders sizes of workers that may be good, lowest is best."""
    if objective.by_speed:
        return size.calculation_s
    usd = size.usd_per_hour
    return usd * size.calculation_s if objective.by_sample else usd


def _by_place(size: Size) -> dict[str, list[VmOffer]]:
    """Return the cheapest offers of each market by place, cheapest first."""
    found: dict[str, dict[str, VmOffer]] = {}
    for offer in sorted(size.offers, key=lambda each: each.usd_per_hour):
        found.setdefault(offer.place, {}).setdefault(offer.market, offer)
    return {place: list(each.values()) for place, each in found.items()}


def _count(rented: Rented) -> int:
    return sum(count for _, count in rented)


def _usd_per_hour(rented: Rented) -> float:
    return sum(count * offer.usd_per_hour for offer, count in rented)


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
