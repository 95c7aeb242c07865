"""Model profiles: shipped ones are complete, rates are measured before estimated, bad files are
refused.
"""

import json
import math
from typing import Any

import pytest
from conforming import validate

from placer import estimate
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.workload.profile import (
    ModelProfile,
    Rate,
    load_profile,
    profile_names,
    shipped_profiles,
)

EIGHT = {
    "resnet18",
    "resnet50",
    "resnet152",
    "wide-resnet101",
    "convnext-large",
    "roberta-base",
    "roberta-large",
    "roberta-xlm",
}


LANGUAGE_MODELS = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "gpt-1.3b": 1_315_723_264,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "intellect-1": 10_211_381_248,
    "qwen2.5-7b": 7_615_616_512,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "mpt-1b": 1_311_213_568,
    "mpt-7b": 6_649_286_656,
}
"""Parameters of the shipped language models, as their checkpoints have them: the safetensors index
of each on Hugging Face gives its bytes, two for each parameter.
"""


@pytest.mark.parametrize(("name", "parameters"), LANGUAGE_MODELS.items())
def test_language_models_have_the_published_number_of_parameters(
    name: str, parameters: int
) -> None:
    """Their gradient has 4 bytes for each, their samples are sequences, and they have no rates."""
    profile = load_profile(name)
    assert profile.architecture is not None
    assert profile.parameters == profile.architecture.parameters == parameters
    assert profile.gradient_bytes_fp32 == 4 * profile.architecture.trainable_parameters
    assert profile.gradient_bytes(profile.compression) == 2 * parameters
    assert profile.bytes_per_sample is not None
    assert profile.bytes_per_sample / profile.architecture.sequence_length in (2, 4)
    assert not profile.rates


@pytest.mark.parametrize("name", profile_names())
def test_shipped_profiles_follow_their_schema(name: str) -> None:
    """And the name is the file's name."""
    document = json.loads((shipped_profiles() / f"{name}.json").read_text(encoding="utf-8"))
    validate(document, "profile")
    assert load_profile(name).name == name


SAMPLES = {
    **dict.fromkeys(EIGHT | {"vit-b-16", "vit-l-16"}, "an image of 224 x 224 px"),
    **dict.fromkeys(("roberta-base", "roberta-large", "roberta-xlm"), "16 tokens"),
    **dict.fromkeys(("whisper-small", "whisper-large-v3"), "30 s of sound"),
    "dit-xl-2": "an image of 256 x 256 px",
    "imdb-lstm": "a movie review",
    "niser": "a session of clicks",
}
"""What one sample of a shipped model without dimensions is."""


@pytest.mark.parametrize("name", profile_names())
def test_shipped_profiles_state_the_size_of_a_sample(name: str) -> None:
    """A sequence where there are dimensions, longer if it is asked longer; else as published."""
    profile = load_profile(name)
    if profile.architecture is None:
        assert profile.sample_size == SAMPLES[name]
        assert str(profile.sample_source).startswith(("published: ", "assumed: "))
        return
    longer = replace(
        profile, architecture=replace(profile.architecture, sequence_length=1234, positions=None)
    )
    assert longer.sample_words == "1 sample = a sequence of 1,234 tokens"


def test_gradient_of_xlm_is_two_bytes_per_parameter() -> None:
    """560,142,482 parameters in FP16 are 1,120,284,964 bytes; FP32 twice, INT8 half of that."""
    profile = load_profile("roberta-xlm")
    assert profile.gradient_bytes("fp16") == 1_120_284_964
    assert profile.gradient_bytes("none") == 2 * 1_120_284_964
    assert profile.gradient_bytes("int8") == 560_142_482


def test_measured_rate_beats_efficiency_and_estimate(erben: Catalog) -> None:
    """T4 under hivemind was measured at 115.8 samples/s; V100:8 alone was published."""
    profile = load_profile("roberta-xlm")
    shared, node = (
        profile.rate(erben.gpu("T4"), 1, "hivemind", erben),
        profile.rate(erben.gpu("V100"), 8, "none", erben),
    )
    assert shared is not None
    assert node is not None
    assert (shared.basis, shared.value) == ("measured", 115.82)
    assert (node.basis, node.value) == ("published", 1811.4)


def rated(*rates: tuple[str, int, float]) -> ModelProfile:
    """A model with measured rates of some machines, 10 % either way."""
    rows = [
        Rate(
            gpu=gpu,
            gpu_count=count,
            framework="none",
            value=value,
            low=0.9 * value,
            high=1.1 * value,
            basis="measured",
            source="test",
        )
        for gpu, count, value in rates
    ]
    return replace(load_profile("roberta-xlm"), rates=tuple(rows), efficiency=())


