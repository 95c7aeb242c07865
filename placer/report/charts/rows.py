"""Rows below each other on one axis: bars that follow each other, and dots with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from placer.report.charts.drawing import WIDTH, altair, colour
from placer.units import format_seconds, format_usd

SPAN_PX = 34
NAMES_PX = 170
"""Room for the names of rows."""
ROOM = 1.4
"""Length of the axis over the longest bar: the texts stand beyond the bars."""
SHADES = {"main": "main", "warm": "warm", "whole": "free"}
"""Colour of each kind of bar."""


class Span(Struct, frozen=True, kw_only=True):
    """One bar: from where to where, and what is written beyond its end."""

    name: str
    begin: float
    end: float
    text: str
    shade: str = "main"


def dollar_spans(parts: Sequence[tuple[str, float]], low: float, high: float) -> list[Span]:
    """Lay parts of a price one after the other, and their sum below.

    ``parts``: names and USD. ``low``, ``high``: interval of the sum.

    >>> [(s.name, s.begin, s.end, s.text) for s in dollar_spans([("egress", 1.0)], 1.0, 1.0)]
    [('egress', 0.0, 1.0, '$1.00 (100 %)'), ('total', 0.0, 1.0, '$1.00')]
    """
    total, spans, at = sum(usd for _, usd in parts), list[Span](), 0.0
    for name, usd in parts:
        share = f" ({100 * usd / total:.0f} %)" if total else ""
        spans.append(Span(name=name, begin=at, end=at + usd, text=format_usd(usd) + share))
        at += usd
    spread = f" ({format_usd(low)} to {format_usd(high)})" if high > low else ""
    text = format_usd(total) + spread
    return [*spans, Span(name="total", begin=0.0, end=total, text=text, shade="whole")]


def step_spans(
    calculation: float, parts: Sequence[tuple[str, float]], hidden: float, ends: tuple[float, float]
) -> list[Span]:
    """Lay the parts of a step on one line of time, and the whole below.

    ``calculation``, ``hidden``: seconds; the exchange begins ``hidden`` before the calculation
    ends. ``parts``: names and seconds of what the exchange consists of, one after the other.
    ``ends``: interval of the whole, seconds.

    >>> spans = step_spans(4.0, [("averaging", 1.0)], 0.25, (4.5, 5.0))
    >>> [(s.name, s.begin, s.end, s.text) for s in spans][1:]
    [('averaging', 3.75, 4.75, '1 s'), ('whole step', 0.0, 4.75, '4.75 s (4.5 s to 5 s)')]
    """
    text = format_seconds(calculation)
    spans = [Span(name="calculation", begin=0.0, end=calculation, text=text)]
    at = max(0.0, calculation - hidden)
    for name, seconds in parts:
        text = format_seconds(seconds)
        spans.append(Span(name=name, begin=at, end=at + seconds, text=text, shade="warm"))
        at += seconds
    total, (low, high) = max(at, calculation), ends
    spread = f" ({format_seconds(low)} to {format_seconds(high)})" if high > low else ""
    text = format_seconds(total) + spread
    return [*spans, Span(name="whole step", begin=0.0, end=total, text=text, shade="whole")]


def span_chart(
    spans: Sequence[Span],
    title: str,
    *,
    low: float,
    high: float,
    limit: tuple[str, float] | None = None,
) -> Any:
    """Draw spans below each other on one axis.

    ``spans``: the last is the whole: it has the whisker. ``title``: of the axis, with its unit.
    ``low``, ``high``: interval of the whole. ``limit``: words and value of a dashed line; None:
    none.
    """
    alt, whole = altair(), spans[-1]
    ends = [max(span.end, high) if span is whole else span.end for span in spans]
    rows = [{**asdict(span), "beyond": beyond} for span, beyond in zip(spans, ends, strict=True)]
    most = max(*ends, limit[1] if limit else 0.0) or 1.0
    width = WIDTH - NAMES_PX
    y = alt.Y(
        "name:N",
        sort=[span.name for span in spans],
        title=None,
        axis=alt.Axis(domain=False, ticks=False, labelColor=colour("ink"), minExtent=NAMES_PX - 14),
    )
    scale = alt.Scale(domain=[0, max(most * ROOM, _end(rows, 0.0, width))], nice=False)
    x = alt.X("begin:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6))
    shades = alt.Scale(domain=list(SHADES), range=[colour(shade) for shade in SHADES.values()])
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    layers = [
        base.mark_bar(height=SPAN_PX * 0.5).encode(
            x=x,
            x2="end:Q",
            color=alt.Color("shade:N", legend=None, scale=shades),
            tooltip=["name:N", "text:N"],
        ),
        base.mark_text(align="left", dx=9).encode(x="beyond:Q", text="text:N"),
    ]
    if high > low:
        layers += whiskers([{"name": whole.name, "low": low, "high": high}], y, scale)
    if limit is not None:
        layers += _limit(*limit)
    return alt.layer(*layers).properties(width=width, height=SPAN_PX * len(rows))


def _end(rows: list[dict[str, Any]], begin: float, width_px: float) -> float:
    """Return the end of an axis on which each text ends before the chart does."""

    def end(row: dict[str, Any]) -> float:
        free_px = width_px - BESIDE_PX - LETTER_PX * len(row["text"])
        return begin + float(row["beyond"] - begin) * width_px / max(free_px, LABELS_PX[0])

    return max(map(end, rows))


def whiskers(rows: list[dict[str, Any]], y: Any, scale: Any) -> list[Any]:
    """Draw intervals from ``low`` to ``high`` as lines with ends, one a row of ``y``."""
    alt = altair()
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    line = base.mark_rule(color=colour("ink"), strokeWidth=1.4).encode(
        x=alt.X("low:Q", scale=scale), x2="high:Q"
    )
    ends = [
        base.mark_tick(color=colour("ink"), thickness=1.4, size=10).encode(
            x=alt.X(f"{end}:Q", scale=scale)
        )
        for end in ("low", "high")
    ]
    return [line, *ends]


def _limit(words: str, value: float) -> list[Any]:
    alt = altair()
    base = alt.Chart(alt.Data(values=[{"limit": value, "words": words}])).encode(x="limit:Q")
    return [
        base.mark_rule(color=colour("warm"), strokeDash=[4, 3], strokeWidth=1.3),
        base.mark_text(
            color=colour("warm"), align="center", baseline="bottom", y=0, dy=-3, clip=False
        ).encode(text="words:N"),
    ]


ROW_PX = 24
LABELS_PX = (110, 300)
"""Least and most room for the names of rows."""
LETTER_PX = 6.4
"""Width of a letter, about."""
BESIDE_PX = 16
"""From the end of a bar to its text, and from that to the end of the chart."""
MOST_LETTERS = 42
"""Letters of a line of a name; what is longer takes two."""
TWO_LINES_PX = 34
"""Height of a row whose name takes two lines."""
MOST_ROWS = 40
"""Rows of one drawing; the table beside it has them all."""


class Dot(Struct, frozen=True, kw_only=True):
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
    lines = [wrap(dot.name, MOST_LETTERS, max_lines=2, placeholder=" …") or [""] for dot in shown]
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
    end = max(high + 0.22 * ((high - low) or 1.0), _end(rows, low, WIDTH - room))
    scale = alt.Scale(domain=[low, end], nice=False, zero=False)
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


def _quoted(text: str) -> str:
    """Write a text as a string of Vega's expressions."""
    safe = "".join(c if c.isalnum() or c in " .,:;+-_/()%*=<>&…" else " " for c in text)
    return f"'{safe}'"
