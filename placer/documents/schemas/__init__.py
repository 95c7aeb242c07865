"""The JSON Schemas of the documents that placer writes and reads: one ``NAME-v1.json`` each, beside
this file; a later version is named whole.
"""

from __future__ import annotations

from importlib.resources import files

RESULT_SCHEMA = "placer.result/v1"
"""What ``placer recommend`` writes."""
PARETO_SCHEMA = "placer.pareto/v1"
"""What ``placer pareto`` writes."""
SCHEMA_NAMES = (
    "result",
    "manifest",
    "manifest-v2",
    "profile",
    "profile-estimate",
    "calibration",
    "reproduction",
    "explanation",
    "pareto",
    "robust",
    "sweep",
    "whatif",
    "replan",
    "run",
    "rehearsal",
    "capacity-forecast",
    "replay",
    "watch",
    "portfolio",
)
"""Names that ``placer schema`` takes."""


def schema_text(name: str) -> str:
    """Read the text of a JSON Schema of `SCHEMA_NAMES`."""
    file = name if name.endswith("-v2") else f"{name}-v1"
    return files(__name__).joinpath(f"{file}.json").read_text(encoding="utf-8")
