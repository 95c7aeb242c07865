"""Curves on two logarithmic axes as SVG, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 640, 400, 70, 50, 20
COLOURS = ("#1f6fb4", "#c8501e", "#3a8a3a", "#7a4fa3")
Points = Sequence[tuple[float, float]]


def drawn(curves: Mapping[str, Points], across: str, up: str) -> str:
    """Draw named curves of positive points with ticks at 1, 2 and 5 times powers of ten; returns
    the text of the SVG.
    """
    every = [point for points in curves.values() for point in points]
    if not every:
        raise ValueError("no points to draw")
    xs, ys = (_ends([point[at] for point in every]) for at in (0, 1))
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tick in _ticks(*xs):
        x = _across(tick, xs)
        parts.append(
            f'<line x1="{x:.1f}" y1="{ABOVE}" x2="{x:.1f}" y2="{HEIGHT - BELOW}" stroke="#ddd"/>'
        )
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BELOW + 16}" text-anchor="middle">{tick:g}</text>'
        )
    for tick in _ticks(*ys):
        y = _up(tick, ys)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 20}" y2="{y:.1f}" stroke="#ddd"/>'
        )
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for i, (name, points) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        at = [(_across(x, xs), _up(y, ys)) for x, y in points]
        parts.append(
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in at)}" fill="none" '
            f'stroke="{colour}" stroke-width="2"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in at]
        parts.append(
            f'<text x="{LEFT + 12}" y="{ABOVE + 18 + 16 * i}" fill="{colour}">{escape(name)}</text>'
        )
    middle = (ABOVE + HEIGHT - BELOW) / 2
    parts.append(
        f'<text x="{(LEFT + WIDTH - 20) / 2}" y="{HEIGHT - 12}" '
        f'text-anchor="middle">{escape(across)}</text>'
    )
    parts.append(
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 '
        f'{middle})">{escape(up)}</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low / 1.2, high * 1.2)


def _ticks(low: float, high: float) -> list[float]:
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [
        step * 10.0**ten for ten in tens for step in (1, 2, 5) if low <= step * 10.0**ten <= high
    ]


def _across(x: float, ends: tuple[float, float]) -> float:
    return LEFT + (WIDTH - 20 - LEFT) * math.log(x / ends[0]) / math.log(ends[1] / ends[0])


def _up(y: float, ends: tuple[float, float]) -> float:
    return (
        HEIGHT
        - BELOW
        - (HEIGHT - BELOW - ABOVE) * math.log(y / ends[0]) / math.log(ends[1] / ends[0])
    )
