"""What a user of a language model reads: tokens in place of samples, on the terminal and in
JSON.
"""

import json

import jsonschema
import pytest

from conftest import Run
from placer.documents.schemas import schema_text

LENGTH = 1024
ASKED = ("--model", "gpt2", "--gpu", "A10G", "--budget", "5/h", "--tokens", "1B")
"""GPT-2: 512 sequences of 1,024 tokens a step."""


def test_speeds_prices_and_totals_are_in_tokens(run: Run) -> None:
    """Each samples/s of the report reads tokens/s, the price is for a billion of them."""
    done = run("recommend", *ASKED, "-v", columns=120)
    assert done.returncode == 0, done.stderr
    for words in ("tokens/s (", "per billion tokens", "1,000,000,000", "512 samples a step"):
        assert words in done.stdout
    assert "samples/s" not in done.stdout


def test_documents_have_tokens_beside_samples(run: Run) -> None:
    """Tokens are samples times 1,024; a billion cost 1,000 / 1,024 of a million samples. The last
    sequence counts whole.
    """
    document = json.loads(run("recommend", *ASKED, "--json").stdout)
    jsonschema.validate(document, json.loads(schema_text("result")))
    estimate = document["estimate"]
    for end in ("value", "low", "high"):
        samples = estimate["samples_per_second"][end]
        assert estimate["tokens_per_second"][end] == pytest.approx(LENGTH * samples)
    assert estimate["usd_per_billion_tokens"] == pytest.approx(
        1000 / LENGTH * estimate["usd_per_million_samples"]
    )
    assert document["totals"]["samples"] == 976_563
    assert document["totals"]["tokens"] == LENGTH * 976_563
    assert document["request"]["tokens"] == 10**9


FINE_TUNE = ("--model", "Qwen2.5-7B", "--tokens", "500M", "--seq-len", "2048", "--budget", "20/h")
"""28 layers, width 3,584, keys of 512 and a gated part of 18,944: rank 16 trains
28 x 16 x (2 x 7,168 + 2 x 4,096 + 3 x 22,528) = 40.4 M parameters.
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--lora", "16"),
            "qwen2.5-7b, LoRA rank 16, 40.4 M parameters trained, "
            "128 x 2,048 tokens a step (batch 128, assumed);",
        ),
        (
            ("--qlora", "16", "--tbs", "256"),
            "qwen2.5-7b, QLoRA rank 16, 40.4 M parameters trained, 256 x 2,048 tokens a step;",
        ),
    ],
)
def test_a_fine_tune_is_named(words: tuple[str, ...], says: str, run: Run) -> None:
    """Rank, parameters trained, batch and sample stand in the line of the model."""
    done = run("recommend", *FINE_TUNE, *words, columns=200)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_all_that_is_known_names_a_fine_tune_too(run: Run) -> None:
    """The long answer and the document say the same as the short one."""
    text = " ".join(run("recommend", *FINE_TUNE, "--lora", "16", "-v", columns=200).stdout.split())
    assert "parameters trained 40.4 M" in text
    assert "batch 128 samples a step (assumed)" in text
    document = json.loads(run("recommend", *FINE_TUNE, "--lora", "16", "--json").stdout)
    jsonschema.validate(document, json.loads(schema_text("result")))
    asked = document["request"]
    assert (asked["lora"], asked["trainable_parameters"]) == (16, 28 * 16 * 90_112)
    assert (asked["target_batch_size"], asked["batch_assumed"]) == (128, True)
    assert asked["sample"] == "a sequence of 2,048 tokens"


def test_models_without_tokens_are_reported_as_before(run: Run) -> None:
    """No key and no word of tokens."""
    asked = ("--model", "resnet50", "--catalog", "erben-2023", "--budget", "5/h")
    assert "token" not in run("recommend", *asked, "--json").stdout.replace('"tokens": null', "")
    assert "tokens/s" not in run("recommend", *asked).stdout


@pytest.mark.parametrize("words", ["0", "1000000000", "none", "-5"])
def test_sequence_lengths_that_cannot_be_meant(run: Run, words: str) -> None:
    """One line, exit code 2."""
    done = run("recommend", "--model", "llama-3.1-8b", f"--seq-len={words}", "--budget", "5/h")
    assert done.returncode == 2
    assert done.stderr.startswith("error: seq")
    assert "Traceback" not in done.stderr


def test_placer_models_shows_tokens_and_shapes(run: Run) -> None:
    """The list has the sequence length; a model by its size is labelled assumed."""
    listed = run("models", columns=120).stdout
    (row,) = (line for line in listed.splitlines() if line.startswith("llama-3.1-8b"))
    assert "8.03 B" in row
    assert "8,192" in row
    shown = run("models", "350M", columns=120).stdout
    assert "350m-assumed" in shown
    assert "24 layers of width 1,024" in shown
    assert json.loads(run("models", "7B", "--json").stdout)["architecture"]["layers"] == 32


def test_changed_worlds_and_sweeps_compare_tokens(run: Run) -> None:
    """Sequences of two lengths are no common unit: tokens/s stand side by side."""
    asked = ("--model", "gpt2", "--budget", "5/h", "--gpu", "A10G")
    changed = run("whatif", *asked, "--set", "seq-len=512", columns=120)
    assert changed.returncode == 0, changed.stderr
    assert "USD per billion tokens" in changed.stdout
    assert "samples/s" not in changed.stdout
    swept = run("whatif", *asked, "--over", "seq-len=512,1024", columns=120)
    assert swept.returncode == 0, swept.stderr
    assert "tokens/s" in swept.stdout
    assert "USD/Gtok" in swept.stdout
