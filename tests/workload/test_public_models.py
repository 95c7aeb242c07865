"""Public models by name: published dimensions that count to the published parameters."""

from typing import Any

import pytest

from placer.errors import PlacerError
from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.workload.models.model_words import public_model, read_model

ROWS = list(read_rows(shipped_catalogs() / "public_models.csv", "public_models.csv"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_dimensions_count_to_the_published_parameters(row: dict[str, Any]) -> None:
    """To the last one: two published figures that would not agree by chance."""
    profile = public_model(row["model"])
    assert profile is not None
    assert profile.parameters == row["parameters"]
    if "not read from the file" in row["source"]:
        assert "its dimensions count to the published parameters" in row["source"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("Qwen2.5-7B", "qwen2.5-7b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("hf:Qwen/Qwen2.5-7B", "qwen2.5-7b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("mistral-7b", "mistral-7b"),
        ("Mixtral-8x22B", "mixtral-8x22b-v0.1"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("llama-2-7b", "llama-2-7b-hf"),
        ("QWEN3-8b", "qwen3-8b"),
        ("google/gemma-3-27b-it", "gemma-3-27b-pt"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout-17b-16e"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "llama-3.2-11b-vision"),
        ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2-instruct"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b"),
    ],
)
def test_names_as_people_write_them(words: str, name: str) -> None:
    """Case, organisation and what stands behind do not matter; a shipped profile wins."""
    assert read_model(words).name == name


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("Qwen2.5-8B", "'Qwen2.5-7B'"),
        ("deepseek-ai/DeepSeek-V2", "deepseek-v3"),
        ("google/Qwen3-8B", "'Qwen/Qwen3-8B'"),
        ("llama-5-900b", "llama"),
        ("nobody/nothing-at-all", "placer models --public"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(words: str, hint: str) -> None:
    """No figure is guessed."""
    with pytest.raises(PlacerError, match="unknown model") as refused:
        read_model(words)
    assert hint.lower() in refused.value.hint.lower()
