"""The verbs of the service: which words each takes beside the wishes, and what it answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from placer.problem.words.wishes import TRAINING, WISHES

Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string", "maxLength": 10_000}
TEXTS: Schema = {
    "anyOf": [TEXT, {"type": "array", "items": TEXT, "maxItems": 1_000}],
}
FILTER: Schema = {"type": "string", "maxLength": 500}
FLAG: Schema = {"type": "boolean"}
AMOUNT: Schema = {"type": ["string", "number"]}
MOST_POINTS = 100
MOST_PLACEMENTS = 100
MOST_ROWS = 1_000
"""Rows of a considered table, or offers of a list, that one request may ask for."""


def count(least: int, most: int) -> Schema:
    """Return the schema of a whole number within two bounds."""
    return {"type": "integer", "minimum": least, "maximum": most}


def said(schema: Schema, description: str, *examples: object) -> Schema:
    """Return a schema with its description, and examples where it has some."""
    shown = {"examples": list(examples)} if examples else {}
    return {**schema, "description": description, **shown}


PLACED = ("gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot", "gcp/us-central1=2xT4:spot")
"""Placements by hand, as examples."""
MODEL: Schema = {
    "description": "Name of a model of GET /v1/models, a number of parameters such as 7B, or a "
    "whole placer.profile/v1 document.",
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, {"type": "object"}],
    "examples": ["roberta-xlm", "resnet50", "7B"],
}
CATALOG: Schema = {
    "description": "Name of a price book of GET /v1/catalogs, or several of them, of which later "
    "ones replace rows of earlier ones. Default: the books that the service was started with.",
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": 64},
        {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 64},
            "minItems": 1,
            "maxItems": 4,
        },
    ],
    "examples": ["default", "erben-2023"],
}
SOLVER: Schema = said(TEXT, "Solver; exact proves.", "exact", "greedy")
LIMITS: Mapping[str, Schema] = {
    "gap": said(AMOUNT, "Relative gap to prove, such as 0.1% or 0.001.", "0.1%", 0.01),
    "time_limit": said(
        AMOUNT, "Time after which a search stops with the best so far, as 20s.", "20s", 5
    ),
    "memory_limit": said(
        AMOUNT, "Memory at which a search stops with the best so far, as 500MB.", "500MB"
    ),
}
SOLVING: Mapping[str, Schema] = {
    "solver": SOLVER,
    **LIMITS,
    "seed": said(count(0, 2**31 - 1), "Seed of randomised solvers."),
}
CHANGES: Mapping[str, Schema] = {
    "set": said(
        TEXTS, "Changes of the world, such as 'price:gcp/*:T4=x0.5'.", ["price:gcp/*:T4=x0.5"]
    ),
    "drop": said(TEXTS, "Offers that are gone, such as 'aws/*:H100:spot'.", ["aws/*:T4:spot"]),
}
QUESTION: Mapping[str, Schema] = {"model": MODEL, "catalog": CATALOG}


@dataclass(frozen=True, kw_only=True, slots=True)
class Verb:
    """One kind of question.

    Notes
    -----
    ``summary`` is one line for people, ``schema`` the document that answers, ``words`` the JSON
    Schemas of the words beside the wishes, ``wishes`` the names of the wishes, ``needed`` the words
    that must be given. ``searches`` counts the searches of an answer, each with its time limit.
    """

    name: str
    summary: str
    schema: str
    words: Mapping[str, Schema]
    wishes: tuple[str, ...] = ()
    needed: tuple[str, ...] = ("model",)
    searches: int = 1

    @property
    def takes(self) -> tuple[str, ...]:
        """Return the names of all words."""
        return (*self.words, *self.wishes)


_ALL = tuple(WISHES)
_TRAINING = tuple(TRAINING)
_VERBS = (
    Verb(
        name="recommend",
        summary="Find, prove and explain the best placement for a model.",
        schema="result",
        words={
            **QUESTION,
            **SOLVING,
            "verify": said(TEXT, "A second solver that is asked too.", "exhaustive"),
            "top": said(count(1, MOST_ROWS), "Rows of the considered table.", 8),
            "certificate": said(FLAG, "Whether to keep what was proved about each strategy."),
            "alternatives": said(
                FLAG, "False leaves out what is only compared with the answer: ten times faster."
            ),
        },
        wishes=_ALL,
    ),
    Verb(
        name="estimate",
        summary="Time and price a placement given by hand, without a search.",
        schema="estimate",
        words={
            **QUESTION,
            "workers": said(
                TEXT, "Such as gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot.", *PLACED
            ),
        },
        wishes=(*_TRAINING, "quota"),
        needed=("model", "workers"),
        searches=0,
    ),
    Verb(
        name="compare",
        summary="Compare placements given by hand.",
        schema="comparison",
        words={
            **QUESTION,
            "placements": {
                "description": "Placements, each written as the workers of an estimate.",
                "type": "array",
                "items": TEXT,
                "minItems": 1,
                "maxItems": MOST_PLACEMENTS,
                "examples": [list(PLACED)],
            },
            "every_exchange": said(FLAG, "One row for each exchange that can run."),
        },
        wishes=_TRAINING,
        needed=("model", "placements"),
        searches=0,
    ),
    Verb(
        name="explain",
        summary="Explain what binds an answer, or why nothing fits.",
        schema="explanation",
        words={
            **QUESTION,
            **LIMITS,
            "why_not": said(
                TEXTS,
                "Places, GPUs, exchanges or machines that were not chosen.",
                "gcp/us-west1",
                "T4",
            ),
        },
        wishes=_ALL,
    ),
    Verb(
        name="pareto",
        summary="Show what each budget buys: the frontier of cost and speed.",
        schema="pareto",
        words={
            **QUESTION,
            **SOLVING,
            "points": said(count(1, MOST_POINTS), "The most points.", 4),
        },
        wishes=tuple(name for name in _ALL if name != "objective"),
    ),
    Verb(
        name="whatif",
        summary="Solve a question under changed prices, links or wishes.",
        schema="whatif",
        words={**QUESTION, **CHANGES, **SOLVING},
        wishes=_ALL,
        searches=2,
    ),
    Verb(
        name="replan",
        summary="Solve a plan's question again with what its run measured.",
        schema="replan",
        words={
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
            "catalog": CATALOG,
            **CHANGES,
            **SOLVING,
            "move": said(AMOUNT, "How long a move stops the training, as 10min.", "10min"),
        },
        needed=("manifest", "observed"),
        searches=2,
    ),
)
VERBS: Mapping[str, Verb] = MappingProxyType({verb.name: verb for verb in _VERBS})
"""Verbs by name, in the order of the documentation."""
LISTS: Mapping[str, Mapping[str, Schema]] = MappingProxyType(
    {
        "offers": {
            "catalog": said(FILTER, "Name of a price book; repeat it for several.", "erben-2023"),
            "gpu": said(FILTER, "Only these GPUs, with commas.", "T4,A10"),
            "in": said(FILTER, "Only these places, with commas; wildcards allowed.", "gcp/*"),
            "market": said(FILTER, "spot, on-demand, community or any.", "spot"),
            "sort": said(FILTER, "price, place, gpu or age.", "price"),
            "limit": said(count(1, MOST_ROWS), "Most rows; default: 30."),
        },
        "models": {},
        "catalogs": {},
    }
)
"""Lists that GET answers, with their query parameters."""
