"""Every solver keeps one contract; `exact` equals plain enumeration."""

import importlib
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import (
    OBJECTIVES,
    exchange_problem,
    island_problem,
    question,
    random_problem,
    reading_problem,
    wide_problem,
    wishing,
)
from placer.cost_model.estimate import pool_of
from placer.cost_model.limits import violations
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.problem.exchange import STRATEGIES
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve, solver_names
from proofs import PROOF, agrees

BY_NODES = SolveOptions(node_limit=50_000, time_limit_s=3600.0)
"""Proofs within so many nodes, however busy the machine is; the largest takes about 15,000."""
UNPROVED = ("greedy", "local_search")
"""Solvers that look for good placements and prove nothing: see test_heuristics.py."""
PROGRAMS = ("cpsat", "milp")
"""Solvers that write the question as one program: half a second each, see test_milp.py."""


def test_solvers_are_found_without_a_list() -> None:
    """A new file in solvers/ is a solver; parts of solvers start with an underscore."""
    assert {"exact", "exhaustive", "greedy", "local_search"} <= set(solver_names())
    with pytest.raises(PlacerError, match="unknown solver 'exakt'"):
        solve(random_problem(0), "exakt")


@pytest.mark.parametrize(
    ("solver", "seed"),
    [
        (name, seed)
        for name in solver_names()
        for seed in ((1, 7, 12) if name in PROGRAMS else (1, 3, 7, 12, 19))
    ],
)
def test_contract(solver: str, seed: int) -> None:
    """A placement breaks nothing, the bound is not worse than the value, the same question has the
    same answer.
    """
    problem = random_problem(seed)
    first, second = (solve(problem, solver, PROOF) for _ in range(2))
    assert (first.placement, first.status) == (second.placement, second.status)
    if first.placement is None:
        assert first.status is (Status.UNKNOWN if solver in UNPROVED else Status.INFEASIBLE)
        return
    assert violations(first.placement, problem) == ()
    assert first.value is not None
    if solver in UNPROVED:
        assert (first.status, first.bound, first.gap) == (Status.FEASIBLE, None, None)
        return
    assert first.bound is not None
    assert first.gap is not None
    assert first.objective.gain(first.value, first.bound) <= 1e-9 * abs(first.value)


@pytest.mark.parametrize(
    ("drawn", "seed"),
    [
        *((wide_problem, seed) for seed in (422, 717, 763, 764, 2588, 2629)),
        (random_problem, 1240261),
        (reading_problem, 1295007),
    ],
)
def test_cases_that_once_went_wrong(drawn: Callable[[int], Problem], seed: int) -> None:
    """Limited twins of an offer, hosts whose averaging times cross, prices per sample beside a
    budget, a slow host whose long rounds read less data, local steps whose rare exchanges read more
    than a budget pays for.
    """
    problem = drawn(seed)
    agrees(solve(problem, "exact", PROOF), solve(problem, "exhaustive"), seed)


def test_mixed_integer_programs_know_what_workers_wait_for() -> None:
    """Three markets whose best placement keeps data on disks, as plain enumeration has them."""
    judged = 0
    seeds = (4, 46, 54)  # throughput, cost per sample and cost, two or three workers
    for seed in seeds:
        problem = reading_problem(seed)
        oracle, answer = solve(problem, "exhaustive"), solve(problem, "milp", PROOF)
        assert oracle.placement is not None
        assert answer.value == pytest.approx(oracle.value, rel=1e-6), seed
        judged += any(pool_of(g, problem).keeps_data for g in oracle.placement.groups)
    assert judged == len(seeds)


@pytest.mark.parametrize("chunk", range(2))
def test_limits_at_the_optimum_leave_it_alone(chunk: int) -> None:
    """With floor and budget at the optimum's own figures nothing else is left to find: a bound that
    cuts too much shows here.
    """
    judged = 0
    for seed in range(2_000 + chunk * 20, 2_000 + chunk * 20 + 20):
        problem = exchange_problem(seed)
        best = solve(problem, "exhaustive").estimate
        if best is None or best.usd_per_hour.total == 0:
            continue
        floor, budget = best.effective_samples_per_second.value, best.usd_per_hour.total
        again = solve(
            wishing(problem, min_samples_per_second=floor, budget_usd_per_hour=budget),
            "exact",
            PROOF,
        ).estimate
        assert again is not None, seed
        assert again.effective_samples_per_second.value == pytest.approx(floor, rel=1e-8), seed
        judged += 1
    assert judged >= 5


