"""Quotas over several places, devices or markets together, as providers give them for a whole
account.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run
from instances import joint_problem
from placer.cost_model.limits import violations
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements
from placer.problem.words.quotas import read_quotas
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.solving.solve import solve
from placer.workload.profile import load_profile
from proofs import PROOF, proved


def together(gpus: int, place: str = "*", gpu: str = "*", market: str = "*") -> Quota:
    """A joint quota."""
    return Quota(place=place, gpu=gpu, market=market, gpus=gpus, scope="together")


@pytest.mark.parametrize("chunk", range(10))
def test_exact_equals_exhaustive_with_joint_quotas(chunk: int) -> None:
    """200 instances with one to three joint quotas over all, a market, a device or a place."""
    for seed in range(chunk * 20, chunk * 20 + 20):
        answer = proved("joint", seed)
        oracle = solve(answer.problem, "exhaustive")
        assert answer.status == oracle.status, seed
        if oracle.value is not None:
            assert answer.value == pytest.approx(oracle.value, rel=1e-8, abs=1e-12), seed


def test_instances_bind() -> None:
    """Of the first 100 instances above some have another answer without the joint quotas."""
    changed = 0
    for seed in range(100):
        bound = proved("joint", seed)
        problem = bound.problem
        each = tuple(row for row in problem.requirements.quotas if row.scope == "each")
        free = replace(problem, requirements=replace(problem.requirements, quotas=each))
        changed += solve(free, "exact", PROOF).placement != bound.placement
    assert changed >= 10


@pytest.mark.parametrize("solver", ["greedy", "local_search"])
def test_heuristics_keep_joint_quotas(solver: str) -> None:
    """On 60 instances none is broken, and most that can be met is met."""
    found = there = 0
    for seed in range(300, 360):
        problem = joint_problem(seed)
        best, got = proved("joint", seed), solve(problem, solver)
        there += best.placement is not None
        found += got.placement is not None
        assert got.placement is None or violations(got.placement, problem) == ()
    assert found >= 0.85 * there


def test_rows_count_apart_or_together(erben: Catalog) -> None:
    """4 T4 in each of two regions keep a quota of 4 for each place, and break one of 7 for both."""
    groups = "gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot"

    def broken(*rows: Quota) -> list[str]:
        problem = Problem(
            profile=load_profile("roberta-xlm"),
            catalog=erben,
            requirements=Requirements(quotas=rows),
        )
        return [v.message for v in violations(place_by_hand(groups, problem), problem)]

    assert broken(Quota(place="*", gpu="*", market="*", gpus=4)) == []
    assert broken(together(8, place="gcp/*", gpu="T4")) == []
    assert broken(together(7, place="gcp/*", gpu="T4")) == [
        "8 GPUs exceed the joint quota of 7 GPUs of T4 in gcp/*"
    ]
    assert broken(together(3, place="aws/*")) == []


def test_a_joint_quota_caps_each_pool_too(erben: Catalog) -> None:
    """3 devices in all are 3 in one place at most; rows for each place still hold beside it."""
    wish = Requirements(quotas=(Quota(place="*", gpu="*", market="*", gpus=20), together(3)))
    problem = Problem(profile=load_profile("roberta-xlm"), catalog=erben, requirements=wish)
    assert problem.quota("gcp/us-central1", "T4", "spot") == 3
    assert max(pool.max_count for pool in problem.pools) == 3


def test_quota_file_with_a_scope(run: Run, tmp_path: Path) -> None:
    """A fifth column; without it, or where it is empty, a row holds for each. An unknown scope is
    named.
    """
    path = tmp_path / "quota.csv"
    path.write_text(
        "place,gpu,market,gpus,scope\n*,*,*,16,\ngcp,T4,spot,6,together\n", encoding="utf-8"
    )
    assert [(row.place, row.gpus, row.scope) for row in read_quotas(path)] == [
        ("*", 16, "each"),
        ("gcp/*", 6, "together"),
    ]
    words = [
        "--model",
        "resnet50",
        "--catalog",
        "erben-2023",
        "--gpu",
        "T4",
        "--in",
        "gcp",
        "--market",
        "spot",
        "--workers",
        "2..",
    ]
    done = run("recommend", *words, "--quota", str(path), columns=200)
    assert done.returncode == 0, done.stderr
    assert run("recommend", *words, "--workers", "7..", "--quota", str(path)).returncode == 3
    path.write_text("place,gpu,market,gpus,scope\n*,*,*,16,all\n", encoding="utf-8")
    with pytest.raises(PlacerError, match="unknown scope 'all'"):
        read_quotas(path)
    path.write_text("place,gpu,market,gpus\n*,*,*,16,together\n", encoding="utf-8")
    with pytest.raises(PlacerError, match="5 cells instead of 4"):
        read_quotas(path)
