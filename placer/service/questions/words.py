"""The verbs of the service, and JSON Schemas of the words of a question: from the types and entries
of its verb, and what they may be beyond what Python says of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from placer.interface.advisor import MOST_ROWS, compare, estimate, explain, pareto, recommend
from placer.interface.portfolio import portfolio
from placer.interface.saved import bill, diff, export
from placer.interface.verb import Verb, Word, verb_of
from placer.interface.words import MOST_SEED
from placer.interface.worlds import replan, robust, whatif
from placer.launch.export import TARGETS
from placer.problem.words.values import HINTS
from placer.problem.words.wishes import WISHES, Wish
from placer.workload.constants import Calibration
from placer.workload.overlay import Overlay

MOST_TEXT = 10_000
MOST_TEXTS = 1_000
Schema = Mapping[str, Any]
SERVED: tuple[Callable[..., Any], ...] = (
    *(recommend, estimate, compare, explain, pareto, whatif, robust, portfolio, replan),
    *(diff, export, bill),
)
VERBS: Mapping[str, Verb] = MappingProxyType({f.__name__: verb_of(f) for f in SERVED})
"""Verbs by name, in the order of the documentation."""
NOT_ASKED: Mapping[str, tuple[str, ...]] = {
    "robust": ("jobs", "dask", "exact"),
    "portfolio": ("blocks_file",),
}
"""Words that name processes, machines and files of the service, or that ask as many questions as
there are worlds.
"""
PLACED = ("gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot", "gcp/us-central1=2xT4:spot")
"""Placements by hand, as examples."""
EXAMPLES: Mapping[str, tuple[Any, ...]] = {
    "solver": ("exact", "greedy"),
    "verify": ("exhaustive",),
    "gap": ("0.1%", 0.01),
    "time_limit": ("20s", 5),
    "memory_limit": ("500MB",),
    "top": (8,),
    "points": (4,),
    "workers": PLACED,
    "placements": (list(PLACED),),
    "why_not": ("gcp/us-west1", "T4"),
    "set": (["price:gcp/*:T4=x0.5"],),
    "drop": (["aws/*:T4:spot"],),
    "move": ("10min",),
    "box": (["price=0.9..1.1"],),
    "worlds": (8,),
    "teams": ([{"name": "vision", "quota": {"T4": 8}, "budget": "20/h"}],),
    "jobs": ([{"model": "roberta-xlm", "min_throughput": "300/s", "market": "on-demand"}],),
    "fail_on": (["cost>10%"],),
    "target": ("torchrun",),
    "hours": (36,),
    "period": ("2026-10-03/2026-10-05",),
    "tag": (["run=4711"],),
}
"""Values of words, for the documentation and for tests."""
BOOK_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
SCHEMAS: Mapping[str, Schema] = {
    "model": {
        "description": "Name of a model of GET /v1/models, a number of parameters such as 7B, or a "
        "whole placer.profile/v1 document.",
        "anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, {"type": "object"}],
        "examples": ["roberta-xlm", "resnet50", "7B"],
    },
    "catalog": {
        "description": "Name of a price book of GET /v1/catalogs, or several of them, of which "
        "later ones replace rows of earlier ones. Default: the books that the service was started "
        "with.",
        "anyOf": [BOOK_NAME, {"type": "array", "items": BOOK_NAME, "minItems": 1, "maxItems": 4}],
        "examples": ["default", "erben-2023"],
    },
    "manifest": {
        "description": "The launch manifest of the plan, the whole document.",
        "type": "object",
    },
    "observed": {
        "description": "Logs of its run, each the text of a run.jsonl of 'placer run'.",
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": 64,
    },
    "before": {"type": "object", "description": "A result, the whole document of recommend."},
    "after": {"type": "object", "description": "The other result."},
    "fallbacks": {"maxItems": 16},
    "jobs": {"minItems": 1, "maxItems": 200},
    "worlds": {"maximum": 1_000},
    "target": {"enum": list(TARGETS)},
    "result": {
        "description": "The answer, a whole placer.result or placer.estimate document.",
        "type": "object",
    },
    "charges": {
        "description": "The bill, the text of a CSV file with the columns of FOCUS 1.0 or later.",
        "type": "string",
    },
    "placements": {"minItems": 1, "maxItems": 100},
    "alternatives": {"type": "boolean"},
    "seed": {"minimum": 0, "maximum": MOST_SEED},
    "top": {"maximum": MOST_ROWS},
    "points": {"minimum": 1, "maximum": 100},
}
"""Words that are documents here, or that have bounds: their JSON Schemas, or parts of them."""


def _filter(description: str, example: str) -> Schema:
    return {"type": "string", "maxLength": 500, "description": description, "examples": [example]}


LISTS: Mapping[str, Mapping[str, Schema]] = MappingProxyType(
    {
        "offers": {
            "catalog": _filter("Name of a price book; repeat it for several.", "erben-2023"),
            "gpu": _filter("Only these GPUs, with commas.", "T4,A10"),
            "in": _filter("Only these places, with commas; wildcards allowed.", "gcp/*"),
            "market": _filter("spot, on-demand, community or any.", "spot"),
            "sort": _filter("price, place, gpu or age.", "price"),
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_ROWS,
                "description": "Most rows; default: 30.",
            },
        },
        "models": {},
        "catalogs": {},
    }
)
"""Lists that GET answers, with their query parameters."""


@cache
def words_of(verb: str) -> Mapping[str, Schema]:
    """Return the schemas of all words of a verb by name, those of the wishes last."""
    found = VERBS[verb]
    ours = NOT_ASKED.get(verb, ())
    rows = {
        name: word_schema(row)
        for name, row in found.rows.items()
        if not row.here and name not in ours
    }
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
        **({"enum": list(word.choices)} if word.choices else {}),
        **own,
        **({"examples": list(examples)} if examples else {}),
    }


def wish_schema(wish: Wish) -> Schema:
    """Build the JSON Schema of one row of the table of wishes.

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
        return [{"type": "array", "items": _kinds(parts[0])[0]}]
    if origin is Mapping and parts[1] is Any:
        return [{"type": "object"}]
    if origin is Mapping:
        (number,) = _kinds(parts[1])
        return [{"type": "object", "additionalProperties": number}]
    plain = {str: "string", bool: "boolean", int: "integer", float: "number"}
    kind: dict[str, Any] = {"type": plain[origin]}
    return [kind | {"maxLength": MOST_TEXT}] if origin is str else [kind]
