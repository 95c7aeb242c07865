"""What an explanation is about, and the questions that it asks beside it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

from placer.advice.recommendation.other_answers import wanting
from placer.cost_model.estimate import Estimate, evaluate
from placer.cost_model.objective import aimed_at, objective_of
from placer.errors import PlacerError, unknown
from placer.market.catalog import VmOffer
from placer.market.words.selection import gpus_of, is_named, patterns_of
from placer.problem.admitted_exchanges import exchanges
from placer.problem.contradictions import contradiction
from placer.problem.exchange import traits
from placer.problem.placement import Placement, parse_workers
from placer.problem.problem import Problem
from placer.problem.requirements import ALL_REGIONS, EXCHANGES, LOCAL, Used, uses
from placer.problem.workers.pool import Pool
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions
from placer.solving.result import Option, Result
from placer.solving.solve import solve

SIDE_NODES = 300
"""Nodes of a search that only explains: few enough that an explanation of a large book stays short.
"""
ROUGH_GAP = 0.005
"""Gap of a search whose answer is only a step to the next one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Answer to a side question. Not ``proved``: nothing better was found, but it may exist."""

    placement: Placement | None = None
    estimate: Estimate | None = None
    value: float | None = None
    proved: bool = False

    @property
    def infeasible(self) -> bool:
        """Whether it is proved that nothing fits."""
        return self.placement is None and self.proved

    def option(self, label: str = "") -> Option | None:
        """Return the placement with its estimate; None if there is none."""
        if self.placement is None or self.estimate is None:
            return None
        return Option(
            placement=self.placement, estimate=self.estimate, label=label, proved=self.proved
        )


NOTHING = Trial()
"""Nothing was found, and nothing is proved."""
IMPOSSIBLE = Trial(proved=True)
"""It is proved that nothing fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asker:
    """Solver and limits of side questions; ``deadline`` by the monotonic clock."""

    solver: str
    options: SolveOptions
    deadline: float
    nodes: int = SIDE_NODES

    @property
    def seconds_left(self) -> float:
        """Time until the explanation has to end."""
        return min(self.deadline - time.monotonic(), allowance.current().seconds_left)

    def best(
        self,
        problem: Problem,
        *,
        start: Placement | None = None,
        first: bool = False,
        beat: float | None = None,
        rough: bool = False,
    ) -> Trial:
        """Find the best placement, perhaps from a known one: the ``first`` will do, or one that
        beats a value by more than the gap, or one about as good (``rough``).
        """
        if contradiction(problem) or not problem.pools:
            return IMPOSSIBLE
        if self.seconds_left <= 0:
            return NOTHING
        options = replace(
            self.options.deaf,
            start=start,
            first=first,
            beat=beat or None,  # nothing is better than a cost of 0, which is found like any other
            gap=max(self.options.gap, ROUGH_GAP) if rough else self.options.gap,
            break_ties=not rough,
            node_limit=self.nodes,
            time_limit_s=min(self.options.time_limit_s, self.seconds_left),
            bound_if_stopped=False,
        )
        got = solve(problem, self.solver, options)
        proved = got.status.settled
        proved = proved or (first and got.placement is not None)
        return Trial(placement=got.placement, estimate=got.estimate, value=got.value, proved=proved)

    def just_above(self, limit: float | None) -> float | None:
        """Return what all that costs no more than a limit beats by more than the gap: most that
        cost so little are then ruled out before any is made.
        """
        return limit and limit * (1 + 2 * max(self.options.gap, ROUGH_GAP))

    def wanting(self, problem: Problem, start: Placement | None = None, **changes: object) -> Trial:
        """Find the best placement of a problem with other wishes."""
        return self.best(wanting(problem, **changes), start=start)


def aimed(problem: Problem, objective: str) -> Problem:
    """Return the question with another objective that admits the same machines."""
    return replace(problem, requirements=aimed_at(problem.requirements, objective))


def require_asker_solver(solver: str) -> None:
    """Refuse solvers that prove nothing: an explanation rests on proofs."""
    if solver in ("greedy", "local_search"):
        raise PlacerError(
            f"the solver '{solver}' proves nothing, so it cannot explain", "use --solver exact"
        )


