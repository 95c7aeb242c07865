"""Quotas over several places, devices or markets together, as providers give them for a whole
account.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run
from placer.cost_model.limits import violations
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements
from placer.problem.words.machines import read_quotas
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.solving.solve import solve
from placer.workload.profile import load_profile
from proofs import PROOF, proved


def together(gpus: int, place: str = "*", gpu: str = "*", market: str = "*") -> Quota:
    """A joint quota."""
    return Quota(place=place, gpu=gpu, market=market, gpus=gpus, scope="together")


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


def vcpus(most: int, place: str = "*", market: str = "*", machine: str = "*") -> Quota:
    """A quota of vCPUs."""
    return Quota(place=place, gpu="*", market=market, vcpus=most, scope="together", machine=machine)


def test_rows_of_vcpus_change_answers_and_never_for_the_better() -> None:
    """Of 40 drawn markets with one to three rows of vCPUs at least 3 have another answer without
    them, which is never a worse one.
    """
    changed = 0
    for seed in range(40):
        answer = proved("vcpus", seed)
        wish = answer.problem.requirements
        each = tuple(row for row in wish.quotas if row.vcpus is None)
        open_wish = replace(wish, quotas=each)
        free = solve(replace(answer.problem, requirements=open_wish), "exact", PROOF)
        changed += free.placement != answer.placement
        if answer.value is not None:
            assert free.value is not None
            assert not answer.objective.better(answer.value, free.value, 1e-8), seed
    assert changed >= 3


def test_rows_of_vcpus_count_machines(erben: Catalog) -> None:
    """4 T4 on machines of 8 vCPUs in each of two regions take 64 together: a row of 64 holds them,
    one of 63 does not. Rows of other places, markets or machine types count none of them.
    """
    groups = "gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot"

    def broken(row: Quota) -> list[str]:
        problem = Problem(
            profile=load_profile("roberta-xlm"),
            catalog=erben,
            requirements=Requirements(quotas=(row,)),
        )
        return [v.message for v in violations(place_by_hand(groups, problem), problem)]

    size = {o.vcpus for o in erben.offers if (o.gpu, o.gpu_count, o.provider) == ("T4", 1, "gcp")}
    assert size == {8}
    assert broken(vcpus(64, "gcp/*")) == []
    assert broken(vcpus(63, "gcp/*")) == ["64 vCPUs exceed the joint quota of 63 vCPUs in gcp/*"]
    for row in (vcpus(0, "aws/*"), vcpus(0, market="on_demand"), vcpus(0, machine="g[0-9]*")):
        assert broken(row) == []


def test_machines_of_unknown_vcpus_are_refused(erben: Catalog) -> None:
    """The vCPUs of own machines are assumed: a row that matches them admits none, and says why; a
    row of a cloud leaves them alone.
    """
    machines = {row.instance_type for row in erben.offers if row.price_basis == "owned"}
    assert machines
    for row, admitted in ((vcpus(10**6), False), (vcpus(10**6, "gcp/*"), True)):
        problem = Problem(
            profile=load_profile("roberta-xlm"),
            catalog=erben,
            requirements=Requirements(quotas=(row,), places_in=("onprem/erben-eu", "gcp/*")),
        )
        owned = [pool for pool in problem.pools if pool.offer.price_basis == "owned"]
        assert bool(owned) == admitted
        by_hand = violations(place_by_hand("onprem/erben-eu=1xRTX8000", problem), problem)
        assert (not by_hand) == admitted
        assert admitted or "whose vCPUs nobody knows" in by_hand[0].message
        offer = next(o for o in erben.offers if o.place == "onprem/erben-eu")
        assert ("whose vCPUs nobody knows" in problem.quota_problem(offer)) != admitted


@pytest.mark.parametrize(
    ("rows", "model", "tip"),
    [
        ("gpus\n*,*,*,0", "roberta-xlm", "the quota allows 0 T4 in aws/us-east-2; raise it to 1"),
        (
            "gpus\n*,*,*,9\naws,T4,spot,0\naws,T4,on-demand,0",
            "roberta-xlm",
            "the quota allows 0 T4 spot in aws/us-east-2; raise it to 1",
        ),
        (
            "vcpus\naws/us-east-2,*,*,3",
            "roberta-xlm",
            "the quota allows 3 vCPUs in aws/us-east-2; raise it to 8 for 1 x g4dn.2xlarge in "
            "aws/us-east-2",
        ),
    ],
)
def test_a_quota_that_leaves_nothing_is_named(
    run: Run, tmp_path: Path, rows: str, model: str, tip: str
) -> None:
    """Not the place that removed more: what it allows, and the least that one machine needs."""
    path = tmp_path / "quota.csv"
    path.write_text(f"place,gpu,market,{rows}\n", encoding="utf-8")
    words = ("--model", model, "--budget", "5/h", "--in", "aws/us-east-2", "--gpu", "T4")
    done = run("recommend", *words, "--quota", str(path), columns=300)
    assert done.returncode == 2
    assert f"tip: {tip}\n" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("place,gpu,market,gpus,vcpus\n*,*,*,1,2\n", "states GPUs and vCPUs"),
        ("place,gpu,market,gpus,vcpus\n*,*,*,,\n", "states neither GPUs nor vCPUs"),
        ("place,gpu,market,vcpus,scope\n*,*,*,8,each\n", "with scope 'each'"),
        ("place,gpu,market,gpus,machine\n*,*,*,8,g6.xlarg\n", "unknown machine 'g6.xlarg'"),
        ("place,gpu,market,vcpus\n*,*,*,1.5\n", "vcpus '1.5' is not a whole number"),
        ("place,gpu,market\n*,*,*\n", "columns place,gpu,market"),
    ],
)
def test_wrong_rows_are_named(erben: Catalog, tmp_path: Path, text: str, message: str) -> None:
    """With file and line."""
    path = tmp_path / "quota.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlacerError, match=message) as refused:
        read_quotas(path, erben)
    assert str(path) in refused.value.message
