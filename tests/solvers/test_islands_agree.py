"""Solvers on language models whose workers may be several machines: all agree with `exact`."""

import importlib

import pytest

from instances import island_problem
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result
from placer.solving.solve import solve

PROOF = SolveOptions(gap=0.0, time_limit_s=3600.0)
NAMES = ("milp", "cpsat")
split = importlib.import_module("placer.solvers._programs.split")
SEEDS = range(6_000, 6_010)
PACKAGES = {"milp": "highspy", "cpsat": "ortools"}


def worse(found: Result, best: Result) -> float:
    """How much worse a value is than another, relative; negative if it is better."""
    assert found.value is not None
    assert best.value is not None
    if found.problem.requirements.objective == "throughput":
        return 1 - found.value / best.value
    return found.value / best.value - 1


@pytest.fixture(scope="module")
def best() -> dict[int, Result]:
    """What `exact` proves."""
    return {seed: solve(island_problem(seed, most=600), "exact", PROOF) for seed in SEEDS}


@pytest.mark.parametrize("solver", NAMES)
def test_programs_agree_with_exact(best: dict[int, Result], solver: str) -> None:
    """Status and value; no bound is beaten by the optimum."""
    pytest.importorskip(PACKAGES[solver])
    for seed in SEEDS:
        proved = best[seed]
        answer = solve(proved.problem, solver, PROOF)
        assert answer.status == proved.status, seed
        if answer.placement is None or proved.value is None:
            assert proved.value is None, seed
            continue
        assert violations(answer.placement, proved.problem) == (), seed
        objective = objective_of(proved.problem.requirements)
        value = objective.value(evaluate(answer.placement, proved.problem))
        assert value == pytest.approx(proved.value, rel=2 * split.LEAST_GAP, abs=1e-12), seed
        assert answer.bound is not None
        assert not objective.beats_bound(proved.value, answer.bound), seed


def test_heuristics_are_never_better_and_keep_the_limits(best: dict[int, Result]) -> None:
    """`exact` >= `local_search` >= `greedy`; and local search is optimal on most of the ten."""
    gaps = []
    for seed in SEEDS:
        better, good = (solve(best[seed].problem, s, PROOF) for s in ("local_search", "greedy"))
        for found in (better, good):
            if found.placement is None:
                assert found.status in (Status.UNKNOWN, Status.INFEASIBLE), seed
                continue
            assert violations(found.placement, best[seed].problem) == (), seed
            assert (found.status, found.bound) == (Status.FEASIBLE, None), seed
            assert worse(found, best[seed]) >= -1e-9, seed
        if good.placement is not None:
            assert worse(better, good) <= 1e-12, seed
        if best[seed].placement is not None:
            gaps.append(1.0 if better.placement is None else worse(better, best[seed]))
    assert sum(gap < 1e-9 for gap in gaps) >= 0.8 * len(gaps)
