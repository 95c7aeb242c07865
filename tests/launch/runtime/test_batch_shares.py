"""Shares of a step: by speed where the timing takes it so, whole samples that add up, the mean
gradient of one process.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_plans import A, B, C, changed, document, plan_of

import placer
from conftest import ROOT
from placer.launch.mesh import apportioned
from placer.launch.runtime.run_plan import RunPlan, plan_from

TESTS = str(ROOT / "tests")


def with_speeds(
    told: dict[str, Any], *speeds: float, shares: dict[str, float] | None = None
) -> dict[str, Any]:
    """The manifest with samples/s of one machine of each group, and shares of the data by place."""
    groups = []
    for group, speed in zip(told["groups"], speeds, strict=True):
        data = {**group["data"], "place_share": None if shares is None else shares[group["place"]]}
        groups.append({**group, "samples_per_second": speed, "data": data})
    return changed(told, groups=groups)


@pytest.mark.parametrize(
    ("strategies", "shares"),
    [
        ("all-reduce hierarchical-all-reduce local-sgd model-averaging asgd-ga", [4, 4, 12, 4]),
        ("parameter-server central hierarchical", [6, 6, 6, 6]),
    ],
)
def test_shares_follow_the_timing_of_the_strategy(strategies: str, shares: list[int]) -> None:
    """24 samples; speeds 10, 10, 30, 10 samples/s, 60 in all: 24 x 10 / 60 = 4 and 24 x 30 / 60 =
    12. With a server or store: 6 each.
    """
    for strategy in strategies.split():
        told = document(strategy, (A, 2), (B, 1), (C, 1))
        plan = plan_of(with_speeds(told, 10.0, 30.0, 10.0))
        assert list(plan.shares(24).values()) == shares


def test_data_that_has_its_place_is_shared_there() -> None:
    """Half of the data lies in A, a quarter in B and C each: the two of A get 6 each though B is
    fast; a store divides so, too.
    """
    where = {A: 0.5, B: 0.25, C: 0.25}
    for strategy in ("all-reduce", "central"):
        told = document(strategy, (A, 2), (B, 1), (C, 1))
        plan = plan_of(with_speeds(told, 10.0, 30.0, 10.0, shares=where))
        assert plan.shares(24) == {0: 6, 1: 6, 2: 6, 3: 6}
    told = document("all-reduce", (A, 1), (B, 1), (A, 1))
    two = plan_of(with_speeds(told, 10.0, 10.0, 20.0, shares={A: 0.75, B: 0.25}))
    assert two.shares(24) == {0: 6, 1: 6, 2: 12}  # 18 of A by speeds 10 and 20


def test_plans_without_speeds_have_equal_shares() -> None:
    """No speeds: the first get one more."""
    assert plan_of(document("all-reduce", (A, 2), (B, 1))).shares(25) == {0: 9, 1: 8, 2: 8}


def test_all_workers_of_a_recommended_plan_end_at_once() -> None:
    """Several kinds of machines: B / (sum of speeds) seconds each, as the plan predicts, to a
    sample.
    """
    got = placer.recommend(
        "resnet50",
        catalog="erben-2023",
        budget="5/h",
        use=["gcp/us-central1=1xT4", "lambda/us-west-1=1xA10"],
        exchange="all-reduce",
        alternatives=False,
    )
    plan: RunPlan = plan_from(got.to_manifest(), "plan")
    shares = plan.shares(plan.target_batch_size)
    speeds = [
        group.samples_per_second for group in plan.manifest.groups for _ in range(group.count)
    ]
    assert len(set(speeds)) > 1
    wanted = plan.manifest.expected.step_seconds["calculation"]
    for rank, speed in enumerate(speeds):
        assert speed is not None
        assert shares[rank] / speed == pytest.approx(wanted, abs=1 / speed)


@given(st.integers(1, 100_000), st.lists(st.floats(0.01, 1e6), min_size=1, max_size=40))
def test_whole_samples_add_up(batch: int, speeds: list[float]) -> None:
    """Nobody is off by more than a sample from the exact part, and all of the batch is done."""
    shares = apportioned(batch, dict(enumerate(speeds)))
    assert sum(shares.values()) == batch
    for rank, speed in enumerate(speeds):
        assert abs(shares[rank] - batch * speed / sum(speeds)) < 1 + 1e-6


def test_unequal_shares_train_as_one_process_does(tmp_path: Path) -> None:
    """Three workers with 4, 8 and 12 samples, in as many microbatches as the last: large-batch SGD
    in one process.
    """
    torch: Any = pytest.importorskip("torch")
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("needs gloo")
    from forked_ranks import ran
    from plain_torch import TOLERANCE, ends, synchronous

    told = with_speeds(document("all-reduce", (A, 1), (B, 1), (C, 1)), 10.0, 20.0, 30.0)
    records = ran(tmp_path, told, checkpoints="")
    samples = {record["rank"]: record["samples"] for record in records if record["kind"] == "step"}
    assert samples == {0: 4, 1: 8, 2: 12}
    torch.testing.assert_close(ends(records)[0], synchronous(samples, least=4)[0], **TOLERANCE)
