"""The verbs of the service, and what its words may be beyond what Python says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from placer.interface.advisor import MOST_ROWS, compare, estimate, explain, pareto, recommend
from placer.interface.verb import Verb, verb_of
from placer.interface.words import MOST_SEED
from placer.interface.worlds import replan, whatif

Schema = Mapping[str, Any]
SERVED: tuple[Callable[..., Any], ...] = (
    *(recommend, estimate, compare, explain, pareto, whatif, replan),
)
VERBS: Mapping[str, Verb] = MappingProxyType({f.__name__: verb_of(f) for f in SERVED})
"""Verbs by name, in the order of the documentation."""
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
        "description": "The launch manifest of the plan, a whole placer.manifest document.",
        "type": "object",
    },
    "observed": {
        "description": "Logs of its run, each the text of a run.jsonl of 'placer run'.",
        "type": "array",
        "items": {"type": "string"},
        "minItems": 1,
        "maxItems": 64,
    },
    "placements": {"minItems": 1, "maxItems": 100},
    "alternatives": {"type": "boolean"},
    "seed": {"minimum": 0, "maximum": MOST_SEED},
    "top": {"maximum": MOST_ROWS},
    "points": {"minimum": 1, "maximum": 100},
}
"""Words that are documents here, or that have bounds: their JSON Schemas, or parts of them."""


def _filter(description: str, example: str) -> Schema:
    return {
        "type": "string",
        "maxLength": 500,
        "description": description,
        "examples": [example],
    }


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
