"""Models by a word: configurations read without PyTorch, parameter counts, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from placer.errors import PlacerError
from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.workload.models.configuration import read_configuration
from placer.workload.models.configured_decoder import READERS, configured_decoder
from placer.workload.models.decoder import (
    BF16_BYTES,
    FOUR_BIT_BYTES,
    RUNGS,
    decoder_of,
    with_adapters,
    with_sequence_length,
)
from placer.workload.models.model_words import public_model, read_model
from placer.workload.profile import load_profile

LLAMA: dict[str, Any] = yaml.safe_load("""
{model_type: llama, num_hidden_layers: 32, hidden_size: 4096, num_attention_heads: 32,
 num_key_value_heads: 8, intermediate_size: 14336, vocab_size: 128256,
 max_position_embeddings: 131072}
""")
SMALL: dict[str, Any] = yaml.safe_load("""
{num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2,
 intermediate_size: 96, vocab_size: 500, max_position_embeddings: 128, n_layer: 2, n_embd: 64,
 n_head: 4, n_positions: 128, d_model: 64, n_layers: 2, n_heads: 4, max_seq_len: 128,
 num_experts_per_tok: 2, moe_intermediate_size: 40, num_local_experts: 4, n_routed_experts: 4,
 first_k_dense_replace: 1, num_experts: 4, interleave_moe_layer_step: 2,
 intermediate_size_mlp: 80, head_dim: 24, pad_token_id: 0, bos_token_id: 1, eos_token_id: 2}
""")
"""Dimensions under the names of every model type; each takes those that it has."""
VARIANTS: list[dict[str, bool]] = [
    {},
    {"tie_word_embeddings": True},
    {"attention_bias": True},
    {"mlp_bias": True},
]


def configuration(**changes: Any) -> str:
    """The configuration of Llama 3.1 8B with changes; None takes a key away."""
    return json.dumps({k: v for k, v in {**LLAMA, **changes}.items() if v is not None})


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write such a configuration."""

    def write(**changes: Any) -> Path:
        file = tmp_path / "config.json"
        file.write_text(configuration(**changes), encoding="utf-8")
        return file

    return write


@pytest.mark.parametrize("model_type", READERS)
def test_counts_are_those_of_transformers(model_type: str, tmp_path: Path) -> None:
    """Every reader against the model itself on the meta device, with and without biases and shared
    embeddings; the file as people write it and with all defaults written out.
    """
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    known = transformers.AutoConfig.for_model(model_type).to_dict()
    for variant in VARIANTS:
        if not set(variant) <= set(known):
            continue
        values = {k: v for k, v in {**SMALL, **variant}.items() if k in known}
        config = transformers.AutoConfig.for_model(model_type, **values)
        with torch.device("meta"):
            module = (
                transformers.MllamaForCausalLM(config)  # has no automatic class
                if model_type == "mllama_text_model"
                else transformers.AutoModelForCausalLM.from_config(config)
            )
        for text in (
            json.dumps({"model_type": model_type, **values}),
            config.to_json_string(use_diff=False),
        ):
            file = tmp_path / "config.json"
            file.write_text(text, encoding="utf-8")
            decoder = configured_decoder(read_configuration(file))
            assert decoder is not None
            assert decoder.parameters == sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    "name",
    [
        *("LlamaModel", "LlamaForSequenceClassification", "LlamaForTokenClassification"),
        *("LlamaForQuestionAnswering", "GPT2Model", "GPT2ForTokenClassification"),
        *("PhiForSequenceClassification", "Qwen3ForTokenClassification", "PhiModel"),
    ],
)
def test_the_head_is_that_of_the_class(name: str, tmp_path: Path) -> None:
    """``architectures`` says what is behind the last layer; a reward model has no language head."""
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    kind = getattr(transformers, name).config_class
    known = kind().to_dict()
    values = {k: v for k, v in SMALL.items() if k in known} | {"num_labels": 3}
    with torch.device("meta"):
        module = getattr(transformers, name)(kind(**values))
    asked = {"model_type": kind.model_type, "architectures": [name], **values}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(asked), encoding="utf-8")
    decoder = configured_decoder(read_configuration(file))
    assert decoder is not None
    assert decoder.parameters == sum(p.numel() for p in module.parameters())


META_8B: dict[str, Any] = {
    "dim": 4096,
    "n_layers": 32,
    "n_heads": 32,
    "n_kv_heads": 8,
    "vocab_size": 128256,
    "ffn_dim_multiplier": 1.3,
    "multiple_of": 1024,
    "norm_eps": 1e-05,
}
"""``params.json`` of Llama 3.1 8B as Meta publishes it."""


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [
        ({}, 8_030_261_248),
        (
            # Llama 2 7B leaves its vocabulary to the tokenizer.
            {"vocab_size": -1, "n_kv_heads": None, "ffn_dim_multiplier": None, "multiple_of": 256},
            6_738_415_616,
        ),
        (
            # Mixtral 8x7B as Mistral publishes it.
            {
                "hidden_dim": 14336,
                "head_dim": 128,
                "vocab_size": 32000,
                "moe": {"num_experts": 8, "num_experts_per_tok": 2},
            },
            46_702_792_704,
        ),
    ],
)
def test_params_json_of_meta_and_mistral(
    tmp_path: Path, changes: dict[str, Any], parameters: int
) -> None:
    """Other words for the same dimensions; the published counts."""
    file = tmp_path / "params.json"
    file.write_text(json.dumps({**META_8B, **changes}), encoding="utf-8")
    assert read_model(f"hf:{file}").parameters == parameters


