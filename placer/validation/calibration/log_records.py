"""What the records of a run log must hold before their figures are used: a log may be cut, edited
or written by something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from placer.workload.profile import COMPRESSION_BYTES

LARGEST = 1e15
"""No count, byte or second of a log is so large."""
Record = Mapping[str, Any]
Check = Callable[[Any], bool]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST


def _above_zero(value: Any) -> bool:
    return _number(value) and value > 0


def _count(value: Any) -> bool:
    return isinstance(value, int) and _number(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _one_of(*words: str) -> Check:
    return lambda value: value in words if isinstance(value, str) else False


def _manifest(value: Any) -> bool:
    return isinstance(value, dict) and _text(value.get("name")) and _text(value.get("digest"))


def _groups(value: Any) -> bool:
    names = {"place": _text, "count": _count, "gpu": _text, "gpu_count": _count, "market": _text}
    return isinstance(value, list) and all(
        isinstance(g, dict) and all(ok(g.get(n)) for n, ok in names.items()) for g in value
    )


def _beside(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _number(value.get(name)) for name in ("exchange_s", "waited_s", "flushed_s")
    )


OPTIONAL: Mapping[str, Mapping[str, Check]] = {
    "run": {
        "overlap": lambda value: isinstance(value, bool),
        "threads": _count,
        "question": lambda value: value is None or isinstance(value, dict),
    },
    "step": {"beside": _beside},
}
"""Keys by kind of record that only some logs have."""
FIELDS: Mapping[str, Mapping[str, Check]] = {
    "run": {
        "manifest": _manifest,
        "model": _text,
        "gradient_bytes": _number,
        "groups": _groups,
        "strategy": _text,
        "compression": _one_of(*COMPRESSION_BYTES),
        "streams": _count,
        "links": _text,
        "target_batch_size": _count,
    },
    "ready": {"rank": _count, "elements": _count},
    "step": {
        "rank": _count,
        "step": _count,
        "samples": _number,
        "step_s": _above_zero,
        "calculation_s": _number,
    },
    "lost": {"rank": _count, "step": _count, "reason": _text},
    "fault": {"lost": _count, "step": _count, "reason": _text},
    "notice": {"gone": _count, "message": _text},
    "back": {"rank": _count, "message": _text},
}
"""Keys by kind of record that are read, and what they must be; other kinds and keys are left alone.
"""


def wrong_field(record: Record) -> str | None:
    """Name the first field of a record that is missing or no figure that a run can have; None if
    there is none.

    >>> wrong_field({"kind": "notice", "gone": -1, "message": "away"})
    'gone of a notice record is -1'
    >>> wrong_field({"kind": "notice", "gone": 1})
    'a notice record without message'
    """
    for name, right in FIELDS.get(record["kind"], {}).items():
        if name not in record:
            return f"a {record['kind']} record without {name}"
        if not right(record[name]):
            return f"{name} of a {record['kind']} record is {str(record[name])[:40]}"
    for name, right in OPTIONAL.get(record["kind"], {}).items():
        if name in record and not right(record[name]):
            return f"{name} of a {record['kind']} record is {str(record[name])[:40]}"
    return None
