"""The search for a portfolio against brute force, its bounds, and how it stops."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import pytest
from conforming import validate
from portfolios import (
    brute_force,
    placements,
    slot_portfolio,
    speed_portfolio,
    team_portfolio,
    tiny_portfolio,
)

import placer
from placer.advice.portfolio.answer import PortfolioAnswer, answered
from placer.advice.portfolio.columns import Columns, Duals, Resource
from placer.advice.portfolio.generation import Found, Generation, chosen
from placer.advice.portfolio.jobs import Job, Portfolio, Slots, Team
from placer.advice.portfolio.pricing import worth
from placer.advice.portfolio.search import elsewhere
from placer.cost_model.limits import violations
from placer.documents.many_check import wrong_sums
from placer.interface.advisor import Advisor
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

EXACT = SolveOptions(gap=1e-6, time_limit_s=60)
Draw = Callable[[int], Portfolio]
ALIKE = partial(tiny_portfolio, alike=True)


def checked(answer: PortfolioAnswer) -> None:
    """Check each job by its own limits, the sums, and the document."""
    document = answer.to_dict()
    assert wrong_sums(document) == ""
    validate(json.loads(json.dumps(document)), "portfolio")
    for placed in answer.jobs:
        if placed.result is not None and placed.result.placement is not None:
            assert violations(placed.result.placement, placed.job.problem) == ()


def key_of(found: Found) -> list[float]:
    """Return the key of a choice as brute force has it."""
    *missed, value = worth(found.columns, found.counts)
    return [*missed, *([] if found.shares is None else [-found.shares[0]]), value]


@pytest.mark.parametrize(
    ("draw", "seeds", "least"),
    [
        (tiny_portfolio, (1, 3, 4, 10, 12, 14), {"cost": 6, "left out": 3}),
        (ALIKE, (5, 6, 9, 14), {"cost": 4, "left out": 1}),
        (slot_portfolio, (1, 2, 4, 5), {"cost": 4, "blocks": 2}),
        (
            speed_portfolio,
            (5, 10, 12, 17, 37, 43, 66, 78),
            {"throughput": 1, "time": 1, "fair": 1, "left out": 3, "slower than alone": 3},
        ),
    ],
)
def test_drawn_portfolios_agree_with_brute_force(
    draw: Draw, seeds: tuple[int, ...], least: dict[str, int]
) -> None:
    """Every combination of placements and starts is tried, and jobs left out; the drawn ones have
    at least so many of each kind. No bound is above the value, no greedy choice better.
    """
    drawn: Counter[str] = Counter()
    for seed in seeds:
        portfolio = draw(seed)
        found = chosen(portfolio, EXACT)
        value = worth(found.columns, found.counts)[-1]
        assert key_of(found) == pytest.approx(brute_force(portfolio), rel=1e-6, abs=1e-6)
        assert found.bound is not None
        assert found.bound <= value + 1e-6 * abs(value)
        assert found.proved_out
        answer = answered(found)
        checked(answer)
        drawn[portfolio.objective] += 1
        drawn["fair"] += portfolio.fair
        drawn["blocks"] += bool(portfolio.blocks)
        drawn["left out"] += bool(answer.left_out)
        drawn["slower than alone"] += any((job.share or 1.0) < 0.99 for job in answer.jobs)
    assert all(drawn[kind] >= count for kind, count in least.items()), drawn


@pytest.mark.parametrize(
    ("draw", "seeds"),
    [(ALIKE, range(30, 38)), (slot_portfolio, range(6, 9)), (speed_portfolio, (1, 2, 8))],
)
def test_the_way_of_many_jobs_has_a_valid_bound_on_few(
    draw: Draw, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where not all columns are asked for, the choice is no better than the best of all
    combinations, and where as much runs no bound is beaten by it.
    """
    monkeypatch.setattr("placer.advice.portfolio.generation.MOST_CLOSED", 0)
    compared = 0
    for seed in seeds:
        portfolio = draw(seed)
        found = chosen(portfolio, SolveOptions(gap=0.01, time_limit_s=20))
        best, key = brute_force(portfolio), key_of(found)
        count = len(worth(found.columns, found.counts)) - 1
        assert key >= [part - 1e-6 * abs(part) for part in best]
        if key[:count] == list(best[:count]):
            compared += 1
            if found.shares is not None:
                assert found.shares[1] >= -best[count] - 1e-6
            elif not any(best[:count]):
                assert found.bound is not None
                assert found.bound <= best[-1] + 1e-6 * abs(best[-1])
    assert compared >= 2


