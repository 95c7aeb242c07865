"""Questions in parts: shares of the speed, and machines of one kind, against enumeration."""

import importlib
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import placer
from instances import island_problem, like_problem, random_problem, two_places, wishing
from placer.cost_model.limits import violations
from placer.cost_model.timing.least_steps import LeastSteps
from placer.problem.problem import Problem
from placer.problem.shares import Part, ShareLimit
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.by_hand import place_by_hand
from placer.solving.parts.drafts import divisions, numbers
from placer.solving.parts.worker_counts import _CountSearch
from placer.solving.result import Result
from placer.solving.shares import _ShareSearch, repaired
from placer.solving.solve import solve
from proofs import PROOF, agrees, is_open

exhaustive = importlib.import_module("placer.solvers.exhaustive")


def with_shares(seed: int) -> placer.Problem:
    """Draw a small problem and shares."""
    draw, problem = random.Random(seed), random_problem(seed)
    shares = [
        ShareLimit(share=draw.choice((0.4, 0.5, 0.6, 0.7)), area=area)
        for area in ("region", "provider")
        if draw.random() < 0.5
    ]
    spot = problem.requirements.market == "spot"
    floor = None if spot or draw.random() < 0.4 else draw.choice((0.2, 0.25, 0.5, 1.0))
    return wishing(problem, max_shares=tuple(shares), on_demand_floor=floor)


def test_the_best_within_shares_is_that_of_plain_enumeration() -> None:
    """Enumeration checks each placement against its own shares; the search asks ranges of speeds
    with caps. Both find the same value, or that nothing keeps the shares.
    """
    counted: Counter[str] = Counter()
    # 700,093 once had a bound on the wrong side: a price of a sample beside a limit on a sum.
    for seed in (*range(700_000, 700_045), 700_093):
        problem = with_shares(seed)
        if not problem.pools or not problem.requirements.has_shares:
            continue
        options = SolveOptions(gap=1e-9, time_limit_s=60.0)
        plain = exhaustive.solve(problem, options)
        if plain.status.stopped:
            continue
        found = solve(problem, "exact", options)
        counted[str(found.status)] += 1
        if plain.placement is None:
            assert found.placement is None, seed
            assert found.status is Status.INFEASIBLE, seed
            continue
        assert found.placement is not None, (seed, found.status)
        assert not violations(found.placement, problem)
        value = plain.bound
        assert found.value == pytest.approx(value, rel=1e-7), seed
        assert found.bound == pytest.approx(value, rel=1e-6), seed
    assert counted["optimal"] >= 8
    assert counted["infeasible"] >= 3


def _ask(problem: Problem, options: SolveOptions) -> Result:
    return solve(problem, "exact", options)


def test_areas_of_several_kinds_are_summed_up() -> None:
    """Spot and on demand in one region are two kinds there; two regions are two of a provider; one
    kind alone is limited by the cap on each.
    """
    region, provider = ShareLimit(share=0.5), ShareLimit(share=0.6, area="provider")
    kinds = [
        ("aws/c", "spot"),
        ("aws/c", "on_demand"),
        ("gcp/a", "spot"),
        ("gcp/b", "spot"),
        ("lambda/d", "spot"),
    ]
    problem = wishing(random_problem(3), max_shares=(region, provider))
    search = _ShareSearch(problem, _ask, PROOF, "exact", proves=True)
    parts = [Part(place=place, market=market, speed=1) for place, market in kinds]
    assert [*search._several(parts)] == [
        (region, "aws/c"),
        (provider, "aws/*"),
        (provider, "gcp/*"),
    ]


