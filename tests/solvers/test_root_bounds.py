"""Bounds of whole modes on drawn markets: no placement that plain enumeration finds is excluded."""

import importlib
import math
import time
from itertools import product
from typing import Any

import numpy as np
import pytest

from instances import (
    carbon_problem,
    exchange_problem,
    island_problem,
    loading_problem,
    of_workers,
    random_problem,
    ring_problem,
    wishing,
)
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve
from proofs import agrees

EXACT = importlib.import_module("placer.solvers.exact.branch_and_bound")
PLACEMENTS = importlib.import_module("placer.solvers.exhaustive").placements
SEEDS = range(60)
LEAST_JUDGED = 12


def asking(problem: Problem, strategy: str) -> Problem:
    """The same market, asked for one strategy with 1 to 8 local steps over two regions or more."""
    wish = replace(
        problem.requirements,
        exchange=strategy,
        min_local_steps=None,
        max_local_steps=8,
        min_regions=2,
        max_regions=8,
        aggregator=None,
        overlap=False,
    )
    asked = replace(problem, requirements=wish)
    return asked if asked.island_question is None else of_workers(asked, wish.max_workers)


def best_by_shape(problem: Problem) -> dict[tuple[int, int, int], tuple[float, Placement]]:
    """Best placement for each number of local steps, regions and workers, by plain enumeration."""
    objective = objective_of(problem.requirements)
    found = dict[tuple[int, int, int], tuple[float, Placement]]()
    for placement in PLACEMENTS(problem):
        if placement.workers < 2 or violations(placement, problem):
            continue
        value = objective.value(evaluate(placement, problem))
        steps, regions = placement.exchange.local_steps, len(placement.places)
        shape = steps, regions, placement.workers
        if shape not in found or objective.better(value, found[shape][0]):
            found[shape] = value, placement
    return found


def beyond(target: Any, value: float, placement: Placement) -> None:
    """Make a target for which a placement of this value is just an improvement."""
    target.best, target.best_value = placement, target.objective.ahead(value, -1e-6)


@pytest.mark.parametrize("draw", [exchange_problem, island_problem, loading_problem])
@pytest.mark.parametrize(
    "strategy", ["model-averaging", "local-sgd", "all-reduce", "hierarchical-all-reduce"]
)
def test_no_placement_is_excluded(strategy: str, draw: Any) -> None:
    """The best of each number of regions and local steps stays possible for the relaxation."""
    judged = 0
    for seed in SEEDS:
        problem = asking(draw(seed), strategy)
        if not problem.modes or not problem.pools:
            continue
        market = EXACT.Market.of(problem)
        if not market.pools:
            continue
        target = EXACT.Target.of(problem, gap=0.0, deadline=time.monotonic() + 1e6)
        searches = {
            search.mode.local_steps: search
            for search in EXACT.Prepared(market).searches(market, target)
        }
        for (steps, regions, _), (value, placement) in best_by_shape(problem).items():
            beyond(target, value, placement)
            search = searches[steps]
            assert search.may_improve(), (seed, placement)
            if strategy in ("all-reduce", "local-sgd"):
                opened = [search._promising(family) for family in search.relaxation.families]
            else:
                opened = [search._open(regions, family) for family in search.relaxation.families]
            assert placement.workers in np.concatenate(opened), (seed, placement)
            judged += 1
        if judged >= LEAST_JUDGED:
            return
    assert judged >= LEAST_JUDGED


