"""JSON Schemas of the words of a question, from the types and entries of its verb."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from placer.interface.verb import Word
from placer.problem.words.values import HINTS
from placer.problem.words.wishes import WISHES, Wish
from placer.service.questions.verbs import EXAMPLES, SCHEMAS, VERBS, Schema
from placer.workload.constants import Calibration
from placer.workload.overlay import Overlay

MOST_TEXT = 10_000
MOST_TEXTS = 1_000


@cache
def words_of(verb: str) -> Mapping[str, Schema]:
    """Return the schemas of all words of a verb by name, those of the wishes last."""
    found = VERBS[verb]
    rows = {name: word_schema(row) for name, row in found.rows.items() if not row.here}
    return {**rows, **{name: wish_schema(WISHES[name]) for name in found.wishes}}


def word_schema(word: Word) -> Schema:
    """Build the JSON Schema of a word of a verb."""
    own = SCHEMAS.get(word.name, {})
    whole = own.keys() & {"type", "anyOf"}
    kinds = [] if whole else _kinds(word.hint)
    kinds = [k | {"maxItems": MOST_TEXTS} if k["type"] == "array" else k for k in kinds]
    kind = kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
    bounds = {"minimum": word.least, "maximum": word.most}
    examples = EXAMPLES.get(word.name)
    return {
        "description": word.help,
        **kind,
        **{name: bound for name, bound in bounds.items() if bound is not None},
        **own,
        **({"examples": list(examples)} if examples else {}),
    }


def wish_schema(wish: Wish) -> Schema:
    """Build the JSON Schema of one row of the table of wishes.

    Examples
    --------
    >>> wish_schema(WISHES["market"])["anyOf"]
    [{'type': 'string', 'maxLength': 10000}]
    """
    kinds = _kinds(HINTS[wish.name])
    if "FILE" in wish.metavar:  # the command line reads files, the service does not
        texts = [{"type": "string", "pattern": "^[0-9]{1,9}$"}] if wish.name == "quota" else []
        kinds = [*texts, *(kind for kind in kinds if kind["type"] != "string")]
    unique = [kind for number, kind in enumerate(kinds) if kind not in kinds[:number]]
    described = {"description": f"{wish.help} {wish.more}".strip(), "anyOf": unique}
    return described if wish.is_flag or not unique else {**described, "examples": [wish.example]}


def _kinds(hint: Any) -> list[dict[str, Any]]:
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
        text = {"type": "string", "maxLength": MOST_TEXT}
        return [{"type": "array", "items": text}]
    if origin is Mapping:
        (number,) = _kinds(parts[1])
        return [{"type": "object", "additionalProperties": number}]
    plain = {str: "string", bool: "boolean", int: "integer", float: "number"}
    kind: dict[str, Any] = {"type": plain[origin]}
    return [kind | {"maxLength": MOST_TEXT}] if origin is str else [kind]
