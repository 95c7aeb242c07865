"""Frozen records: kinds of their fields, and what changes one record into another.

Records that every command makes are `msgspec.Struct`s: a dataclass compiles six functions when its
class is made, which took a fifth of the CPU of the main job (docs/decisions/main-job.md). Others
are dataclasses. Who changes a record need not know which it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

RecordType = TypeVar("RecordType")
Json = Mapping[str, Any]
"""An object of JSON, as it is read or written."""
# Kinds of numbers, for fields that are read from files: the bounds stand in the JSON Schema too.
Amount = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Natural = Annotated[int, msgspec.Meta(ge=1)]


def one_of(*words: str | int) -> msgspec.Meta:
    """Name the values that a field may have, for its JSON Schema."""
    return msgspec.Meta(extra_json_schema={"enum": list(words)})


def replace(record: RecordType, /, **changes: Any) -> RecordType:
    """Return a copy of a record with some fields changed; its checks run again.

    Raise `TypeError` if the record has no field of a name.
    """
    if isinstance(record, msgspec.Struct):
        return msgspec.structs.replace(record, **changes)
    return dataclasses.replace(record, **changes)  # type: ignore[type-var]