@pytest.mark.parametrize(
    ("wish", "workers", "made"),
    [
        # Half on demand: two spot machines give way to such in their place, then all others go.
        ({"on_demand_floor": 0.5}, (0, 4, 0), [(0, 2, 2), (0, 1, 2), (0, 0, 2), (0, 0, 1)]),
        ({"on_demand_floor": 0.5}, (2, 1, 0), [(2, 1, 0), (2, 0, 0), (1, 0, 0)]),
        # Half in a region: the crowded one has fewer, and one machine alone is in one region.
        ({"max_shares": (ShareLimit(share=0.5),)}, (1, 3, 0), [(1, 1, 0)]),
        (
            {"max_shares": (ShareLimit(share=0.7),)},
            (2, 4, 0),
            [(2, 4, 0), (2, 3, 0), (2, 2, 0), (2, 1, 0)],
        ),
        # All on demand, two thirds in a region.
        ({"max_shares": (ShareLimit(share=0.7),), "on_demand_floor": 1.0}, (1, 2, 0), [(1, 0, 2)]),
    ],
)
def test_what_breaks_shares_is_repaired_with_fewer_and_fewer_workers(
    wish: dict[str, Any], workers: tuple[int, ...], made: list[tuple[int, ...]]
) -> None:
    """T4 on demand in aws/a, and on the spot market and on demand in gcp/b."""
    problem = two_places(**wish, max_workers=6)
    spot = problem.catalog.offers[1]
    twin = replace(spot, market="on_demand", usd_per_hour=2.0)
    book = replace(problem.catalog, offers=(*problem.catalog.offers, twin))
    problem, kinds = replace(problem, catalog=book), ("aws/a", "gcp/b:spot", "gcp/b:on-demand")
    specs = ("aws/a={}xT4", "gcp/b={}xT4:spot", "gcp/b={}xT4:on-demand")
    written = ",".join(spec.format(n) for spec, n in zip(specs, workers, strict=True) if n)
    found = []
    for placement in repaired(place_by_hand(written, problem), problem):
        counts = dict.fromkeys(kinds, 0)
        for group in placement.groups:
            market = group.market.replace("_", "-")
            counts[group.place + f":{market}" * (group.place == "gcp/b")] += group.count
        found.append(tuple(counts.values()))
        assert (placement.workers == 1) == (placement.exchange.strategy == "none")
    assert found == made


def uniform(problem: Problem, *, mixed: bool = False) -> Problem:
    """Return a question whose software divides a step equally, with workers alike or not."""
    return wishing(problem, uniform=not mixed, transport="nccl")


@pytest.mark.parametrize(
    ("wish", "numbers_of"),
    [
        ({"max_workers": 64}, [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64]),
        ({"min_workers": 10, "max_workers": 40}, [10, 13, 17, 22, 29, 38]),
        ({"min_regions": 3, "max_workers": 9, "target_batch_size": 6}, [3, 4, 5, 6]),
    ],
)
def test_few_numbers_of_workers_are_drafted_first(
    wish: dict[str, int], numbers_of: list[int]
) -> None:
    """Each up to eight, then powers of two and what lies half way between; no more than samples."""
    assert list(numbers(two_places(**wish))) == numbers_of


@pytest.mark.parametrize(
    ("workers", "words", "less", "divided"),
    [
        ("2x(4xH100:8):spot", {}, 0, ["8x1 all-reduce", "4x2 all-reduce", "1x8 none"]),
        ("2x(4xH100:8):spot", {}, 1, ["7x1 all-reduce", "1x7 none"]),
        ("2x(4xH100:8):spot", {"workers": "2..4"}, 0, ["4x2 all-reduce"]),
        ("2x(4xH100:8):spot", {"machines_per_island": "2..4"}, 0, ["4x2 all-reduce"]),
        (
            "2x(4xH100:8):spot",
            {"exchange": "diloco", "local_steps": 8},
            0,
            ["8x1 diloco", "4x2 diloco", "1x8 none"],
        ),
        # Two markets are divided alike; a machine less is of one market.
        ("2x(2xH100:8):spot 1x(2xH100:8):on-demand", {}, 0, ["2x1+4x1 all-reduce"]),
        ("2x(2xH100:8):spot 1x(2xH100:8):on-demand", {}, 1, []),
        ("2x(2xH100:8):spot 2x(2xA100-40:8):spot", {}, 0, []),
    ],
)
def test_the_machines_of_workers_are_divided_otherwise(
    workers: str, words: dict[str, Any], less: int, divided: list[str]
) -> None:
    """All of them, in every way that the limits on workers and islands leave; each with a plan."""
    problem = placer.Advisor().problem("llama-3.1-8b", figures="book", **words)
    spec = ",".join(f"aws/us-east-1={one}" for one in workers.split())
    made = list(divisions(place_by_hand(spec, problem), problem, less=less))
    found = []
    for each in made:
        counts = sorted(f"{group.count}x{group.machines}" for group in each.groups)
        found.append(f"{'+'.join(counts)} {each.exchange.strategy}")
        assert all(group.inner is not None for group in each.groups)
    assert found == divided


