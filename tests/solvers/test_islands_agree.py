"""Solvers on language models whose workers may be several machines: all agree with `exact`."""

import importlib

import pytest

from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.solving.solve import solve
from proofs import PROOF, proved

NAMES = ("milp", "cpsat")
split = importlib.import_module("placer.solvers._programs.split")
SEEDS = range(6_000, 6_010)
PACKAGES = {"milp": "highspy", "cpsat": "ortools"}


@pytest.mark.parametrize("solver", NAMES)
def test_programs_agree_with_exact(solver: str) -> None:
    """Status and value; no bound is beaten by the optimum."""
    pytest.importorskip(PACKAGES[solver])
    for seed in SEEDS:
        best = proved("island", seed)
        answer = solve(best.problem, solver, PROOF)
        assert answer.status == best.status, seed
        if answer.placement is None or best.value is None:
            assert best.value is None, seed
            continue
        assert violations(answer.placement, best.problem) == (), seed
        objective = objective_of(best.problem.requirements)
        value = objective.value(evaluate(answer.placement, best.problem))
        assert value == pytest.approx(best.value, rel=2 * split.LEAST_GAP, abs=1e-12), seed
        assert answer.bound is not None
        assert not objective.beats_bound(best.value, answer.bound), seed