def with_small_multiplier(seed: int) -> Problem:
    """Draw a market where more samples count than pass through the workers."""
    given_ = tuple((name, (0.05, 0.3, 0.9)[seed % 3]) for name in STRATEGIES if name != "none")
    return wishing(exchange_problem(seed), samples_to_target=given_)


@pytest.mark.parametrize("draw", [with_small_multiplier, lambda seed: wide_problem(seed, most=600)])
def test_a_stopped_search_has_an_honest_bound(draw: Callable[[int], Problem]) -> None:
    """Whatever the node limit, no placement beats the bound."""
    judged = []

    @settings(max_examples=20, deadline=None)
    @given(st.integers(0, 100_000), st.integers(0, 40))
    def check(seed: int, nodes: int) -> None:
        problem = draw(seed)
        stopped = solve(problem, "exact", replace(PROOF, node_limit=nodes))
        best = solve(problem, "exhaustive").value
        if stopped.bound is None or best is None:
            return
        judged.append(seed)
        assert not stopped.objective.better(best, stopped.bound, 1e-9)

    check()
    assert len(judged) >= 5


def test_gap_is_kept() -> None:
    """With a gap of 5 % the answer is within 5 % of the optimum."""
    judged = []

    @settings(max_examples=20, deadline=None)
    @given(st.integers(0, 100_000))
    def check(seed: int) -> None:
        problem = random_problem(seed)
        best = solve(problem, "exact", PROOF).value
        near = solve(problem, "exact", replace(PROOF, gap=0.05)).value
        if best is None:
            assert near is None
            return
        judged.append(seed)
        assert near == pytest.approx(best, rel=0.0501)

    check()
    assert len(judged) >= 5


def test_more_is_never_worse() -> None:
    """More budget, or one more offer (a dearer twin), never lowers throughput; zero egress is never
    dearer.
    """
    judged = []

    @settings(max_examples=20, deadline=None)
    @given(st.integers(0, 100_000))
    def check(seed: int) -> None:
        problem = random_problem(seed)
        wish = replace(problem.requirements, objective="throughput", min_samples_per_second=None)
        before = solve(replace(problem, requirements=wish), "exact", PROOF).value or 0.0
        if before > 0:
            judged.append(seed)
        if wish.budget_usd_per_hour is not None:
            richer = replace(
                problem,
                requirements=replace(wish, budget_usd_per_hour=wish.budget_usd_per_hour * 1.3),
            )
            assert (solve(richer, "exact", PROOF).value or 0.0) >= before * (1 - 1e-9)
        twins = tuple(
            replace(o, instance_type=o.instance_type + "-dear", usd_per_hour=o.usd_per_hour * 2)
            for o in problem.catalog.offers
        )
        wider = replace(
            problem,
            requirements=wish,
            catalog=replace(problem.catalog, offers=(*problem.catalog.offers, *twins)),
        )
        assert solve(wider, "exact", PROOF).value == (pytest.approx(before) if before else None)
        free = replace(
            problem.catalog,
            egress=tuple(replace(e, usd_per_gib=0.0) for e in problem.catalog.egress),
        )
        assert (
            solve(replace(problem, requirements=wish, catalog=free), "exact", PROOF).value or 0.0
        ) >= before * (1 - 1e-9)

    check()
    assert len(judged) >= 10


def test_a_known_value_is_beaten_or_proved_best() -> None:
    """Asked for what beats a value, `exact` finds the optimum where it does, and nothing where the
    value is the optimum's own; in half of the cases the search starts with drafts of `greedy`.
    """
    beaten = 0
    for seed in range(60, 84):
        for objective in OBJECTIVES:
            problem = wide_problem(seed) if seed % 2 else random_problem(seed)
            asked = wishing(problem, objective=objective)
            best = solve(asked, "exact", PROOF)
            if not best.value:  # none, or free machines
                continue
            worse = best.objective.ahead(best.value, -0.01)
            nodes = BY_NODES.node_limit if seed % 4 < 2 else None
            found = solve(asked, "exact", replace(PROOF, beat=worse, node_limit=nodes))
            assert found.value == pytest.approx(best.value, rel=1e-9), (seed, objective)
            equal = solve(asked, "exact", replace(PROOF, beat=best.value, node_limit=nodes))
            assert equal.placement is None, (seed, objective)
            assert equal.status is Status.INFEASIBLE
            beaten += 1
    assert beaten >= 25


