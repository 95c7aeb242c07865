"""Placements that may be rungs of a ladder: the best of other places, other speeds, on demand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from placer.cost_model.estimate import Estimate
from placer.cost_model.objective import Objective, aimed_at, objective_of
from placer.cost_model.outlook.risk import machine_groups
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.solving.solve import solve

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
