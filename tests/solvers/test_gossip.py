"""The bound and the search of asynchronous SGD between regions (ASGD-GA), against enumeration."""

import importlib
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

import instances
from instances import of_workers
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

gossip_search, targets, markets, modes = (
    importlib.import_module(f"placer.solvers.{name}")
    for name in ("exact.gossip_search", "_target", "_market.market", "_mode")
)
exhaustive = importlib.import_module("placer.solvers.exhaustive")
GENERATORS = (
    instances.random_problem,
    instances.exchange_problem,
    instances.wide_problem,
    instances.island_problem,
    instances.reading_problem,
)
MOST = 300
"""Combinations of counts, at most: a test is short."""


def gossip_problem(generator: Any, seed: int, steps: int) -> Problem | None:
    """Ask an instance for ASGD-GA alone; None where that is refused or too large."""
    problem = generator(seed)
    wish = replace(
        problem.requirements,
        exchange="asgd-ga",
        max_local_steps=steps,
        min_local_steps=1,
        used=(),
        datasets=(),
    )
    problem = replace(problem, requirements=wish)
    if problem.island_question is not None:
        problem = of_workers(problem, 2 + seed % 2)
    caps = [min(pool.max_count, wish.max_workers) + 1 for pool in problem.pools]
    return problem if caps and problem.modes and math.prod(caps) <= MOST else None


def spread_placements(problem: Problem) -> Iterator[tuple[Placement, float, float]]:
    """Yield placements of several regions that keep the limits, with samples/s and USD/h."""
    for placement in exhaustive.placements(problem):
        if len(placement.places) > 1 and not violations(placement, problem):
            outcome = evaluate(placement, problem)
            if outcome.usd.total > 0:
                yield placement, outcome.samples_per_second, outcome.usd.total


def search_of(problem: Problem, steps: int, *, speed: float, usd: float) -> Any:
    """A search for placements of so many samples/s within so many USD/h."""
    wish = replace(problem.requirements, objective="throughput", budget_usd_per_hour=usd)
    target = targets.Target.of(
        replace(problem, requirements=wish), gap=0.0, deadline=time.monotonic() + 60
    )
    target.floor_samples_per_second = speed
    target.limit_usd_per_sample = target.limit_carbon_g_per_hour = math.inf
    mode = modes.Mode(problem, "asgd-ga", steps)
    return gossip_search.GossipSearch(markets.Market.of(problem), target, mode)


@pytest.mark.parametrize("generator", GENERATORS)
def test_no_placement_exceeds_the_bound_of_its_own_speed_and_price(generator: Any) -> None:
    """Asked for at least the speed of a placement, or 70 % of it, at most at its price, the bound
    is not below that speed, and some slice stays open however often it is halved: some 16
    placements of each generator.
    """
    judged = 0
    for seed in range(300, 330):
        problem = gossip_problem(generator, seed, (1, 8, 64)[seed % 3])
        if problem is None:
            continue
        found = list(spread_placements(problem))
        for placement, speed, usd in found[:: max(1, len(found) // 4)]:
            steps = placement.exchange.local_steps
            search = search_of(problem, steps, speed=speed * (0.7, 1.0)[judged % 2], usd=usd)
            bound = search.root.bound()
            assert bound >= speed * (1 - 1e-9), (seed, placement)
            assert search.root.allows(), (seed, placement)
            judged += 1
        if judged >= 16:
            break
    assert judged >= 4


@pytest.mark.parametrize("objective", ["throughput", "cost"])
def test_the_search_finds_what_enumeration_finds(objective: str) -> None:
    """Regions are given as two or more, so that the answer is of the search."""
    judged = 0
    for seed in range(400, 440):
        base = gossip_problem(instances.exchange_problem, seed, (4, 64)[seed % 2])
        if base is None:
            continue
        wish = replace(base.requirements, min_regions=2, objective=objective)
        if objective == "cost":
            wish = replace(wish, min_samples_per_second=1.0)
        problem = replace(base, requirements=wish)
        oracle = solve(problem, "exhaustive")
        answer = solve(problem, "exact", SolveOptions(gap=0.0, time_limit_s=60))
        assert answer.status == oracle.status, seed
        if oracle.value is not None:
            assert answer.value == pytest.approx(oracle.value, rel=1e-8), seed
            judged += 1
        if judged >= 4:
            break
    assert judged >= 2
