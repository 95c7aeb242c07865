"""Plans that hold in most scenarios of spot capacity: candidates, and the choice among them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer.cost_model.capacity.ladder import Rung, Runs, climb
from placer.cost_model.capacity.supply import chances_of, launchable, likeness_of, state_paths
from placer.cost_model.estimate import Estimate, evaluate
from placer.cost_model.objective import Objective, aimed_at, objective_of
from placer.cost_model.outlook.losses import ASSUMED_INTERRUPTION
from placer.cost_model.outlook.risk import Array, Gang, gang_of, machine_groups
from placer.documents.schemas.proofs import USUAL_TAIL, tail_share
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions
from placer.solving.result import ConfidentPlan, Rank, Result, assured
from placer.solving.solve import solve
from placer.units import SECONDS_PER_HOUR

FASTER = (1.0, 1.3, 1.8, 2.5)
"""Speeds over the one that is needed: what waits needs more speed when it runs."""
FASTEST = (1.0, 1.8, 4.0, 8.0)
"""The same for the fastest run: between what is needed and all that can be rented, seldom there."""
OTHERS = 4
"""Placements of one speed, each in other places than those before it."""
NODES = 1_000
"""Nodes of the search for one."""
SHARE_S = 0.5
"""Share of the time that is left for the searches."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A placement that keeps every limit."""

    placement: Placement
    estimate: Estimate

    @property
    def certain(self) -> bool:
        """Whether all of its machines are on demand."""
        return all(group.market == "on_demand" for group in machine_groups(self.placement))

    @property
    def speed(self) -> float:
        """Samples/s that count while it runs."""
        return self.estimate.effective_samples_per_second.value

    @property
    def usd_per_sample(self) -> float:
        """Price of a sample while it runs."""
        return self.estimate.usd_per_million_samples / 1e6

    @property
    def carbon_g_per_hour(self) -> float:
        """Emissions while it runs; infinite where nobody knows them."""
        carbon = self.estimate.carbon_g_per_hour
        return math.inf if carbon is None else carbon.value

    def spent_per_sample(self, objective: Objective) -> float:
        """Return what a sample takes of what an objective wants little of, while it runs."""
        if objective.by_speed:
            return 1 / self.speed
        if objective.name == "carbon":
            return self.carbon_g_per_hour / self.speed
        return self.usd_per_sample


def speeds(objective: Objective) -> tuple[float, ...]:
    """Return speeds over the one that is needed."""
    return FASTEST if objective.by_speed else FASTER


def candidates(
    result: Result, solver: str, options: SolveOptions
) -> tuple[tuple[Candidate, ...], float | None]:
    """Find placements in other places and at other speeds than the best if all machines are up, and
    what no run costs less than; None where that is open.
    """
    placement, got = result.found
    found = {placement: Candidate(placement=placement, estimate=got)}
    seconds = SHARE_S * max(0.0, allowance.current().seconds_left)
    questions = list(_questions(result.problem))
    short = replace(
        options.deaf,
        node_limit=NODES,
        time_limit_s=seconds / sum(others for _, _, others in questions),
        certificate=False,
        break_ties=False,
        start=None,
    )
    least: float | None = None
    for faster, wish, others in questions:
        asked = replace(result.problem, requirements=wish)
        # A short search of workers with a plan skips numbers of them: it proves nothing.
        plain = (faster, wish.market) == (1.0, result.problem.requirements.market)
        whole = plain and least is None and asked.island_question is not None
        limits = replace(short, node_limit=None) if whole else short
        for number, answer in enumerate(_in_other_places(asked, others, solver, limits)):
            placement, got = answer.found
            found.setdefault(placement, Candidate(placement=placement, estimate=got))
            if plain and number == 0:
                least = least or _least_usd(answer)
    return tuple(found.values()), least


def _least_usd(answer: Result) -> float | None:
    """Return what all samples cost at a sample's least price: waiting and starting cost no less."""
    samples = answer.problem.requirements.samples
    if answer.objective.name != "cost-per-sample" or not answer.bound or samples is None:
        return None
    return answer.bound / 1e6 * samples


def _questions(problem: Problem) -> Iterator[tuple[float, Requirements, int]]:
    """Yield speeds, wishes for the best sample at each, and how many places in turn are asked for.

    The best sample is the cheapest one, or that with the least emissions. Where the fastest run is
    wanted, the fastest placements come before the cheapest.
    """
    wish = problem.requirements
    floor = wish.floor_samples_per_second or 0.0
    plain = replace(wish, confidence=None, expected=False)
    if wish.deadline_s is None:
        yield 1.0, plain, OTHERS
        if wish.market == "any":
            yield 1.0, replace(plain, market="on_demand"), 1
        return
    objective, cheapest = objective_of(wish), aimed_at(plain, "cost-per-sample")
    if objective.by_speed:
        yield math.inf, aimed_at(plain, "throughput"), OTHERS
    if objective.name == "carbon":
        yield 1.0, cheapest, 1
        cheapest = plain
    for faster in speeds(objective):
        asked = replace(cheapest, min_samples_per_second=floor * faster)
        yield faster, asked, OTHERS
        if wish.market == "any":
            yield faster, replace(asked, market="on_demand"), 1


