"""Public models by name: published dimensions that count to the published parameters."""

from typing import Any

import pytest

from conftest import Run
from placer.errors import PlacerError
from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.workload.models.configured_decoder import configured_decoder
from placer.workload.models.model_words import read_model
from placer.workload.models.public_models import configuration_of, public_model_names
from placer.workload.profile import load_profile

ROWS = list(read_rows(shipped_catalogs() / "public_models.csv", "public_models.csv"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_dimensions_count_to_the_published_parameters(row: dict[str, Any]) -> None:
    """To the last one: two published figures that would not agree by chance."""
    decoder = configured_decoder(configuration_of(row))
    assert decoder is not None
    assert decoder.parameters == row["parameters"]
    if "not read from the file" in row["source"]:
        assert "its dimensions count to the published parameters" in row["source"]


def test_every_listed_name_is_a_model() -> None:
    """With its organisation and without."""
    assert len(public_model_names()) == len(ROWS) >= 50
    for name in public_model_names():
        profile = read_model(name)
        assert profile.parameters == read_model(name.rpartition("/")[2].upper()).parameters
        assert profile.architecture is not None
        assert profile.architecture.sequence_length <= 8192


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
    ],
)
def test_names_as_people_write_them(words: str, name: str) -> None:
    """Case, organisation and what stands behind do not matter; a shipped profile wins."""
    assert read_model(words).name == name


def test_a_shipped_profile_agrees_with_the_table() -> None:
    """Both come from the same configuration."""
    rows = {row["model"]: row for row in ROWS}
    assert load_profile("qwen2.5-7b").parameters == rows["Qwen/Qwen2.5-7B"]["parameters"]
    assert (
        load_profile("mixtral-8x7b").parameters
        == (rows["mistralai/Mixtral-8x7B-v0.1"]["parameters"])
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("Qwen2.5-8B", "'Qwen2.5-7B'"),
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


def test_a_path_stays_a_path(tmp_path: Any) -> None:
    """A file that is not there is no public model."""
    with pytest.raises(PlacerError, match="no profile file"):
        read_model(str(tmp_path / "Qwen2.5-7B.json"))


def test_the_command_line_takes_and_lists_them(run: Run) -> None:
    """My model is Qwen2.5-7B: one command."""
    done = run(
        "recommend", "--model", "Qwen2.5-7B", "--budget", "20/h", "--gpu", "A100-80", "--spot"
    )
    assert done.returncode == 0, done.stderr
    assert "qwen2.5-7b" in done.stdout
    listed = run("models", "--public", columns=120)
    assert "Qwen/Qwen2.5-0.5B" in listed.stdout
    wrong = run("recommend", "--model", "Qwen2.5-8B", "--budget", "20/h")
    assert wrong.returncode == 2
    assert "Qwen2.5-7B" in wrong.stderr
