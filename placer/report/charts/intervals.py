"""Dots with intervals, one a row: placements, runs, factors, policies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from placer.report.charts.drawing import WIDTH, altair, colour
from placer.report.charts.spans import whiskers

ROW_PX = 24
LABELS_PX = (110, 300)
"""Least and most room for the names of rows."""
LETTER_PX = 6.4
"""Width of a letter, about."""
MOST_LETTERS = 42
"""Letters of a line of a name; what is longer takes two."""
TWO_LINES_PX = 34
"""Height of a row whose name takes two lines."""
MOST_ROWS = 40
"""Rows of one drawing; the table beside it has them all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """One row: a value with an interval, or without where its ends are None, and a second value to
    compare it with.
    """

    name: str
    value: float
    text: str = ""
    low: float | None = None
    high: float | None = None
    other: float | None = None
    stands_out: bool = False


def interval_chart(
    dots: Sequence[Dot],
    title: str,
    *,
    words: tuple[str, str] = ("value", "other"),
    line: float | None = None,
    zero: bool = True,
) -> Any:
    """Draw dots below each other, the first `MOST_ROWS`.

    ``dots``: at least one; their names may repeat. ``title``: of the axis, with its unit.
    ``words``: what the value and the other value are, for the legend where there are others.
    ``line``: value of a vertical line. ``zero``: whether the axis begins at 0.
    """
    alt, shown = altair(), list(dots)[:MOST_ROWS]
    rows = [
        {
            "row": number,
            "value": dot.value,
            "text": dot.text,
            "beyond": max(filter(None, (dot.value, dot.high, dot.other)), default=dot.value),
            "shade": "main" if dot.stands_out else "soft",
        }
        for number, dot in enumerate(shown)
    ]
    lines = [_lines(dot.name) for dot in shown]
    names = "[" + ", ".join(f"[{', '.join(map(_quoted, one))}]" for one in lines) + "]"
    longest = max((len(line) for one in lines for line in one), default=0)
    room = min(max(LABELS_PX[0], round(LETTER_PX * longest) + 24), LABELS_PX[1])
    row_px = TWO_LINES_PX if any(len(one) > 1 for one in lines) else ROW_PX
    y = alt.Y(
        "row:O",
        title=None,
        axis=alt.Axis(
            domain=False,
            ticks=False,
            labelExpr=f"{names}[datum.value]",
            labelColor=colour("ink"),
            minExtent=room - 14,
            labelLimit=room - 20,
            labelLineHeight=14,
            labelBaseline="middle",
        ),
    )
    ends = [
        end for dot in shown for end in (dot.value, dot.low, dot.high, dot.other) if end is not None
    ]
    if line is not None:
        ends.append(line)
    low, high = min(ends), max(ends)
    low = min(0.0, low) if zero else low - 0.06 * (high - low)
    scale = alt.Scale(domain=[low, high + 0.22 * ((high - low) or 1.0)], nice=False, zero=False)
    x = alt.X("value:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    layers = []
    if line is not None:
        layers.append(
            alt.Chart(alt.Data(values=[{"line": line}]))
            .mark_rule(color=colour("soft"), strokeDash=[4, 3])
            .encode(x=alt.X("line:Q", scale=scale))
        )
    spread = [
        {"row": number, "low": dot.low, "high": dot.high}
        for number, dot in enumerate(shown)
        if dot.low is not None and dot.high is not None and dot.high > dot.low
    ]
    if spread:
        layers += whiskers(spread, y, scale)
    seconds = [
        {"row": number, "value": dot.other}
        for number, dot in enumerate(shown)
        if dot.other is not None
    ]
    if seconds:
        layers.append(
            alt.Chart(alt.Data(values=seconds))
            .mark_point(shape="diamond", size=60, color=colour("warm"), strokeWidth=1.8, opacity=1)
            .encode(x=x, y=y)
        )
    shades = alt.Scale(domain=["main", "soft"], range=[colour("main"), colour("free")])
    layers += [
        base.mark_circle(size=70, opacity=1).encode(
            x=x, color=alt.Color("shade:N", legend=None, scale=shades), tooltip=["text:N"]
        ),
        base.mark_text(align="left", dx=10).encode(x=alt.X("beyond:Q", scale=scale), text="text:N"),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH - room, height=row_px * len(rows))
    if seconds:
        chart = chart.properties(
            title=alt.TitleParams(
                f"● {words[0]}   ◇ {words[1]}",
                anchor="start",
                fontSize=12,
                fontWeight="normal",
                color=colour("soft"),
            )
        )
    return chart


def _lines(name: str) -> list[str]:
    return wrap(name, MOST_LETTERS, max_lines=2, placeholder=" …") or [""]


def _quoted(text: str) -> str:
    """Write a text as a string of Vega's expressions."""
    safe = "".join(c if c.isalnum() or c in " .,:;+-_/()%*=<>&…" else " " for c in text)
    return f"'{safe}'"