@pytest.mark.parametrize("draw", [random_problem, like_problem, island_problem])
def test_workers_alike_are_proved_best(draw: Callable[[int], Problem]) -> None:
    """As plain enumeration finds them, also where a worse value is known, and no better than where
    any machines may be mixed: that limit narrows. Of the first kind of question about one in ten
    has another answer.
    """
    compared = differ = left_open = 0
    for seed in range(100 if draw is like_problem else 40):
        problem = uniform(draw(seed))
        if not problem.uniform:
            continue
        best, tried = solve(problem, "exact", PROOF), solve(problem, "exhaustive")
        if is_open(best, tried, seed):
            left_open += 1
            continue
        if not agrees(best, tried, seed) or not tried.value:  # nothing is below what is free
            continue
        assert best.placement is not None
        assert len({group.kind for group in best.placement.groups}) == 1
        beaten = replace(PROOF, beat=best.objective.ahead(tried.value, -0.05))
        assert solve(problem, "exact", beaten).value == pytest.approx(tried.value, rel=1e-8), seed
        unbeaten = replace(PROOF, beat=best.objective.ahead(tried.value, 0.001))
        if draw is not island_problem:  # with plans a search may return what it started from
            assert solve(problem, "exact", unbeaten).status is Status.INFEASIBLE, seed
        mixed = solve(uniform(problem, mixed=True), "exact", PROOF)
        assert mixed.value is not None
        assert not best.objective.better(tried.value, mixed.value, 1e-8), seed
        differ += mixed.value != pytest.approx(tried.value, rel=1e-8)
        compared += 1
    assert compared >= 20
    assert left_open <= 2
    assert differ or draw is island_problem


def test_limits_that_no_kind_keeps_are_found_before_any_draft() -> None:
    """Two regions exchange too slowly for any machines; a floor that some reach is drafted."""
    words = {"market": "on-demand", "regions": "2..", "alternatives": False, "figures": "book"}
    found = {
        floor: placer.recommend("whisper-small", min_throughput=floor, objective="cost", **words)  # type: ignore[arg-type]
        for floor in ("300/s", "3000/s")
    }
    assert found["300/s"].status is Status.OPTIMAL
    assert found["3000/s"].status is Status.INFEASIBLE
    assert found["300/s"].candidates > found["3000/s"].candidates == 0


@pytest.mark.parametrize("solver", ["greedy", "local_search", "cpsat", "milp"])
def test_every_solver_keeps_workers_alike(solver: str) -> None:
    """Answers of one kind, none better than the proved one."""
    draw, compared = random.Random(3), 0
    for seed in draw.sample(range(1000), 4):
        problem = uniform(random_problem(seed))
        best, other = solve(problem, "exact", PROOF), solve(problem, solver, PROOF)
        if other.value is None or best.value is None or not problem.uniform:
            continue
        assert other.placement is not None
        assert len({group.kind for group in other.placement.groups}) == 1
        assert not best.objective.better(other.value, best.value, 1e-6), seed
        compared += 1
    assert compared


