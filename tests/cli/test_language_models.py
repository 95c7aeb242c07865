"""What a user of a language model reads in each verb: plans inside workers, software, tokens."""

import json
from pathlib import Path

import pytest
from conforming import validate

from conftest import Run

BOOK = ("--figures", "book")
MODEL = ("--model", "llama-3.1-8b")
LENGTH = 1024
ASKED = ("--model", "gpt2", "--gpu", "A10G", "--budget", "5/h", "--tokens", "1B")
"""GPT-2: 512 sequences of 1,024 tokens a step."""


def test_documents_have_tokens_beside_samples(run: Run) -> None:
    """Tokens are samples times 1,024; a billion cost 1,000 / 1,024 of a million samples. The last
    sequence counts whole.
    """
    document = json.loads(run("recommend", *ASKED, "--json").stdout)
    validate(document, "result")
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


def test_whatif_another_transport(run: Run) -> None:
    """Hivemind needs 7 to 10 s for each GB of 16 GB: one machine is best again."""
    words = (*MODEL, "--gpu", "H100", "--budget", "25/h", "--quota", "16", *BOOK)
    done = run("whatif", *words, "--set", "transport=hivemind", columns=150)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "transport=hivemind" in text
    assert "the transport nccl is not hivemind" in text
    assert "tokens/s" in text


def test_a_plan_of_islands_is_saved_exported_and_refused_where_it_cannot_run(
    run: Run, tmp_path: Path
) -> None:
    """Islands go to torchrun; hivemind and a rehearsal say in one line that they take none."""
    plan = tmp_path / "plan.json"
    words = (*MODEL, "--gpu", "L4", "--in", "gcp/us-*", "--budget", "30/h", "--quota", "32")
    done = run("recommend", *words, "--machines-per-island", "2..4", "--manifest", str(plan))
    assert done.returncode == 0, done.stderr
    assert run("validate", str(plan)).returncode == 0
    out = tmp_path / "launch"
    assert run("export", str(plan), "--to", "torchrun", "--dir", str(out)).returncode == 0
    refused = (
        run("export", str(plan), "--to", "hivemind", "--dir", str(tmp_path / "h"), columns=200),
        run("run", "--rehearse", str(plan), columns=200),
    )
    for done in refused:
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) <= 2
        assert "island" in done.stderr
