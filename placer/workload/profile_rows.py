"""Rows of a profile file: JSON objects checked key by key."""

from __future__ import annotations

from typing import Any

import msgspec

from placer.errors import PlacerError, unknown
from placer.files.json_text import misfit
from placer.workload.measurement import Measurement, Point


def check_measurements(rows: Any, where: str) -> None:
    """Check a list of measurements; a `PlacerError` names the measurement and the point."""
    if not isinstance(rows, list):
        raise PlacerError(f"{where}: measurements is not a list", "write it with placer profile")
    for i, row in enumerate(rows):
        at = f"{where}: measurements[{i}]"
        points = row.get("points") if isinstance(row, dict) else None
        for j, point in enumerate(points if isinstance(points, list) else []):
            build(Point, point, f"{at}.points[{j}]")
        build(Measurement, row, at)


def build(kind: type[msgspec.Struct], raw: Any, where: str) -> Any:
    """Convert a JSON object to a record; ``where`` names it in each `PlacerError`."""
    names = {f.name: f.required for f in msgspec.structs.fields(kind)}
    if not isinstance(raw, dict):
        raise PlacerError(f"{where}: not an object", "see profiles/roberta-xlm.json")
    for key in raw:
        if key not in names:
            raise unknown("key", f"{key}' in '{where}", names)
    missing = sorted(name for name, required in names.items() if required and name not in raw)
    if missing:
        raise PlacerError(f"{where}: '{missing[0]}' is missing", "see profiles/roberta-xlm.json")
    try:
        return msgspec.convert(raw, kind)
    except PlacerError as error:
        raise PlacerError(f"{where}: {error.message}", error.hint) from None
    except (msgspec.ValidationError, OverflowError) as error:
        raise PlacerError(
            f"{where}: {misfit(error, raw)}", "see profiles/roberta-xlm.json"
        ) from None
