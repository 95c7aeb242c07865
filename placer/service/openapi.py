"""The OpenAPI 3.1 document: the wishes of the command line, and its JSON Schemas."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from placer.documents.schemas import SCHEMA_NAMES, schema_document
from placer.interface.verb import Verb
from placer.service.jobs.store import State
from placer.service.problems import CONTENT_TYPE, KINDS
from placer.service.questions.words import LISTS, VERBS, words_of
from placer.version import __version__

Schema = dict[str, Any]
PARTS = "#/components/schemas/"


def _kind(*types: str, **more: Any) -> Schema:
    return {"type": types[0] if len(types) == 1 else list(types), **more}


TEXT, NUMBER, WHOLE = _kind("string"), _kind("number"), _kind("integer")
MAYBE_NUMBER, ANY = _kind("number", "null"), _kind("object")
PROBLEM = _kind(
    "object",
    description="Problem details of RFC 9457: the line, what to do, and the word that is wrong.",
    required=["type", "title", "status", "detail"],
    properties={
        "type": _kind("string", enum=[f"/problems/{kind}" for kind in KINDS]),
        "title": TEXT,
        "status": WHOLE,
        **dict.fromkeys(("detail", "hint", "field"), TEXT),
    },
)
BETTER = _kind(
    "object",
    description="The best so far: its value, the proved bound and the gap where one is known.",
    required=["value", "unit", "seconds", "bound", "gap"],
    properties={
        "value": NUMBER,
        "unit": TEXT,
        "seconds": NUMBER,
        "bound": MAYBE_NUMBER,
        "gap": MAYBE_NUMBER,
    },
)
JOB = _kind(
    "object",
    required=["schema", "id", "verb", "question", "state", "answer", "events", "manifest"],
    properties={
        "schema": {"const": "placer.job/v1"},
        "id": TEXT,
        "verb": {"enum": list(VERBS)},
        "question": ANY,
        "state": {"enum": [str(state) for state in State]},
        "attempts": WHOLE,
        "created": _kind("number", description="Seconds since 1970."),
        "started": MAYBE_NUMBER,
        "finished": MAYBE_NUMBER,
        "best": {"anyOf": [{"$ref": f"{PARTS}best"}, {"type": "null"}]},
        "problem": {"anyOf": [{"$ref": f"{PARTS}http-problem"}, {"type": "null"}]},
        **dict.fromkeys(("events", "answer", "manifest"), TEXT),
    },
)
BOOK = {"name": TEXT, "digest": TEXT, "as_of": TEXT, "days": _kind("integer", "null")}
READY = _kind(
    "object",
    required=["ready", "workers", "books"],
    properties={
        "ready": {"const": True},
        "workers": WHOLE,
        "books": {"type": "array", "items": _kind("object", properties=BOOK)},
    },
)


@cache
def text() -> bytes:
    """Return the document as JSON."""
    return json.dumps(document()).encode()


def document() -> Schema:
    """Build the document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "placer",
            "version": __version__,
            "description": "Decides where a model is trained. Bodies take the words of the command "
            "line, and answers are the documents of --json.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": {
            **{f"/v1/{verb.name}": {"post": _ask(verb)} for verb in VERBS.values()},
            **{f"/v1/{name}": {"get": _list(name)} for name in LISTS},
            **_OTHERS,
        },
        "components": {
            "schemas": {
                **{name: _component(name) for name in SCHEMA_NAMES},
                **{f"{verb.name}-question": body_schema(verb) for verb in VERBS.values()},
                "http-problem": PROBLEM,
                "best": BETTER,
                "job": JOB,
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


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


def _json(schema: Schema, description: str = "The answer.") -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _document(name: str) -> Schema:
    """Return the schema of an answer: a reference where there is one, else any object."""
    return {"$ref": f"{PARTS}{name}"} if name in SCHEMA_NAMES else {"type": "object"}


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
        "responses": {"200": _json(_document(verb.document)), **_problems(*ASKING)},
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
            "200": _json(_document(name)),
            **_problems("words", "full", "failed", "stopped", "cancelled"),
        },
    }


def _path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _get(path: str, summary: str, ok: Schema, *problems: str) -> Schema:
    operation: Schema = {"summary": summary, "responses": {"200": ok, **_problems(*problems)}}
    if "{" in path:
        operation["parameters"] = [_path(path.partition("{")[2].partition("}")[0])]
    return operation | ({"security": []} if path in OPEN else {})


OPEN = ("/healthz", "/readyz")
"""Addresses that need no token."""
_JOB = {"$ref": f"{PARTS}job"}
_SCHEMA = {"description": "The schema.", "content": {"application/schema+json": {"schema": ANY}}}
_EVENTS = {"description": "Events.", "content": {"text/event-stream": {"schema": {}}}}
_COUNTERS = {"description": "Counters.", "content": {"text/plain": {"schema": TEXT}}}
_PLAN = {"$ref": f"{PARTS}manifest"}
_NO_ANSWER = ("missing", "unfinished", "words", "failed", "stopped", "disk")
_GETS: tuple[tuple[Any, ...], ...] = (
    ("/v1/schemas", "List the JSON Schemas.", _json(ANY)),
    ("/v1/schemas/{name}", "Return a JSON Schema.", _SCHEMA, "missing"),
    ("/v1/jobs/{id}", "Say how a job stands.", _json(_JOB), "missing"),
    ("/v1/jobs/{id}/answer", "Return the document of a finished job.", _json(ANY), *_NO_ANSWER),
    (
        "/v1/jobs/{id}/manifest",
        "Return the launch manifest of a finished job.",
        _json(_PLAN),
        *_NO_ANSWER,
    ),
    (
        "/v1/jobs/{id}/events",
        "Tell what becomes of a job: state, better (the best so far and its gap), done.",
        _EVENTS,
        *("missing", "full"),
    ),
    ("/healthz", "Say that the process is alive.", _json(ANY)),
    (
        "/readyz",
        "Say whether questions can be answered, and how old the books are.",
        _json(READY),
        "starting",
    ),
    ("/metrics", "Return the counters, as Prometheus reads them.", _COUNTERS),
    ("/openapi.json", "Return this document.", _json(ANY)),
)
_NEW_JOB: Schema = {
    "type": "object",
    "required": ["question"],
    "properties": {
        "verb": {"enum": list(VERBS), "default": "recommend"},
        "question": {"anyOf": [{"$ref": f"{PARTS}{name}-question"} for name in VERBS]},
    },
    "additionalProperties": False,
}
_OTHERS: dict[str, Schema] = {row[0]: {"get": _get(*row)} for row in _GETS}
_OTHERS["/v1/jobs"] = {
    "post": {
        "operationId": "job",
        "summary": "Accept a long question.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": _NEW_JOB}}},
        "responses": {
            "202": {
                **_json(_JOB, "The job is kept, also if the service ends."),
                "headers": {"Location": {"schema": {"type": "string"}}},
            },
            **_problems("body", "origin", "late", "large", "words", "full", "failed", "disk"),
        },
    }
}
_OTHERS["/v1/jobs/{id}"]["delete"] = {
    "summary": "End an unfinished job with the best so far, or forget a finished one.",
    "parameters": [_path("id")],
    "responses": {"202": _json(_JOB), **_problems("missing", "origin", "disk")},
}
