"""The OpenAPI 3.1 document: the wishes of the command line, and its JSON Schemas word for word."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from placer.documents.schemas import SCHEMA_NAMES, schema_document
from placer.problem.words.values import HINTS
from placer.problem.words.wishes import WISHES, Wish
from placer.service.problems import CONTENT_TYPE, KINDS
from placer.service.questions.verbs import LISTS, VERBS, Verb
from placer.version import __version__
from placer.workload.constants import Calibration
from placer.workload.overlay import Overlay

Schema = dict[str, Any]
PARTS = "#/components/schemas/"
MOST_TEXT = 10_000
PROBLEM: Schema = {
    "description": "Problem details of RFC 9457: the line, what to do, and the word that is wrong.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "enum": [f"/problems/{kind}" for kind in KINDS]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "field": {"type": "string"},
    },
}
BETTER: Schema = {
    "description": "The best so far: its value, the proved bound and the gap where one is known.",
    "type": "object",
    "required": ["value", "unit", "seconds", "bound", "gap"],
    "properties": {
        "value": {"type": "number"},
        "unit": {"type": "string"},
        "seconds": {"type": "number"},
        "bound": {"type": ["number", "null"]},
        "gap": {"type": ["number", "null"]},
    },
}
JOB: Schema = {
    "type": "object",
    "required": ["schema", "id", "verb", "question", "state", "answer", "events", "manifest"],
    "properties": {
        "schema": {"const": "placer.job/v1"},
        "id": {"type": "string"},
        "verb": {"enum": list(VERBS)},
        "question": {"type": "object"},
        "state": {
            "enum": ["queued", "running", "done", "failed", "cancelled", "interrupted"],
        },
        "attempts": {"type": "integer"},
        "created": {"type": "number", "description": "Seconds since 1970."},
        "started": {"type": ["number", "null"]},
        "finished": {"type": ["number", "null"]},
        "best": {"anyOf": [{"$ref": f"{PARTS}best"}, {"type": "null"}]},
        "problem": {"anyOf": [{"$ref": f"{PARTS}http-problem"}, {"type": "null"}]},
        "events": {"type": "string"},
        "answer": {"type": "string"},
        "manifest": {"type": "string"},
    },
}
READY: Schema = {
    "type": "object",
    "required": ["ready", "workers", "books"],
    "properties": {
        "ready": {"const": True},
        "workers": {"type": "integer"},
        "books": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "digest": {"type": "string"},
                    "as_of": {"type": "string"},
                    "days": {"type": ["integer", "null"]},
                },
            },
        },
    },
}


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
                **{name: schema_document(name) for name in SCHEMA_NAMES},
                **{f"{verb.name}-question": body_schema(verb) for verb in VERBS.values()},
                "http-problem": PROBLEM,
                "best": BETTER,
                "job": JOB,
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def body_schema(verb: Verb) -> Schema:
    """Build the JSON Schema of the body of a question."""
    return {
        "type": "object",
        "required": list(verb.needed),
        "properties": {
            **{name: dict(schema) for name, schema in verb.words.items()},
            **{name: wish_schema(WISHES[name]) for name in verb.wishes},
        },
        "additionalProperties": False,
    }


def wish_schema(wish: Wish) -> Schema:
    """Build the JSON Schema of one row of the table of wishes.

    Examples
    --------
    >>> wish_schema(WISHES["market"])["anyOf"]
    [{'type': 'string', 'maxLength': 10000}]
    """
    kinds = [kind for kind in _kinds(HINTS[wish.name]) if kind is not None]
    if "FILE" in wish.metavar:  # the command line reads files, the service does not
        texts = [{"type": "string", "pattern": "^[0-9]{1,9}$"}] if wish.name == "quota" else []
        kinds = [*texts, *(kind for kind in kinds if kind["type"] != "string")]
    unique = [kind for number, kind in enumerate(kinds) if kind not in kinds[:number]]
    described = {"description": f"{wish.help} {wish.more}".strip(), "anyOf": unique}
    return described if wish.is_flag or not unique else {**described, "examples": [wish.example]}


def _kinds(hint: Any) -> list[Schema]:
    """List the JSON Schemas of a type of Python, without null."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return [kind for part in parts for kind in _kinds(part)]
    if origin in (NoneType, os.PathLike, Overlay):
        return []
    if origin is Calibration:
        return [{"type": "object"}]
    if origin is tuple:
        return [
            {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": len(parts)}
        ]
    if origin in (Sequence, AbstractSet):
        return [{"type": "array", "items": {"type": "string", "maxLength": MOST_TEXT}}]
    if origin is Mapping:
        (number,) = _kinds(parts[1])
        return [{"type": "object", "additionalProperties": number}]
    plain = {str: "string", bool: "boolean", int: "integer", float: "number"}
    kind: Schema = {"type": plain[origin]}
    return [kind | {"maxLength": MOST_TEXT}] if origin is str else [kind]


def _json(schema: Schema, description: str = "The answer.") -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _document(name: str) -> Schema:
    """Return the schema of an answer: a reference where there is one, else any object."""
    return {"$ref": f"{PARTS}{name}"} if name in SCHEMA_NAMES else {"type": "object"}


def _problems(*kinds: str) -> Schema:
    """List the problems of an address by status."""
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
        "responses": {"200": _json(_document(verb.schema)), **_problems(*ASKING)},
    }


