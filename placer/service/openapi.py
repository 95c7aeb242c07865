"""The OpenAPI 3.1 document: the wishes of the command line, and its JSON Schemas."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from placer.documents.schemas import SCHEMA_NAMES, schema_document
from placer.files.yaml_text import parse_yaml
from placer.interface.verb import Verb
from placer.service.jobs.store import State
from placer.service.problems import CONTENT_TYPE, KINDS
from placer.service.questions.words import LISTS, VERBS, words_of
from placer.version import __version__

Schema = dict[str, Any]
PARTS = "#/components/schemas/"


@cache
def text() -> bytes:
    """Return the document as JSON."""
    return json.dumps(document()).encode()


def document() -> Schema:
    """Build the document."""
    fixed = _fixed()
    paths, parts = fixed["paths"], fixed["components"]["schemas"]
    job = paths["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    job["properties"]["question"]["anyOf"] = [{"$ref": f"{PARTS}{verb}-question"} for verb in VERBS]
    parts["http-problem"]["properties"]["type"]["enum"] = [f"/problems/{kind}" for kind in KINDS]
    parts["job"]["properties"]["state"]["enum"] = [str(state) for state in State]
    for holder in (job, parts["job"]):
        holder["properties"]["verb"]["enum"] = list(VERBS)
    for operation in (one for operations in paths.values() for one in operations.values()):
        operation["responses"] |= _problems(*operation.pop("problems"))
    fixed["paths"] = {
        **{f"/v1/{verb.name}": {"post": _ask(verb)} for verb in VERBS.values()},
        **{f"/v1/{name}": {"get": _list(name)} for name in LISTS},
        **paths,
    }
    fixed["components"]["schemas"] = {
        **{name: _component(name) for name in SCHEMA_NAMES},
        **{f"{verb.name}-question": body_schema(verb) for verb in VERBS.values()},
        **parts,
    }
    fixed["info"]["version"] = __version__
    return fixed


def _fixed() -> Schema:
    """Read what follows from no verb, list or schema."""
    data = files("placer.service").joinpath("openapi.yaml").read_bytes()
    document: Schema = parse_yaml(data)
    del document["parts"]
    return document


def _component(name: str) -> Schema:
    """Return a schema of the command line as a part of this document: many readers resolve its
    references from the root, whatever its ``$id``.
    """
    schema = schema_document(name)
    text = json.dumps({key: value for key, value in schema.items() if key != "$id"})
    component: Schema = json.loads(text.replace('"#/$defs/', f'"{PARTS}{name}/$defs/'))
    return component


def body_schema(verb: Verb) -> Schema:
    """Build the JSON Schema of the body of a question."""
    return {
        "type": "object",
        "required": list(verb.needed),
        "properties": dict(words_of(verb.name)),
        "additionalProperties": False,
    }


def _answer(name: str) -> Schema:
    """Return the response of an answer, with a reference to its schema if it has one."""
    schema = {"$ref": f"{PARTS}{name}"} if name in SCHEMA_NAMES else {"type": "object"}
    return {"description": "The answer.", "content": {"application/json": {"schema": schema}}}


def _problems(*kinds: str) -> Schema:
    found: Schema = {}
    for kind in (*kinds, "host", "token"):
        status, title = KINDS[kind]
        before = found.get(str(status))
        found[str(status)] = {
            "description": f"{before['description']} {title}" if before else title,
            "content": {CONTENT_TYPE: {"schema": {"$ref": f"{PARTS}http-problem"}}},
        }
        if status == 429:
            found[str(status)]["headers"] = {
                "Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}
            }
    return found


ASKING = ("body", "origin", "late", "large", "words", "full", "failed", "stopped", "cancelled")


def _ask(verb: Verb) -> Schema:
    return {
        "operationId": verb.name,
        "summary": verb.summary,
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": f"{PARTS}{verb.name}-question"}}},
        },
        "responses": {"200": _answer(verb.document), **_problems(*ASKING)},
    }


def _list(name: str) -> Schema:
    rows = []
    for key, schema in LISTS[name].items():
        plain = {k: value for k, value in schema.items() if k != "description"}
        many = key == "catalog"
        row = {"name": key, "in": "query", "required": False, "description": schema["description"]}
        if many:
            array = {"type": "array", "items": plain, "maxItems": 4}
            rows.append({**row, "schema": array, "style": "form", "explode": True})
        else:
            rows.append({**row, "schema": plain})
    return {
        "operationId": name,
        "summary": f"List the {name}.",
        "parameters": rows,
        "responses": {
            "200": _answer(name),
            **_problems("words", "full", "failed", "stopped", "cancelled"),
        },
    }
