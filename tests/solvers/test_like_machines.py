"""Tables of machines of one device, from which instant answers are drafted."""

import importlib
from collections.abc import Callable

import numpy as np
import pytest

from instances import joint_problem, random_problem, wide_problem, wishing
from placer.problem.problem import Problem
from placer.solving.answer import SolveOptions

construction = importlib.import_module("placer.solvers._drafts.construction")
like_machines = importlib.import_module("placer.solvers._drafts.like_machines")


@pytest.mark.parametrize("drawn", [joint_problem, random_problem, wide_problem])
@pytest.mark.parametrize("seed", range(8))
def test_a_team_counts_machines_within_quotas(drawn: Callable[[int], Problem], seed: int) -> None:
    """The first n machines of a team stand in one place and have one device; their prices and
    speeds add up to those of the tables, and no quota is exceeded.
    """
    problem = drawn(seed)
    problem = wishing(problem, uniform=True)
    made = construction.Drafting(problem, SolveOptions(time_limit_s=60.0))
    like, pools = like_machines.LikeMachines(made.judge), made.market.pools
    for team in range(len(like.place)):
        for n in range(1, int(np.isfinite(like.usd[team]).sum())):
            counts = like.counts(team, n)
            assert sum(counts.values()) == n
            assert len({(pools[i].place, pools[i].offer.gpu, pools[i].gpus) for i in counts}) == 1
            for table, figures in ((like.usd, made.market.usd), (like.speed, made.market.speed)):
                assert table[team, n] == pytest.approx(
                    sum(k * figures[i] for i, k in counts.items())
                )
            for bucket in {pools[i].bucket for i in counts}:
                taken = [(k * pools[i].gpus, pools[i]) for i, k in counts.items()]
                alike = [(gpus, pool) for gpus, pool in taken if pool.bucket == bucket]
                assert sum(gpus for gpus, _ in alike) <= max(pool.gpu_quota for _, pool in alike)
