"""Every answer says what one sample is, or that the profile does not state it."""

import json
from pathlib import Path

import jsonschema
import pytest

from conftest import Run
from placer.documents.schemas import schema_text
from placer.report.blocks import Facts
from placer.report.contents import contents
from placer.workload.profile import shipped_profiles

BOOK = ("--catalog", "erben-2023")
WORKERS = "gcp/us-central1=4xT4:spot"
ASKED = (
    ("recommend", "--budget", "5/h", *BOOK),
    ("recommend", "--budget", "5/h", "-v", *BOOK),
    ("estimate", "--workers", WORKERS, *BOOK),
    ("estimate", "--workers", WORKERS, "--workers", WORKERS, *BOOK),
)


@pytest.fixture(params=["16 tokens", None])
def stated(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str | None, str]:
    """What a sample is, and a profile with or without it."""
    if request.param is not None:
        return request.param, "roberta-xlm"
    profile = json.loads((shipped_profiles() / "roberta-xlm.json").read_text(encoding="utf-8"))
    del profile["sample"], profile["sample_source"]
    path = tmp_path / "silent.json"
    path.write_text(json.dumps(profile), encoding="utf-8")
    return None, str(path)


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_terminal_and_documents_say_it(
    run: Run, stated: tuple[str | None, str], asked: tuple[str, ...]
) -> None:
    """On the line of the model, in `request` of the document, and on its page."""
    size, model = stated
    shown = run(asked[0], "--model", model, *asked[1:], columns=160).stdout
    whole = asked[0] == "estimate" or "-v" in asked
    short = "size of a sample not stated" if size is None else f"1 sample = {size}"
    words = f"1 sample     {size or 'size not stated'}" if whole else f", {short}"
    assert words in shown
    if "-v" in asked:
        return
    document = json.loads(run(asked[0], "--model", model, *asked[1:], "--json").stdout)
    kind = document["schema"].removeprefix("placer.").removesuffix("/v1")
    jsonschema.validate(document, json.loads(schema_text(kind)))
    assert document["request"]["sample"] == size
    asked_for = next(p for p in contents(document).sections if p.title == "What was asked")
    facts = next(block for block in asked_for.blocks if isinstance(block, Facts))
    assert ("1 sample", size or "size not stated", "") in facts.rows


def test_models_list_it(run: Run, stated: tuple[str | None, str]) -> None:
    """In a column, and of one model with its source."""
    size, model = stated
    one = run("models", model, columns=400).stdout
    if size is None:
        assert "size not stated" in one
        return
    assert "1 sample   16 tokens (published: Erben et al. (PVLDB 17(6), 2024), artifact" in one
    listed = run("models", columns=160).stdout
    assert "1 sample" in listed.splitlines()[0]
    assert "16 tokens" in next(line for line in listed.splitlines() if "roberta-xlm" in line)
    assert json.loads(run("models", model, "--json").stdout)["sample"] == size


def test_language_models_count_sequences(run: Run) -> None:
    """512 sequences of 1,024 tokens: the words of samples are for other models."""
    asked = ("recommend", "--model", "gpt2", "--gpu", "A10G", "--budget", "5/h")
    assert "gpt2, 512 x 1,024 tokens a step;" in run(*asked, columns=160).stdout
    assert "1 sample   a sequence of 1,024 tokens" in run("models", "gpt2").stdout
