"""The bound and the search of asynchronous SGD between regions (ASGD-GA), against enumeration."""

import importlib
import itertools
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
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

root, node, settled, crews, pairs, lines, rules = (
    importlib.import_module(f"placer.solvers.exact.gossip.{name}")
    for name in (
        "root",
        "node",
        "known.settled",
        "crews",
        "pairs.bound",
        "pairs.lines",
        "pairs.rules",
    )
)
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
    is not below that speed: some 16 placements of each generator.
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
            assert bound is not None, (seed, placement)
            assert bound >= speed * (1 - 1e-9), (seed, placement)
            judged += 1
        if judged >= 16:
            break
    assert judged >= 4


@pytest.mark.parametrize("objective", ["throughput", "cost"])
def test_the_tree_finds_what_enumeration_finds(objective: str) -> None:
    """Regions are given as two or more, so that the answer is of the tree."""
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


def test_least_partners_are_those_of_the_best_choice() -> None:
    """Of all sets of R regions within a box and with what is forced, none has nearer partners."""
    draw, judged = np.random.default_rng(5), 0
    for _ in range(60):
        places = 5
        figures = draw.uniform(0, 9, size=(places, places))
        np.fill_diagonal(figures, np.inf)
        kinds = draw.integers(0, 2, size=places)
        low, high = draw.integers(0, 2, size=2), draw.integers(1, 4, size=2)
        forced = draw.random(places) < 0.2
        first = int(draw.integers(2, 4))
        regions = (first, first + int(draw.integers(0, 2)))
        own = node.Node(
            regions=regions,
            speeds=(1.0, 2.0),
            crews=np.arange(places),
            forced=forced,
            boxes=(node.Box(low=low, high=high),) * 2,
            prices=(0.0, 0.0),
        )
        least = node.least_partners(
            figures, kinds, own.boxes[0], own, np.ones(places, dtype=bool)
        ).mean(axis=1)
        for members in range(1 << places):
            chosen = np.flatnonzero([members >> k & 1 for k in range(places)])
            counts = np.bincount(kinds[chosen], minlength=2)
            if not regions[0] <= len(chosen) <= regions[1] or np.any(counts < low):
                continue
            if np.any(counts > high) or not set(np.flatnonzero(forced)) <= set(chosen.tolist()):
                continue
            for place in chosen.tolist():
                others = chosen[chosen != place]
                assert least[place] <= figures[place, others].mean() + 1e-9
                judged += 1
    assert judged > 100


def drawn_pairs(draw: np.random.Generator, places: int = 5) -> Any:
    """A node of drawn places with two crews each, and drawn transfers between them."""
    count = 2 * places
    at = np.repeat(np.arange(places), 2)
    speed, usd = draw.uniform(1, 9, size=count), draw.uniform(0, 4, size=count)
    every = crews.Crews(
        place=at,
        machines=np.ones(count, dtype=np.intp),
        most_machines=np.ones(count, dtype=np.intp),
        averaging_s=np.zeros(count),
        host=np.zeros(count, dtype=np.intp),
        hosts=(frozenset(),),
        prices=np.array([0.0, 1.0]),
        row=np.arange(count),
        tables=(np.repeat(speed, 2), np.repeat(usd, 2)),
    )
    sends = draw.uniform(0, 4, size=(places, places))
    paid = draw.uniform(0, 1, size=(places, places))
    kinds = tuple(draw.integers(0, 2, size=places) for _ in range(2))
    boxes = tuple(
        node.Box(low=draw.integers(0, 2, size=2), high=draw.integers(2, 4, size=2)) for _ in kinds
    )
    first = int(draw.integers(2, 4))
    own = node.Node(
        regions=(first, first + int(draw.integers(0, 2))),
        speeds=(0.0, float(draw.uniform(10, 40))),
        crews=np.arange(count),
        forced=draw.random(places) < 0.2,
        boxes=boxes,
        prices=(float(draw.uniform(0.1, 1)), float(draw.uniform(0, 0.5))),
    )
    able = np.ones(places, dtype=bool)
    waits = np.maximum(1 + draw.uniform(0, 1, size=count)[:, None], sends[at])
    apart = np.where(np.eye(places, dtype=bool)[at], np.nan, waits)
    partners = first - 1
    nearest = np.sort(apart, axis=1)[:, :partners].mean(axis=1)
    farthest = -np.sort(-apart, axis=1)[:, :partners].mean(axis=1)
    before = draw.normal(size=(places, places))
    return pairs.Pairs(
        node=own,
        crews=every,
        kinds=kinds,
        weight=1 / nearest,
        usd=np.zeros(count),
        most_usd=float(draw.uniform(4, 12)),
        rules=tuple(
            rules.Rules.of(at, kind, box, own, able) for kind, box in zip(kinds, boxes, strict=True)
        ),
        transfers=before - before.T,
        sends=lines.Sends(
            waits=waits,
            usd=paid[at],
            shortest=nearest,
            longest=np.maximum(farthest, nearest * (1 + 1e-9)),
            home_usd=draw.uniform(0, 0.1, size=count),
        ),
    )


