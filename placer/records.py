"""Frozen records: what changes one into another.

Records that every command makes are `msgspec.Struct`s: a dataclass compiles six functions when its
class is made, which took a fifth of the CPU of the main job (docs/decisions/main-job.md). Others
are dataclasses. Who changes a record need not know which it is.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

RecordType = TypeVar("RecordType")


def replace(record: RecordType, /, **changes: Any) -> RecordType:
    """Return a copy of a record with some fields changed; its checks run again.

    Raises
    ------
    TypeError
        If the record has no field of a name.
    """
    if isinstance(record, msgspec.Struct):
        return msgspec.structs.replace(record, **changes)
    return dataclasses.replace(record, **changes)  # type: ignore[type-var]
