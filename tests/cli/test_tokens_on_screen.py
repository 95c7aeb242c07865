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


@pytest.mark.parametrize("words", ["0", "1000000000", "none", "-5"])
def test_sequence_lengths_that_cannot_be_meant(run: Run, words: str) -> None:
    """One line, exit code 2."""
    done = run("recommend", "--model", "llama-3.1-8b", f"--seq-len={words}", "--budget", "5/h")
    assert done.returncode == 2
    assert done.stderr.startswith("error: seq")
    assert "Traceback" not in done.stderr
