"""Where the choice changes along the ranges of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

Row = Mapping[str, Any]
"""Figures of one point, as its file has them."""
Axes = Sequence[Mapping[str, Any]]
"""The ranges of a sweep: what varies, and its values."""


def choice(row: Row) -> tuple[str, ...]:
    """Return what decides whether two points have the same answer: workers and exchange, or that
    there is none.
    """
    if "workers" not in row:
        return (str(row["status"]),)
    return (*row["workers"], str(row["exchange"]), str(row["local_steps"]))


def along(over: Axes) -> int:
    """Return the position of the range that a table goes along: that with the most values, of
    several the last.
    """
    counts = [len(axis["values"]) for axis in over]
    return max(range(len(counts)), key=lambda i: (counts[i], i))


def stretches(over: Axes, rows: Iterable[Row]) -> list[list[Row]]:
    """Return the neighbouring points along one range that have the same choice; the values of the
    others are the same in a stretch.
    """
    groups: list[list[Row]] = []
    at: tuple[tuple[int, ...], int] | None = None
    for row in sorted(rows, key=lambda row: _coordinates(over, row)):
        others, step = _coordinates(over, row)
        if at == (others, step - 1) and choice(row) == choice(groups[-1][-1]):
            groups[-1].append(row)
        else:
            groups.append([row])
        at = (others, step)
    return groups


def breakpoints(over: Axes, rows: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Return the neighbours along one range between which the choice changes."""
    breaks = []
    for one, other in pairwise(stretches(over, rows)):
        (others, step), (there, after) = _coordinates(over, one[-1]), _coordinates(over, other[0])
        if others == there and after == step + 1:
            breaks.append((one[-1], other[0]))
    return breaks


def _coordinates(over: Axes, row: Row) -> tuple[tuple[int, ...], int]:
    """Return the positions of a point on the other ranges, and on that of a table."""
    rest, words = int(row["point"]), []
    for axis in reversed(over):
        rest, position = divmod(rest, len(axis["values"]))
        words.append(position)
    others = words[::-1]
    return tuple(others[: along(over)] + others[along(over) + 1 :]), others[along(over)]
