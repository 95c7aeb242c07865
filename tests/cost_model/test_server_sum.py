"""The sum of a parameter server: by its vCPUs, by what arrives, alike for all who count it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import placer
from placer.cost_model.timing.services import (
    SUM_WORK,
    SUMMING_VCPUS,
    server_sum_seconds,
    summing_vcpus,
)
from placer.documents.validate import examine_document
from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.result import Result
from placer.workload.constants import ServiceConstants


def asked(**words: Any) -> Result:
    """Eight T4 with XLM-RoBERTa around a server, n1-standard-8 with 8 vCPUs."""
    return placer.recommend(
        "roberta-xlm",
        catalog="erben-2023",
        budget="2.2/h",
        workers="8",
        gpu="T4",
        places="gcp/us-central1",
        exchange="parameter-server",
        **words,
    )


@pytest.fixture(scope="module")
def result() -> Result:
    """The answer by the shipped figures."""
    return asked()


def test_vcpus_sum_side_by_side_up_to_eight(result: Result) -> None:
    """Eight FP16 gradients of 2.2406 GB in FP32 at 1.06 GB/s a vCPU: 16.9 s on one, an eighth on
    eight; more are taken to wait for memory.
    """
    problem = result.problem
    one = server_sum_seconds(8, 1, problem)
    assert one == pytest.approx(8 * 2.24057 / 1.06, rel=1e-4)
    assert server_sum_seconds(8, 8, problem) == pytest.approx(one / 8)
    offers = {offer.vcpus: offer for offer in placer.load_catalog("default").offers}
    assert summing_vcpus(offers[2]) == 2
    assert summing_vcpus(offers[96]) == summing_vcpus(None) == SUMMING_VCPUS


@pytest.mark.parametrize("compression", sorted(SUM_WORK))
def test_work_counts_values_not_bytes_on_the_wire(result: Result, compression: str) -> None:
    """INT8 messages have half the bytes of FP16 and take 1.7 times as long to add."""
    exact = replace(result.problem.requirements, compression=compression)
    problem = replace(result.problem, requirements=exact)
    times = server_sum_seconds(8, 8, problem) / server_sum_seconds(8, 8, result.problem)
    assert times == pytest.approx(SUM_WORK[compression])


def test_a_file_of_an_older_version_keeps_its_rate(result: Result) -> None:
    """Without the figure a server sums 500 MB/s of what arrives, whatever its vCPUs: 8 x 1.12 GB
    take 17.9 s; the document stays as it was.
    """
    document = json.loads(json.dumps(result.problem.to_dict()))
    del document["calibration"]["services"]["server_sum_bytes_per_s"]
    problem = Problem.from_dict(document)
    assert server_sum_seconds(8, 8, problem) == pytest.approx(8 * 1.12028 / 0.5, rel=1e-4)
    assert json.loads(json.dumps(problem.to_dict()["calibration"])) == document["calibration"]


def test_the_answer_is_checked_by_the_second_implementation(result: Result) -> None:
    """2.11 s of the round are the sum, and the checker finds the same round."""
    assert result.estimate is not None
    assert dict(result.estimate.step.parts)["sum"] == pytest.approx(2.114, abs=1e-3)
    checked = examine_document(json.loads(json.dumps(result.to_saved())), "file")[1]
    assert checked is not None
    assert "a second implementation finds" in " ".join(checked.confirmed)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("inf"), float("nan")])
def test_speeds_that_are_none_are_refused(rate: float) -> None:
    """Named, with what to give."""
    with pytest.raises(PlacerError, match="server_sum_bytes_per_s of a service"):
        ServiceConstants(server_sum_bytes_per_s=rate)