def reached_by(drawn: Any) -> Iterator[tuple[float, list[int]]]:
    """Yield what each choice of crews reaches that keeps the limits of a node: one by one."""
    own, every, sends = drawn.node, drawn.crews, drawn.sends
    speed, usd = (table[::2] for table in every.tables)
    places = len(own.forced)
    for choice in itertools.product((None, 0, 1), repeat=places):
        used = [place for place in range(places) if choice[place] is not None]
        chosen = [2 * place + choice[place] for place in used]  # type: ignore[operator]
        inside = own.regions[0] <= len(used) <= own.regions[1]
        if not inside or not set(np.flatnonzero(own.forced)) <= set(used):
            continue
        counts = [np.bincount(kind[used], minlength=2) for kind in drawn.kinds]
        if any(
            np.any(count < box.low) or np.any(count > box.high)
            for count, box in zip(counts, own.boxes, strict=True)
        ):
            continue
        total, paid = 0.0, 0.0
        for crew in chosen:
            others = [place for place in used if place != every.place[crew]]
            total += speed[crew] / sends.waits[crew, others].mean()
            paid += usd[crew] + sends.usd[crew, others].mean() + sends.home_usd[crew]
        if paid <= drawn.most_usd and speed[chosen].sum() <= own.speeds[1]:
            yield total, chosen


def test_no_choice_of_regions_exceeds_the_bound_that_knows_pairs() -> None:
    """Whatever places pay each other, and whatever the prices are after steps: 60 drawn nodes, all
    choices of crews by the formula. No crew is ruled out that the best choice has.
    """
    judged = 0
    for seed in range(60):
        drawn = drawn_pairs(np.random.default_rng(seed))
        best, chosen = max(reached_by(drawn), default=(None, []))
        if best is None:
            continue
        for needed in (0.0, 0.99 * best):
            drawn.relax(needed)
            assert drawn.reached >= best * (1 - 1e-9), seed
        left = drawn.reduced(best * (1 - 1e-9))
        assert left is not None, seed
        assert set(chosen) <= set(left.crews.tolist()), seed
        judged += 1
    assert judged > 30


def test_least_costs_are_those_of_the_cheapest_partners_one_by_one() -> None:
    """Over drawn boxes and places that are given: the mean of the least costs is that of the best
    of all sets of partners that the rules allow.
    """
    judged = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        drawn, places = drawn_pairs(draw), 5
        cost = draw.uniform(0, 9, size=drawn.sends.waits.shape)
        own = drawn.node
        known = own.regions[0] == own.regions[1]
        for each, kinds, box in zip(drawn.rules, drawn.kinds, own.boxes, strict=True):
            least = each.least(cost)
            for row, place in enumerate(drawn.crews.place.tolist()):
                others = [other for other in range(places) if other != place]
                allowed = []
                for some in itertools.combinations(others, each.count):
                    counts = np.bincount(kinds[[*some, place]], minlength=2)
                    given = not known or set(np.flatnonzero(own.forced)) <= {*some, place}
                    enough = not known or np.all(counts >= box.low)
                    if given and enough and np.all(counts <= box.high):
                        allowed.append(cost[row, list(some)].mean())
                if allowed:
                    assert least[row] <= min(allowed) + 1e-9, seed
                    judged += 1
    assert judged > 100


def test_chords_are_above_what_a_crew_is_worth_at_any_mean() -> None:
    """At drawn prices and means between the ends, the highest line is not below the worth of the
    crew, and at the ends it is the worth.
    """
    for seed in range(20):
        draw = np.random.default_rng(seed)
        drawn = drawn_pairs(draw)
        dollar, speed = float(draw.uniform(0, 1)), float(draw.uniform(-0.5, 0.8))
        found = lines.lines_of(drawn.crews, drawn.ends, dollar, speed)
        for share in (0.0, 0.1, 0.37, 0.8, 1.0):
            mean = drawn.ends[0] + share * (drawn.ends[-1] - drawn.ends[0])
            worth = drawn.crews.values(np.maximum(0.0, 1 / mean - speed), np.array(dollar))
            highest = (found.worth - found.slope * mean).max(axis=0)
            assert np.all(highest >= worth - 1e-9), seed
            if share in (0.0, 1.0):
                assert highest == pytest.approx(worth, abs=1e-6), seed


def test_pairs_make_a_bound_lower() -> None:
    """Over drawn nodes, the bound after steps is on average below that at the first prices."""
    lower = []
    for seed in range(30):
        drawn = drawn_pairs(np.random.default_rng(seed))
        drawn.transfers = np.zeros_like(drawn.transfers)
        drawn.look()
        before = drawn.reached
        drawn.relax(0.0)
        if np.isfinite(before):
            lower.append(drawn.reached / before)
    assert np.mean(lower) < 0.98


def test_a_stopped_search_keeps_a_bound_that_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after some nodes, what is proved is not below what a whole search finds."""
    allowance = importlib.import_module("placer.solving.allowance")
    problem = next(
        found
        for seed in range(400, 440)
        if (found := gossip_problem(instances.exchange_problem, seed, 64)) is not None
        and any(True for _ in spread_placements(found))
    )
    best = max(
        speed
        for placement, speed, _ in spread_placements(problem)
        if placement.exchange.local_steps == 64  # the mode that is searched
    )
    for nodes in (1, 3, 10):
        search = search_of(problem, 64, speed=best / 2, usd=1e9)
        left = iter(range(nodes))

        def tick(left: Any = left) -> None:
            if next(left, None) is None:
                raise allowance.OutOfTimeError(allowance.Reason.TIME)

        monkeypatch.setattr(search.target, "tick", tick)
        try:
            for _ in search.turns():
                pass
        except allowance.StoppedError:
            pass
        assert search.proved() >= best
