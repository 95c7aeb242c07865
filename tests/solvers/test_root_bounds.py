"""Bounds of whole modes on drawn markets: no placement that plain enumeration finds is excluded."""

import importlib
import time
from itertools import combinations, product
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
)
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.interface.advisor import Advisor
from placer.market.catalog import MeasuredLink
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

HUB_TREE = importlib.import_module("placer.solvers.exact.tree.hub_tree")
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


def slowest_of(search: Any, placement: Placement) -> float:
    """Seconds that the slowest pair or the busiest head of a placement takes, by pair bytes."""
    used = [search.market.places.index(place) for place in placement.places]
    counts = placement.workers_by_place
    if placement.exchange.strategy == "hierarchical-all-reduce":
        counts = dict.fromkeys(counts, 1)
    loads = [
        (sum(counts.values()) - counts[place]) * search.relaxation.machine_wan[at]
        for place, at in zip(placement.places, used, strict=True)
    ]
    return float(max(search.relaxation.wan_matrix[np.ix_(used, used)].max(), *loads, 0.0))


def in_a_frame(search: Any, placement: Placement) -> bool:
    """Whether a frame has the workers, the places and the slowest pair or busiest worker of a
    placement, and whole machines that may be an improvement.
    """
    used = [search.market.places.index(place) for place in placement.places]
    slowest = slowest_of(search, placement)
    return any(
        frame.workers == placement.workers
        and {*used} <= {*frame.places}
        and frame.below * (1 - 1e-9) <= slowest <= frame.level * (1 + 1e-9)
        and may_be_whole(search._split_tree(frame, family))
        for family in search.relaxation.families
        for frame in search._frames(search._promising(family), family)
        if frame is not None
    )


def in_a_leader_frame(search: Any, placement: Placement) -> bool:
    """Whether a frame has the number of regions, the places, the largest region and the slowest
    pair or busiest leader of a placement, and whole machines that may be an improvement.
    """
    counts, slowest = placement.workers_by_place, slowest_of(search, placement)
    used = {search.market.places.index(place) for place in counts}
    for family in search.relaxation.families:
        frames = search._leader_frames(family)
        for frame in frames.frames(search.target, np.array(search.ranges.regions)):
            if (
                frame is not None
                and frame.regions == len(counts)
                and frame.fewest <= max(counts.values()) <= frame.most
                and used <= {*frames.places[list(frame.places)].tolist()}
                and frame.below * (1 - 1e-9) <= slowest <= frame.level * (1 + 1e-9)
                and may_be_whole(search._leader_tree(frames, frame, family))
            ):
                return True
    return False


def may_be_whole(tree: Any) -> bool:
    """Whether a tree has whole machines for its first node; nothing is offered."""
    return any(groups for groups in tree)


@pytest.mark.parametrize("draw", [exchange_problem, island_problem])
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
        for (steps, regions), (value, placement) in best_by_shape(problem).items():
            beyond(target, value, placement)
            search = searches[steps]
            assert search.may_improve(), (seed, placement)
            if strategy == "model-averaging":
                opened = [search._open(regions, family) for family in search.relaxation.families]
                assert placement.workers in np.concatenate(opened), (seed, placement)
            elif strategy == "hierarchical-all-reduce":
                assert in_a_leader_frame(search, placement), (seed, placement)
            else:
                assert in_a_frame(search, placement), (seed, placement)
            judged += 1
        if judged >= LEAST_JUDGED:
            return
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


@pytest.mark.parametrize("strategy", ["model-averaging", "local-sgd"])
def test_trees_find_what_enumeration_finds(strategy: str) -> None:
    """Over several regions, where the trees of hubs and of splits are all that searches."""
    judged = 0
    for seed in range(20, 80):
        problem = asking(exchange_problem(seed), strategy)
        if not problem.modes or not problem.pools:
            continue
        oracle = solve(problem, "exhaustive")
        answer = solve(problem, "exact", SolveOptions(gap=0.0, time_limit_s=600.0))
        assert answer.status == oracle.status, seed
        if oracle.value is not None:
            assert answer.value == pytest.approx(oracle.value, rel=1e-8), seed
            judged += 1
        if judged >= LEAST_JUDGED / 3:
            return
    assert judged >= LEAST_JUDGED / 3


