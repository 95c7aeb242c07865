"""A figure with a low and a high end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A value with a low and a high."""

    value: float
    low: float
    high: float