def _in_other_places(
    problem: Problem, others: int, solver: str, options: SolveOptions
) -> Iterator[Result]:
    """Yield the best answer, then the best without its places, and so on."""
    wish = problem.requirements
    for _ in range(others):
        asked = replace(problem, requirements=wish)
        if allowance.current().spent or not asked.pools:
            return
        answer = solve(asked, solver, options)
        if answer.placement is None:
            return
        yield answer
        used = tuple(sorted({*answer.placement.places} - {*wish.required_places}))
        if not used:
            return
        wish = replace(wish, places_not_in=(*wish.places_not_in, *used))


DRAWS, CHECKED = 1_024, 4_096
"""Scenarios in which ladders are compared; those in which the best have to hold, and fresh ones."""
SEED, FRESH_SEED, CHECK_SEED = 1, 2, 3
MOST_STEPS = 72
"""Moments of a path; a long run is looked at every so many hours."""
MOST_RUNGS, MOST_CERTAIN = 6, 2
"""Spot placements of a ladder, and placements on demand that may end one."""
ROUNDING = 1e-9


def confident(result: Result, solver: str, options: SolveOptions) -> ConfidentPlan:
    """Choose the cheapest ladder that reaches the confidence of the question, or the one that comes
    nearest; the best on average where that is the objective.
    """
    wish = result.problem.requirements
    found, least_usd = candidates(result, solver, options)
    tried, checked, fresh = (
        _Scenarios(result.problem, found, seed, draws)
        for seed, draws in ((SEED, DRAWS), (CHECK_SEED, CHECKED), (FRESH_SEED, CHECKED))
    )
    asked, floor = wish.confidence or 0.0, wish.floor_samples_per_second or 0.0
    runs = _tried(_ladders(found, floor, objective_of(wish)), tried)
    best = _undominated(tried, runs)
    kept: dict[tuple[int, ...], Runs] = {}
    for ladder in sorted(best, key=lambda ladder: tried.rank(runs[ladder], asked, ladder)):
        kept[ladder] = checked.run(ladder)
        if allowance.current().spent:
            break
    chosen = min(kept, key=lambda ladder: checked.rank(kept[ladder], asked, ladder))
    plan = checked.plan(chosen, kept[chosen], fresh.run(chosen), tried=len(runs))
    return replace(plan, least_usd=least_usd)


def chance_in_time(placement: Placement, got: Estimate, problem: Problem) -> float | None:
    """Return the share of scenarios in which a placement alone is done by the deadline, at its
    expected speed; it starts anew where machines are lost. None without a deadline, and on demand.
    """
    only = Candidate(placement=placement, estimate=got)
    if problem.requirements.deadline_s is None or only.certain:
        return None
    alone = _Scenarios(problem, (only,), SEED, DRAWS)
    return alone.run((0,)).chance(alone.limit_h)


def _tried(ladders: Iterable[tuple[int, ...]], tried: _Scenarios) -> dict[tuple[int, ...], Runs]:
    """Run ladders, then undominated ones without one rung, until time is up; at least the first."""
    runs: dict[tuple[int, ...], Runs] = {}
    more = [*ladders]
    while more:
        for ladder in more:
            runs[ladder] = tried.run(ladder)
            if allowance.current().spent:
                return runs
        shorter = {
            tuple(other for other in ladder if other != at)
            for ladder in _undominated(tried, runs)
            for at in ladder
            if len(ladder) > 1
        }
        more = sorted(shorter - runs.keys())
    return runs


def _undominated(tried: _Scenarios, runs: Mapping[tuple[int, ...], Runs]) -> list[tuple[int, ...]]:
    """Return the ladders of which no other one is at least as good in everything."""
    merits = {ladder: tried.merits(each, ladder) for ladder, each in runs.items()}
    return [
        ladder
        for ladder, own in merits.items()
        if not any(
            other != own and all(one <= two for one, two in zip(other, own, strict=True))
            for other in merits.values()
        )
    ]


