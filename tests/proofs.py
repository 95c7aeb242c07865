"""Proved answers of the random markets that several files of tests ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from instances import (
    carbon_problem,
    exchange_problem,
    joint_problem,
    random_problem,
    total_problem,
    used_problem,
    vcpu_problem,
    wide_problem,
)
from placer.problem.problem import Problem
from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.solving.solve import solve

PROOF = SolveOptions(gap=0.0, time_limit_s=3600.0)
"""Proofs of small instances; the limit is no part of any test."""
MARKETS: dict[str, Callable[[int], Problem]] = {
    "random": random_problem,
    "wide": wide_problem,
    "exchange": exchange_problem,
    "used": used_problem,
    "joint": joint_problem,
    "total": total_problem,
    "carbon": carbon_problem,
    "vcpus": vcpu_problem,
}


@cache
def proved(market: str, seed: int) -> Result:
    """Solve an instance of a market to the last digit with `exact`, once in a process."""
    return solve(MARKETS[market](seed), "exact", PROOF)
