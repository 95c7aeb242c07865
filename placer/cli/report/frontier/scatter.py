"""A small scatter plot of text, logarithmic on both axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from placer.units import format_number, format_usd


def scatter(
    costs: Sequence[float], speeds: Sequence[float], marks: Sequence[str], width: int, height: int
) -> list[str]:
    r"""Draw points that rise, with the steps between them: what each cost buys until the next
    point.

    Parameters
    ----------
    costs, speeds, marks
        USD/h above 0, samples/s and one character of each point; shape (points,).
    width, height
        Characters of the drawing, its labels apart.

    Returns
    -------
    list[str]
        Lines of plain ASCII.

    Examples
    --------
    >>> print("\n".join(scatter([1, 2, 8], [100, 200, 220], "oKo", 20, 4)))
            220 |      K............o
                |      .
                |      .
            100 |o......
                 $1.00          $8.00  (USD/h, log)
    """
    xs, ys = _places(costs, width), _places(speeds, height)
    grid = [[" "] * width for _ in range(height)]
    for at in range(len(xs) - 1):
        for x in range(xs[at], xs[at + 1] + 1):
            grid[ys[at]][x] = "."
        for y in range(ys[at], ys[at + 1] + 1):
            grid[y][xs[at + 1]] = "."
    for x, y, mark in sorted(zip(xs, ys, marks, strict=True), key=lambda p: p[2] != "o"):
        grid[y][x] = mark
    high, low = format_number(speeds[-1]), format_number(speeds[0])
    labels = [high if y == height - 1 else low if y == 0 else "" for y in range(height)]
    lines = [f"{labels[y]:>11} |{''.join(grid[y]).rstrip()}" for y in reversed(range(height))]
    left, right = format_usd(costs[0]), format_usd(costs[-1])
    return [*lines, f"{'':>12} {left}{right:>{max(1, width - len(left))}}  (USD/h, log)"]


def _places(values: Sequence[float], cells: int) -> list[int]:
    """Return the cell of each value on a logarithmic axis from the first value to the last."""
    low, high = math.log(values[0]), math.log(values[-1])
    return [
        round((math.log(v) - low) / (high - low) * (cells - 1)) if high > low else 0 for v in values
    ]
