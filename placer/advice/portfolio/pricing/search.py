"""Asks the solver about one job, on a book whose machines cost more by what is scarce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from placer.advice.portfolio.pricing.narrowed import Kinds, narrowed
from placer.advice.portfolio.question.columns import Columns
from placer.advice.portfolio.question.jobs import HOUR_S, without_money
from placer.advice.portfolio.question.resources import Resource, capped, surcharge_of, surcharged
from placer.market.catalog import Catalog
from placer.problem.admitted_exchanges import needs_quota
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

LEAST_S = 0.05
"""Seconds of one search at least."""
MONEY = ("budget_usd", "budget_usd_per_hour", "most_usd_per_million_samples")
"""Limits on true prices."""


@dataclass(frozen=True, kw_only=True)
class Cheapest:
    """The least dollars of one question: a bound, and a placement if one is known."""

    bound: float
    placement: Placement | None = None


@dataclass(frozen=True, kw_only=True)
class Fastest:
    """The most samples/s of one question: a bound, and a placement if one is known."""

    bound: float
    placement: Placement | None = None


@dataclass(kw_only=True)
class Search:
    """Asks the solver about jobs of a portfolio.

    Notes
    -----
    Mutable: it counts searches and keeps kinds of machines, one list for a family of jobs.
    ``most_s`` is for one search.
    """

    columns: Columns
    options: SolveOptions
    most_s: float = 5.0
    searches: int = 0
    _kinds: dict[int, Kinds] = field(default_factory=dict)

    def cheapest(
        self,
        problem: Problem,
        surcharges: Mapping[Resource, float],
        floor: float = 0.0,
        *,
        objective: str = "cost",
        caps: Mapping[Resource, float] | None = None,
        gap: float | None = None,
        known: float = inf,
        start: Placement | None = None,
    ) -> Cheapest:
        """Find the placement of least USD/h with surcharges.

        Parameters
        ----------
        surcharges
            USD per hour for one GPU or machine of each resource.
        floor
            Least samples/s.
        objective
            ``cost``, or ``cost-per-sample`` for the least USD of a million samples.
        caps
            Most of some resources.
        gap
            Relative gap of the proof; None: that of the options.
        known
            The value of a placement that is known: only better ones are looked for.
        start
            That placement.
        """
        # True prices keep limits on money; a surcharge would cut off what keeps them.
        priced = {resource: usd for resource, usd in surcharges.items() if usd > 0}
        wish = without_money(problem.requirements, floor)
        if not priced:
            wish = replace(wish, **{name: getattr(problem.requirements, name) for name in MONEY})
        relaxed = self.relaxed(problem, priced, floor, per_sample=objective != "cost")
        if relaxed >= known * (1 - (self.options.gap if gap is None else gap)):
            return Cheapest(bound=min(relaxed, known))
        asked = replace(
            problem,
            catalog=self._book(problem, priced, floor, known, per_sample=objective != "cost"),
            requirements=replace(wish, objective=objective),
        )
        if caps:
            asked = capped(asked, caps)
        if known < inf and not asked.catalog.offers:
            return Cheapest(bound=known)
        found = self.asked(asked, problem, priced, gap, start)
        return replace(found, bound=min(max(found.bound, relaxed), known))

    def fastest(self, problem: Problem, usd: float) -> Fastest:
        """Find the most samples/s of a job for so many USD per hour, with the market to itself."""
        self.searches += 1
        wish = problem.requirements
        most = min(usd, wish.budget_usd_per_hour or inf)
        asked = replace(
            problem,
            requirements=replace(wish, objective="throughput", budget_usd_per_hour=most),
        )
        result = solve(asked, "exact", self._options())
        if result.status is Status.INFEASIBLE:
            return Fastest(bound=0.0)
        bound = inf if result.bound is None else result.bound
        return Fastest(bound=bound, placement=result.placement)

    def _options(self, gap: float | None = None, start: Placement | None = None) -> SolveOptions:
        """Return the options of one search."""
        return replace(
            self.options,
            gap=self.options.gap if gap is None else gap,
            time_limit_s=max(LEAST_S, min(self.most_s, allowance.current().seconds_left)),
            break_ties=False,
            start=start,
        )

    def relaxed(
        self,
        problem: Problem,
        surcharges: Mapping[Resource, float],
        floor: float,
        *,
        per_sample: bool,
    ) -> float:
        """Return a bound that fractions of workers prove."""
        kinds = self._kinds_of(problem)
        usd = kinds.surcharged(surcharge_of(surcharges))
        if per_sample:
            return kinds.least_usd_per_rate(usd, floor) / HOUR_S * 1e6
        return kinds.least_usd(usd, floor)

    def curve(
        self, problem: Problem, surcharges: Mapping[Resource, float]
    ) -> Callable[[float], float]:
        """Return bounds on the USD/h with surcharges that fractions of workers prove, by floor."""
        kinds = self._kinds_of(problem)
        usd = kinds.surcharged(surcharge_of(surcharges))
        return lambda floor: kinds.least_usd(usd, floor)

    def asked(
        self,
        asked: Problem,
        problem: Problem,
        surcharges: Mapping[Resource, float],
        gap: float | None = None,
        start: Placement | None = None,
    ) -> Cheapest:
        """Ask the solver, and take off the bound what is surcharged but not taken."""
        self.searches += 1
        known = start if start is not None and _rented(start, asked) else None
        result = solve(asked, "exact", self._options(gap, known))
        if result.status is Status.INFEASIBLE:
            return Cheapest(bound=inf)
        bound = max(0.0, (result.bound or 0.0) - _server_surcharge(asked, problem, surcharges))
        return Cheapest(bound=bound, placement=result.placement)

    def _book(
        self,
        problem: Problem,
        surcharges: Mapping[Resource, float],
        floor: float,
        known: float,
        *,
        per_sample: bool,
    ) -> Catalog:
        """Return the book with surcharges, without what no placement below a known value has."""
        catalog = problem.catalog
        if known < inf:
            most = known * HOUR_S / 1e6 if per_sample else known
            extra = surcharge_of(surcharges)
            kinds = self._kinds_of(problem)
            catalog = narrowed(catalog, kinds, extra, floor, most, per_sample=per_sample) or catalog
        return surcharged(catalog, surcharges)

    def _kinds_of(self, problem: Problem) -> Kinds:
        key = self._families.get(id(problem), id(problem))
        if key not in self._kinds:
            self._kinds[key] = Kinds.of(problem)
        return self._kinds[key]

    @cached_property
    def _families(self) -> dict[int, int]:
        """The first question of the family of each question."""
        first: dict[tuple[object, ...], int] = {}
        jobs = [group.job for group in self.columns.groups]
        return {id(job.problem): first.setdefault(job.family, id(job.problem)) for job in jobs}


def _rented(placement: Placement, problem: Problem) -> bool:
    """Tell whether a book has all machines of a placement."""
    server = placement.exchange.server
    groups = (*placement.groups, *([] if server is None else [server]))
    return all(problem.catalog.offer(*group.offer_kind) is not None for group in groups)


def _server_surcharge(
    asked: Problem, problem: Problem, surcharges: Mapping[Resource, float]
) -> float:
    """Return the most that a parameter server may have been surcharged for what it does not take:
    quotas count no machines without GPUs.
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
