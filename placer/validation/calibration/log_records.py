"""What the records of a run log must hold before their figures are used: a log may be cut, edited
or written by something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from placer.workload.profile import COMPRESSION_BYTES

LARGEST = 10**15
"""No count, byte or second of a log is so large."""
Record = Mapping[str, Any]
Number = Annotated[float, Meta(ge=0, lt=LARGEST)]
AboveZero = Annotated[float, Meta(gt=0, lt=LARGEST)]
Whole = Annotated[int, Meta(ge=0, lt=LARGEST)]


class _Manifest(Struct):
    name: str
    digest: str


class _Group(Struct):
    place: str
    count: Whole
    gpu: str
    gpu_count: Whole
    market: str


class _Beside(Struct):
    exchange_s: Number
    waited_s: Number
    flushed_s: Number


OPTIONAL: Mapping[str, Mapping[str, Any]] = {
    "run": {"overlap": bool, "threads": Whole, "question": dict[str, Any] | None},
    "step": {"beside": _Beside},
}
"""Keys by kind of record that only some logs have."""
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "run": {
        "manifest": _Manifest,
        "model": str,
        "gradient_bytes": Number,
        "groups": list[_Group],
        "strategy": str,
        "compression": Annotated[str, Meta(pattern=f"^({'|'.join(COMPRESSION_BYTES)})$")],
        "streams": Whole,
        "links": str,
        "target_batch_size": Whole,
    },
    "ready": {"rank": Whole, "elements": Whole},
    "step": {
        "rank": Whole,
        "step": Whole,
        "samples": Number,
        "step_s": AboveZero,
        "calculation_s": Number,
    },
    "lost": {"rank": Whole, "step": Whole, "reason": str},
    "fault": {"lost": Whole, "step": Whole, "reason": str},
    "notice": {"gone": Whole, "message": str},
    "back": {"rank": Whole, "message": str},
}
"""Keys by kind of record that are read, and their types; other kinds and keys are left alone."""


def wrong_field(record: Record) -> str | None:
    """Name the first field of a record that is missing or no figure that a run can have; None if
    there is none.

    >>> wrong_field({"kind": "notice", "gone": -1, "message": "away"})
    'gone of a notice record is -1'
    >>> wrong_field({"kind": "notice", "gone": 1})
    'a notice record without message'
    """
    kind = record["kind"]
    for name, right in ({**FIELDS.get(kind, {}), **OPTIONAL.get(kind, {})}).items():
        if name not in record:
            if name in FIELDS[kind]:
                return f"a {kind} record without {name}"
            continue
        try:
            convert(record[name], right)
        except ValidationError:
            return f"{name} of a {kind} record is {str(record[name])[:40]}"
    return None
