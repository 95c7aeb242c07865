"""Parts of drafts against plain loops: what they list, leave out and put first."""

import importlib
import math
from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import joint_problem, link_of, random_problem, two_places, wide_problem, wishing
from placer.cost_model.estimate import evaluate
from placer.cost_model.objective import objective_named
from placer.cost_model.timing.transfers import direct_seconds
from placer.problem.exchange import traits
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

ascent: Any = importlib.import_module("placer.solvers._drafts.ascent")
candidates: Any = importlib.import_module("placer.solvers._drafts.candidates")
construction: Any = importlib.import_module("placer.solvers._drafts.construction")
fleet: Any = importlib.import_module("placer.solvers._drafts.fleet")
like_drafts: Any = importlib.import_module("placer.solvers._drafts.like_drafts")
like_machines: Any = importlib.import_module("placer.solvers._drafts.like_machines")
many_regions: Any = importlib.import_module("placer.solvers._drafts.many_regions")
neighbourhood: Any = importlib.import_module("placer.solvers._drafts.neighbourhood")
one_place: Any = importlib.import_module("placer.solvers._drafts.one_place")
several_regions: Any = importlib.import_module("placer.solvers._drafts.several_regions")
Draft = importlib.import_module("placer.solvers._drafts.draft").Draft
market_of = importlib.import_module("placer.solvers._market.market").Market.of
Mode = importlib.import_module("placer.solvers._mode").Mode
MAKERS = (random_problem, wide_problem, joint_problem)


def judge(problem: Problem) -> Any:
    """A judge that has seen nothing."""
    return construction.judge_of(market_of(problem), SolveOptions(time_limit_s=600.0))


FIGURES = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))


@settings(max_examples=50, deadline=None)
@given(
    name=st.sampled_from(["throughput", "cost", "cost-per-sample", "total", "carbon"]),
    figures=st.lists(FIGURES, min_size=1, max_size=8),
    limits=st.tuples(*[st.sampled_from([None, 2, 4])] * 4),
)
def test_promises_within_the_limits_come_best_first(
    name: str, figures: list[tuple[int, int, int]], limits: tuple[int | None, ...]
) -> None:
    """What is as fast as the floor, and as cheap and clean as the limits or more, sorted by its
    objective, then by price or by speed, then by its position.
    """
    floor, budget, per_sample, carbon = limits
    made = judge(two_places())
    made.target = replace(
        made.target,
        objective=objective_named(name),
        floor_samples_per_second=floor or 0.0,
        budget_usd_per_hour=budget or math.inf,
        limit_usd_per_sample=(per_sample or math.inf) / 3600,
        limit_carbon_g_per_hour=carbon or math.inf,
    )
    keys: dict[str, Callable[..., tuple[float, float]]] = {
        "throughput": lambda v, usd, _: (-v, usd),
        "cost": lambda v, usd, _: (usd, -v),
        "carbon": lambda _, usd, grams: (grams, usd),
    }
    keys["cost-per-sample"] = keys["total"] = lambda v, usd, _: (round(usd / v, 9), -v)
    kept = [
        i
        for i, (v, usd, grams) in enumerate(figures)
        if v >= (floor or 0)
        and usd <= (budget or math.inf)
        and usd <= (per_sample or math.inf) * v
        and grams <= (carbon or math.inf)
    ]
    columns = (np.array(each, dtype=float) for each in zip(*figures, strict=True))
    order, values = one_place.promise(made, *columns)
    assert order.tolist() == sorted(kept, key=lambda i: (*keys[name](*figures[i]), i))
    if name == "cost-per-sample":  # of a million samples, an hour having 3,600 seconds
        assert values.tolist() == pytest.approx([usd / v / 0.0036 for v, usd, _ in figures])


@pytest.mark.parametrize("maker", MAKERS)
def test_mixes_take_as_many_of_each_kind_as_there_may_be(maker: Any) -> None:
    """Beside those before, a mix has as many of its next kind as quotas, workers and budget allow;
    its kinds stand in one place, the best for their price or the fastest first.
    """
    mixed = 0
    for seed in range(40):
        made = judge(maker(seed))
        if not made.market.pools or made.needed or made.rules:
            continue
        market, budget = made.market, made.target.budget_usd_per_hour
        spent = market.carbon if made.target.objective.name == "carbon" else market.usd
        rankings = (spent / market.speed).tolist(), (-market.speed).tolist()
        for mix in one_place.OnePlaceDrafts(made).mixes:
            before: dict[int, int] = {}
            for pool, count in mix.items():
                left = budget - sum(float(market.usd[i]) * n for i, n in before.items())
                payable = left / float(market.usd[pool]) if market.usd[pool] else math.inf
                room = made.room(Draft.of(before, ("all-reduce", 1)), pool)
                assert count == int(min(room, payable)) > 0
                before[pool] = count
            assert len({market.place_of[i] for i in mix}) == 1 < len(mix)
            assert sum(mix.values()) >= made.wish.min_workers
            assert any([each[i] for i in mix] == sorted(each[i] for i in mix) for each in rankings)
            mixed += 1
    assert mixed >= 10


