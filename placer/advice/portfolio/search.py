"""Asks the solver about one job, on a book whose machines cost more by what is scarce."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any

import numpy as np

from placer.advice.portfolio.columns import (
    Columns,
    Group,
    Resource,
    capped,
    surcharge_of,
    surcharged,
)
from placer.advice.portfolio.jobs import HOUR_S, without_money
from placer.cost_model.convergence import multiplier_of
from placer.market.catalog import VmOffer
from placer.problem.admitted_exchanges import exchange_for, needs_quota
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

ROUNDING = 1e-9
"""Relative slack of a comparison."""


class Kinds:
    """Kinds of workers of a question: USD/h, most samples/s that count, and their offers.

    ``alone`` is the rate of one worker without an exchange, ``rate`` that in a group over the
    fewest samples to target of any exchange: no worker of a placement counts more.
    """

    def __init__(self, problem: Problem) -> None:
        pools = problem.pools

        def times(name: str, steps: int) -> float:
            return multiplier_of(exchange_for(name, 1, problem, local_steps=steps), problem).value

        least = min((times(*mode) for mode in problem.modes), default=1.0)
        self.usd, self.buckets = pools.usd, pools.bucket_of
        self.alone = pools.figures(lambda pool: pool.alone.value) / times(NO_EXCHANGE, 1)
        self.rate = pools.figures(lambda pool: pool.shared.value) / least
        self.machines = pools.figures(lambda pool: pool.machines)
        self.offers = [pool.offer for pool in pools]
        quotas = pools.figures(lambda pool: pool.gpu_quota / pool.gpus)
        self.most_rate = np.zeros(self.buckets.max(initial=-1) + 1)
        np.maximum.at(self.most_rate, self.buckets, self.rate * quotas)

    def surcharged(self, extra: Callable[[VmOffer], float]) -> Any:
        """Return USD/h of each kind with the surcharge of its machines."""
        return self.usd + self.machines * np.array([extra(offer) for offer in self.offers])

    def least_usd(self, usd: Any, floor: float) -> float:
        """Return a bound on the USD/h of a placement that reaches a floor."""
        if not len(usd):
            return inf
        several = max(self._several(usd, floor), 2 * float(usd.min()))
        return min(several, float(usd[self._enough(floor)].min(initial=inf)))

    def least_usd_per_rate(self, usd: Any, floor: float) -> float:
        """Return a bound on the USD/h of a placement over its samples/s."""
        if not len(usd):
            return inf
        one = self._enough(floor)
        alone = float((usd[one] / self.alone[one]).min(initial=inf))
        return min(alone, float((usd / self.rate).min()))

    def _enough(self, floor: float) -> Any:
        """Tell of which kinds one worker alone reaches a floor."""
        return self.alone >= floor * (1 - ROUNDING)

    def _several(self, usd: Any, floor: float) -> float:
        """Return a bound on the USD/h of several workers that reach a floor together.

        Fractions of workers that exchange for nothing: each place, GPU and market at the price per
        sample/s of its cheapest worker, up to its quota.
        """
        each = np.full(len(self.most_rate), inf)
        np.minimum.at(each, self.buckets, usd / self.rate)
        order = np.argsort(each)
        before = np.concatenate(([0.0], np.cumsum(self.most_rate[order])[:-1]))
        taken = np.clip(floor - before, 0.0, self.most_rate[order])
        if taken.sum() < floor * (1 - ROUNDING):
            return inf
        return float((taken * each[order]).sum())


LEAST_S = 0.05
"""Seconds of one search at least."""
MONEY = ("budget_usd", "budget_usd_per_hour", "most_usd_per_million_samples")
"""Limits on true prices."""
MOST_SEEDS = 24
"""Placements that are evaluated for one job: the cheapest by what they promise."""
HEURISTIC_S = 2.0
"""Seconds of a solver without a proof, for jobs that no equal machines of one place serve."""
MORE = (0, 1)
"""Machines beside those that would be enough if an exchange took no time."""
MOST_PLACES = 24
"""Other places of a placement at most: the cheapest ones."""


@dataclass(frozen=True, kw_only=True)
class Proved:
    """What a search proved: no placement is better than ``bound``; and one, if known."""

    bound: float
    placement: Placement | None = None


@dataclass(frozen=True, kw_only=True)
class Sought:
    """A placement that is sought: of at least a floor of samples/s, and of less than ``known``.

    Surcharges are USD per hour for one GPU or machine of each resource, of which ``caps`` are the
    most. Without ``gap`` it is that of the options. ``start`` is a placement that is known.
    """

    floor: float
    surcharges: Mapping[Resource, float] = field(default_factory=dict)
    caps: Mapping[Resource, float] = field(default_factory=dict)
    gap: float | None = None
    known: float = inf
    start: Placement | None = None


@dataclass(kw_only=True)
class Search:
    """Asks the solver about jobs of a portfolio.

    Mutable: it counts searches and keeps kinds of machines, one list for questions that differ in
    speed alone, with their prices at the latest surcharges. ``most_s`` is for one search.
    """

    options: SolveOptions
    most_s: float = 5.0
    searches: int = 0
    _kinds: dict[tuple[object, ...], Kinds] = field(default_factory=dict)
    _usd: dict[int, Any] = field(default_factory=dict)
    _surcharges: Mapping[Resource, float] = field(default_factory=dict)

    def cheapest(self, problem: Problem, sought: Sought, *, per_sample: bool = False) -> Proved:
        """Find the placement of least USD/h with surcharges, or of least USD a million samples."""
        floor, known = sought.floor, sought.known
        gap = self.options.gap if sought.gap is None else sought.gap
        # True prices keep limits on money; a surcharge would cut off what keeps them.
        priced = {resource: usd for resource, usd in sought.surcharges.items() if usd > 0}
        wish = without_money(problem.requirements, floor)
        if not priced:
            wish = replace(wish, **{name: getattr(problem.requirements, name) for name in MONEY})
        relaxed = self.relaxed(problem, priced, floor, per_sample=per_sample)
        if relaxed >= known * (1 - gap):
            return Proved(bound=min(relaxed, known))
        wish = replace(wish, objective="cost-per-sample" if per_sample else "cost")
        asked = replace(problem, catalog=surcharged(problem.catalog, priced), requirements=wish)
        if sought.caps:
            asked = capped(asked, sought.caps)
        found = self._solved(asked, 0.0, inf, gap, sought.start)
        bound = max(found.bound - _server_surcharge(asked, problem, priced), relaxed, 0.0)
        return replace(found, bound=min(bound, known))

    def fastest(self, problem: Problem, usd: float) -> Proved:
        """Find the most samples/s of a job for so many USD per hour, with the market to itself."""
        wish = problem.requirements
        most = min(usd, wish.budget_usd_per_hour or inf)
        wish = replace(wish, objective="throughput", budget_usd_per_hour=most)
        return self._solved(replace(problem, requirements=wish), inf, 0.0)

    def relaxed(
        self,
        problem: Problem,
        surcharges: Mapping[Resource, float],
        floor: float,
        *,
        per_sample: bool = False,
    ) -> float:
        """Return a bound as of `cheapest` that fractions of workers prove."""
        if surcharges != self._surcharges:
            self._surcharges = dict(surcharges)
            self._usd.clear()
        key = self.family(problem)
        if key not in self._kinds:
            self._kinds[key] = Kinds(problem)
        kinds = self._kinds[key]
        if id(kinds) not in self._usd:
            self._usd[id(kinds)] = kinds.surcharged(surcharge_of(surcharges))
        usd = self._usd[id(kinds)]
        if per_sample:
            return kinds.least_usd_per_rate(usd, floor) / HOUR_S * 1e6
        return kinds.least_usd(usd, floor)

    def _solved(
        self,
        asked: Problem,
        unproved: float,
        infeasible: float,
        gap: float | None = None,
        start: Placement | None = None,
    ) -> Proved:
        """Ask the solver; two bounds say that nothing is proved, and that nothing fits."""
        self.searches += 1
        options = replace(
            self.options,
            gap=self.options.gap if gap is None else gap,
            time_limit_s=max(LEAST_S, min(self.most_s, allowance.current().seconds_left)),
            break_ties=False,
            start=start,
        )
        result = solve(asked, "exact", options)
        if result.status is Status.INFEASIBLE:
            return Proved(bound=infeasible)
        bound = unproved if result.bound is None else result.bound
        return Proved(bound=bound, placement=result.placement)

    def family(self, problem: Problem) -> tuple[object, ...]:
        """Return what tells a question from others, but for how fast a job must be; and how much it
        has to do, unless that is about data or dollars in total.
        """
        wish = problem.requirements
        bare = wish.budget_usd is None and wish.data_store is None and not wish.datasets
        wish = replace(wish, objective="cost", min_samples_per_second=None, deadline_s=None)
        wish = replace(wish, samples=None, tokens=None) if bare else wish
        return id(problem.profile), id(problem.catalog), wish


def _server_surcharge(
    asked: Problem, problem: Problem, surcharges: Mapping[Resource, float]
) -> float:
    """Return the most that a parameter server may be surcharged for what it does not take: quotas
    count no machines without GPUs.
    """
    quotas = {r: usd for r, usd in surcharges.items() if r.kind != "machines"}
    if not quotas or all(name != "parameter-server" for name, _ in problem.modes):
        return 0.0
    extra = surcharge_of(quotas)
    offers = (o for o in problem.catalog.offers if not needs_quota(o, problem))
    most = max((extra(offer) for offer in offers), default=0.0)
    if asked.requirements.objective == "cost-per-sample" and most:
        speed = asked.requirements.min_samples_per_second
        return most / (speed * HOUR_S) * 1e6 if speed else inf
    return most


def seeds(columns: Columns, group: Group, floor: float) -> None:
    """Add the cheapest equal machines of a job at each place that reach so many samples/s."""
    seen, problem = set[tuple[str, str]](), group.question
    for _, number, count in sorted(_promising(problem, floor)):
        pool = problem.pools[number]
        where = pool.offer.place, pool.offer.market
        if len(seen) >= MOST_SEEDS or allowance.current().spent:
            break
        if where not in seen and (count == 1 or ("all-reduce", 1) in problem.modes):
            exchange = exchange_for(NO_EXCHANGE if count == 1 else "all-reduce", count, problem)
            if columns.add(group, Placement(groups=(pool.group(count),), exchange=exchange)):
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
