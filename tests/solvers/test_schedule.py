"""Turns of the modes: stages towards the gap change no answer, and a stopped search has bounds."""

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import exchange_problem, random_problem
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.allowance import OutOfTimeError
from placer.solving.answer import Status
from placer.solving.result import Result
from placer.solving.solve import solve
from proofs import PROOF, agrees

SCHEDULE = importlib.import_module("placer.solvers.exact.schedule")
PLACEMENTS = importlib.import_module("placer.solvers.exhaustive").placements
MAKERS = (random_problem, exchange_problem)


def best_by_mode(problem: Problem) -> dict[tuple[str, int], float]:
    """Best value of each mode by plain enumeration."""
    objective, found = objective_of(problem.requirements), dict[tuple[str, int], float]()
    for placement in PLACEMENTS(problem):
        if not violations(placement, problem):
            value = objective.value(evaluate(placement, problem))
            mode = placement.exchange.strategy, placement.exchange.local_steps
            if mode not in found or objective.better(value, found[mode]):
                found[mode] = value
    return found


def beaten(result: Result, best: dict[tuple[str, int], float]) -> list[Any]:
    """List the modes whose bound some placement beats; a closed one of None holds none."""
    objective = objective_of(result.problem.requirements)
    proofs = {(p.strategy, p.local_steps): p for p in result.proof}
    return [
        (mode, value, proofs[mode])
        for mode, value in best.items()
        for bound in [proofs[mode].bound]
        if (bound is None and proofs[mode].method != "stopped")
        or (bound is not None and objective.better(value, bound, 1e-8))
    ]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from(MAKERS))
def test_stages_change_no_answer(seed: int, draw: Callable[[int], Problem]) -> None:
    """The optimum by plain enumeration, where each search is paused at every node and every mode is
    searched in stages.
    """
    problem = draw(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SCHEDULE, "LOOK", 0)
        patch.setattr(SCHEDULE, "TURN", 1)
        found = solve(problem, "exact", PROOF)
    agrees(found, solve(problem, "exhaustive"), seed)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from(MAKERS), st.integers(1, 40))
def test_no_placement_of_a_mode_beats_the_bound_of_a_stopped_search(
    seed: int, draw: Callable[[int], Problem], nodes: int
) -> None:
    """Wherever a search stops: in the look, while bounds are worked out, in any stage."""
    problem = draw(seed)
    best = best_by_mode(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SCHEDULE, "LOOK", nodes // 4)
        patch.setattr(SCHEDULE, "TURN", 1)
        result = solve(problem, "exact", replace(PROOF, node_limit=nodes))
    if result.placement is not None:
        assert beaten(result, best) == []


class Paused:
    """A search that pauses at each node, and finds a better placement at one of them.

    ``finds``: node at which the placement is found; None at a gap at which the search never ends.
    """

    def __init__(self, target: Any, finds: Callable[[float], int | None]) -> None:
        self.target, self.finds = target, finds
        self.mode = SimpleNamespace(strategy="all-reduce", local_steps=1)

    def turns(self) -> Any:
        """Take a node a turn."""
        last = self.finds(self.target.gap)
        node = 0
        while last is None or node < last:
            node += 1
            self.target.tick()
            yield
        self.target.best_value = 2.0

    def may_improve(self) -> bool:
        """Return whether the placement is still to be found."""
        return bool(self.target.best_value < 2.0)

    def gradual(self) -> bool:
        """Return False: it says nothing on the way."""
        return False

    def proved(self) -> None:
        """Say nothing before the end."""


def paused(finds: Callable[[float], int | None]) -> tuple[Any, Any, Any]:
    """Return a target of value 1 at a gap of 0.1 %, its ledger, and one search that pauses."""
    problem = random_problem(0)
    target = importlib.import_module("placer.solvers._target").Target.of(
        problem, gap=0.001, deadline=float("inf")
    )
    target.best, target.best_value = object(), 1.0
    ledger = importlib.import_module("placer.solvers.exact.bounds.ledger").Ledger(target)
    return target, ledger, Paused(target, finds)


def test_a_stage_that_is_stuck_does_not_hold_up_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At a coarse gap the search never ends; at the gap that is asked for it does after 100 nodes:
    both have turns of 1, 2, 4 ... nodes, so 250 nodes in all are enough.
    """
    monkeypatch.setattr(SCHEDULE, "LOOK", 0)
    monkeypatch.setattr(SCHEDULE, "TURN", 1)
    target, ledger, search = paused(lambda gap: 100 if gap <= 0.001 else None)
    target.node_limit = 300
    assert SCHEDULE.Schedule(target, ledger, [search]).run()
    assert target.best_value == 2.0


def test_what_was_left_out_at_the_gap_asked_for_is_not_proved_by_a_stage() -> None:
    """The first look leaves a part out; a stage that ends without does not make good for it."""

    def finds(gap: float) -> int:
        if gap <= 0.001:
            target.skipped = True
        return 2_000 if gap <= 0.001 else 1

    target, ledger, search = paused(finds)
    assert not SCHEDULE.Schedule(target, ledger, [search]).run()
    assert not ledger.of(("all-reduce", 1)).closed


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from(MAKERS), st.integers(1, 12))
def test_rough_bounds_are_valid_and_no_looser_than_what_nothing_beats(
    seed: int, draw: Callable[[int], Problem], asked: int
) -> None:
    """Time is up after a few bounds of the closing, from the first rough one to the last sharp one:
    no placement beats the bound of its mode, and none is looser than that of last resort.
    """
    problem = draw(seed)
    best, allows, left = best_by_mode(problem), SCHEDULE.Schedule._allows, asked

    def counted(self: Any, search: Any, slack: float) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise OutOfTimeError
        return bool(allows(self, search, slack))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SCHEDULE, "LOOK", 0)
        patch.setattr(SCHEDULE, "TURN", 1)
        patch.setattr(SCHEDULE.Schedule, "_look", out_of_time)
        patch.setattr(SCHEDULE.Schedule, "_allows", counted)
        result = solve(problem, "exact", PROOF)
    if result.placement is None or result.status is Status.OPTIMAL:
        return
    assert beaten(result, best) == []
    assert result.bound is not None
    market = importlib.import_module("placer.solvers._market.market").Market.of(problem)
    target = importlib.import_module("placer.solvers._target").Target.of(
        problem, gap=0.0, deadline=float("inf")
    )
    outermost = importlib.import_module("placer.solvers.exact.bounds.ledger").unbeatable_value(
        market, target
    )
    assert not objective_of(problem.requirements).better(result.bound, outermost, 1e-6)


def out_of_time(*_: Any) -> None:
    """Stand in for a look at which the time is up."""
    raise OutOfTimeError