def test_places_are_as_far_apart_as_their_slower_way() -> None:
    """With 1 Gbit/s there and 0.1 back, a gradient takes the seconds of the way back."""
    problem = two_places()
    a, b = market_of(problem).places
    links = link_of(a, b, 1.0, 10.0), link_of(b, a, 0.1, 10.0)
    problem = replace(problem, catalog=replace(problem.catalog, links=links))
    back = direct_seconds(problem.gradient_bytes, problem.network.link(b, a))
    assert back > 5 * direct_seconds(problem.gradient_bytes, problem.network.link(a, b))
    apart_s = candidates.CandidateRounds(market_of(problem)).apart_s
    assert apart_s.tolist() == [[0.0, pytest.approx(back)], [pytest.approx(back), 0.0]]


@pytest.mark.parametrize("maker", MAKERS)
def test_changes_within_the_limits_are_those_that_the_judge_allows(maker: Any) -> None:
    """Machines that join or leave a fleet within its quotas: as many as there is room for."""
    allowed = refused = 0
    for seed in range(20):
        made = judge(maker(seed))
        pools = range(len(made.market.pools))
        if not pools:
            continue
        stock = fleet.Stock(made)
        counts: dict[int, int] = {}
        for pool in pools:
            room = made.room(Draft.of(counts, ("all-reduce", 1)), pool)
            counts[pool] = min(room, 1 + (seed + pool) % 2)
        for pool in pools:
            room = made.room(Draft.of(counts, ("all-reduce", 1)), pool)
            for n in (-counts[pool] - 1, -counts[pool], room, room + 1):
                changes = fleet.Changes(np.array([[pool]]), np.array([[n]]))
                (within,) = fleet.Fleet(stock, counts).within(changes).tolist()
                assert within == (-counts[pool] <= n <= room), (seed, counts, pool, n)
                allowed, refused = allowed + within, refused + (not within)
    assert min(allowed, refused) >= 50


@pytest.mark.parametrize("objective", ["throughput", "cost", "cost-per-sample"])
def test_places_may_win_whose_machines_are_worth_more_than_the_best(objective: str) -> None:
    """Machines of a place that do as much as the best answer for less than it, exchanges being
    free, as many as the budget pays: else none of its mixes is better.
    """
    won = lost = 0
    for seed in range(30):
        wishes = {"objective": objective, "min_samples_per_second": 20.0, "exchange": "auto"}
        steps = {"min_local_steps": 2, "max_local_steps": 8} if seed % 2 else {}
        problem = wishing(wide_problem(seed), budget_usd_per_hour=8.0, **wishes, **steps)
        made = judge(problem)
        answer = solve(problem, "greedy").placement
        if answer is None or not problem.modes:
            continue
        made.target.offer(answer)
        best, market = evaluate(answer, problem), made.market
        speed = best.samples_per_second if objective == "throughput" else 20.0
        limit = {
            "throughput": 8.0,
            "cost": best.usd.total,
            "cost-per-sample": best.usd.total / best.samples_per_second * 20.0,
        }[objective]
        multiplier = min(Mode(problem, *mode).multiplier for mode in problem.modes)
        open_ = one_place.OnePlaceDrafts(made)._may_win(market.usd / market.speed)
        for at, found in enumerate(open_.tolist()):
            each = (market.usd / market.speed)[market.place_of == at].min()
            if each * speed * multiplier != pytest.approx(limit, rel=1e-9):
                assert found == (each * speed * multiplier < limit)
                won, lost = won + found, lost + (not found)
    assert min(won, lost) >= 3


def regional(problem: Problem, **wishes: Any) -> Any:
    """Drafts of several regions of a market; None where there are none."""
    ranges = {"min_workers": 1, "max_workers": 6, "exchange": "all-reduce"}
    made = judge(wishing(problem, **{**ranges, **wishes}))
    near = neighbourhood.NearPlaces(made)
    drafts = len(made.market.places) > 1 and like_drafts.LikeRegionDrafts(made, near)
    return drafts if drafts and len(drafts.sets) else None


