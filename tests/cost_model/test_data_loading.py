"""Samples that come from a store: no worker calculates faster than its machines read, and no
workers together faster than the store gives.
"""

import json
from typing import Any

import pytest

import placer
from placer.advice.recommendation.notes import warnings_of
from placer.cost_model.estimate import Estimate, estimate
from placer.documents.checker.case import Case
from placer.documents.checker.dollars import dollars_of
from placer.documents.checker.limits import unread
from placer.documents.checker.seconds import round_of
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.validation.simulation.replay import replay
from placer.workload.data_loading import LOADER_STREAMS

B2 = "backblaze/us-west"
SAMPLE_BITS = 122800 * 8
"""An ImageNet sample, as the profile of ResNet-50 has it."""


def asked(workers: str, **words: Any) -> tuple[Problem, Estimate, dict[str, str]]:
    """The problem, the estimate of a placement by hand and its warnings by code."""
    problem = placer.Advisor("default").problem("resnet50", **words)
    placement = place_by_hand(workers, problem)
    got = estimate(placement, problem)
    told: dict[str, str] = {}
    for warn in warnings_of(problem, placement, got):
        told[warn.code] = f"{told.get(warn.code, '')}{warn.message}\n"
    return problem, got, told


def test_a_machine_reads_no_more_than_its_link_carries() -> None:
    """One machine with eight H200 in Mumbai calculates 47,600 images/s, which is 47 Gb/s; its link
    with Backblaze carries 1.4 Gb/s, which is 1,460 images/s.
    """
    workers = "aws/ap-south-1=1xH200:8:spot"
    _, free, quiet = asked(workers)
    problem, got, told = asked(workers, data=B2)
    link = problem.network.link(B2, "aws/ap-south-1")
    assert "data-bound" not in quiet
    assert free.samples_per_second.value * SAMPLE_BITS > 30e9
    assert got.samples_per_second.value * SAMPLE_BITS / 8 == pytest.approx(
        link.speed(LOADER_STREAMS)
    )
    assert "a machine reads 1.4" in told["data-bound"]
    assert "(estimated)" in told["data-bound"]


def test_a_limit_of_the_store_is_shared_by_all_workers() -> None:
    """Azure gives 50 Gb/s by default in UK West: 50,566 images/s, however many machines ask."""
    for count in (8, 16):
        _, got, told = asked(f"azure/uksouth={2 * count}xH100-NVL:2:on-demand", data="azure/ukwest")
        rate = got.samples_per_second.value * SAMPLE_BITS
        assert rate <= 50e9
        if count == 16:
            assert rate > 0.8 * 50e9
            assert "gives 50 Gb/s to all readers together" in told["data-bound"]


def test_a_store_whose_limit_nobody_knows_is_asked_about() -> None:
    """Where readers take more than the least default limit of any provider, 50 Gb/s: two machines
    with eight H100 read 77.
    """
    for count, said in ((1, False), (2, True)):
        workers, data = f"gcp/us-central1={count}xH100:8:spot", "gcp/us-central1"
        told = asked(workers, data=data)[2]
        assert ("gcp/us-central1 has to give 77.3 Gb/s" in told.get("store-limit", "")) is said


def test_a_saved_answer_that_reads_too_fast_is_refused() -> None:
    """The second implementation works the limit out from link and card: a worker that is said to
    calculate at its own pace is found, and one at the pace of its data passes.
    """
    result = placer.recommend(
        "resnet50",
        budget="3/h",
        data=B2,
        catalog="erben-2023",
        gpu="T4",
        exchange="all-reduce",
        alternatives=False,
        certificate=True,
    )
    document: dict[str, Any] = json.loads(json.dumps(result.to_saved()))
    check_document(document, "r.json")
    for machine in document["certificate"]["figures"]["machines"]:
        machine["alone"] *= 100
        machine["in_group"] *= 100
    with pytest.raises(PlacerError, match="the second implementation finds"):
        check_document(document, "r.json")
    told = Case(document["problem"], document["placement"], document["certificate"]["figures"], 1.0)
    assert any("reads at most" in line for line in unread(told))


def test_the_simulation_waits_for_data_as_the_model_does() -> None:
    """Within 2 % of each other, with a store that holds all workers back."""
    problem, _, _ = asked("gcp/us-central1=1xT4:spot", data=B2)
    stores = tuple(replace(store, read_gbps=0.5) for store in problem.catalog.stores)
    narrow = replace(problem, catalog=replace(problem.catalog, stores=stores))
    placement = place_by_hand("gcp/us-central1=3xT4:spot", narrow)
    got = estimate(placement, narrow).samples_per_second.value
    assert 0.95 * 0.5e9 < got * SAMPLE_BITS <= 0.5e9
    assert replay(placement, narrow, rounds=3).samples_per_second == pytest.approx(got, rel=0.02)


