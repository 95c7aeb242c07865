"""Whole machines of groups of places, sets of near places and what lies outside of a group, against
enumeration.
"""

import importlib
import random
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from instances import exchange_problem, random_problem, sized_problem

cliques: Any = importlib.import_module("placer.solvers.exact.frames.cliques")
dendrogram: Any = importlib.import_module("placer.solvers.exact.bounds.dendrogram")
place_fronts: Any = importlib.import_module("placer.solvers.exact.frames.place_fronts")
group_fronts: Any = importlib.import_module("placer.solvers.exact.frames.group_fronts")
markets: Any = importlib.import_module("placer.solvers._market.market")


def test_cliques_are_the_largest_sets_of_near_places() -> None:
    """On drawn graphs of up to seven places, exactly the sets of which all pairs are near and to
    which no further place fits.
    """
    draw = random.Random(3)
    for _ in range(60):
        places = draw.randint(1, 7)
        near = np.zeros((places, places), dtype=bool)
        for one, other in combinations(range(places), 2):
            near[one, other] = near[other, one] = draw.random() < 0.6
        sets = [
            {*some}
            for size in range(1, places + 1)
            for some in combinations(range(places), size)
            if all(near[a, b] for a, b in combinations(some, 2))
        ]
        largest = sorted(sorted(own) for own in sets if not any(own < other for other in sets))
        assert cliques.maximal_cliques(near, 200) == largest
        if len(largest) > 1:
            assert cliques.maximal_cliques(near, len(largest) - 1) is None


def test_a_group_and_what_lies_outside_make_the_best_of_all() -> None:
    """Over drawn dendrograms, the best of a group and of the others is never more than the best of
    all, and as much for some number of workers of the group.
    """
    draw = np.random.default_rng(5)
    for _ in range(40):
        places, workers = int(draw.integers(2, 6)), int(draw.integers(2, 7))
        usd = draw.uniform(0, 1, (places, places))
        usd = usd + usd.T
        tree = dendrogram.Dendrogram(usd)
        charge = draw.uniform(0, 1, 2)
        leaves = [
            np.concatenate([np.zeros((2, 1)), draw.uniform(0, 9, (2, workers))], axis=1)
            for _ in range(places)
        ]
        groups = tree.best(leaves, charge, workers)
        for own, outside in zip(groups, tree.outside(groups, charge, workers), strict=True):
            both = own + outside[:, : own.shape[1]]
            assert np.allclose(both.max(axis=1), groups[-1][:, workers])


def counts_of(market: Any, pools: list[int], most: int) -> list[tuple[int, ...]]:
    """List the numbers of machines of some pools that caps, quotas and a number of all allow."""
    ranges = [range(int(min(market.cap[pool], most)) + 1) for pool in pools]
    allowed = []
    for counts in product(*ranges):
        used: dict[Any, int] = {}
        for pool, count in zip(pools, counts, strict=True):
            own = market.pools[pool]
            used[own.bucket] = used.get(own.bucket, 0) + count * own.gpus
        kept = all(
            used[market.pools[pool].bucket] <= market.pools[pool].gpu_quota for pool in pools
        )
        if kept and sum(counts) <= most:
            allowed.append(counts)
    return allowed