@pytest.mark.parametrize(
    ("quantization", "stored"),
    [
        ({"quant_method": "awq", "bits": 4}, FOUR_BIT_BYTES),
        ({"load_in_4bit": True}, FOUR_BIT_BYTES),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 2.0),
        ({"quant_method": "mxfp4"}, 2.0),
    ],
)
def test_four_bits_are_trained_through_adapters_alone(
    written: Callable[..., Path], quantization: dict[str, Any], stored: float
) -> None:
    """Integers take --qlora; FP8 of DeepSeek-V3 and MXFP4 of gpt-oss are trained in BF16."""
    profile = read_model(f"hf:{written(quantization_config=quantization)}")
    assert profile.architecture is not None
    assert profile.architecture.frozen_bytes_per_parameter == stored


def test_a_configuration_is_the_shipped_model(written: Callable[..., Path]) -> None:
    """The dimensions of Llama 3.1 8B: as a file, as its folder, and by name where no file is."""
    file, shipped = written(), load_profile("llama-3.1-8b")
    for words in (f"hf:{file}", f"hf:{file.parent}"):
        profile = read_model(words)
        assert profile.architecture == shipped.architecture
        assert profile.gradient_bytes_fp32 == shipped.gradient_bytes_fp32
    assert read_model("hf:meta-llama/Llama-3.1-8B") == shipped
    assert read_model("llama-3.1-8b") == shipped


def test_gpt2_takes_no_longer_sequences_than_its_table(written: Callable[..., Path]) -> None:
    """1,024 learned positions; Llama's are computed, so any length may be."""
    gpt2 = load_profile("gpt2").architecture
    assert gpt2 is not None
    assert gpt2.with_sequence_length(1024) == gpt2
    with pytest.raises(PlacerError, match=r"1,025 is above the model's 1024 positions"):
        gpt2.with_sequence_length(1025)
    llama = read_model(f"hf:{written()}").architecture
    assert llama is not None
    assert llama.sequence_length == 8192
    assert llama.with_sequence_length(2**20).sequence_length == 2**20


def test_published_decoders_of_the_ladder_have_their_parameters() -> None:
    """GPT-2 without its 1,024 positions, and Llama 3 8B and 70B to the last one; of 8B all but the
    128,256 x 4,096 of the embedding are multiplied with.
    """
    counts = [rung.decoder.parameters for rung in RUNGS]
    assert (counts[0], counts[5:7]) == (123_653_376, [8_030_261_248, 70_553_706_496])
    assert RUNGS[5].decoder.computed_parameters == 7_504_924_672


def test_another_length_keeps_the_tokens_of_a_batch() -> None:
    """512 sequences of 8,192 tokens of 4 bytes are 1,024 of half as many; adapters keep their 128.
    The last length that was asked for is named.
    """
    llama = load_profile("llama-3.1-8b")
    assert with_sequence_length(llama, 8192) is llama
    half = with_sequence_length(with_sequence_length(llama, 2**17), 4096)
    assert (half.bytes_per_sample, half.target_batch_size) == (4 * 4096, 1024)
    assert str(half.bytes_per_sample_source).count("here ") == 1
    assert str(half.bytes_per_sample_source).endswith("; here 4,096 tokens")
    adapted = with_adapters(llama, 16, BF16_BYTES)
    assert with_sequence_length(adapted, 4096).target_batch_size == 128


def test_adapters_of_rank_16_are_42_million() -> None:
    """Of 32 layers of Llama 3.1 8B: 16 x (2 x (4,096 + 4,096) + 2 x (4,096 + 1,024) + 3 x (4,096 +
    14,336)) each. Tables, 13.08 % of the weights, stay in BF16. Others take their place.
    """
    llama = load_profile("llama-3.1-8b")
    profile = with_adapters(llama, 16, FOUR_BIT_BYTES)
    shape, trained = profile.architecture, 41_943_040
    assert shape is not None
    assert (shape.trainable_parameters, profile.gradient_bytes_fp32) == (trained, 4 * trained)
    assert shape.parameters == shape.active_parameters == 8_030_261_248 + trained
    assert shape.computed_parameters == 7_504_924_672 + trained
    assert shape.frozen_bytes_per_parameter == pytest.approx(0.516 + 0.130839 * 1.484, rel=1e-5)
    bytes_ = 16 * trained + 8_030_261_248 * shape.frozen_bytes_per_parameter + 1.5e9
    assert profile.device_memory_bytes == pytest.approx(bytes_)
    assert with_adapters(profile, 16, FOUR_BIT_BYTES) is profile
    other = with_adapters(profile, 8, BF16_BYTES).architecture
    assert other == with_adapters(llama, 8, BF16_BYTES).architecture
    assert other is not None
    assert other.trainable_parameters == trained / 2
    with_adapters(llama, 4096, BF16_BYTES)
    for rank in (0, 4097):
        with pytest.raises(PlacerError, match=rf"rank {rank:,} of adapters .* width 4,096"):
            with_adapters(llama, rank, BF16_BYTES)


@given(st.floats(min_value=1e8, max_value=2e12))
@example(270_107_265)  # a width of 951 rounds to 896: 5.001 times that was wanted
@example(164_754_174)  # 5.63 times
def test_a_size_has_so_many_parameters(parameters: float) -> None:
    """Within 1 %, in layers and widths between those of published decoders."""
    decoder = decoder_of(round(parameters))
    assert decoder.parameters == pytest.approx(parameters, rel=0.01)
    assert 2.5 <= decoder.mlp_width / decoder.width <= 5


ROWS = list(read_rows(shipped_catalogs() / "public_models.csv", "public_models.csv"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_dimensions_count_to_the_published_parameters(row: dict[str, Any]) -> None:
    """To the last one: two published figures that would not agree by chance."""
    profile = public_model(row["model"])
    assert profile is not None
    assert profile.parameters == row["parameters"]
    if "not read from the file" in row["source"]:
        assert "its dimensions count to the published parameters" in row["source"]
