"""Documents are what was frozen, and follow their schemas; so are the limits that a check of them
finds broken: `make goldens NAMES='documents limits'`.
"""

import json

import pytest
from goldens.__main__ import FROZEN, difference
from goldens.outputs import document, documents, made
from test_every_document import PARTS, faults

from placer.documents.schemas import schema_name

DOCUMENTS = documents()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_as_frozen_and_follows_its_schema(name: str) -> None:
    """Nothing but one document on stdout or in its file, which names its schema and has no key
    beside it; each line of files that have several.
    """
    text = document(*DOCUMENTS[name])
    before = (FROZEN / f"documents/{name}.json").read_text(encoding="utf-8")
    assert difference(name, before, text) == []
    decoder, rest = json.JSONDecoder(), text.strip()
    while rest:
        found, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()
        if name == "sweep-points-file" and "schema" not in found:
            continue  # a point below its heading
        kind = schema_name(found["schema"]) or ""
        for part in PARTS if name == "result-file" else ():
            assert faults(found[part], part) == []
        assert faults(found, kind) == []


def test_broken_limits_are_found_as_frozen() -> None:
    """By the second implementation: at a limit none, beyond it one, with its words."""
    before = (FROZEN / "limits.txt").read_text(encoding="utf-8")
    assert difference("limits.txt", before, made("limits.txt")) == []