def drawn(market: Any, draw: np.random.Generator, heads: str) -> Any:
    """Draw two places of a market and what an improvement needs there: the choices of machines of
    each, and groups with their question; None where that is too many or none.
    """
    if len(market.places) < 2:
        return None
    places = draw.choice(len(market.places), 2, replace=False).tolist()
    mine = [np.flatnonzero(market.place_of == place).tolist() for place in places]
    if max(map(len, mine)) > 4:
        return None
    number = 2 if heads == "leaders" else int(draw.integers(2, 5))
    most = 3 if heads == "leaders" else number
    of = np.minimum(np.arange(most + 1), 1) if heads == "leaders" else np.arange(most + 1)
    choices: list[list[tuple[int, float, float]]] = []
    for pools in mine:
        own = []
        for counts in counts_of(market, pools, most):
            speed, usd = (float(np.dot(counts, of_[pools])) for of_ in (market.speed, market.usd))
            own.append((int(of[sum(counts)]), speed, usd))
        choices.append(own)
    pair = float(draw.uniform(0, 0.3))
    whole = [
        (one[1] + other[1], one[2] + other[2], pair * one[0] * other[0])
        for one, other in product(*choices)
        if one[0] + other[0] == number
    ]
    if not whole:
        return None
    middle = whole[int(draw.integers(len(whole)))]
    least, budget = middle[0] * 0.999, (middle[1] + middle[2]) * float(draw.uniform(0.9, 1.05))
    prices = np.array([0.5, 1.0, 2.0]) * least / budget
    weights = np.array([[1.0, 0.0], [0.0, 1.0], *([1.0, price] for price in prices)])
    inside = []
    for own in choices:
        best = np.full((len(weights), int(of[-1]) + 1), -np.inf)
        for count, speed, price in own:
            worth = weights[:, 0] * speed - weights[:, 1] * price
            best[:, count] = np.maximum(best[:, count], worth)
        inside.append(best)
    tree = dendrogram.Dendrogram(np.array([[0.0, 1.0], [1.0, 0.0]]))
    question = group_fronts.Question(
        weights=weights,
        needed=weights[:, 0] * least - weights[:, 1] * budget,
        charge=weights[:, 1] * pair,
        pair_usd=pair,
        inside=tree.best(inside, weights[:, 1] * pair, number),
        heads=number,
        usd_per_speed=budget / least,  # the most egress for each sample/s
    )
    hosts, nothing = frozenset(market.host_of), np.zeros(most + 1)
    fronts = [
        place_fronts.PlaceFront(market, place, hosts, heads=of, egress=nothing) for place in places
    ]
    return whole, least, budget, group_fronts.GroupFronts(market, tree, fronts, question)


@pytest.mark.parametrize("heads", ["workers", "leaders"])
@pytest.mark.parametrize("draw", [random_problem, exchange_problem, sized_problem])
def test_groups_keep_a_choice_for_whatever_reaches_the_thresholds(draw: Any, heads: str) -> None:
    """Two places of a drawn market: each choice of machines that reaches a speed for a budget, with
    the rounds that its speed brings along, is as good as one that is kept; where none does, none is
    kept.
    """
    judged = {True: 0, False: 0}
    for seed in range(60):
        asked = drawn(markets.Market.of(draw(seed)), np.random.default_rng(seed), heads)
        if asked is None:
            continue
        whole, least, budget, groups = asked
        kept = groups.choices()
        speed, machines, egress = np.array(whole).T
        usd, paid = (
            machines + egress * speed / least,
            kept.usd + kept.egress * (kept.speed / least - 1),
        )
        within = (speed >= least) & (usd <= budget)
        ok = (kept.speed >= least * (1 - 1e-8)) & (paid <= budget * (1 + 1e-8))
        assert within.any() == ok.any(), seed
        for at in np.flatnonzero(within):
            assert np.any(ok & (kept.speed >= speed[at] - 1e-6) & (paid <= usd[at] + 1e-6)), seed
        judged[bool(within.any())] += 1
    assert min(judged.values()) >= 5, judged


def test_too_many_choices_are_not_kept() -> None:
    """Of more choices than a limit nothing is said."""
    market = markets.Market.of(exchange_problem(1))
    front = place_fronts.PlaceFront(
        market, 0, frozenset(market.host_of), heads=np.arange(3), egress=np.zeros(3)
    )
    weights, nothing = np.array([[1.0, 0.0]]), np.zeros((1, 3))
    assert front.choices(weights, np.array([-1e9]), nothing, 0.0, 100) is not None
    assert front.choices(weights, np.array([-1e9]), nothing, 0.0, 0) is None