@pytest.mark.parametrize("transport", ["hivemind", "nccl"])
def test_rough_rounds_pay_for_what_regions_send(transport: str) -> None:
    """Of as many machines in each of two regions, or of more in one: the egress of a round is that
    of the model, and the slowest way decides how long it takes.
    """
    paid = 0
    wishes = {"transport": transport, "max_regions": 2, "same_zone": True, "data_store": None}
    for seed in range(30):
        made = regional(random_problem(seed), **wishes)
        if made is None:
            continue
        market, mode = made.market, Mode(made.judge.problem, "all-reduce", 1)
        for machines in ((1, 1), (2, 2), (4, 1), (1, 3)):
            pool = np.array([[market.place_of.tolist().index(p) for p in row] for row in made.sets])
            count = np.tile(np.array(machines, dtype=float), (len(pool), 1))
            together = (count * market.speed[pool]).sum(axis=1)
            speeds, egress = made._figures(mode, slice(None), count, together)
            for pools, speed, usd in zip(pool.tolist(), speeds, egress, strict=True):
                drafted = Draft.of(dict(zip(pools, machines, strict=True)), ("all-reduce", 1))
                outcome = evaluate(made.judge.placement(drafted), made.judge.problem)
                seconds = mode.samples / mode.multiplier / speed
                ways = [made.pair_s[way] for way in permutations(market.place_of[pools], 2)]
                sent_s = 2 * max(ways) * (sum(machines) - 1 if mode.ring else 1) / sum(machines)
                both = sum(n * market.speed[i] for i, n in drafted.counts)
                assert seconds == pytest.approx(mode.round_s(mode.samples / both, sent_s))
                sent_usd = (outcome.usd.total - outcome.usd.compute) * outcome.step.total
                assert usd * seconds == pytest.approx(sent_usd, rel=1e-6, abs=1e-9)
                paid += usd > 0
    assert paid >= 40


def test_like_machines_of_several_regions_are_promised_by_price() -> None:
    """Where nothing is sent for money and the price is the objective: every set of regions that all
    have the device, with every number that the budget pays for, the cheapest first.
    """
    promised = 0
    for seed in range(40):
        made = regional(wide_problem(seed), objective="cost", min_samples_per_second=None)
        if made is None:
            continue
        paid, made.usd = made.usd, np.zeros_like(made.usd)
        like, numbers = like_machines.LikeMachines.of(made.judge), made._numbers()
        for device in set(like.device.tolist()):
            team_at = {
                place: team
                for team, place in enumerate(like.place.tolist())
                if like.device[team] == device
            }
            expected = []
            for places, counts in product(made.sets.tolist(), numbers.tolist()):
                if team_at.keys() >= {*places}:
                    teams = [team_at[place] for place in places]
                    usd = sum(float(like.usd[row]) for row in zip(teams, counts, strict=True))
                    if usd <= made.judge.target.budget_usd_per_hour and usd < math.inf:
                        expected.append((usd, *teams, *counts))
            mode = Mode(made.judge.problem, "all-reduce", 1)
            order, value, team, count = made._promised(mode, like, device, numbers)
            found = [(value[k], *team[k].tolist(), *count[k].tolist()) for k in order]
            prices = [usd for usd, *_ in found]
            assert prices == sorted(prices)
            assert prices == pytest.approx(sorted(usd for usd, *_ in expected))
            assert {tuple(row) for _, *row in found} == {tuple(row) for _, *row in expected}
            promised += len(found)
            made.usd = paid
            assert np.all(made._promised(mode, like, device, numbers)[1] >= value)
            made.usd = np.zeros_like(paid)
    assert promised >= 40


def test_regions_that_wait_send_their_parts_there_and_back() -> None:
    """A round of single machines lasts their step and twice the slowest way of one part of the
    gradient, of as many as there are regions.
    """
    promised = 0
    name = "hierarchical-all-reduce"
    for seed in range(40):
        made = regional(wide_problem(seed), exchange=name, objective="throughput")
        if made is None:
            continue
        like, mode = like_machines.LikeMachines.of(made.judge), Mode(made.judge.problem, name, 1)
        many = many_regions.ManyRegions(made.judge, like, made.pair_s)
        for own in many._devices(1):
            for worth, team in many._waiting(mode, own, 1):
                rows = [*team]
                slowest_s = max(many.pair_s[way] for way in permutations(like.place[rows], 2))
                step_s = mode.samples / like.speed[rows, 1].sum()
                seconds = mode.round_s(step_s, 2 * slowest_s / len(team))
                assert -worth == pytest.approx(mode.samples / mode.multiplier / seconds)
                promised += 1
    assert promised >= 10


@pytest.mark.parametrize(
    ("budget", "steps", "more"), [(0.9, 1, True), (0.7, 1, False), (0.7, 8, True)]
)
def test_more_regions_are_drafted_where_money_is_left_or_steps_are_local(
    budget: float, steps: int, more: bool
) -> None:
    """The T4 of gcp/b costs 0.60 USD/h: less than four fifths of 0.90, more than those of 0.70."""
    wishes = {"budget_usd_per_hour": budget, "max_local_steps": steps}
    made = judge(two_places(uniform=True, transport="nccl", **wishes))
    assert not construction._wants_more(made)  # before one place has a draft
    one_place.single_machines(made)
    assert construction._wants_more(made) == more


