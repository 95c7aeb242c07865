"""The JSON Schemas of the documents that placer writes and reads: one ``NAME-v1.json`` each, beside
this file; a later version is named whole.

A file may refer to a part of another one (``result-v1.json#/$defs/placement``). What is printed or
served stands alone: `schema_document` puts such parts into its own ``$defs``.
"""

from __future__ import annotations

import json
from typing import Any

RESULT_SCHEMA = "placer.result/v1"
"""What ``placer recommend`` writes."""
PARETO_SCHEMA = "placer.pareto/v1"
"""What ``placer pareto`` writes."""
CONFIG_SCHEMA = "placer.config/v1"
"""What ``placer config show`` writes."""
SCHEMA_NAMES = (
    "result",
    "manifest",
    "manifest-v2",
    "estimate",
    "comparison",
    "diff",
    "simulation",
    "explanation",
    "pareto",
    "robust",
    "sweep",
    "sweep-points",
    "whatif",
    "portfolio",
    "replan",
    "replay",
    "watch",
    "models",
    "profile",
    "profile-estimate",
    "calibration",
    "reproduction",
    "run",
    "rehearsal",
    "export",
    "offers",
    "offer-groups",
    "network",
    "network-check",
    "capacity",
    "capacity-check",
    "capacity-forecast",
    "catalogs",
    "coverage",
    "catalog-diff",
    "catalog-validation",
    "catalog-export",
    "pin",
    "refresh",
    "import",
    "import-quotas",
    "import-blocks",
    "origin",
    "problem",
    "certificate",
    "validation",
    "doctor",
    "config",
    "error",
)
"""Names that ``placer schema`` takes."""
LATER_SCHEMAS = {"placer.manifest/v2": "manifest-v2"}
"""Names of the schemas of later versions."""


def schema_name(version: object) -> str | None:
    """Return the name of the schema that a document names under ``schema``; None if none has it.

    Examples
    --------
    >>> schema_name("placer.result/v1"), schema_name("placer.result/v9")
    ('result', None)
    """
    text = str(version)
    name = LATER_SCHEMAS.get(text, text.removeprefix("placer.").removesuffix("/v1"))
    known = text in (*LATER_SCHEMAS, f"placer.{name}/v1") and name in SCHEMA_NAMES
    return name if known else None


def schema_text(name: str) -> str:
    """Return the text of a JSON Schema of `SCHEMA_NAMES`."""
    return json.dumps(schema_document(name), indent=2) + "\n"


def schema_document(name: str) -> dict[str, Any]:
    """Read a JSON Schema of `SCHEMA_NAMES`, with what it takes from others in its own ``$defs``."""
    file = _file(name)
    document = _read(file)
    parts: dict[str, Any] = {}
    whole: dict[str, Any] = _inlined(document, file, parts, own=True)
    return {**whole, "$defs": {**whole.get("$defs", {}), **parts}} if parts else whole


def _file(name: str) -> str:
    return f"{name}.json" if name.endswith("-v2") else f"{name}-v1.json"


def _read(file: str) -> dict[str, Any]:
    from importlib.resources import files  # most commands read no schema

    document: dict[str, Any] = json.loads(files(__name__).joinpath(file).read_text("utf-8"))
    return document


def _inlined(part: Any, file: str, parts: dict[str, Any], *, own: bool) -> Any:
    """Return a part of a schema whose references all point into ``parts`` or, of one's own file,
    into that file.
    """
    if isinstance(part, list):
        return [_inlined(item, file, parts, own=own) for item in part]
    if not isinstance(part, dict):
        return part
    built = {key: _inlined(value, file, parts, own=own) for key, value in part.items()}
    target = part.get("$ref")
    if isinstance(target, str) and not (own and target.startswith("#")):
        built["$ref"] = f"#/$defs/{_taken(target, file, parts)}"
    return built


def _taken(target: str, file: str, parts: dict[str, Any]) -> str:
    """Put the part that a reference names into ``parts``, and return its name there."""
    other, _, pointer = target.partition("#")
    file = other or file
    steps = [step for step in pointer.split("/") if step]
    named = (step for step in steps if step not in ("$defs", "properties"))
    name = ".".join((file.removesuffix(".json").removesuffix("-v1"), *named))
    if name not in parts:
        parts[name] = {}  # so that a part that names itself is read once
        part: Any = _read(file)
        for step in steps:
            part = part[step]
        kept = {key: value for key, value in part.items() if key not in ("$schema", "$id", "$defs")}
        parts[name] = _inlined(kept, file, parts, own=False)
    return name
