"""The documents that placer writes and reads, as types, one module for each group of commands.

Annotations give kinds and bounds of fields. The docstring of a type says what it is; the lines at
its end, or its section ``Parameters``, say what its fields are. JSON Schemas are made from these,
so nothing stands twice.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, get_origin

RESULT_SCHEMA = "placer.result/v1"
"""What ``placer recommend`` writes."""
PARETO_SCHEMA = "placer.pareto/v1"
"""What ``placer pareto`` writes."""
CONFIG_SCHEMA = "placer.config/v1"
"""What ``placer config show`` writes."""
KINDS: Mapping[str, tuple[str, str]] = {
    "result": ("result:Result", "Answer of placer recommend"),
    "manifest": ("launch:Manifest", "Launch manifest of placer"),
    "manifest-v2": ("launch:IslandManifest", "Launch manifest of placer, with islands"),
    "estimate": ("by_hand:Estimated", "Answer of placer estimate"),
    "comparison": ("by_hand:Comparison", "Answer of placer estimate with several placements"),
    "diff": ("by_hand:Difference", "Answer of placer report --diff"),
    "bill": ("by_hand:Bill", "Answer of placer bill"),
    "simulation": ("by_hand:Simulation", "Answer of placer estimate --simulate"),
    "explanation": ("explanation:Explanation", "Answer of placer explain"),
    "pareto": ("many:Frontier", "Answer of placer pareto"),
    "robust": ("worlds:Robust", "Answer of placer robust"),
    "sweep": ("worlds:Sweep", "Answer of placer whatif --over"),
    "sweep-points": ("worlds:SweepLine", "Line of a file of points"),
    "whatif": ("worlds:WhatIf", "Answer of placer whatif"),
    "portfolio": ("many:Portfolio", "Answer of placer portfolio"),
    "replan": ("worlds:Replan", "Answer of placer whatif --observed"),
    "replay": ("worlds:Replay", "Answer of placer capacity replay"),
    "watch": ("worlds:Watch", "Line of placer capacity watch"),
    "models": ("measured:Models", "Answer of placer models"),
    "profile": ("measured:Profile", "Model profile of placer"),
    "profile-estimate": ("measured:ProfileEstimate", "Estimate of placer profile"),
    "calibration": ("measured:CalibrationFile", "Calibration of placer"),
    "reproduction": ("measured:Reproduction", "A paper worked out again by placer reproduce"),
    "run": ("launch:RunLine", "Line of the log of placer run"),
    "rehearsal": ("launch:Rehearsal", "Answer of placer run --rehearse"),
    "export": ("launch:Export", "Answer of placer export"),
    "offers": ("books:Offers", "Answer of placer offers"),
    "offer-groups": ("books:OfferGroups", "Answer of placer offers --group-by"),
    "network": ("books:Links", "Answer of placer network show"),
    "network-check": (
        "placer.market.network.measured_links:NetworkCheck",
        "Answer of placer network check",
    ),
    "capacity": ("books:Capacity", "Answer of placer capacity show"),
    "capacity-check": ("books:CapacityCheck", "Answer of placer capacity check"),
    "capacity-forecast": (
        "placer.cost_model.capacity.forecast:CapacityForecast",
        "Answer of placer capacity forecast",
    ),
    "catalogs": ("books:Catalogs", "Answer of placer catalog list"),
    "coverage": ("books:Coverage", "Answer of placer catalog show"),
    "catalog-diff": ("books:CatalogDiff", "Answer of placer catalog diff"),
    "catalog-validation": ("books:CatalogValidation", "Answer of placer catalog validate"),
    "catalog-export": ("books:CatalogExport", "Answer of placer catalog export"),
    "pin": ("books:Pin", "Pinned catalogs"),
    "refresh": ("placer.market.sources.refresh:Refreshed", "Answer of placer catalog refresh"),
    "import": ("books:Import", "Answer of the imports"),
    "import-quotas": (
        "books:ImportQuotas",
        "Answer of placer capacity import aws-quotas, gcp-quotas and azure-quotas",
    ),
    "import-blocks": (
        "books:ImportBlocks",
        "Answer of placer capacity import aws-blocks and aws-plans",
    ),
    "origin": ("placer.market.sources.harvest:BookOrigin", "Origin of a book"),
    "problem": ("result:SavedProblem", "Problem"),
    "certificate": ("result:Certificate", "Certificate of a saved result"),
    "validation": ("by_hand:Validation", "Answer of placer validate"),
    "doctor": ("by_hand:Doctor", "Answer of placer config check"),
    "config": ("by_hand:Config", "Answer of placer config show"),
    "error": ("by_hand:Failure", "Error"),
}
"""Module and type of each document, of this room or of a lower one that fills it; its title."""
SCHEMA_NAMES = tuple(KINDS)
"""Names that ``placer validate --schema`` takes."""
LATER_SCHEMAS = {"placer.manifest/v2": "manifest-v2"}
"""Names of the schemas of later versions."""
CLOSED = ("profile", "models", "calibration")
"""Documents whose parts of other rooms have no further keys: people write such files."""
WHOLE = ("InnerPlan",)
"""Parts whose keys have defaults in Python; those that the schema gives none are always written."""
REFERENCE = "#/$defs/{name}"
ARGUMENTS = re.compile(r"(?<=[a-z])(?:_+[A-Z][A-Za-z]+)+_(?=\")")
"""Arguments at the end of the name of a generic part."""
FIELD = re.compile(r"^(\w+(?:, \w+)*): ((?:.+\n?)(?:    .*\n?)*)", re.MULTILINE)
"""Names of fields and what is said of them."""


def schema_name(version: object) -> str | None:
    """Return the name of the schema that a document names under ``schema``; None if none has it.

    >>> schema_name("placer.result/v1"), schema_name("placer.result/v9")
    ('result', None)
    """
    text = str(version)
    name = LATER_SCHEMAS.get(text, text.removeprefix("placer.").removesuffix("/v1"))
    known = text in (*LATER_SCHEMAS, f"placer.{name}/v1") and name in SCHEMA_NAMES
    return name if known else None


@cache
def schema_text(name: str) -> str:
    """Return the text of a JSON Schema of `SCHEMA_NAMES`."""
    return json.dumps(schema_document(name), indent=2) + "\n"


def document_type(name: str) -> Any:
    """Return the type of a document of `SCHEMA_NAMES`."""
    module, _, kind = KINDS[name][0].partition(":")
    return getattr(import_module(module if "." in module else f"{__name__}.{module}"), kind)


def schema_document(name: str) -> dict[str, Any]:
    """Build a JSON Schema of `SCHEMA_NAMES`, with all its parts in its own ``$defs``."""
    import msgspec  # most commands make no schema

    from placer.documents.schemas.parts import Part

    found = document_type(name)
    kinds = found if isinstance(found, tuple) else (found,)
    made = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    wholes, parts = json.loads(ARGUMENTS.sub("", json.dumps(made)))
    types = {kind.__name__: kind for kind in _structs(msgspec.inspect.multi_type_info(kinds), {})}
    for part, schema in parts.items():
        parts[part] = _described(schema, types[part])
        if part in WHOLE:
            keys = schema["properties"]
            parts[part]["required"] = [key for key, kind in keys.items() if "default" not in kind]
        if name in CLOSED and not issubclass(types[part], Part):
            parts[part]["additionalProperties"] = False
    whole = dict(wholes[0])
    own = parts[whole["$ref"].rpartition("/")[2]] if "$ref" in whole else {}
    if len(wholes) > 1:
        whole = {"description": own["description"], "anyOf": list(wholes)}
        own = {}
    elif own:
        del parts[whole.pop("$ref").rpartition("/")[2]]
    version = name.replace("-v", "/v") if name in LATER_SCHEMAS.values() else f"{name}/v1"
    said = whole.get("description") or own["description"]
    more = f"Within {version.rpartition('/')[2]} keys are only added."
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"placer.{version}",
        "title": KINDS[name][1],
        "description": f"{said} {more}",
        **{key: value for key, value in (own | whole).items() if key != "description"},
        **({"$defs": parts} if parts else {}),
    }


def _structs(info: Any, seen: dict[int, Any]) -> Iterator[type[Any]]:
    if isinstance(info, tuple):
        for part in info:
            yield from _structs(part, seen)
    elif hasattr(info, "__struct_fields__") and id(info) not in seen:
        seen[id(info)] = info
        if hasattr(info, "cls"):
            yield get_origin(info.cls) or info.cls
        for field in info.__struct_fields__:
            yield from _structs(getattr(info, field), seen)


def _described(schema: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
    """Put what the docstrings of a type and of its bases say into its schema."""
    said: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        said |= field_words(base.__doc__ or "")[1]
    properties = {
        key: {
            # What a reader takes where a key is missing is no promise of a document.
            **{word: part for word, part in value.items() if word != "default"},
            **({"description": said[key]} if key in said else {}),
        }
        for key, value in schema.get("properties", {}).items()
    }
    built = {key: value for key, value in schema.items() if key not in ("title", "description")}
    words = field_words(kind.__doc__ or "")[0]
    described = {"description": words} if words else {}
    return {**described, **built, **({"properties": properties} if properties else {})}


def field_words(docstring: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of its type, and of each field.

    >>> field_words('''A row.
    ...
    ... low, high: Ends,
    ...     in USD.
    ... ''')
    ('A row.', {'low': 'Ends, in USD.', 'high': 'Ends, in USD.'})
    """
    text = inspect.cleandoc(docstring)
    head, _, tail = text.rpartition("\n\n")
    words, section = (head, tail) if FIELD.sub("", tail).strip() == "" else (text, "")
    said = {
        name: " ".join(about.split())
        for names, about in FIELD.findall(section + "\n")
        for name in names.split(", ")
    }
    return " ".join(words.split()), said