@pytest.mark.parametrize(
    ("draw", "strategy", "tree"),
    [
        (ring_problem, "all-reduce", "_ring_tree"),
        (exchange_problem, "model-averaging", "_region_tree"),
    ],
)
def test_nothing_is_closed_with_placements_over_fewer_regions(
    draw: Any, strategy: str, tree: str
) -> None:
    """A tree that stands for so many regions or more stays open, from any number up to that of the
    best placement, for which each value is just an improvement.
    """
    judged = 0
    for seed in range(200):
        problem = draw(seed)
        if len({pool.place for pool in problem.pools}) < 3:
            continue
        problem = asking(wishing(problem, max_workers=6), strategy)
        market = EXACT.Market.of(problem)
        target = EXACT.Target.of(problem, gap=0.0, deadline=time.monotonic() + 1e6)
        searches = EXACT.Prepared(market).searches(market, target) if market.pools else ()
        for search, ((steps, regions, n), (value, placement)) in product(
            (each for each in searches if hasattr(each, tree)), best_by_shape(problem).items()
        ):
            if search.mode.local_steps != steps:
                continue
            beyond(target, value, placement)
            most = min(n, search.ranges.most_regions)
            for fewest in range(3, regions + 1):
                assert any(
                    not getattr(search, tree)(family, n, fewest, most).close_at_once()
                    for family in search.relaxation.families
                    if len(search.relaxation.places(family)) >= fewest
                ), (seed, placement)
                judged += fewest < regions or regions < most
    assert judged >= LEAST_JUDGED


@pytest.mark.parametrize("draw", [random_problem, carbon_problem, loading_problem])
def test_a_search_without_time_has_a_bound(draw: Any) -> None:
    """A search that is stopped at its first node has a bound by the prices and speeds of machines,
    which the best placement does not beat; it is no worse than some multiple of the best in most
    instances, where it was 0, or what as many of the fastest machine do.
    """
    judged = near = 0
    for seed in range(40):
        problem = draw(seed)
        best = solve(problem, "exact", SolveOptions(gap=0.0, break_ties=False))
        market = EXACT.Market.of(problem)
        if best.value is None or not market.pools or problem.requirements.objective == "time":
            continue
        target = EXACT.Target.of(problem, gap=0.0, deadline=time.monotonic() + 1e6)
        bound = EXACT.unbeatable_value(market, target)
        assert not best.objective.better(best.value, bound, 1e-8), seed
        low, high = sorted([best.value, bound])
        judged, near = judged + 1, near + (high <= 10 * low)
    assert judged >= LEAST_JUDGED
    assert near >= judged / 2


def test_a_stopped_search_for_something_better_has_a_bound() -> None:
    """A value that is known without a placement, 0.1 or 5 % worse than the best, is to be beaten in
    one node: where nothing was found, no mode's bound excludes the best placement, and at least one
    bound in two is that of relaxations, below what machines without exchanges do together. They are
    no further from the best in sum of logarithms than they were.
    """
    judged = tighter = 0
    loose = 0.0
    for seed in range(200):
        problem = exchange_problem(seed)
        best = solve(problem, "exact", SolveOptions(gap=0.0, break_ties=False))
        if not best.value:
            continue
        for share in (0.001, 0.05):
            beat = best.objective.ahead(best.value, -share)
            options = SolveOptions(gap=0.0, node_limit=1, beat=beat, break_ties=False)
            found = solve(problem, "exact", options)
            if found.placement is not None:
                continue
            assert found.bound is not None, seed
            assert not best.objective.better(best.value, found.bound, 1e-8), seed
            market = EXACT.Market.of(problem)
            target = EXACT.Target.of(problem, gap=0.0, deadline=time.monotonic() + 1e6)
            outermost = EXACT.unbeatable_value(market, target)
            judged += 1
            tighter += best.objective.better(outermost, found.bound, 0.01)
            loose += abs(math.log(found.bound / best.value)) if found.bound > 0 else 1.0
    assert judged >= LEAST_JUDGED
    assert loose <= 0.862
    assert tighter >= judged / 2


@pytest.mark.parametrize("strategy", ["model-averaging", "local-sgd", "hierarchical-all-reduce"])
def test_trees_find_what_enumeration_finds(strategy: str) -> None:
    """Over several regions."""
    judged = 0
    for seed in range(20, 80):
        problem = asking(exchange_problem(seed), strategy)
        if not problem.modes or not problem.pools:
            continue
        answer = solve(problem, "exact", SolveOptions(gap=0.0, time_limit_s=600.0))
        judged += agrees(answer, solve(problem, "exhaustive"), seed)
        if judged >= LEAST_JUDGED / 3:
            return
    assert judged >= LEAST_JUDGED / 3