def _ladders(
    found: Sequence[Candidate], floor: float, objective: Objective
) -> Iterator[tuple[int, ...]]:
    """Yield ladders as indices of candidates: those of at least some speed, the best sample first,
    with more and more fallbacks, with and without one that is certain at the end.
    """

    def spent(at: int) -> float:
        return found[at].spent_per_sample(objective)

    certain = [at for at, each in enumerate(found) if each.certain]
    certain = sorted(certain, key=spent)[:MOST_CERTAIN]
    ladders: dict[tuple[int, ...], None] = {}
    for faster in speeds(objective):
        least = faster * floor * (1 - ROUNDING)
        spot = [at for at, each in enumerate(found) if not each.certain and each.speed >= least]
        spot.sort(key=spent)
        others = sorted(spot, key=lambda at: found[at].usd_per_sample)
        for first in _begun(spot, others):
            ladders |= dict.fromkeys([first, *((*first, at) for at in certain)])
    yield from ladders
    yield from ((at,) for at in certain)


def _begun(spot: Sequence[int], cheap: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the best, with more and more fallbacks: the next best ones, or after up to three of
    them the cheapest. What is fastest is large and seldom there, what is cheap is small.
    """
    for count in range(1, min(len(spot), MOST_RUNGS) + 1):
        yield tuple(spot[:count])
    if list(cheap) == list(spot):
        return
    for count in range(1, min(len(spot), MOST_RUNGS // 2) + 1):
        left = [at for at in cheap if at not in spot[:count]]
        for more in range(1, min(len(left), MOST_RUNGS - count) + 1):
            yield (*spot[:count], *left[:more])


class _Scenarios:
    """The paths of capacity of all places that some candidates use."""

    def __init__(self, problem: Problem, found: Sequence[Candidate], seed: int, draws: int) -> None:
        self.problem, self.found, self.seed, self.draws = problem, found, seed, draws
        self.objective = objective_of(problem.requirements)
        self.gangs: list[Gang] = [gang_of(each.placement, problem) for each in found]
        wish = problem.requirements
        self.deadline_h = None if wish.deadline_s is None else wish.deadline_s / SECONDS_PER_HOUR
        # A start that the request knows takes the place of the usual one.
        self.start_s = wish.startup_s or ASSUMED_INTERRUPTION.restart_s.value
        self.steps = 1 if self.deadline_h is None else MOST_STEPS
        self.step_h = 1.0 if self.deadline_h is None else self.deadline_h / MOST_STEPS
        self.limit_h = self.deadline_h or 0.0
        self._there: dict[int, Array] = {}

    @cached_property
    def _states(self) -> dict[str, Array]:
        """Latent states of each zone; shape (steps, draws)."""
        stocks = {
            zone: stock for gang in self.gangs for stock in gang.stocks for zone in stock.zones
        }
        if not stocks:
            return {}
        paths = state_paths(
            [stock.place for stock in stocks.values()],
            list(stocks),
            steps=self.steps,
            step_h=self.step_h,
            draws=self.draws,
            seed=self.seed,
            likeness=likeness_of(list(stocks.values())),
        )
        return {zone: paths[:, :, at] for at, zone in enumerate(stocks)}

    def there(self, at: int) -> Array:
        """Return when all machines of a candidate are there; shape (steps, draws)."""
        if at not in self._there:
            built = np.ones((self.steps, self.draws), dtype=bool)
            gang = self.gangs[at]
            for stock, wanted in zip(gang.stocks, gang.wanted, strict=True):
                launched = np.zeros((self.steps, self.draws), dtype=int)
                for zone, known in zip(stock.zones, stock.known, strict=True):
                    chances = chances_of(known, wanted)[None]
                    states = self._states[zone].reshape(-1, 1)
                    launched += launchable(chances, states).reshape(self.steps, self.draws)
                built &= launched >= wanted
            self._there[at] = built
        return self._there[at]

    def run(self, ladder: Sequence[int]) -> Runs:
        """Run a ladder in every scenario; without a deadline only ask whether a rung is there."""
        rungs = [self._rung(at) for at in ladder]
        samples = float(self.problem.requirements.samples or 0)
        if self.deadline_h is None:
            there = np.any([rung.there[0] for rung in rungs], axis=0)
            first = np.argmax([rung.there[0] for rung in rungs], axis=0)
            busy = np.array([(first == k) & there for k in range(len(rungs))], dtype=float)
            hours = np.where(there, 0.0, math.inf)
            none = np.zeros(self.draws)
            return Runs(hours=hours, usd=none, starts=there.astype(int), busy_h=busy, left=none)
        return climb(rungs, samples, self.deadline_h, self.step_h)

    def _rung(self, at: int) -> Rung:
        each = self.found[at]
        step_s = each.estimate.step.total / each.estimate.local_steps
        lost = ASSUMED_INTERRUPTION.lost_steps.value * step_s
        return Rung(
            samples_per_s=each.speed,
            usd_per_hour=each.estimate.usd_per_hour.total,
            start_h=(self.start_s + lost) / SECONDS_PER_HOUR,
            there=self.there(at),
            certain=each.certain,
            spent_per_sample=each.spent_per_sample(self.objective),
        )

    def rank(self, runs: Runs, asked: float, ladder: Sequence[int]) -> tuple[float, ...]:
        """Return a sort key: what is lacking of confidence and budget, then what it takes."""
        wish = self.problem.requirements
        reached = assured(runs.chance(self.limit_h), self.draws) if asked else 1.0
        over = 0.0
        if wish.budget_usd is not None:
            over = max(0.0, runs.tail_usd(tail_share(asked)) / wish.budget_usd - 1)
        # Nothing is assured beyond what runs that are all done show.
        lacks = max(0.0, min(asked, assured(1.0, self.draws)) - reached)
        return lacks + over, *self._taken(runs, ladder)

    def merits(self, runs: Runs, ladder: Sequence[int]) -> tuple[tuple[float, ...], ...]:
        """Return what speaks for a ladder whatever confidence is asked for, lowest is best: its
        share of scenarios, its dearest runs where they have a budget, and what it takes.
        """
        wish = self.problem.requirements
        share = -runs.chance(self.limit_h) if wish.confidence else 0.0
        tail = 0.0 if wish.budget_usd is None else runs.tail_usd(USUAL_TAIL)
        return (share,), (tail,), self._taken(runs, ladder)

    def _taken(self, runs: Runs, ladder: Sequence[int]) -> tuple[float, ...]:
        """Return what runs take by the objective, then dollars of a finished run, then rungs."""
        wish = self.problem.requirements
        if self.deadline_h is None and wish.expected:
            return self._mean(runs, ladder), len(ladder)
        if self.deadline_h is None:
            first = self.objective.score(evaluate(self.found[ladder[0]].placement, self.problem))
            return *first, len(ladder)
        if wish.expected:  # what is left undone is no saving
            done = (wish.samples or 0) - runs.left
            return float(runs.usd.sum() / max(1e-9, done.sum())), len(ladder)
        usd = self._of_finished(float(runs.usd.mean()), runs)
        if self.objective.by_speed:  # hours until they are done, or until the deadline
            return float(np.minimum(runs.hours, self.limit_h).mean()), usd, len(ladder)
        if self.objective.name == "carbon":
            grams = self._of_finished(self._carbon_g(runs, ladder) or 0.0, runs)
            return grams, usd, len(ladder)
        return usd, len(ladder)

    def _of_finished(self, mean: float, runs: Runs) -> float:
        """Divide by the share that finishes: a plan that often fails spends, and buys, little."""
        share = runs.chance(self.limit_h)
        return mean / share if share else math.inf

    def _carbon_g(self, runs: Runs, ladder: Sequence[int]) -> float | None:
        """Return the mean emissions of the runs; None where nobody knows them."""
        grams = [self.found[at].carbon_g_per_hour for at in ladder]
        if not all(math.isfinite(each) for each in grams):
            return None
        return float(runs.busy_h.mean(axis=1) @ grams)

    def _mean(self, runs: Runs, ladder: Sequence[int]) -> float:
        """Return the mean of the objective, lowest is best: samples/s with 0 where nothing is
        there, or dollars while something is.
        """
        share = runs.busy_h.mean(axis=1)
        if self.objective.maximised:
            return -float(share @ [self.found[at].speed for at in ladder])
        usd = [self.objective.value(self.found[at].estimate) for at in ladder]
        return float(share @ usd) / max(1e-9, float(share.sum()))

    def plan(self, ladder: Sequence[int], runs: Runs, fresh: Runs, *, tried: int) -> ConfidentPlan:
        """Describe a ladder by what it did in these scenarios and in fresh ones."""
        asked, limit = self.problem.requirements.confidence or 0.0, self.limit_h
        done, timed = runs.hours <= limit, self.deadline_h is not None
        speeds = [self.found[at].speed for at in ladder]
        return ConfidentPlan(
            asked=asked,
            reached=runs.chance(limit),
            reached_in_fresh_scenarios=fresh.chance(limit),
            scenarios=self.draws,
            seed=self.seed,
            ladders_tried=tried,
            deadline_hours=self.deadline_h,
            mean_hours=float(runs.hours[done].mean()) if timed and done.any() else None,
            mean_starts=float(runs.starts[done].mean()) if timed and done.any() else None,
            usd=float(runs.usd.mean()) if timed else None,
            tail_usd=runs.tail_usd(tail_share(asked)) if timed else None,
            carbon_g=self._carbon_g(runs, ladder) if timed else None,
            mean_samples_per_second=None if timed else float(runs.busy_h.mean(axis=1) @ speeds),
            least_usd=None,
            ranks=tuple(
                Rank(
                    placement=self.found[at].placement,
                    estimate=self.found[at].estimate,
                    chance_alone=self.run((at,)).chance(limit)
                    if timed
                    else float(self.there(at).mean()),
                    mean_hours=float(runs.busy_h[number].mean()),
                    certain=self.found[at].certain,
                )
                for number, at in enumerate(ladder)
            ),
        )