def test_the_tree_of_hubs_reaches_the_regions_of_every_improvement() -> None:
    """Where the links between places are as fast as a machine, so that the hub's own card is what
    most rounds wait for.
    """
    judged = 0
    for seed in range(20, 50):
        drawn = exchange_problem(seed)
        places = {pool.offer.place for pool in drawn.pools}
        links = tuple(fast_link(a, b) for a, b in product(sorted(places), repeat=2))
        drawn = replace(drawn, catalog=replace(drawn.catalog, links=links))
        problem = asking(drawn, "model-averaging")
        if not problem.modes or not problem.pools:
            continue
        market = EXACT.Market.of(problem)
        target = EXACT.Target.of(problem, gap=0.0, deadline=time.monotonic() + 1e6)
        searches = EXACT.Prepared(market).searches(market, target)
        by_steps = {search.mode.local_steps: search for search in searches}
        for (steps, _), (value, placement) in best_by_shape(problem).items():
            beyond(target, value, placement)
            search, reached = by_steps[steps], list[Any]()
            for family in search.relaxation.families:
                # A leaf that gives back its regions in place of machines.
                tree = HUB_TREE.HubTree(search._levels(family), target, lambda used: [used])
                reached += tree.improvements(np.array(search.ranges.regions))
            used = tuple(sorted(market.places.index(place) for place in placement.places))
            assert used in reached, (seed, placement)
            judged += 1
    assert judged >= 3 * LEAST_JUDGED


def fast_link(src: str, dst: str) -> MeasuredLink:
    """3 Gb/s."""
    return MeasuredLink(
        src=src,
        dst=dst,
        gbps_one_stream=3.0,
        gbps_low=None,
        gbps_high=None,
        rtt_ms=1.0,
        basis="assumed",
        source="a test",
        as_of="2026-11-01",
    )


def settled_by_enumeration(
    free: np.ndarray, fewest: int, most: int
) -> tuple[list[float], list[float]]:
    """The best sum of fewest to most places with each of them, and without."""
    sets = [
        chosen
        for size in range(fewest, most + 1)
        for chosen in combinations(range(len(free)), size)
    ]

    def best(kept: list[tuple[int, ...]]) -> float:
        return max((float(free[list(chosen)].sum()) for chosen in kept), default=-np.inf)

    return (
        [best([chosen for chosen in sets if at in chosen]) for at in range(len(free))],
        [best([chosen for chosen in sets if at not in chosen]) for at in range(len(free))],
    )


def test_regions_are_settled_as_by_enumeration() -> None:
    """A region is left out, or used, exactly where no sum with it, or without it, reaches what an
    improvement needs.
    """
    draw, ruled_out, forced = np.random.default_rng(6), 0, 0
    for _ in range(200):
        places = int(draw.integers(1, 6))
        fewest = int(draw.integers(0, places + 1))
        most = int(draw.integers(fewest, places + 1))
        free = draw.normal(size=(1, places)).round(1)
        ranked = -np.sort(-free, axis=1)
        taken = np.clip((ranked > 0).sum(axis=1), fewest, most)
        reached = ranked[:, : int(taken[0])].sum(axis=1)
        spare = draw.uniform(0, 1.5, size=1)
        needed = float(reached[0] - spare[0])
        out, must = HUB_TREE.settled(spare, free, ranked, taken, (fewest, most))
        joined, away = settled_by_enumeration(free[0], fewest, most)
        assert out.tolist() == [value < needed - 1e-12 for value in joined]
        assert must.tolist() == [value < needed - 1e-12 for value in away]
        ruled_out, forced = ruled_out + int(out.sum()), forced + int(must.sum())
    assert min(ruled_out, forced) >= 50


def test_places_that_no_number_of_workers_shares_have_no_frame() -> None:
    """Two near places, each open for another number of workers: no placement has both."""
    problem = asking(Advisor("erben-2023").problem("roberta-xlm", budget="5/h"), "all-reduce")
    market = EXACT.Market.of(problem)
    target = EXACT.Target.of(problem, gap=0.0, deadline=time.monotonic() + 1e6)
    search = EXACT.Prepared(market).searches(market, target)[0]
    family = search.relaxation.families[-1]
    spread = search._spread(family)
    workers, rows = np.array([2, 3]), np.arange(len(spread.grid.weights))
    apart = np.zeros((len(spread.places), 2), dtype=bool)
    apart[0, 0] = apart[1, 1] = True
    assert [*spread._narrowed(target, rows, workers, apart, 0.0, np.inf)] == []
    together = np.zeros((len(spread.places), 2), dtype=bool)
    together[:2] = True
    assert any(
        frame is not None
        for frame in spread._narrowed(target, rows, workers, together, 0.0, np.inf)
    )
