"""The answer of a sweep: its points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from placer.report.shown import Shown
from placer.report.stretches import breakpoints

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "placer.sweep/v1"
Row = dict[str, Any]
"""Figures of one point, as its file has them."""


@dataclass(frozen=True, kw_only=True)
class Sweep(Shown):
    """The points of a sweep that are solved: ``rows``, one a point, in order."""

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
        """Build the ``placer.sweep/v1`` document."""
        return {
            **self.header,
            "schema": SCHEMA,
            "complete": len(self.rows) == self.points,
            "breakpoints": [
                {"from": one["set"], "to": other["set"]}
                for one, other in breakpoints(self.header["over"], self.rows)
            ],
            "rows": list(self.rows),
        }

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row a point (pandas)."""
        import pandas as pd

        return pd.DataFrame(
            [{**dict(word.split("=", 1) for word in row["set"]), **row} for row in self.rows]
        )