H200 = "aws/ap-south-1=1xH200:8:spot"
"""A p5en.48xlarge: 30.7 TB of local disks, which read 27 GB/s."""
IMAGENET: dict[str, Any] = {"data": B2, "samples": "115M", "data_size": "157GB"}
"""90 passes over 1.28 million images."""


def test_later_passes_come_from_a_local_disk_that_holds_the_data() -> None:
    """Over 90 passes eight H200 read 1,461 images/s once and calculate 47,587/s 89 times: in the
    mean 1 / (1/90 / 1,461 + 89/90 / 47,587) = 35,236/s. The price of reading falls to a 90th.
    """
    problem, got, told = asked(H200, **IMAGENET)
    _, anew, _ = asked(H200, **IMAGENET, data_cache="none")
    passes = 115e6 * 122800 / 157e9
    assert got.data_passes is not None
    assert got.data_passes.passes == pytest.approx(passes)
    assert got.data_passes.kept_by == ("H200:8 in aws/ap-south-1",)
    first, later = (
        got.data_passes.first_samples_per_second,
        got.data_passes.later_samples_per_second,
    )
    assert first == pytest.approx(1_461, rel=1e-3)
    assert later == pytest.approx(47_587, rel=1e-3)
    mean = 1 / (1 / passes / first + (1 - 1 / passes) / later)
    assert got.samples_per_second.value == pytest.approx(mean)
    assert anew.samples_per_second.value == pytest.approx(first)
    assert anew.data_passes is None
    each, each_anew = (g.usd_per_hour.data / g.samples_per_second.value for g in (got, anew))
    assert each == pytest.approx(each_anew / passes)
    assert "in the first pass" in told["data-bound"]
    assert any("assumed" in line and "local disks" in line for line in got.provenance)
    assert problem.requirements.data_cache is None


def test_what_the_disks_do_not_hold_is_read_anew() -> None:
    """0.9 of 30.72 TB are 27.6 TB. Twice 20 TB are read as fast as twice 1 TB; 28 TB are not kept,
    unless the user answers for it. A machine of which no disk is known keeps nothing.
    """
    speeds = {
        words: asked(H200, data=B2, passes="2", data_size=words)[1].samples_per_second.value
        for words in ("1TB", "27.6TB", "28TB")
    }
    assert speeds["1TB"] == speeds["27.6TB"] > 1.9 * speeds["28TB"]
    _, sure, _ = asked(H200, data=B2, passes="2", data_size="28TB", data_cache="disk")
    assert sure.samples_per_second.value == speeds["1TB"]
    lambda_a10 = "lambda/us-west-1=1xA10:on-demand"
    assert asked(lambda_a10, data=B2, passes="2", data_size="1GB")[1].data_passes is None


def test_the_checker_and_the_simulation_know_disks() -> None:
    """A saved answer whose workers keep the data is confirmed. With disks of 1 GB in its book the
    same speeds are refused, and the data of every pass has a price.
    """
    result = placer.recommend(
        "resnet50",
        budget="24/h",
        gpu="H200",
        places="aws/ap-south-1",
        figures="book",
        alternatives=False,
        certificate=True,
        **IMAGENET,
        data_source="none",  # what a copy would change is not the question
    )
    document: dict[str, Any] = json.loads(json.dumps(result.to_saved()))
    assert document["estimate"]["data_passes"]["passes"] == pytest.approx(90, rel=1e-3)
    assert document["request"]["data_bytes"] == 157e9
    check_document(document, "r.json")
    problem, placement = result.problem, result.placement
    assert placement is not None
    case = Case(document["problem"], document["placement"], document["certificate"]["figures"], 1.0)
    assert not [*unread(case)]
    once = dollars_of(case, round_of(case))["data"]
    assert once == pytest.approx(document["estimate"]["usd_per_hour"]["data"])
    for offer in document["problem"]["catalog"]["offers"]:
        offer["local_disk_gb"] = 1
    told = Case(document["problem"], document["placement"], document["certificate"]["figures"], 1.0)
    assert any("reads at most" in line for line in unread(told))
    assert dollars_of(told, round_of(told))["data"] == pytest.approx(90 * once, rel=1e-3)
    got = estimate(placement, problem).samples_per_second.value
    assert replay(placement, problem, rounds=3).samples_per_second == pytest.approx(got, rel=0.05)
