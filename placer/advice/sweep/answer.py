"""The answer of a sweep: its points, and where the choice changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from placer.report.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "placer.sweep/v1"
Row = dict[str, Any]
"""Figures of one point, as its file has them."""


@dataclass(frozen=True, kw_only=True)
class Sweep(Shown):
    """The points of a sweep that are solved.

    Notes
    -----
    ``rows`` are plain dictionaries, one a point, in order; ``points`` counts all that the ranges
    span. ``interrupted``: Ctrl-C came before the last one.
    """

    header: Mapping[str, Any]
    rows: tuple[Row, ...] = field(repr=False)
    interrupted: bool = False

    def __repr__(self) -> str:
        over = " x ".join(axis["what"] for axis in self.header["over"])
        return f"<Sweep over {over}: {len(self.rows)} of {self.points} points>"

    @property
    def points(self) -> int:
        """Points that the ranges span."""
        return int(self.header["points"])

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.sweep/v1`` document: plain types, ready for JSON; within v1 keys are
        only added.
        """
        return {
            **self.header,
            "schema": SCHEMA,
            "complete": len(self.rows) == self.points,
            "breakpoints": [
                {"from": one["set"], "to": other["set"]} for one, other in breakpoints(self)
            ],
            "rows": list(self.rows),
        }

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row a point (pandas)."""
        import pandas as pd

        return pd.DataFrame(
            [{**dict(word.split("=", 1) for word in row["set"]), **row} for row in self.rows]
        )


def choice(row: Row) -> tuple[str, ...]:
    """Return what decides whether two points have the same answer: workers and exchange, or that
    there is none.
    """
    if "workers" not in row:
        return (str(row["status"]),)
    return (*row["workers"], str(row["exchange"]), str(row["local_steps"]))


def along(sweep: Sweep) -> int:
    """Return the position of the range that the table goes along: that with the most values, of
    several the last.
    """
    counts = [len(axis["values"]) for axis in sweep.header["over"]]
    return max(range(len(counts)), key=lambda i: (counts[i], i))


def stretches(sweep: Sweep) -> list[list[Row]]:
    """Return the neighbouring points along one range that have the same choice; the values of the
    others are the same in a stretch.
    """
    groups: list[list[Row]] = []
    at: tuple[tuple[int, ...], int] | None = None
    for row in sorted(sweep.rows, key=lambda row: _coordinates(sweep, row)):
        others, step = _coordinates(sweep, row)
        if at == (others, step - 1) and choice(row) == choice(groups[-1][-1]):
            groups[-1].append(row)
        else:
            groups.append([row])
        at = (others, step)
    return groups


def breakpoints(sweep: Sweep) -> list[tuple[Row, Row]]:
    """Return the neighbours along one range between which the choice changes."""
    breaks = []
    for one, other in pairwise(stretches(sweep)):
        (others, step), (there, after) = _coordinates(sweep, one[-1]), _coordinates(sweep, other[0])
        if others == there and after == step + 1:
            breaks.append((one[-1], other[0]))
    return breaks


def _coordinates(sweep: Sweep, row: Row) -> tuple[tuple[int, ...], int]:
    """Return the positions of a point on the other ranges, and on the one that the table goes
    along.
    """
    rest, positions = int(row["point"]), list[int]()
    for axis in reversed(sweep.header["over"]):
        rest, position = divmod(rest, len(axis["values"]))
        positions.insert(0, position)
    step = positions.pop(along(sweep))
    return tuple(positions), step
