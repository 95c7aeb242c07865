"""Wishes about tokens: sequences inside, tokens outside, and models that have none."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.advice.worlds.whatif import apply
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.problem.problem import Problem
from placer.problem.words.changes import parse_changes
from placer.problem.words.request import in_sequences
from placer.workload.architecture import Architecture
from placer.workload.models.decoder import adapter_parameters
from placer.workload.profile import load_profile

advisor = Advisor()


def asked(model: str = "llama-3.1-8b", **words: Any) -> Problem:
    """The problem of some words."""
    return advisor.problem(model, "default", **words)


def shape(problem: Problem) -> Architecture:
    """The dimensions of the question's model."""
    assert problem.profile.architecture is not None
    return problem.profile.architecture


@settings(max_examples=20)
@given(tokens=st.integers(1, 10**15), length=st.integers(1, 2**20))
def test_tokens_are_samples_times_the_sequence_length(tokens: int, length: int) -> None:
    """As many sequences as hold all tokens, and not one more."""
    problem = asked(tokens=tokens, seq_len=length, gpu="H100")
    samples = problem.requirements.samples
    assert samples is not None
    assert shape(problem).sequence_length == length
    assert 0 <= samples * length - tokens < length


def test_a_batch_in_tokens_is_one_of_sequences() -> None:
    """4 M tokens are 488 sequences of 8,192, and 977 of 4,096."""
    assert asked(tbs="4Mtok").batch == 488
    assert asked(tbs="4Mtok", seq_len=4096).batch == 977
    assert asked(tbs="100 tokens").batch == 1
    changed = apply(asked(tbs="4Mtok"), parse_changes(["seq-len=4096"]))
    assert changed.batch == 977
    assert apply(changed, parse_changes(["tbs=x2"])).batch == 2 * 977


def test_a_floor_in_tokens_is_one_of_sequences() -> None:
    """81,920 tokens a second are 10 sequences of 8,192 and 20 of 4,096, in whatever time."""

    def floor(problem: Problem) -> float | None:
        return problem.requirements.min_samples_per_second

    assert (
        floor(asked(min_throughput="81920 tokens/s")) == floor(asked(min_throughput="10/s")) == 10
    )
    assert floor(asked(min_throughput="4.9152M tok/min", seq_len=4096)) == 20
    assert floor(asked(min_throughput="7.077888B tokens/day")) == 10
    changed = apply(asked(budget="60/h"), parse_changes(["min-throughput=163.84Ktok/s"]))
    assert floor(changed) == 20
    with pytest.raises(PlacerError, match="of a model without tokens"):
        asked("resnet50", min_throughput="20Ktok/s")


def test_another_sequence_length_keeps_the_tokens_of_the_default_batch() -> None:
    """Llama 3.1 8B: 512 x 8,192 tokens are 1,024 x 4,096; a sequence has 4 bytes for each."""
    problem = asked(seq_len=4096)
    assert problem.batch == 1024
    assert problem.profile.bytes_per_sample == 4 * 4096
    assert "here 4,096 tokens" in (problem.profile.bytes_per_sample_source or "")
    again = apply(problem, parse_changes(["seq-len=2048"]))
    assert again.batch == 2048
    assert (again.profile.bytes_per_sample_source or "").count("here") == 1
    assert apply(again, parse_changes(["seq-len=8192"])).profile.bytes_per_sample == 32768


def test_adapters_of_rank_16_for_llama_8b() -> None:
    """41.9 M parameters, as PEFT counts with all linear layers of Llama 3.1 8B as targets: for each
    layer 16 x (q 8,192 + k 5,120 + v 5,120 + o 8,192 + 3 x 18,432).
    """
    per_layer = 16 * (8192 + 5120 + 5120 + 8192 + 3 * 18_432)
    problem = asked(lora=16)
    assert shape(problem).trainable_parameters == 32 * per_layer == 41_943_040
    assert problem.profile.gradient_bytes_fp32 == 4 * 41_943_040
    assert shape(problem).frozen_bytes_per_parameter == 2
    assert shape(problem).has_adapters


def test_frozen_weights_in_4_bits_need_a_third_of_the_memory() -> None:
    """8.03 B parameters: 16.1 GB in BF16. In 4 bits 5.7 GB, as the published 4-bit weights have:
    6.98 B of 0.516 bytes in the layers, 1.05 B of 2 in the embedding and the output layer.
    """
    lora, qlora = asked(lora=16).profile, asked(qlora=16).profile
    layers = load_profile("llama-3.1-8b").parameters - 2 * 128_256 * 4096
    saved = lora.device_memory_bytes - qlora.device_memory_bytes
    assert saved == pytest.approx((2 - 0.516) * layers, abs=1)
    assert in_sequences(asked(qlora=16)).profile == qlora  # done twice, it changes nothing
    assert qlora.gradient_bytes_fp32 == lora.gradient_bytes_fp32


def test_adapters_have_a_batch_of_their_own() -> None:
    """128 sequences of any length where nobody says otherwise, not the 512 of the profile."""
    problem = asked(lora=16)
    assert (problem.batch, problem.batch_assumed) == (128, True)
    for short in (asked(lora=16, seq_len=2048), asked(qlora=8, seq_len=2048)):
        assert (short.batch, short.batch_assumed) == (128, True)
    assert apply(problem, parse_changes(["seq-len=4096"])).batch == 128
    assert asked().batch_assumed is False


def test_experts_have_no_adapters() -> None:
    """Mixtral: the four matrices of attention alone."""
    mixtral = load_profile("mixtral-8x7b").architecture
    assert mixtral is not None
    assert adapter_parameters(mixtral, 1) == 32 * (8192 + 5120 + 5120 + 8192)
