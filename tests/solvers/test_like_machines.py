"""Tables of machines of one device, from which instant answers are drafted."""

import importlib
from collections.abc import Callable

import numpy as np
import pytest
from certain import certain

from instances import (
    joint_problem,
    offer,
    profile,
    random_problem,
    region,
    two_places,
    wide_problem,
    wishing,
)
from placer.market.catalog import Setting
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

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


@pytest.mark.parametrize(("parameters_m", "speed", "regions"), [(2000, 100.0, 6), (200, 2000.0, 4)])
def test_single_machines_stand_in_as_many_regions_as_help(
    parameters_m: int, speed: float, regions: int
) -> None:
    """Six places have one equal machine each. The gradients of an average take so long that each
    machine had better work at its own pace; how many join depends on how far they are apart. The
    instant answer is the proved one; with pairs of places alone it was 40 to 55 % slower.
    """
    places = [region("gcp", name, city) for city, name in enumerate("abcdef")]
    nccl = Setting(setting="transport", value="nccl", source="test", as_of="2026-06-30")
    plain = two_places().catalog
    book = replace(
        plain,
        regions={place.place: place for place in places},
        offers=tuple(offer("gcp", place.region, "T4", 0.6) for place in places),
        settings=(nccl,),
        egress=tuple(replace(price, usd_per_gib=0.0) for price in plain.egress),
    )
    problem = Problem(
        profile=profile(parameters_m, {"T4": speed}, 4096),
        catalog=book,
        requirements=Requirements(
            uniform=True, quota_gpus=1, budget_usd_per_hour=3.7, max_local_steps=16
        ),
    )
    drawn, proved = (
        solve(problem, "exact", SolveOptions(proof=proof)) for proof in ("quick", "full")
    )
    assert proved.proved
    assert len(certain(drawn.placement).places) == regions
    assert drawn.value == pytest.approx(certain(proved.value), rel=1e-3)