def test_machines_may_be_mixed_where_that_is_asked_for() -> None:
    """On demand for 5 USD/h one kind of machine is alone by itself and mixed ones are faster."""
    words = {"budget": "5/h", "market": "on-demand", "alternatives": "short", "figures": "book"}
    alike = placer.recommend("roberta-xlm", **words)  # type: ignore[arg-type]
    mixed = placer.recommend("roberta-xlm", mixed=True, **words)  # type: ignore[arg-type]
    assert alike.placement is not None
    assert len({group.kind for group in alike.placement.groups}) == 1
    assert mixed.placement is not None
    assert len({group.kind for group in mixed.placement.groups}) > 1
    assert mixed.value is not None
    assert alike.value is not None
    assert mixed.value > alike.value
    gain = 100 * (mixed.value / alike.value - 1)
    (note,) = (note for note in alike.notes if note.code == "mixing")
    assert note.message.startswith(f"unlike machines would be at least {gain:.0f} % better")
    assert not any(note.code == "mixing" for note in mixed.notes)


@pytest.mark.parametrize(
    ("budget", "workers", "apart"),
    [
        (None, 2, False),
        (2.0, 2, False),
        (1.9, 2, True),
        (6.0, 3, False),
        (5.9, 3, True),
        (None, 4, True),
    ],
)
def test_workers_that_one_region_has_and_a_budget_pays_are_together(
    budget: float | None, workers: int, apart: bool
) -> None:
    """Two workers of 1 USD/h in one region, three of 2 USD/h in another: what neither has for the
    budget takes at least a step across regions, by the better class and what most can hide.
    """
    problem = uniform(island_problem(3))
    problem = wishing(problem, exchange="all-reduce", max_local_steps=None, min_local_steps=None)
    problem = wishing(problem, budget_usd_per_hour=budget)
    places = [place for place in problem.catalog.regions if not place.startswith("backblaze")]
    pool, here = problem.every_pool[0], [place.partition("/") for place in places]
    pools = [
        replace(
            pool,
            offer=replace(pool.offer, provider=provider, region=region, usd_per_hour=usd),
            host=f"nccl {gbps} gbps",
            free_share=free_share,
            machines_there=count * pool.machines,
        )
        for (provider, _, region), usd, count, gbps, free_share in (
            (here[0], 1.0 / pool.machines, 2, 100, 0.2),
            (here[1], 2.0 / pool.machines, 3, 10, 0.8),
        )
    ]
    search = _CountSearch(problem, _ask, PROOF, "exact", proves=True)
    least = LeastSteps(problem)

    def step_s(host: str) -> float:
        return least.step_s(1.0, host, workers, pool.machines, apart=apart, free_share=0.8)

    fast, slow = (step_s(each.host) for each in pools)
    assert 1.0 < fast < slow
    assert search._least_s(1.0, pools, workers) == fast


def test_a_stopped_search_over_kinds_bounds_all_of_them() -> None:
    """After a node of each kind the bound is no better than the proved value allows."""
    problem = uniform(random_problem(7))
    best = solve(problem, "exact", PROOF)
    short = solve(problem, "exact", replace(PROOF, node_limit=1))
    assert best.value is not None
    assert short.status in (Status.OPTIMAL, Status.TIME_LIMIT)
    assert short.bound is not None
    assert not best.objective.better(best.value, short.bound, 1e-8)


def test_a_bound_of_some_numbers_of_workers_is_none_of_all() -> None:
    """Without time for a bound of each number of workers no bound is stated."""
    problem = placer.Advisor().problem("llama-3.1-8b", budget="20000/h", figures="book")
    found = solve(problem, "exact", SolveOptions(time_limit_s=1e-9))
    assert (found.status, found.bound) == (Status.TIME_LIMIT, None)
    assert solve(problem, "exact", SolveOptions(proof="quick")).bound is not None
