"""Bounds of whole modes on drawn markets: no placement that plain enumeration finds is excluded."""

import importlib
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from instances import exchange_problem, island_problem
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.problem.placement import Placement
from placer.problem.problem import Problem

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
    return replace(problem, requirements=wish)


def best_by_shape(problem: Problem) -> dict[tuple[int, int], tuple[float, Placement]]:
    """Best placement for each number of local steps and of regions, by plain enumeration."""
    objective, found = (
        objective_of(problem.requirements),
        dict[tuple[int, int], tuple[float, Placement]](),
    )
    for placement in PLACEMENTS(problem):
        if placement.workers < 2 or violations(placement, problem):
            continue
        value = objective.value(evaluate(placement, problem))
        shape = placement.exchange.local_steps, len(placement.places)
        if shape not in found or objective.better(value, found[shape][0]):
            found[shape] = value, placement
    return found


def beyond(target: Any, value: float, placement: Placement) -> None:
    """Make a target for which a placement of this value is just an improvement."""
    target.best, target.best_value = placement, target.objective.ahead(value, -1e-6)


def in_a_frame(search: Any, placement: Placement) -> bool:
    """Whether a frame has the workers, the places and the slowest pair of a placement."""
    used = [search.market.places.index(place) for place in placement.places]
    slowest = search.relaxation.wan_matrix[np.ix_(used, used)].max()
    return any(
        frame.workers == placement.workers
        and {*used} <= {*frame.places}
        and (frame.below < slowest or slowest == 0.0)
        and slowest <= frame.level
        for family in search.relaxation.families
        for frame in search._frames(family)
    )


@pytest.mark.parametrize("draw", [exchange_problem, island_problem])
@pytest.mark.parametrize("strategy", ["model-averaging", "local-sgd", "all-reduce"])
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
        for (steps, regions), (value, placement) in best_by_shape(problem).items():
            beyond(target, value, placement)
            search = searches[steps]
            assert search.may_improve(), (seed, placement)
            if strategy == "model-averaging":
                opened = [search._open(regions, family) for family in search.relaxation.families]
                assert placement.workers in np.concatenate(opened), (seed, placement)
            else:
                assert in_a_frame(search, placement), (seed, placement)
            judged += 1
        if judged >= LEAST_JUDGED:
            return
    assert judged >= LEAST_JUDGED