Kind = Literal["place", "gpu", "offer", "exchange", "market", "regions", "stages"]
MARKETS = {"spot": "spot", "on-demand": "on_demand", "community": "community"}
STAGES: Literal["stages"] = "stages"
"""Workers of several devices, each with some of the layers."""
MOST_RULES = 12
"""Places or devices that one X may stand for, each searched for itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """Something that could have been chosen.

    ``rules`` are alternatives, one of which is to hold; ``changes`` are wishes that force it;
    ``narrow`` wishes that admit nothing else, for a first answer; ``whole`` is False where there
    are too many alternatives to look at all.
    """

    kind: Kind
    name: str
    rules: tuple[Used, ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    narrow: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = True

    def forced(self, problem: Problem) -> Iterator[Problem]:
        """Yield the question with the subject forced in: one of these has its best answer."""
        changed = wanting(problem, **self.changes)
        if not self.rules:
            yield changed
        for rule in self.rules:
            yield wanting(changed, used=(*changed.requirements.used, rule))

    def narrowed(self, problem: Problem) -> Problem:
        """Return the question with nothing else admitted."""
        return wanting(problem, **{**self.changes, **self.narrow})

    def matches(self, offer: VmOffer) -> bool:
        """Return whether a machine is the subject, so that its price decides."""
        if self.kind == "market":
            return bool(self.changes["market"] == offer.market)
        return any(uses(rule, offer.place, offer.device, offer.market) for rule in self.rules)

    def chosen(self, placement: Placement) -> bool:
        """Return whether a placement has it already."""
        if self.kind == "exchange":
            return placement.exchange.strategy == self.name
        if self.kind == "market":
            return all(group.market == self.changes["market"] for group in placement.groups)
        if self.kind == "regions":
            count = len(placement.places)
            return bool(self.changes["min_regions"] <= count <= self.changes["max_regions"])
        return any(
            uses(rule, g.place, g.device, g.market) for rule in self.rules for g in placement.groups
        )


def read_subject(text: str, problem: Problem) -> Subject:
    """Read PLACE, GPU, EXCHANGE, PLACE=GPU:market, spot, on-demand, 2-regions or stages.

    Raises PlacerError if it is none of them, with the nearest name.
    """
    word = text.strip()
    counted = re.fullmatch(r"([1-9][0-9]{0,2})-regions?", word)
    if counted:
        return regions_subject(int(counted[1]))
    if word in MARKETS:
        return Subject(kind="market", name=word, changes={"market": MARKETS[word]})
    if word == STAGES:
        return Subject(kind=STAGES, name="stages of several devices", whole=False)
    if word in EXCHANGES[1:]:
        return exchange_subject(word, problem)
    if "=" in word:
        return _offer_subject(word, problem)
    catalog = problem.catalog
    for read, make in ((gpus_of, gpu_subject), (patterns_of, place_subject)):
        try:
            subject = read(word, catalog)
        except PlacerError as error:
            if "rents no" in error.message:
                raise
            continue
        return make(word, subject, problem)
    known = [*catalog.regions, *catalog.rented_gpus, *EXCHANGES[1:], *MARKETS, "2-regions", STAGES]
    raise unknown("place, GPU, exchange or market", word, known)


def gpu_subject(name: str, gpus: tuple[str, ...], problem: Problem) -> Subject:
    """Build the subject of one GPU or family, whatever number of them a machine has."""
    devices = dict.fromkeys(o.device for o in problem.catalog.offers if o.gpu in gpus)
    known = {pool.offer.device for pool in problem.pools}
    rules = tuple(
        Used(place="*", device=device, given=False)
        for device in devices
        if device in known or not known & {*devices}
    )
    return Subject(
        kind="gpu",
        name=name,
        rules=rules[:MOST_RULES],
        narrow={"gpus": gpus},
        whole=len(rules) <= MOST_RULES,
    )


def exchange_subject(name: str, problem: Problem) -> Subject:
    """Build the subject of an exchange; the places of its hub are open unless asked for."""
    wish = problem.requirements
    kept = wish.exchange == name or (wish.exchange == "auto" and name == "central")
    least = max(wish.min_regions, traits(name).least_regions)
    changes: dict[str, object] = {"exchange": name, "min_workers": max(2, wish.min_workers)}
    changes |= {} if kept else dict.fromkeys(("aggregator", "function", "storage"))
    changes |= {} if traits(name).may_overlap else {"overlap": False}
    if name not in LOCAL and (wish.min_local_steps or 1) > 1:
        changes |= dict.fromkeys(("min_local_steps", "max_local_steps"))
    changes |= {"max_workers": max(2, wish.max_workers), "min_regions": least}
    changes |= {"max_regions": max(least, wish.max_regions)}
    return Subject(kind="exchange", name=name, changes=changes)


def regions_subject(count: int) -> Subject:
    """Build the subject of one region, or some number of them and more."""
    most = 1 if count == 1 else ALL_REGIONS
    name = "one region" if count == 1 else f"{count} regions"
    return Subject(kind="regions", name=name, changes={"min_regions": count, "max_regions": most})


def _offer_subject(word: str, problem: Problem) -> Subject:
    """Build the subject of PLACE=GPU:market, with or without a count and a market."""
    place, _, device = word.partition("=")
    spec = parse_workers(word if re.match(r"[0-9]+x", device) else f"{place}=1x{device}")[0]
    problem.catalog.region(spec.place)
    name = spec.gpu if spec.gpu_count == 1 else f"{spec.gpu}:{spec.gpu_count}"
    machines = spec.count * spec.machines
    rule = Used(
        place=spec.place, device=name, market=spec.market or "*", count=machines, given=False
    )
    if not any(uses(rule, o.place, o.device, o.market) for o in problem.catalog.offers):
        raise PlacerError(
            f"catalog '{problem.catalog.name}' has no {word}",
            f"see placer offers --in {spec.place}",
        )
    narrow = {"places_in": (spec.place,), "gpus": (spec.gpu,)}
    return Subject(kind="offer", name=word, rules=(rule,), narrow=narrow)


def place_subject(word: str, patterns: tuple[str, ...], problem: Problem) -> Subject:
    """Build the subject of a place, or of those that a pattern or a continent stands for."""
    places = patterns if len(patterns) == 1 else _rented(patterns, problem)
    rules = tuple(Used(place=place, given=False) for place in places[:MOST_RULES])
    return Subject(
        kind="place",
        name=word,
        rules=rules,
        narrow={"places_in": patterns},
        whole=len(places) <= MOST_RULES,
    )


def _rented(patterns: tuple[str, ...], problem: Problem) -> tuple[str, ...]:
    """Return the places that rent admitted machines, the least price per sample first; else all."""
    cost: dict[str, float] = {}
    for pool in problem.pools:
        place = pool.offer.place
        if is_named(place, patterns):
            cost[place] = min(cost.get(place, float("inf")), pool.usd_per_hour / pool.alone.value)
    return tuple(sorted(cost, key=lambda p: (cost[p], p))) or patterns


def admitting(subject: Subject, problem: Problem) -> tuple[Problem, tuple[str, ...]]:
    """Return the question without the wishes that exclude a subject, and sentences about them."""
    if not subject.rules or any(subject.matches(pool.offer) for pool in problem.pools):
        return problem, ()
    reasons: list[str] = []
    unknown_why = "the quota allows no such machine, or nobody knows how fast it is"
    for offer in filter(subject.matches, problem.catalog.offers):
        problems = [message for _, message in problem.offer_problems(offer)]
        place = problem.place_problem(offer.place)
        problems += [place] if place else []
        reasons += problems or [problem.quota_problem(offer) or unknown_why]
    exclusions = tuple(dict.fromkeys(reasons))
    places = problem.requirements.places_in
    opened = wanting(
        problem,
        gpus=(),
        places_in=("*", *places) if places else (),
        places_not_in=(),
        market="any",
        require_measured=False,
        oldest_price=None,
    )
    return opened, exclusions or ("the book has no such machine",)


def tempting(result: Result) -> Iterator[Subject]:
    """Choose what is explained unless something is named: the region and the GPU with the best
    price for their speed that are not used, the exchange that suits the machines next best, the
    other market, and a second region (or one region alone), as far as there are such.
    """
    (placement, _), problem = result.found, result.problem
    wish = problem.requirements
    used_gpus = {group.gpu for group in placement.groups}
    place = _cheapest(pool for pool in problem.pools if pool.offer.place not in placement.places)
    if place is not None:
        yield place_subject(place.offer.place, (place.offer.place,), problem)
    gpu = _cheapest(pool for pool in problem.pools if pool.offer.gpu not in used_gpus)
    if gpu is not None:
        yield gpu_subject(gpu.offer.gpu, (gpu.offer.gpu,), problem)
    exchange = _next_exchange(result)
    if exchange is not None:
        yield exchange_subject(exchange, problem)
    markets = {group.market for group in placement.groups}
    if len(markets) == 1 and wish.market == "any":
        yield read_subject("spot" if markets == {"on_demand"} else "on-demand", problem)
    count, places = len(placement.places), {*problem.pools.places[1]}
    if min(wish.max_regions, len(places)) > count and wish.max_workers > 1:
        yield regions_subject(count + 1)


def _cheapest(pools: Iterator[Pool]) -> Pool | None:
    """Return the machine with the lowest price for its speed."""
    key = attrgetter("offer.place", "offer.device")
    return min(pools, key=lambda p: (p.usd_per_hour / p.alone.value, *key(p)), default=None)


def _next_exchange(result: Result) -> str | None:
    """Return the exchange that suits the machines next best; for one the plain all-reduce."""
    (placement, _), problem = result.found, result.problem
    names = [name for name, _ in problem.modes if name != placement.exchange.strategy]
    if placement.workers == 1:
        return "all-reduce" if "all-reduce" in names else next(iter(names), None)
    score = objective_of(problem.requirements).score
    scored = (
        (score(evaluate(replace(placement, exchange=e), problem)), e.strategy)
        for e in exchanges(problem, placement.workers_by_place)
        if e.strategy in names
    )
    return min(scored, default=(None, None))[1]
