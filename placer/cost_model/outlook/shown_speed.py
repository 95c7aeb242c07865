"""The speed that every surface shows, with the same digits everywhere."""

from __future__ import annotations

from collections.abc import Iterable

from placer.cost_model.estimate import Estimate
from placer.units import SPEED_LEVEL, format_number, format_rough

LEVEL = f"{100 * SPEED_LEVEL:g} %"
LEVEL_WORDS = f"{LEVEL} interval"
"""The level of intervals of speeds."""


def unmeasured(provenance: Iterable[str]) -> dict[str, str]:
    """Return the basis of the speed of each device that nobody measured."""
    rows = [line.split(": ") for line in provenance if line.startswith("speed on ")]
    return {row[0].removeprefix("speed on "): row[1] for row in rows if row[1] != "measured"}


def speed_number(value: float, provenance: Iterable[str]) -> str:
    """Write a speed with as many digits as its basis bears.

    >>> speed_number(3272.6, ["speed on L4:4: assumed: wide"]), speed_number(3272.6, [])
    ('3,270', '3,273')
    """
    return (format_rough if unmeasured(provenance) else format_number)(value)


def speed_between(got: Estimate) -> str:
    """Write the ends of the speed that counts."""
    speed, known = got.shown_speed, got.provenance
    return f"{speed_number(speed.low, known)} to {speed_number(speed.high, known)}"
