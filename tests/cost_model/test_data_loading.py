"""Samples that come from a store: no worker calculates faster than its machines read, and no
workers together faster than the store gives.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

import placer
from placer.advice.recommendation.notes import warnings_of
from placer.cost_model.estimate import Estimate, estimate
from placer.documents.checker.case import Case
from placer.documents.checker.islands import unread
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.problem.problem import Problem
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


def test_two_machines_read_twice_as_much() -> None:
    """Each has its own link; all-reduce of 51 MB costs a little of the second one's half."""
    _, one, _ = asked("aws/ap-south-1=1xH200:8:spot", data=B2)
    _, two, _ = asked("aws/ap-south-1=2xH200:8:spot", data=B2)
    gain = two.samples_per_second.value / one.samples_per_second.value
    assert 1.9 < gain <= 2.0 + 1e-9


def test_a_store_in_the_region_is_read_over_the_card() -> None:
    """p5en has 3,200 Gb/s, so S3 in its region does not slow eight H200 down; the same store slows
    them from another region.
    """
    _, free, _ = asked("aws/ap-south-1=1xH200:8:spot")
    _, here, told = asked("aws/ap-south-1=1xH200:8:spot", data="aws/ap-south-1")
    _, there, _ = asked("aws/ap-south-1=1xH200:8:spot", data="aws/us-east-1")
    assert here.samples_per_second == free.samples_per_second
    assert "data-bound" not in told
    assert there.samples_per_second.value < 0.2 * free.samples_per_second.value


def test_a_limit_of_the_store_is_shared_by_all_workers() -> None:
    """Azure gives 50 Gb/s by default in UK West: 50,566 images/s, however many machines ask."""
    for count in (8, 16):
        _, got, told = asked(
            f"azure/uksouth={count}xH100-NVL:2:on-demand,azure/eastus={count}xH100-NVL:2:on-demand",
            data="azure/ukwest",
        )
        rate = got.samples_per_second.value * SAMPLE_BITS
        assert rate <= 50e9
        if count == 16:
            assert rate > 0.8 * 50e9
            assert "gives 50 Gb/s to all readers together" in told["data-bound"]


def test_a_store_of_unknown_limit_that_must_give_much_is_named() -> None:
    """64 machines read 92 Gb/s from Backblaze, of which no limit in bytes is published."""
    _, _, few = asked("aws/ap-south-1=4xH200:8:spot", data=B2)
    _, _, many = asked("aws/ap-south-1=64xH200:8:spot", data=B2)
    assert "store-limit" not in few
    assert "its limit is not known, so none is assumed" in many["store-limit"]


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


def test_a_card_below_the_link_counts() -> None:
    """A machine with a card of 0.2 Gb/s reads 0.2 Gb/s, inside the region too."""
    problem, _, _ = asked("gcp/us-central1=1xT4:spot", data="gcp/us-central1")
    slow = tuple(
        msgspec.structs.replace(offer, network_gbps=0.2) for offer in problem.catalog.offers
    )
    narrow = replace(problem, catalog=replace(problem.catalog, offers=slow))
    for store in ("gcp/us-central1", B2):
        there = replace(narrow, requirements=replace(narrow.requirements, data_store=store))
        got = estimate(place_by_hand("gcp/us-central1=1xT4:spot", there), there)
        assert got.samples_per_second.value * SAMPLE_BITS == pytest.approx(0.2e9)