@pytest.mark.parametrize(
    ("seed", "most"), [(4, 0.920129), (8, 0.464952), (17, 0.267406), (32, 0.791044), (53, 0.590047)]
)
def test_the_bound_on_shares_is_close(
    seed: int, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no looser than it was: the first three are within a halving of the share that was
    found; the last two are that at which linear prices say that the budget is spent.
    """
    monkeypatch.setattr("placer.advice.portfolio.generation.MOST_CLOSED", 0)
    found = chosen(speed_portfolio(seed), SolveOptions(gap=0.01, time_limit_s=20))
    assert found.shares is not None
    least, bound = found.shares
    assert least <= bound <= most + 2e-6


@pytest.mark.parametrize("seed", [1, 3, 7, 11, 13, 15, 19, 23])
def test_limits_of_teams_agree_with_brute_force(seed: int) -> None:
    """The choice is the best within them. Each of these seeds has limits that bind: the answer
    without them is better. Fair shares (11, 15) are of what a job has alone in its team.
    """
    portfolio = team_portfolio(seed)
    found, best = chosen(portfolio, EXACT), brute_force(portfolio)
    assert key_of(found) == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert found.bound is not None
    assert found.bound <= best[-1] + 1e-6 * abs(best[-1])
    checked(answered(found))
    teams = tuple(Team(name=team.name) for team in portfolio.teams)
    free = brute_force(replace(portfolio, teams=teams))
    assert free != best if portfolio.fair else free < best
    assert key_of(chosen(replace(portfolio, teams=teams), EXACT)) == pytest.approx(free, abs=1e-6)


def families(floors: tuple[float, ...], **words: Any) -> Portfolio:
    """Jobs of one model that differ in how fast they must be, under 1 A10 and 8 T4 a region."""
    advisor, quota = Advisor("erben-2023"), {"A10": 1, "T4": 8}
    problems = [
        advisor.problem("roberta-xlm", quota=quota, objective="cost", min_throughput=floor, **words)
        for floor in floors
    ]
    jobs = tuple(Job(name=f"j{i}", problem=problem) for i, problem in enumerate(problems))
    return Portfolio(jobs=jobs, quotas=problems[0].requirements.quotas)


@pytest.mark.parametrize(
    ("seconds", "needed", "until", "after"),
    [
        (0, 1, 0, 0),
        (1, 1, 0, 1),
        (7199, 1, 0, 1),
        (7200, 1, 1, 1),
        (7201, 2, 1, 2),
        (1e6, 139, 4, 139),
    ],
)
def test_slots_are_held_whole(seconds: float, needed: int, until: int, after: int) -> None:
    """Of two hours: what a job holds, what ends by a time, and what begins from it on."""
    slots = Slots(count=4, hours=2.0)
    found = slots.needed(seconds), slots.until(seconds), slots.after(seconds)
    assert found == (needed, until, after)
    assert slots.until(None) == 4


@pytest.mark.parametrize(
    ("resource", "unit", "words"),
    [
        (Resource("machines", "gcp/a", "T4", "spot", "n1"), "machine", "n1 spot in gcp/a"),
        (Resource("quota", "gcp/a", "T4", "on_demand"), "GPU", "T4 on-demand in gcp/a"),
        (Resource("joint", "*", "*", "*"), "GPU", "GPU in all places together"),
        (
            Resource("joint", "*", "T4", "spot", team="x"),
            "GPU",
            "T4 spot in all places together of team x",
        ),
    ],
)
def test_what_jobs_share_is_named(resource: Resource, unit: str, words: str) -> None:
    """With its market, its place and its team, as far as it has them."""
    assert (resource.unit, resource.words) == (unit, words)


def test_jobs_that_differ_in_speed_alone_are_a_family() -> None:
    """How fast, and how much where no data or dollars count; a market makes another family."""

    def family(**words: Any) -> object:
        portfolio = families((words.pop("floor", 100.0),), **words)
        state = Generation(portfolio, EXACT)
        return state.pricing.search.family(portfolio.jobs[0].problem)[2]  # its wishes

    assert family() == family(floor=300.0)
    assert family() != family(market="spot")
    assert family(samples=10**6) == family(samples=10**7)
    assert family(samples=10**6, budget="50usd") != family(samples=10**7, budget="50usd")


def test_what_is_proved_of_a_slow_job_holds_for_faster_ones() -> None:
    """At any prices no column of a faster job is worth less than the bound of a slower one: 400/s
    is never searched where that bound is as good as its best column.
    """
    state = Generation(families((200.0, 300.0, 400.0)), EXACT)
    state.begin()
    bounds = state.bounds.tried[-1].each
    assert bounds == sorted(bounds)
    for group, bound in zip(state.columns.groups, bounds, strict=True):
        assert bound <= state.columns.least(group, Duals()) * (1 + 1e-6)


def test_a_bound_at_prices_holds_for_every_column() -> None:
    """Of drawn prices of what is shared, and of dollars: no placement of the job is worth less."""
    judged = 0
    for seed in range(4):
        portfolio = replace(tiny_portfolio(seed), budget_usd=None)
        state, every = Generation(portfolio, EXACT), Columns(portfolio=portfolio)
        for group in every.groups:
            for placement in placements(group.job.problem):
                every.add(group, placement)
            held = sorted({key for column in every.of(group) for key in column.use})
            for number in range(4):
                prices = {key: (i + number) % 3 / 2 for i, key in enumerate(held)}
                duals = Duals(prices=prices, budget=number % 2)
                bound = state.pricing.bound(group, duals)
                least = every.least(group, duals)
                assert bound <= least * (1 + 1e-6)
                assert bound >= least * (1 - 1e-5) or least == inf
                judged += least < inf
    assert judged >= 30


def test_equal_jobs_cost_one_search() -> None:
    """Ten equal jobs are one group: no more searches than for one, and nothing that differs."""
    portfolio = tiny_portfolio(3)
    job = portfolio.jobs[0]
    many = tuple(replace(job, name=f"j{i}") for i in range(10))
    found = chosen(replace(portfolio, jobs=many, quotas=(), budget_usd=None), EXACT)
    assert len(found.columns.groups) == 1


def test_what_is_found_in_one_place_is_kept_for_others_with_the_same_machines() -> None:
    """One A10 of Lambda costs the same in many places: each of them is a column, with its own
    quota; a placement over two places is kept alone.
    """
    problem = Advisor().problem(
        "roberta-xlm", quota=8, objective="cost", min_throughput=300, places="lambda"
    )
    state = Generation(Portfolio(jobs=(Job(name="a", problem=problem),), quota_gpus=8), EXACT)
    (group,) = state.columns.groups
    found = solve(problem, "exact", SolveOptions(gap=0.01)).placement
    assert found is not None
    made = state.pricing.keep(group, found)
    assert [column.placement for column in made] == [found]
    kept = state.columns.of(group)
    assert len(kept) > 5
    assert {column.usd for column in kept} == {made[0].usd}
    assert len({held for column in kept for held in column.use}) == len(kept)
    here, there = (column.placement.groups for column in kept[:2])
    assert list(elsewhere(replace(found, groups=(*here, *there)), problem)) == []


@pytest.mark.parametrize("words", [{}, {"fair": True, "objective": "throughput"}])
def test_ctrl_c_returns_the_best_so_far_with_its_bound(
    words: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal in the third question: no exception, no other question, a document that holds."""
    before, asked = signal.getsignal(signal.SIGINT), [0]

    def solve_and_interrupt(*given: Any) -> Any:
        asked[0] += 1
        if asked[0] == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return solve(*given)

    monkeypatch.setattr("placer.advice.portfolio.search.solve", solve_and_interrupt)
    job = {"model": "roberta-xlm", "market": "on-demand", "gpu": "A10,T4"}
    jobs = [{**job, "min-throughput": f"{300 + 20 * i}/s"} for i in range(9)]
    answer = placer.portfolio(
        jobs, catalog="erben-2023", budget="60/h", quota={"A10": 1, "T4": 4}, gap=1e-6, **words
    )
    assert asked[0] == 3
    assert answer.stopped
    assert answer.status == "time_limit"
    checked(answer)
    assert signal.getsignal(signal.SIGINT) is before