def test_a_prepared_market_answers_every_objective_as_a_fresh_one() -> None:
    """What a question prepares is used for the others: value, bound and the proof of every mode are
    those of a search of its own.
    """
    exact = importlib.import_module("placer.solvers.exact")
    certified, placed = replace(PROOF, certificate=True), 0
    for seed in range(40, 60):
        problem = random_problem(seed)
        prepared = exact.prepare(problem)
        for objective in OBJECTIVES:
            asked = wishing(problem, objective=objective)
            shared, fresh = prepared(asked, certified), exact.solve(asked, certified)
            assert (shared.status, shared.bound, shared.proof) == (
                fresh.status,
                fresh.bound,
                fresh.proof,
            ), (seed, objective)
            placed += fresh.placement is not None
    assert placed >= 10


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("model", "wishes"),
    [
        ("roberta-xlm", {"budget_usd_per_hour": 5.0}),
        ("roberta-xlm", {"budget_usd_per_hour": 50.0, "min_workers": 2, "max_workers": 16}),
        ("roberta-xlm", {"budget_usd_per_hour": 20.0, "min_workers": 2, "gpus": ("A10", "T4")}),
        ("resnet50", {"objective": "cost-per-sample"}),
        ("llama-3.1-8b", {"objective": "cost-per-sample", "budget_usd_per_hour": 60.0}),
        ("resnet50", {"budget_usd_per_hour": 20.0, "gpus": ("T4",)}),
        ("convnext-large", {"objective": "cost", "min_samples_per_second": 2000.0}),
        ("niser", {"budget_usd_per_hour": 1.0, "exchange": "central"}),
    ],
)
def test_optimum_on_the_default_book_is_proved(
    default: Catalog, model: str, wishes: dict[str, object]
) -> None:
    """Within the gap of 0.1 %, for every objective."""
    problem = question(model, default, **wishes)
    # Short searches skip numbers of workers with a plan, and prove nothing of them.
    planned = problem.island_question is not None
    result = solve(problem, "exact", replace(BY_NODES, node_limit=None) if planned else BY_NODES)
    assert result.status is Status.OPTIMAL
    assert isinstance(result.placement, Placement)
    assert result.gap is not None
    assert result.gap <= 0.001 + 1e-9


def test_a_lying_solver_is_caught_and_the_problem_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A placement over the budget, or a bound that the value beats, is an internal error with a
    file to reproduce it.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    honest = next(
        p for p in map(random_problem, range(50)) if solve(p, "exact", PROOF).placement is not None
    )
    answer = importlib.import_module("placer.solvers.exact.branch_and_bound").solve(honest, PROOF)
    liar = types.ModuleType("placer.solvers.liar")
    monkeypatch.setitem(sys.modules, "placer.solvers.liar", liar)
    monkeypatch.setattr("placer.solving.solve.solver_names", lambda: ["liar"])
    better = 0.5 if honest.requirements.objective == "throughput" else 2.0
    liar.solve = lambda problem, options: replace(answer, bound=answer.bound * better)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="is beaten by its value") as caught:
        solve(honest, "liar")
    saved = json.loads(Path(str(caught.value).split(" is in ")[1]).read_text(encoding="utf-8"))
    assert Problem.from_dict(saved).requirements == honest.requirements
    tight = wishing(honest, budget_usd_per_hour=1e-6)
    liar.solve = lambda problem, options: answer  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="above the budget"):
        solve(tight, "liar")


@pytest.mark.parametrize("families", [1, 2])
def test_exact_equals_exhaustive_where_classes_of_hosts_are_searched_together(
    families: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 instances with islands, whose many networks are searched as one or two families."""
    relaxation = importlib.import_module("placer.solvers.exact.bounds.relaxation")
    monkeypatch.setattr(relaxation, "MOST_FAMILIES", families)
    for seed in range(5_000, 5_020):
        problem = island_problem(seed, most=600)
        agrees(solve(problem, "exact", PROOF), solve(problem, "exhaustive"), seed)
