"""The lines of a sweep's file: what the header and each point must hold to be read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from placer.advice.sweep.axes import MOST_AXES, MOST_POINTS

LARGEST = 1e30
"""No figure of an answer is larger; far below the largest number, so that sums stay finite."""
Figure = float | None


class _Range(msgspec.Struct):
    """One range of the header."""

    what: str
    values: list[str]


class _Header(msgspec.Struct):
    """The first line."""

    schema: str
    question: str
    over: list[_Range]
    points: int


class _Point(msgspec.Struct):
    """A line of one point without an answer."""

    point: int
    key: str
    set: list[str]
    status: Literal[
        "optimal", "feasible", "infeasible", "time_limit", "memory_limit", "unknown", "refused"
    ]
    message: str = ""
    objective: str = ""
    value: Figure = None
    bound: Figure = None


class _Answer(_Point, kw_only=True):
    """A line of one point with a placement."""

    workers: list[str]
    offers: list[str] = []
    exchange: str
    local_steps: int
    regions: int
    samples_per_second: float
    usd_per_hour: float
    egress_usd_per_hour: float
    usd_per_million_samples: float


class _TokenAnswer(_Answer, kw_only=True):
    """A line of one point of a language model."""

    effective_tokens_per_second: float
    usd_per_billion_tokens: float


def header_fault(row: Mapping[str, Any]) -> str:
    """Say what is wrong with a header; empty: nothing."""
    fault = _fault(row, _Header)
    if fault:
        return fault
    over = row["over"]
    if not 1 <= len(over) <= MOST_AXES or not all(axis["values"] for axis in over):
        return f"1 to {MOST_AXES} ranges with values, not {len(over)}"
    points = math.prod(len(axis["values"]) for axis in over)
    if not points == row["points"] <= MOST_POINTS:
        return f"its ranges span {points:,} points, not {row['points']:,}"
    return ""


def row_fault(row: Mapping[str, Any], header: Mapping[str, Any]) -> str:
    """Say what is wrong with the line of a point below a right header; empty: nothing."""
    tokens = "usd_per_billion_tokens" in row or "effective_tokens_per_second" in row
    kind = _Point if "workers" not in row else _TokenAnswer if tokens else _Answer
    fault = _fault(row, kind)
    if fault:
        return fault
    if not 0 <= row["point"] < header["points"]:
        return f"point {row['point']} of {header['points']}"
    words = _words(row["point"], header)
    if row["set"] != words or row["key"] != " ".join(words):
        return f"point {row['point']} is {' '.join(words)}, not {row['key'][:80]}"
    for name, value in row.items():
        if isinstance(value, int | float) and not abs(value) <= LARGEST:
            return f"{name} is beyond {LARGEST:.0e}, which no answer has"
    return ""


def _fault(row: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    """Say which value is missing or of another type."""
    try:
        msgspec.convert(row, kind, strict=True)
    except (msgspec.ValidationError, OverflowError) as error:
        return str(error)
    return ""


def _words(point: int, header: Mapping[str, Any]) -> list[str]:
    """Return the changes of a point: the last range runs fastest."""
    words = []
    for axis in reversed(header["over"]):
        point, position = divmod(point, len(axis["values"]))
        words.append(f"{axis['what']}={axis['values'][position]}")
    return words[::-1]
