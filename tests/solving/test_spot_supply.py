"""Spot machines of one type in one place: as many as are known to launch together."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import placer
from instances import AS_OF, island_problem, random_problem, sized_problem, wishing
from placer.cost_model.limits import violations
from placer.documents.checker.limits import supply_of
from placer.errors import PlacerError
from placer.market.capacity_table import CapacityRow
from placer.problem.problem import Problem
from placer.problem.requirements import Quota
from placer.records import replace
from placer.solving.solve import solve
from proofs import PROOF, agrees


def supplied(problem: Problem, supply: int | None, **wishes: Any) -> Problem:
    """Return a question with so many spot machines of a type in a place."""
    return wishing(problem, supply=supply, **wishes)


def drawn(draw: Callable[[int], Problem], seed: int) -> Problem:
    """Draw a question with a supply, and quotas, other kinds of wishes beside it now and then."""
    problem, chance = draw(seed), random.Random(seed)
    wish = problem.requirements
    most = min(wish.max_workers, 16 if draw is sized_problem else 6)
    own: dict[str, Any] = {"uniform": True, "transport": "nccl"} if chance.random() < 0.3 else {}
    own |= {"quotas": wish.quotas if chance.random() < 0.5 else ()}
    own |= {"max_workers": max(most, wish.min_workers), "quota_gpus": None}
    return supplied(problem, chance.choice((1, 1, 2, 3)), **own)


@pytest.mark.parametrize("draw", [random_problem, island_problem, sized_problem])
def test_a_supply_is_proved_as_plain_enumeration_finds_it(draw: Callable[[int], Problem]) -> None:
    """Islands of several sizes of one type share it, in all 75 drawn questions. Without it the
    answer is never worse.
    """
    compared = bound = 0
    for seed in range(41_000, 41_025):
        problem = drawn(draw, seed)
        try:
            tried = solve(problem, "exhaustive")
        except PlacerError:  # too many combinations
            continue
        best = solve(problem, "exact", PROOF)
        placed = agrees(best, tried, seed)
        free = solve(supplied(problem, None), "exact", PROOF)
        compared += 1
        if not placed:
            bound += free.value is not None
            continue
        assert tried.value is not None
        assert free.value is not None
        assert not best.objective.better(tried.value, free.value, 1e-8), seed
        bound += free.value != pytest.approx(tried.value, rel=1e-8)
    assert compared >= 20
    assert bound or draw is random_problem


@pytest.mark.parametrize("solver", ["greedy", "local_search", "milp", "cpsat"])
def test_every_solver_keeps_a_supply(solver: str) -> None:
    """One spot machine of a type in a place: none of them finds anything better than is proved."""
    compared = 0
    for seed in range(41_000, 41_006):
        problem = supplied(sized_problem(seed), 1, quota_gpus=None)
        best, other = solve(problem, "exact", PROOF), solve(problem, solver, PROOF)
        if best.value is None or other.value is None or other.placement is None:
            continue
        assert violations(other.placement, problem) == ()
        assert not best.objective.better(other.value, best.value, 1e-6), seed
        compared += 1
    assert compared >= 2


def test_a_machine_too_many_is_named() -> None:
    """Two spot machines where one launches: the code is ``supply``, and the checker finds it too.
    Machines on demand, of one's own or under a quota are no part of it.
    """
    problem = next(
        asked
        for asked in (supplied(sized_problem(seed), 1, quota_gpus=None) for seed in range(100))
        if any(pool.offer.market == "spot" for pool in asked.pools)
    )
    pool = next(pool for pool in problem.pools if pool.offer.market == "spot")
    assert (pool.max_count, problem.supply(pool.offer)) == (1, 1)
    two = placer.Placement(
        groups=(pool.group(2),),
        exchange=solve(problem, "exact").placement.exchange,  # type: ignore[union-attr]
    )
    broken = {each.code: each.message for each in violations(two, problem)}
    assert "no more than 1 are known to launch together; --supply any" in broken["supply"]
    assert supply_of(msgspec.to_builtins(pool.offer), problem.to_dict()) == 1
    offer = pool.offer
    steady = replace(offer, market="on_demand")
    own = replace(offer, price_basis="owned")
    assert problem.supply(steady) is problem.supply(own) is None
    row = Quota(place=offer.place, gpu=offer.gpu, market="*", gpus=64, scope="together")
    for quotas in ({"quotas": (row,)}, {"quota_gpus": 64}):
        asked = supplied(problem, 1, **quotas)
        assert asked.supply(offer) is None
        assert supply_of(msgspec.to_builtins(offer), asked.to_dict()) is None
    asked = supplied(problem, 1, quotas=(replace(row, gpu="another"),))
    assert asked.supply(offer) == 1


def test_the_capacity_table_of_a_region_counts_instead() -> None:
    """Of 16 machines that were asked for, 4 launched: 4. Where all that were asked for launched,
    nobody knows how many there are.
    """
    problem = supplied(sized_problem(41_001), 3, quota_gpus=None)
    offer = next(o for o in problem.catalog.offers if o.market == "spot")
    row = CapacityRow(
        provider=offer.provider,
        region=offer.region,
        device=offer.gpu,
        market="spot",
        machines_asked=16,
        machines=4,
        share=0.5,
        basis="measured",
        source="test",
        as_of=AS_OF,
    )
    for rows, most in (
        ((row,), 4),
        ((row, replace(row, machines=8, share=0.0)), 4),
        ((replace(row, machines_asked=4),), 3),
        ((replace(row, region=""),), 3),
    ):
        asked = replace(problem, catalog=replace(problem.catalog, capacity=rows))
        assert asked.supply(offer) == most
        assert supply_of(msgspec.to_builtins(offer), asked.to_dict()) == most
