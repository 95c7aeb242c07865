"""Every JSON document that a command prints or writes has a schema, and follows it."""

import json
import re
from typing import Any

from goldens.outputs import printed, written
from jsonschema import Draft202012Validator

from conftest import ROOT
from placer.documents.schemas import (
    SCHEMA_NAMES,
    document_type,
    field_words,
    schema_document,
    schema_name,
)
from placer.documents.schemas.parts import Part

ELSEWHERE = {
    "profile-estimate": "profiler/test_estimate_memory.py",
    "rehearsal": "launch/rehearsal/test_rehearsal.py",
    "refresh": "market/sources/test_refresh_azure.py",
    "run": "validation/test_run_log.py",
    "watch": "advice/test_watch.py",
}
"""Documents of commands that need PyTorch, a server or a pipe: the tests that check them."""
PARTS = {"problem": "problem", "certificate": "certificate"}
"""Documents inside a saved result, by its key."""


def closed(schema: Any) -> Any:
    """Return a schema that also refuses keys that it does not name, so that none is forgotten."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    built = {key: closed(value) for key, value in schema.items()}
    named = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return {"additionalProperties": False, **built} if named else built


def faults(document: Any, name: str) -> list[str]:
    """What is wrong with a document, or missing in its schema."""
    schema = closed(schema_document(name))
    return [
        f"{error.json_path}: {error.message[:200]}"
        for error in Draft202012Validator(schema).iter_errors(document)
    ]


def test_every_schema_is_tried_and_stands_alone() -> None:
    """Each is valid by itself, has a title and its own version, names each of its parts and no
    others, and has a frozen document.
    """
    tried = {name for rows in (printed(), written()) for name, *_ in rows}
    assert tried | {*ELSEWHERE, *PARTS} == {*SCHEMA_NAMES}
    for name in SCHEMA_NAMES:
        schema = schema_document(name)
        Draft202012Validator.check_schema(schema)
        assert schema_name(schema["$id"]) == name
        assert schema["title"]
        assert schema["description"]
        parts = {f"#/$defs/{part}" for part in schema.get("$defs", ())}
        assert {*re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema))} == parts
    for name, test in ELSEWHERE.items():
        assert name in (ROOT / "tests" / test).read_text(encoding="utf-8")


def test_docstrings_describe_fields_that_exist() -> None:
    """Else a word about a field that was renamed would be lost without a sound."""
    for name in SCHEMA_NAMES:
        document_type(name)
    kinds, found = [Part], 0
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        said = field_words(kind.__doc__ or "")[1]
        assert {*said} <= {*kind.__struct_encode_fields__}, kind
        found += len(said)
    assert found > 150
