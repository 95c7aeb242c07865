"""Machines of one kind: bounds of the kinds, and the best of them."""

import random

import pytest

import placer
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import Answer, SolveOptions, Status
from placer.solving.parts import machine_kinds
from placer.solving.solve import load_solver, solve
from proofs import MARKETS

SOLVERS = "exact", "exhaustive"
BEATEN = 0.05
"""Share by which a value that is to be beaten is worse than the best."""


def of_one_kind(market: str, seed: int) -> Problem | None:
    """Draw a market whose workers must be alike, and exchange by rings over networks of their own:
    the machines of one kind take part in exchanges in several ways.
    """
    problem, draw = MARKETS[market](seed), random.Random(seed)
    wish = replace(problem.requirements, uniform=True, transport="nccl")
    offers = tuple(
        replace(offer, network_gbps=draw.choice((0.1, 1.0, 10.0, 100.0)))
        for offer in problem.catalog.offers
    )
    problem = replace(problem, catalog=replace(problem.catalog, offers=offers), requirements=wish)
    return problem if problem.uniform else None


@pytest.mark.parametrize("market", ["random", "wide", "carbon", "vcpus", "ring", "exchange"])
def test_no_kind_is_better_than_its_bounds(market: str) -> None:
    """Every kind is enumerated: none is better than either of its bounds, the closer one is closer
    at times, nor is one of its modes better than the bound of this mode, and the best kind is what
    the search finds, with a value to beat or without one.
    """
    asked = closer = in_several_ways = ruled_out = 0
    for seed in range(60):
        problem = of_one_kind(market, seed)
        if problem is None:
            continue
        options = SolveOptions(gap=0.0)
        with allowance.opened(600.0):
            search = machine_kinds._KindSearch(
                problem, lambda part, _: solve(part), options, "exact", proves=True
            )
        found, objective = list[float](), search.objective
        for device, kind in machine_kinds._kinds(problem).items():
            wish = replace(problem.requirements, gpus=(device,), uniform=False)
            alike = solve(problem.with_pools(wish, kind.pools), "exhaustive")
            best, first, second = alike.value, search._rank(kind), search._closer(device)
            ranks = dict(zip(problem.modes, search._known[device][1], strict=True))
            ruled_out += sum(rank > second + 1e-6 * abs(second) for rank in ranks.values())
            closer += second > first + 1e-6 * abs(first)
            in_several_ways += len({(pool.host, pool.machines) for pool in kind.pools}) > 1
            if best is not None:
                found.append(best)
                exchange = alike.found[0].exchange
                own = ranks.get((exchange.strategy, exchange.local_steps), second)
                assert max(first, second, own) <= -objective.sign * best + 1e-9 * abs(best), seed
        expected = objective.best(found)
        beat = None if expected is None else objective.ahead(expected, -BEATEN)
        for known in {None, beat} if expected else {None}:
            asked += 1
            answer = solve(problem, "exact", replace(options, beat=known))
            assert (answer.value is None) == (expected is None), seed
            if expected is not None:
                assert answer.value == pytest.approx(expected, rel=1e-8), seed
    assert asked >= 30
    assert closer >= 10
    assert ruled_out >= 10
    assert in_several_ways >= 10


@pytest.mark.parametrize("solver", ["milp", "cpsat"])
def test_only_solvers_with_drafts_of_one_kind_are_asked_for_one(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program knows nothing of kinds: asked for a draft of machines that are alike it would look
    for one until a quarter of the time is over. It is asked about any machines, then about a kind.
    """
    module, asked = load_solver(solver), list[bool]()
    plain = module.solve

    def counted(problem: Problem, options: SolveOptions) -> Answer:
        asked.append(problem.uniform)
        answer: Answer = plain(problem, options)
        return answer

    monkeypatch.setattr(module, "solve", counted)
    problem = placer.Advisor().problem(
        "roberta-xlm", budget="5/h", market="on-demand", places="aws/us-*", figures="book"
    )
    assert problem.uniform
    result = solve(problem, solver)
    assert result.status is Status.OPTIMAL
    assert len(asked) >= 2
    assert not any(asked)


def test_a_kind_is_asked_about_again_in_other_modes() -> None:
    """Searches of the same machines are kept: each mode alone, and then all, as enumeration."""
    compared = 0
    for seed in range(200):
        problem = of_one_kind("like", seed)
        if problem is None:
            continue
        for device, kind in machine_kinds._kinds(problem).items():
            wish = replace(problem.requirements, gpus=(device,), uniform=False)
            for modes in (*((mode,) for mode in problem.modes), problem.modes):
                asked = problem.with_pools(wish, kind.pools, modes)
                exact, every = (solve(asked, name, SolveOptions(gap=0.0)) for name in SOLVERS)
                assert exact.value == (every.value and pytest.approx(every.value, rel=1e-8)), seed
                compared += exact.value is not None
    assert compared >= 100
