"""Measurements in a profile: checked row by row, merged, turned into rates; kept out of what is
priced.
"""

import json
from typing import Any

import pytest
from conforming import validate

from placer.errors import PlacerError
from placer.profiler.measured_profile import (
    Sizes,
    known_rates,
    main_measurement,
    measured_rates,
    profile_of,
    rate_of,
    with_estimates,
)
from placer.records import replace
from placer.workload.measurement import Measurement, Point, Seconds
from placer.workload.profile import (
    SCHEMA,
    ModelProfile,
    OutOfMemory,
    load_profile,
    profile_document,
    profile_from_json,
)

SECONDS = Seconds(median=0.1, low=0.09, high=0.12)
POINT = Point(
    batch_size=8,
    accumulation=1,
    step=SECONDS,
    forward=SECONDS,
    backward=SECONDS,
    optimizer=SECONDS,
    samples_per_second=80.0,
    low=76.0,
    high=82.0,
    confidence=0.96,
    steps=40,
    device_memory_bytes=3 * 10**9,
    host_memory_bytes=2 * 10**9,
    fraction_of_peak=0.4,
    partial=False,
)
ON_T4 = Measurement(
    gpu="T4",
    device="cuda:0",
    device_name="Tesla T4",
    driver="550.54",
    clock_mhz=1590.0,
    memory_clock_mhz=5000.0,
    threads=4,
    precision="fp16",
    torch="2.13.0",
    date="2026-11-21",
    command="placer profile mymodel:good",
    points=(replace(POINT, batch_size=4, samples_per_second=70.0, low=69.0, high=71.0), POINT),
    knee_batch_size=8,
    largest_batch_size=8,
    failed_batch_size=16,
    failure="CUDA out of memory",
    flops_per_sample=1e9,
    loading_seconds_per_sample=None,
    loading_share=None,
    partial=False,
)
ON_CPU = replace(
    ON_T4,
    gpu="cpu",
    device="cpu",
    device_name="AMD EPYC",
    precision="fp32",
    points=(replace(POINT, samples_per_second=5.0, low=4.9, high=5.2, device_memory_bytes=None),),
)


def sizes() -> Sizes:
    """Those of the shipped XLM-RoBERTa."""
    old = load_profile("roberta-xlm")
    return Sizes(**{name: getattr(old, name) for name in Sizes.__slots__})


def made(*measurements: Measurement, old: ModelProfile | None = None) -> ModelProfile:
    """Profile of XLM-RoBERTa from some measurements."""
    return profile_of(
        sizes(), measurements, known_rates(old, measured_rates(measurements)), old=old
    )


def written(profile: ModelProfile) -> dict[str, Any]:
    """What stands in the file."""
    document: dict[str, Any] = json.loads(
        json.dumps({"schema": SCHEMA, **profile_document(profile)})
    )
    return document


def test_a_profile_with_measurements_is_read_back() -> None:
    """Written, checked against the schema, read: the same."""
    profile = made(ON_T4, ON_CPU)
    document = written(profile)
    validate(document, "profile")
    assert profile_from_json(json.dumps(document).encode(), "mine.json") == profile


@pytest.mark.parametrize("words", [{"gpu": ""}, {"gpu": "T4\n"}, {"failure": "\x1b[2J"}])
def test_words_of_a_measurement_can_be_printed(words: dict[str, str]) -> None:
    """A device has a name; what it is called, and how it failed, moves no terminal."""
    assert replace(ON_T4, failure="", command="", driver="").failure == ""
    with pytest.raises(PlacerError, match=f"measurement: {next(iter(words))} is "):
        replace(ON_T4, **words)


def test_the_rate_is_that_of_the_knee_in_the_fastest_precision() -> None:
    """80 samples/s in fp16 beat 60 in fp32; with accumulation measured, that counts: 85. The source
    says of what and when.
    """
    slow = replace(
        ON_T4,
        precision="fp32",
        points=(replace(POINT, samples_per_second=60.0, low=59.0, high=61.0),),
    )
    assert rate_of([slow, ON_T4]).value == 80.0
    steps = replace(POINT, accumulation=16, samples_per_second=85.0, low=84.0, high=86.0)
    found = rate_of([slow, replace(ON_T4, points=(*ON_T4.points, steps))])
    assert (found.value, found.low, found.high, found.basis) == (85.0, 84.0, 86.0, "measured")
    assert all(
        word in found.source
        for word in ("Tesla T4", "torch 2.13.0", "fp16", "2026-11-21", "16 x 8")
    )


def test_a_measurement_keeps_what_it_cannot_tell() -> None:
    """The layers of a language model, by which islands are planned, and where it ran out of memory
    stay beside the first measured rate.
    """
    failed = OutOfMemory(gpu="T4", gpu_count=1, source="a run")
    old = replace(load_profile("llama-3.2-1b"), out_of_memory=(failed,))
    added = profile_of(old, (ON_T4,), measured_rates((ON_T4,)), old=old)
    assert added.architecture == old.architecture is not None
    assert added.out_of_memory == (failed,)
    assert [rate.value for rate in added.rates] == [80.0]


def test_measured_rates_replace_published_and_estimated_ones() -> None:
    """T4 is published at 208.76: measured, it has one rate, 80. A10 stays published, nodes and
    hivemind's rates too; H100 estimated.
    """
    old = load_profile("roberta-xlm")
    known = known_rates(old, measured_rates((ON_T4,)))
    plain = {rate.gpu: rate for rate in known if rate.gpu_count == 1 and rate.framework == "none"}
    assert (plain["T4"].value, plain["T4"].basis) == (80.0, "measured")
    assert plain["A10"].basis == "published"
    others = [rate for rate in old.rates if rate.gpu_count > 1 or rate.framework != "none"]
    assert all(rate in known for rate in others)
    guess = replace(plain["T4"], basis="estimated")
    rates = with_estimates(known, (guess, replace(guess, gpu="H100")))
    assert [
        (r.gpu, r.basis)
        for r in rates
        if r.gpu in ("T4", "H100") and r.gpu_count == 1 and r.framework == "none"
    ] == [("T4", "measured"), ("H100", "estimated")]


def test_a_gpu_sets_memory_and_microbatch() -> None:
    """3 GB on the T4; a CPU alone tells nothing about a device, so that is worked out and said
    so.
    """
    assert main_measurement((ON_CPU, ON_T4)) == ON_T4
    both, alone = made(ON_CPU, ON_T4), made(ON_CPU)
    assert (both.device_memory_bytes, both.host_memory_bytes, both.microbatch) == (
        3 * 10**9,
        2 * 10**9,
        8,
    )
    assert alone.device_memory_bytes == sizes().device_memory_bytes
    assert alone.memory_source.startswith("device: ")