def _list(name: str) -> Schema:
    rows = []
    for key, schema in LISTS[name].items():
        plain = {k: value for k, value in schema.items() if k != "description"}
        many = key == "catalog"
        rows.append(
            {
                "name": key,
                "in": "query",
                "required": False,
                "description": schema["description"],
                "schema": {"type": "array", "items": plain, "maxItems": 4} if many else plain,
                **({"style": "form", "explode": True} if many else {}),
            }
        )
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


def _get(summary: str, ok: Schema, *problems: str, id_: str = "", open_: bool = False) -> Schema:
    operation: Schema = {"summary": summary, "responses": {"200": ok, **_problems(*problems)}}
    if id_:
        operation["parameters"] = [_path(id_)]
    return operation | ({"security": []} if open_ else {})


_JOB = {"$ref": f"{PARTS}job"}
_OTHERS: Mapping[str, Schema] = {
    "/v1/schemas": {"get": _get("List the JSON Schemas.", _json({"type": "object"}))},
    "/v1/schemas/{name}": {
        "get": _get(
            "Return a JSON Schema.",
            {
                "description": "The schema.",
                "content": {"application/schema+json": {"schema": {"type": "object"}}},
            },
            "missing",
            id_="name",
        )
    },
    "/v1/jobs": {
        "post": {
            "operationId": "job",
            "summary": "Accept a long question.",
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "required": ["question"],
                            "properties": {
                                "verb": {"enum": list(VERBS), "default": "recommend"},
                                "question": {"type": "object"},
                            },
                            "additionalProperties": False,
                        }
                    }
                },
            },
            "responses": {
                "202": {
                    **_json(_JOB, "The job is kept, also if the service ends."),
                    "headers": {"Location": {"schema": {"type": "string"}}},
                },
                **_problems("body", "origin", "late", "large", "words", "full", "failed"),
            },
        }
    },
    "/v1/jobs/{id}": {
        "get": _get("Say how a job stands.", _json(_JOB), "missing", id_="id"),
        "delete": {
            "summary": "End an unfinished job with the best so far, or forget a finished one.",
            "parameters": [_path("id")],
            "responses": {"202": _json(_JOB), **_problems("missing", "origin")},
        },
    },
    "/v1/jobs/{id}/answer": {
        "get": _get(
            "Return the document of a finished job.",
            _json({"type": "object"}),
            *("missing", "unfinished", "words", "failed", "stopped"),
            id_="id",
        )
    },
    "/v1/jobs/{id}/manifest": {
        "get": _get(
            "Return the launch manifest of a finished job.",
            _json({"$ref": f"{PARTS}manifest"}),
            *("missing", "unfinished", "words", "failed", "stopped"),
            id_="id",
        )
    },
    "/v1/jobs/{id}/events": {
        "get": _get(
            "Tell what becomes of a job: state, better (the best so far and its gap), done.",
            {"description": "Events.", "content": {"text/event-stream": {"schema": {}}}},
            *("missing", "full"),
            id_="id",
        )
    },
    "/healthz": {
        "get": _get("Say that the process is alive.", _json({"type": "object"}), open_=True)
    },
    "/readyz": {
        "get": _get(
            "Say whether questions can be answered, and how old the books are.",
            _json(READY),
            "starting",
            open_=True,
        )
    },
    "/metrics": {
        "get": _get(
            "Return the counters, as Prometheus reads them.",
            {"description": "Counters.", "content": {"text/plain": {"schema": {"type": "string"}}}},
        )
    },
    "/openapi.json": {"get": _get("Return this document.", _json({"type": "object"}))},
}
