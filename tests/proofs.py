"""Proved answers of the random markets that several files of tests ask for."""

from collections.abc import Callable
from functools import cache

import pytest

from instances import (
    batch_problem,
    carbon_problem,
    exchange_problem,
    island_problem,
    joint_problem,
    like_problem,
    loading_problem,
    random_problem,
    reading_problem,
    ring_problem,
    server_problem,
    site_problem,
    sized_problem,
    total_problem,
    used_problem,
    vcpu_problem,
    wide_problem,
    wishing,
)
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result
from placer.solving.solve import solve

PROOF = SolveOptions(gap=0.0, time_limit_s=3600.0)
"""Proofs of small instances; the limit is no part of any test."""


def islands_apart(seed: int) -> Problem:
    """Draw islands over two regions or more, with as many streams as a pair of machines can use."""
    problem = island_problem(seed, most=600)
    return wishing(problem, min_regions=2, streams=64)


MARKETS: dict[str, Callable[[int], Problem]] = {
    "random": random_problem,
    "wide": wide_problem,
    "exchange": exchange_problem,
    "used": used_problem,
    "joint": joint_problem,
    "total": total_problem,
    "batch": batch_problem,
    "carbon": carbon_problem,
    "vcpus": vcpu_problem,
    "sized": lambda seed: sized_problem(seed, most=600),
    "island": lambda seed: island_problem(seed, most=600),
    "islands apart": islands_apart,
    "loading": loading_problem,
    "reading": reading_problem,
    "site": site_problem,
    "server": server_problem,
    "ring": ring_problem,
    "like": like_problem,
}
"""Generators of `tests/instances.py` by their short names."""
WHOLE = {**MARKETS, "island": island_problem, "sized": sized_problem}
"""Those that are not made for plain enumeration as they are."""


@cache
def proved(market: str, seed: int) -> Result:
    """Solve an instance of a market to the last digit with `exact`, once in a process, and bound
    each of its modes by its relaxation alone.
    """
    return solve(MARKETS[market](seed), "exact", replace(PROOF, certificate=True))


def agrees(answer: Result, oracle: Result, seed: int) -> bool:
    """Compare status and value of a proof with those of plain enumeration; return whether there is
    a placement.
    """
    assert answer.status is oracle.status, seed
    assert (answer.value is None) == (oracle.value is None), seed
    if oracle.value is not None:
        assert answer.value == pytest.approx(oracle.value, rel=1e-8, abs=1e-12), seed
    return oracle.value is not None


def is_open(answer: Result, oracle: Result, seed: int) -> bool:
    """Return whether a search over islands ended open, as an hour has a price that hundreds of
    slower plans may keep: then nothing is better than the bound.
    """
    if answer.status is not Status.FEASIBLE:
        return False
    assert answer.bound is not None
    if oracle.value is not None:
        assert not answer.objective.better(oracle.value, answer.bound, 1e-8), seed
    return True


def worse(found: Result, best: Result) -> float:
    """How much worse a value is than another, relative; negative if it is better."""
    assert found.value is not None
    assert best.value is not None
    if best.value == 0:
        return found.value
    if found.problem.requirements.objective == "throughput":
        return 1 - found.value / best.value
    return found.value / best.value - 1