@pytest.mark.parametrize(
    ("rates", "gpu", "count", "framework", "expected"),
    [
        # H100 from A10: sqrt(989/125 x 3350/600) = 6.646 times, half to 1.6 times that. T4 is
        # farther, a CPU is no kin, and a machine of several devices none of one.
        (
            [("T4", 1, 3), ("A10", 1, 10), ("CPU-8", 1, 90), ("H200", 8, 99)],
            "H100",
            1,
            "none",
            (66.46, 6.646 * 9 / 2, 6.646 * 11 * 1.6),
        ),
        # Eight of a known device do 0.9 of eight times as much, 0.4 to 1 of its interval.
        ([("T4", 1, 10)], "T4", 8, "none", (72, 0.4 * 8 * 9, 8 * 11)),
        # In proportion to the nearest machine of several, no lower than one device.
        ([("T4", 1, 10), ("T4", 4, 30), ("T4", 2, 8)], "T4", 8, "none", (60, 28.8, 88)),
        ([("T4", 1, 10), ("T4", 8, 32)], "T4", 2, "none", (10, 7.2, 22)),
        ([("T4", 1, 10), ("T4", 4, 80)], "T4", 2, "none", (18, 7.2, 22)),
        # Of two that are as near the smaller. A framework that nobody knows slows by up to 0.8.
        ([("T4", 1, 10), ("T4", 8, 64), ("T4", 2, 12)], "T4", 4, "none", (24, 14.4, 44)),
        ([("T4", 1, 10)], "T4", 1, "nccl", (9.9, 9 * 0.93, 11)),
        ([("T4", 1, 10)], "T4", 1, "other", (10, 7.2, 11)),
    ],
)
def test_what_nobody_measured_is_estimated_from_the_nearest(
    default: Catalog,
    rates: list[tuple[str, int, float]],
    gpu: str,
    count: int,
    framework: str,
    expected: tuple[float, float, float],
) -> None:
    """Samples/s with their interval, by hand."""
    got = rated(*rates).rate(default.gpu(gpu), count, framework, default)
    assert got is not None
    assert (got.value, got.low, got.high) == pytest.approx(expected, rel=1e-3)
    assert (got.gpu, got.gpu_count, got.framework) == (gpu, count, framework)
    assert got.basis == ("estimated" if framework == "none" else "assumed")


@pytest.mark.parametrize(
    "wrong",
    [
        {"low": 0.0},
        {"low": 10.1},
        {"high": 9.9},
        {"high": math.inf},
        {"gpu_count": 0},
        {"basis": "x"},
    ],
)
def test_rates_are_positive_and_ordered(wrong: dict[str, Any]) -> None:
    """All three may be equal, and machines have a device."""
    (rate,) = rated(("T4", 1, 10)).rates
    assert replace(rate, low=10.0, high=10.0).high == 10
    with pytest.raises(PlacerError, match=r"rate of T4 is|basis 'x'"):
        replace(rate, **wrong)


def test_a_cpu_model_has_no_rate_on_a_gpu(default: Catalog) -> None:
    """Nobody can say how fast NISER runs on an H100: None, not a guess."""
    assert load_profile("niser").rate(default.gpu("H100"), 1, "none", default) is None


def test_the_language_model_runs_out_of_memory_on_four_t4(erben: Catalog) -> None:
    """Erben et al., section 7: on the 4 x T4 node only the vision model ran; no speed is given for
    the other, and nothing is rented there for it; ConvNeXt costs the published 0.96 USD per million
    samples (0.72 / 3600 / 207).
    """
    roberta = load_profile("roberta-xlm")
    assert not any((rate.gpu, rate.gpu_count) == ("T4", 4) for rate in roberta.rates)
    asked = Problem(profile=roberta, catalog=erben, requirements=Requirements())
    node = next(o for o in erben.offers if (o.gpu, o.gpu_count) == ("T4", 4))
    codes, reasons = zip(*asked.offer_problems(node), strict=True)
    assert codes == ("device-memory",)
    assert "ran out of memory on a machine of 4 x T4" in reasons[0]
    got = estimate("convnext-large", "gcp/us-central1=1xT4:4:spot", catalog=erben)
    assert got.usd_per_million_samples == pytest.approx(0.96, abs=0.01)


def test_a_known_node_bounds_its_relatives(default: Catalog) -> None:
    """4 x T4 run ConvNeXt at 207 samples/s under DDP (Erben et al., section 7), 64 % of four T4:
    8 x T4 are estimated at twice that, not at 8 x 0.9.
    """
    profile = load_profile("convnext-large")
    four, eight = (profile.rate(default.gpu("T4"), n, "none", default) for n in (4, 8))
    assert four is not None
    assert eight is not None
    assert (four.value, four.basis) == (207.0, "published")
    assert eight.value == pytest.approx(2 * four.value)
    assert eight.basis == "estimated"
    assert eight.high > 3 * four.value
