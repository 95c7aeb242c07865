"""Whole machines of regions that send to each other in turn, within a budget, against
enumeration.
"""

import importlib
import itertools
import math
from typing import Any

import numpy as np
import pytest
from test_gossip import gossip_problem, search_of, spread_placements

import instances
from placer.records import replace

front, knapsack, work, node, crews, tree, settled = (
    importlib.import_module(f"placer.solvers.exact.gossip.{name}")
    for name in ("known.front", "knapsack", "work", "node", "crews", "tree", "known.settled")
)
markets = importlib.import_module("placer.solvers._market.market")


def nothing() -> None:
    """Count no node."""


def drawn_items(draw: np.random.Generator) -> list[Any]:
    """Four places with one to four options each; their price says little about what they gain."""
    sizes = draw.integers(1, 5, size=4)
    return [
        knapsack.Items(gain=draw.uniform(0, 9, size=n), usd=draw.uniform(0, 5, size=n))
        for n in sizes
    ]


def choices_of(items: list[Any], most_usd: float) -> list[tuple[float, tuple[int, ...]]]:
    """List what each choice within a budget gains, and the choice."""
    found = []
    for chosen in itertools.product(*(range(len(own.gain)) for own in items)):
        pairs = list(zip(items, chosen, strict=True))
        if sum(own.usd[k] for own, k in pairs) <= most_usd:
            found.append((float(sum(own.gain[k] for own, k in pairs)), chosen))
    return found


def test_a_knapsack_finds_all_choices_that_enumeration_finds() -> None:
    """Whatever the price of a dollar at which choices are dropped early: 60 drawn questions."""
    for seed in range(60):
        draw = np.random.default_rng(seed)
        items = drawn_items(draw)
        most_usd, dollar = float(draw.uniform(3, 14)), float(draw.uniform(0, 3))
        every = choices_of(items, most_usd)
        best = max((gain for gain, _ in every), default=-math.inf)
        needed = 0.8 * best if every else 1.0
        own = knapsack.Knapsack(
            items, knapsack.Terms(needed=needed, most_usd=most_usd, dollar=dollar), nothing
        )
        assert own.reached == pytest.approx(best), seed
        expected = {chosen for gain, chosen in every if gain >= needed}
        assert set(own.choices(lambda needed=needed: needed)) == expected, seed
        if every:
            assert own.best(most_usd) in {c for gain, c in every if gain >= best * (1 - 1e-5)}


def test_a_good_choice_is_a_choice_that_keeps_the_terms() -> None:
    """It gains what is needed within the budget, and with all sums it is the best one: 60 drawn
    questions. With three sums of each front it may miss the best, and none is made up.
    """
    missed = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        items = drawn_items(draw)
        every = choices_of(items, most_usd := float(draw.uniform(3, 14)))
        best = max((gain for gain, _ in every), default=math.inf)
        terms = knapsack.Terms(
            needed=0.8 * best, most_usd=most_usd, dollar=float(draw.uniform(0, 3))
        )
        found = knapsack.good_choice(items, terms, 1000)
        assert (found is None) == (not every), seed
        some = knapsack.good_choice(items, terms, 3)
        gains = {chosen: gain for gain, chosen in every}
        assert found is None or gains[found] == pytest.approx(best), seed
        assert some is None or gains[some] >= terms.needed, seed
        missed += found is not None and some != found
    assert missed < 30


def test_fronts_end_where_joined_sums_promise_too_much() -> None:
    """With two sums of each front and no room for what they promise too much, nothing is known."""
    draw = np.random.default_rng(0)
    terms = knapsack.Terms(needed=-100.0, most_usd=9.0, dollar=0.0)
    assert knapsack.Knapsack(drawn_items(draw), terms, nothing, 2, 0.0).reached == math.inf


def test_thinned_fronts_never_promise_too_little() -> None:
    """With two sums of each front at most, what is reached is not below the best choice."""
    above = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        items, most_usd = drawn_items(draw), float(draw.uniform(6, 14))
        best = max((gain for gain, _ in choices_of(items, most_usd)), default=-math.inf)
        terms = knapsack.Terms(needed=-100.0, most_usd=most_usd, dollar=0.0)
        reached = knapsack.Knapsack(items, terms, nothing, 2).reached
        assert reached >= best - 1e-9, seed
        above += reached > best + 1e-9
    assert above  # it is not as if nothing had been thinned


