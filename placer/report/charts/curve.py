"""Points in the plane: a frontier with bounds, a sweep over a range, rounds one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from placer.report.charts.drawing import WIDTH, altair, colour

HEIGHT = 330
AXIS_PX = 70
LETTER_PX = 6.4
"""Width of a letter, about."""
MOST_TICKS = 10
"""More labels would overlap."""


class Point(Struct, frozen=True, kw_only=True):
    """A point with the interval of its height, and what is written beside it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    label: str = ""
    words: str = ""


def curve_chart(
    points: Sequence[Point],
    titles: tuple[str, str],
    *,
    log: bool = False,
    join: Literal["step", "line"] = "line",
    line: tuple[str, float] | None = None,
    zero: bool = False,
) -> Any:
    """Draw points, joined from left to right.

    ``points``: at least one; above 0 with ``log``. ``titles``: of both axes, with units. ``log``:
    whether both axes are logarithmic. ``join``: ``step``: a value holds until the next point.
    ``line``: words and height of a dashed line. ``zero``: whether the axis of heights begins at 0.
    """
    alt = altair()
    rows = [
        {"x": p.x, "y": p.y, "words": p.words, "shade": "warm" if p.label else "main"}
        for p in points
    ]
    heights = [end for p in points for end in (p.y, p.low, p.high) if end is not None]
    if line is not None:
        heights.append(line[1])
    x_kind, y_kind = (
        (_log_axis([p.x for p in points]), _log_axis(heights))
        if log
        else (_linear_axis(zero=False), _linear_axis(zero=zero))
    )
    x, y = alt.X("x:Q", title=titles[0], **x_kind), alt.Y("y:Q", title=titles[1], **y_kind)
    up = y_kind["scale"]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
    layers = []
    if len(rows) > 1:
        layers.append(
            base.mark_line(
                color=colour("pale"),
                strokeWidth=1.6,
                interpolate="step-after" if join == "step" else "linear",
            )
        )
    spread = [
        {"x": p.x, "low": p.low, "high": p.high}
        for p in points
        if p.low is not None and p.high is not None and p.high > p.low
    ]
    if spread:
        bars = alt.Chart(alt.Data(values=spread)).encode(x=x)
        layers.append(
            bars.mark_rule(color=colour("ink"), strokeWidth=1.2).encode(
                y=alt.Y("low:Q", scale=up), y2="high:Q"
            )
        )
        layers += [
            bars.mark_tick(color=colour("ink"), thickness=1.2, size=8, orient="horizontal").encode(
                y=alt.Y(f"{end}:Q", scale=up)
            )
            for end in ("low", "high")
        ]
    shades = alt.Scale(domain=["main", "warm"], range=[colour("main"), colour("warm")])
    layers.append(
        base.mark_circle(size=64, opacity=1).encode(
            color=alt.Color("shade:N", legend=None, scale=shades), tooltip=["words:N"]
        )
    )
    labelled = [{"x": p.x, "y": p.y, "label": p.label} for p in points if p.label]
    if labelled:
        layers.append(
            alt.Chart(alt.Data(values=labelled))
            .mark_text(align="right", dx=-9, dy=-11, fontWeight=600, color=colour("warm"))
            .encode(x=x, y=y, text="label:N")
        )
    if line is not None:
        layers += _level(*line, y)
    beside = 0 if line is None else round(LETTER_PX * len(line[0])) + 12
    return alt.layer(*layers).properties(width=WIDTH - AXIS_PX - beside, height=HEIGHT)


def _level(words: str, height: float, y: Any) -> list[Any]:
    alt = altair()
    base = alt.Chart(alt.Data(values=[{"y": height, "words": words}])).encode(y=y)
    return [
        base.mark_rule(color=colour("warm"), strokeDash=[4, 3], strokeWidth=1.3),
        base.mark_text(color=colour("warm"), align="left", x="width", dx=6).encode(text="words:N"),
    ]


def _linear_axis(*, zero: bool) -> dict[str, Any]:
    alt = altair()
    return {
        "scale": alt.Scale(zero=zero, nice=zero, padding=0 if zero else 14),
        # "g" writes 70 between ticks of 10 as 7e+1.
        "axis": alt.Axis(tickCount=6, format=",~r"),
    }


def _log_axis(values: Sequence[float]) -> dict[str, Any]:
    """Build scale and axis of a logarithmic range, with ticks at round figures."""
    alt, low, high = altair(), min(values) / 1.35, max(values) * 1.35
    figures = ticks(low, high)
    axis = {"values": figures} if len(figures) > 1 else {"tickCount": 4}
    return {
        "scale": alt.Scale(type="log", domain=[low, high], nice=False),
        "axis": alt.Axis(format=",~g", **axis),
    }


def ticks(low: float, high: float) -> list[float]:
    """Round figures within a range for a logarithmic axis: 1, 2 and 5 times powers of ten, of a
    wide range the powers alone.

    >>> ticks(0.13, 6.3), ticks(0.002, 3e4)
    ([0.2, 0.5, 1.0, 2.0, 5.0], [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [float(f"{digit}e{decade}") for decade in decades for digit in (1, 2, 5)]
    within = [figure for figure in every if low <= figure <= high]
    few = len(within) <= MOST_TICKS
    return within if few else [figure for figure in within if figure in every[::3]]