def test_drafts_of_regions_are_even_or_have_one_large_region() -> None:
    """Of each region of some set 1, 2, 4 or 8 machines, within the budget, or 4 or 16 of one beside
    single ones; no more than there may be, and two ways to choose three drafts of each number.
    """
    drafted = 0
    for seed in range(40):
        made = judge(wishing(wide_problem(seed), max_workers=64, exchange="all-reduce"))
        if made.needed or len(made.market.places) < 2:
            continue
        drafts = several_regions.SeveralRegionDrafts(made, neighbourhood.NearPlaces(made))
        found = drafts._promising(Mode(made.problem, "all-reduce", 1), 3)
        sets = {tuple(row) for row in drafts.sets.tolist()}
        for counts in found:
            assert tuple(sorted(int(made.market.place_of[i]) for i in counts)) in sets
            assert all(n <= made.market.cap[i] for i, n in counts.items())
            *others, largest = sorted(counts.values())
            even = largest in (1, 2, 4, 8) and {*others} == {largest}
            usd = sum(n * float(made.market.usd[i]) for i, n in counts.items())
            assert usd <= made.target.budget_usd_per_hour * (1 + 1e-9) or not even
            assert even or (largest in (4, 16) and {*others} == {1})
        for number in (1, 2, 4, 8):
            assert sum({*counts.values()} == {number} for counts in found) <= 6
        drafted += len(found)
    assert drafted >= 60


def test_numbers_of_regions_are_even_or_many_beside_single_ones() -> None:
    """Three regions of up to six workers: 1 or 2 in each, or 2 to 4 in one beside single ones."""
    regions = (regional(wide_problem(seed), min_regions=3) for seed in range(40))
    made = next(each for each in regions if each is not None and each.sets.shape[1] == 3)
    uneven = {row for n in (2, 3, 4) for row in permutations((n, 1, 1))}
    assert {*map(tuple, made._numbers().tolist())} == {(1, 1, 1), (2, 2, 2), *uneven}


def test_hubs_of_plain_stores_need_no_function_in_every_region() -> None:
    """Averages inside regions run on a function of each; those of one store need one somewhere."""
    told = 0
    for problem in map(random_problem, range(40)):
        places = tuple(sorted({pool.place for pool in problem.pools}))
        if not problem.aggregator_places or not places:
            continue
        hubs = judge(problem).hubs
        everywhere = {*places} <= {*problem.serverless_places}
        for name, _ in problem.modes:
            transport = traits(name).transport
            if transport in ("store", "regional-stores"):
                found = hubs.of(name, places)
                assert bool(found) == (everywhere or transport == "store")
                told += not everywhere
    assert told >= 5


def test_swaps_come_by_the_sum_of_both_gains() -> None:
    """Of two that leave and three that join, none for its own pool: 5 + 3, 5 + 1, 2 + 1; what
    cannot join is in no swap.
    """
    leaving = fleet.Changes(np.array([[0], [1]]), np.array([[-2], [-1]]))
    joining = fleet.Changes(np.array([[1], [2], [3]]), np.array([[4], [1], [8]]))
    into = np.array([3.0, 1.0, -np.inf])
    swaps = ascent.Ascent._swaps(leaving, joining, np.array([5.0, 2.0]), into)
    assert swaps.pool.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert swaps.count.tolist() == [[-2, 4], [-2, 1], [-1, 1]]
    assert len(ascent.Ascent._swaps(fleet.Changes.none()[:0], joining, into[:0], into)) == 0


def test_a_descent_asks_a_kind_again_while_it_helps() -> None:
    """A T4 of aws for 1 USD/h joins one of gcp for 0.6 in vain; taking it away again helps once,
    and then each kind is asked once more.
    """
    made = judge(two_places(objective="cost"))
    around = neighbourhood.Neighbourhood(made, neighbourhood.NearPlaces(made))
    asked: list[str] = []

    def noted(name: str) -> Any:
        def changes(draft: Any) -> Any:
            asked.append(name)
            return getattr(around, name)(draft)

        return changes

    descent = neighbourhood.Descent(made, tuple(map(noted, ("grown", "shrunk", "swapped"))))
    found = descent.run(Draft.of({0: 1, 1: 1}, ("all-reduce", 1)), 1000)
    assert found.counts == ((1, 1),)
    assert asked == ["grown", "shrunk", "shrunk", "swapped", "grown"]