@pytest.mark.parametrize("few", [False, True])
def test_a_front_has_a_row_for_all_machines_that_quotas_allow(
    few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All choices of up to three machines of one place are as dear and as slow as some row, and
    each row is a choice that quotas allow: markets of five seeds. Where more than a few rows make
    it count devices roughly, a row may be more than quotas allow, never less.
    """
    if few:
        monkeypatch.setattr(front, "AT_ONCE", 8)
        monkeypatch.setattr(front, "KEPT", 6)
    judged = longest = 0
    for seed in range(5):
        market = markets.Market.of(instances.exchange_problem(seed))
        for place in range(len(market.places)):
            pools = np.flatnonzero(market.place_of == place)
            rows = front.front_of(market, pools, 3, nothing)
            longest = max(longest, len(rows.usd))
            allowed = set()
            for counts in itertools.product(range(4), repeat=len(pools)):
                devices: dict[Any, int] = {}
                for i, count in zip(pools.tolist(), counts, strict=True):
                    pool = market.pools[i]
                    devices[pool.bucket] = devices.get(pool.bucket, 0) + count * pool.gpus
                if (
                    sum(counts) > 3
                    or np.any(np.array(counts) > market.cap[pools])
                    or any(
                        devices[market.pools[i].bucket] > market.pools[i].gpu_quota for i in pools
                    )
                ):
                    continue
                allowed.add(counts)
                speed, usd = np.dot(counts, market.speed[pools]), np.dot(counts, market.usd[pools])
                own = rows.machines == sum(counts)
                beaten = (rows.speed[own] >= speed - 1e-9) & (rows.usd[own] <= usd + 1e-9)
                assert beaten.any(), (seed, place, counts)
                judged += 1
            small = rows.counts[rows.machines <= 3]
            assert few or {tuple(row) for row in small.tolist()} <= allowed
    assert judged > 30
    assert longest > 6  # else nothing is rounded


def test_many_sizes_and_a_large_quota_keep_few_rows() -> None:
    """128 machines of 1, 4 and 8 devices, of which 200 may run: all pairs of machines and devices
    were 25,000 groups, and gigabytes.
    """
    draw, asked = np.random.default_rng(5), []
    none = np.zeros(1, dtype=np.intp)
    built = front.Front(
        machines=none,
        devices=none,
        usd=np.zeros(1),
        speed=np.zeros(1),
        counts=np.zeros((1, 6), dtype=np.intp),
        pools=np.arange(6),
    )
    for column, gpus in enumerate((1, 1, 4, 4, 8, 8)):
        offer = front.Offer(
            cap=200 // gpus,
            gpus=gpus,
            quota=200,
            binding=True,
            usd=gpus * float(draw.uniform(0.2, 1.0)),
            speed=gpus * float(draw.uniform(50, 100)),
        )
        built = built.extended(column, offer, 128, lambda: asked.append(1))
        assert len(built.usd) <= front.KEPT
    assert len(asked) > 1_000  # the clock is asked all the time


def test_no_placement_exceeds_what_whole_machines_reach() -> None:
    """Of the first nodes of a tree that asks for the speed of a placement at its price."""
    judged = packed = 0
    for seed in range(700, 760):
        problem = gossip_problem(instances.exchange_problem, seed, (8, 64)[seed % 2])
        if problem is None:
            continue
        found = list(spread_placements(problem))
        for placement, speed, usd in found[:: max(1, len(found) // 3)]:
            steps = placement.exchange.local_steps
            search = search_of(problem, steps, speed=0.8 * speed, usd=usd)
            slices = search.root.slices()
            own = tree.GossipTree(search.root, lambda _: None)
            nodes = [first for _, first in own._first([(0.0, each) for each in slices])]
            reached = [own._packed(each, own.needed) for each in nodes]
            packed += sum(0 < value < math.inf for value in reached)
            assert max(reached) >= search.mode.multiplier * speed * (1 - 1e-9), (seed, placement)
            judged += 1
        if judged >= 12:
            break
    assert judged >= 6
    assert packed


@pytest.mark.parametrize(
    "generator", [instances.exchange_problem, instances.random_problem, instances.wide_problem]
)
def test_each_placement_is_in_a_set_of_regions_that_reaches_it(generator: Any) -> None:
    """Of the nodes of a tree whose number of regions is known, which ask for the speed of a
    placement at its price or for 80 % of it, some node lists the regions of the placement, with at
    least its speed.
    """
    judged = several = 0
    for seed in range(700, 800):
        problem = gossip_problem(generator, seed, (8, 64)[seed % 2])
        if problem is None:
            continue
        found = list(spread_placements(problem))
        for placement, speed, usd in found[:: max(1, len(found) // 3)]:
            steps = placement.exchange.local_steps
            search = search_of(problem, steps, speed=(0.8, 1.0)[judged % 2] * speed, usd=usd)
            own = tree.GossipTree(search.root, lambda _: None)
            count, reached = len(placement.places), []
            for first in own._first([(0.0, each) for each in search.root.slices()]):
                if first[1].regions[0] <= count <= first[1].regions[1]:
                    at = replace(first[1], regions=(count, count))
                    assert own._few_sets(at)
                    for value, bounded in own._sets(
                        tree.Bounded(reached=math.inf, node=at, chosen=None)
                    ):
                        names = [search.market.places[p] for p in bounded.node.forced.nonzero()[0]]
                        assert len(names) == count
                        if sorted(names) == sorted(placement.places):
                            reached.append(value)
            assert max(reached) >= search.mode.multiplier * speed * (1 - 1e-9), (seed, placement)
            judged += 1
            several += any(group.count > 1 for group in placement.groups)
        if judged >= 24:
            break
    assert judged >= 6
    assert several


def test_a_place_without_machines_holds_no_improvement() -> None:
    """All crews of a place that has to be used were ruled out."""
    market = markets.Market.of(instances.exchange_problem(0))
    known = settled.Place(
        place=0, machines=frozenset(), usd=0.0, home_usd=0.0, weight=lambda _: 1.0
    )
    limits = settled.Limits(needed=1.0, most_usd=9.0, speeds=(1.0, 2.0), prices=(0.1, 0.0))
    own = settled.Settled(market, {}, nothing)
    assert own.best([known], limits, lambda: 1.0, 5) == (-math.inf, [])


def test_prices_do_not_stop_where_a_samples_per_second_and_a_dollar_have_to_fall_together() -> None:
    """Ten regions of one machine, 10 samples/s and 1 USD/h each, which wait for nobody: 5 USD/h buy
    50 samples/s, whatever the slice is. Where the price of a samples/s alone fell, the bound rose.
    """
    count = 10
    every = crews.Crews(
        place=np.arange(count),
        machines=np.ones(count, dtype=np.intp),
        most_machines=np.ones(count, dtype=np.intp),
        averaging_s=np.zeros(count),
        host=np.zeros(count, dtype=np.intp),
        hosts=(frozenset(),),
        prices=np.array([0.0, 1.0]),
        row=np.arange(count),
        tables=(np.full(2 * count, 10.0), np.ones(2 * count)),
    )
    kinds = np.zeros(count, dtype=np.intp)
    box = node.Box(low=np.zeros(1, dtype=np.intp), high=np.array([count]))
    own = work.Work(
        node=node.Node(
            regions=(2, 10),
            speeds=(50.0, 57.5),
            crews=np.arange(count),
            forced=np.zeros(count, dtype=bool),
            boxes=(box, box),
            prices=(0.5 * 50 / 5, 0.3),
        ),
        crews=every,
        kinds=(kinds, kinds),
        weight=np.ones(count),
        usd=np.zeros(count),
        most_usd=5.0,
    )
    own.improve(needed=0.0)
    assert own.reached == pytest.approx(50, rel=0.01)
