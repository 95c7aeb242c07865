"""Every document of a language model with islands follows its schema."""

import json
from typing import Any

import jsonschema
import pytest

from conftest import Run
from placer.documents.schemas import schema_text

WORDS = ("--model", "llama-3.1-8b", "--gpu", "H100", "--budget", "60/h", "--quota", "32")
ISLANDS = ("--machines-per-island", "2..2", "--in", "gcp/europe-*")
VERBS: dict[str, tuple[str, tuple[str, ...]]] = {
    "recommend": ("result", ("--certificate",)),
    "pareto": ("pareto", ("--points", "3")),
    "explain": ("explanation", ("--time-limit", "20s")),
    "whatif": ("whatif", ("--set", "budget=70/h")),
    "sweep": ("sweep", ("--over", "budget=50/h..60/h")),
    "robust": ("robust", ("--time-limit", "10s")),
}


@pytest.mark.parametrize("verb", VERBS)
def test_documents_follow_their_schemas(run: Run, verb: str) -> None:
    """Machines, plans, software, tokens."""
    schema, extra = VERBS[verb]
    done = run({"sweep": "whatif"}.get(verb, verb), *WORDS, *ISLANDS, *extra, "--json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(schema_text(schema)))
    assert '"machines": 2' in done.stdout or verb in ("sweep", "robust")
