"""The OpenAPI document: valid, made of the schemas of the command line, and kept by the service."""

import json
import re
import sys
from collections import Counter
from typing import Any

import jsonschema
import pytest
from served import Served

from conftest import ROOT
from placer.documents.schemas import SCHEMA_NAMES, schema_text
from placer.problem.words.wishes import WISHES
from placer.service import openapi
from placer.service.questions.body import check_body
from placer.service.questions.words import EXAMPLES, LISTS, VERBS, words_of

pytest.importorskip("schemathesis")
sys.path.insert(0, str(ROOT / "tests" / "benchmarks"))
from service_fuzz import failures, real_failures

GIVEN: dict[str, Any] = {
    "model": "roberta-xlm",
    "manifest": {},
    "observed": ["{}"],
    "before": {},
    "after": {},
    "result": {},
    "charges": "x",
}
NEEDED: dict[str, dict[str, Any]] = {
    name: {word: GIVEN.get(word) or EXAMPLES.get(word, ({},))[0] for word in verb.needed}
    for name, verb in VERBS.items()
}
"""Words that must be given, for each verb."""


@pytest.fixture(scope="module")
def document() -> Any:
    """Read the document."""
    return json.loads(openapi.text())


def test_answers_refer_to_the_schemas_of_the_command_line(document: Any) -> None:
    """The component of each schema is its file, key for key, with references from the root of the
    document; each verb refers to its own.
    """
    parts = document["components"]["schemas"]
    for name in SCHEMA_NAMES:
        schema = json.loads(
            schema_text(name).replace("#/$defs/", f"#/components/schemas/{name}/$defs/")
        )
        assert {**parts[name], "$id": schema["$id"]} == schema
    for verb in VERBS.values():
        answer = document["paths"][f"/v1/{verb.name}"]["post"]["responses"]["200"]
        expected = (
            f"#/components/schemas/{verb.document}" if verb.document in SCHEMA_NAMES else None
        )
        assert answer["content"]["application/json"]["schema"].get("$ref") == expected


def test_each_reference_leads_somewhere_from_the_root(document: Any) -> None:
    """Strict readers follow a reference from the root of the document, and know no ``$id``."""
    references = re.findall(r'"\$ref": "#/([^"]+)"', openapi.text().decode())
    assert len(references) > 100
    for reference in set(references):
        found: Any = document
        for key in reference.split("/"):
            found = found[key]
    assert '"$id"' not in openapi.text().decode()


def test_bodies_take_the_words_of_the_table(document: Any) -> None:
    """Every wish with its help; its example follows its schema."""
    body = document["components"]["schemas"]["recommend-question"]
    assert set(WISHES) < set(body["properties"])
    for name, wish in WISHES.items():
        schema = body["properties"][name]
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["description"].startswith(wish.help)
        if "FILE" not in wish.metavar:
            jsonschema.validate(True if wish.is_flag else wish.example, schema)


@pytest.mark.timeout(170)
def test_made_up_requests_find_no_failure(service: Served) -> None:
    """Requests that follow the document, and some that do not: no 5xx, and answers as described.

    A short run; tests/benchmarks/service_fuzz.py runs as long as it is told.
    """
    assert failures(service.address, examples=4, seconds=30) == []


@pytest.mark.timeout(170)
def test_requests_of_real_values_are_mostly_answered(service: Served) -> None:
    """Of questions made of examples and of names that exist at least a third are accepted, and all
    answers are as described.
    """
    seen: Counter[int] = Counter()
    assert real_failures(service.address, examples=3, seconds=30, seen=seen) == []
    assert seen[200] + seen[202] >= sum(seen.values()) / 3 > 10


def test_examples_follow_their_schemas() -> None:
    """Of every word of every question, and of every parameter of a list."""
    words = [
        (name, *item)
        for name, verb in VERBS.items()
        for item in words_of(name).items()
        if item[0] in verb.rows
    ]
    words += [(name, *item) for name, list_ in LISTS.items() for item in list_.items()]
    shown = 0
    for verb, name, schema in words:
        for example in schema.get("examples", ()):
            jsonschema.validate(example, schema)
            if verb in VERBS and name != "manifest":
                check_body(VERBS[verb], {**NEEDED[verb], name: example})
            shown += 1
    assert shown > 40
