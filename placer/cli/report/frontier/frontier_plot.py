"""A drawing of a frontier as SVG, PNG or PDF, by matplotlib where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import io
import math
from pathlib import Path

from placer.advice.frontier.points import LEAST_USD_PER_HOUR, Frontier
from placer.errors import PlacerError, unknown

FORMATS = ("svg", "png", "pdf")
MOST_TICKS = 10
"""More labels would overlap."""


def check_plot(path: str) -> None:
    """Refuse a drawing that could not be made, before anything is computed.

    Raises
    ------
    PlacerError
        If the ending of the name is unknown, or matplotlib is not installed.
    """
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise unknown("plot format", ending or path, FORMATS)
    if importlib.util.find_spec("matplotlib") is None:
        raise PlacerError(
            f"matplotlib is not installed, so '{path}' cannot be drawn", "pip install matplotlib"
        )


def drawn(frontier: Frontier, ending: str) -> bytes:
    """Draw cost against throughput as steps on logarithmic axes, bounds as bars, the knee marked.

    Parameters
    ----------
    frontier
        With points.
    ending
        One of `FORMATS`.

    Returns
    -------
    bytes
        Contents of the file.
    """
    costs = [max(point.usd_per_hour, LEAST_USD_PER_HOUR) for point in frontier.points]
    architecture = frontier.problem.profile.architecture
    unit, each = (
        ("samples", 1) if architecture is None else ("tokens", architecture.sequence_length)
    )
    speeds = [each * point.samples_per_second for point in frontier.points]
    over = [
        each
        * ((point.most_samples_per_second or point.samples_per_second) - point.samples_per_second)
        for point in frontier.points
    ]
    figure = importlib.import_module("matplotlib.figure").Figure(
        figsize=(7, 4.5), layout="constrained"
    )
    axes = figure.subplots()
    axes.step(costs, speeds, where="post", color="0.6", linewidth=1)
    axes.errorbar(costs, speeds, yerr=[[0.0] * len(over), over], fmt="o", color="C0", capsize=3)
    if frontier.knee is not None:
        axes.annotate(
            "knee",
            (costs[frontier.knee], speeds[frontier.knee]),
            xytext=(-8, 8),
            textcoords="offset points",
            ha="right",
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="USD/h",
        ylabel=f"effective {unit}/s",
        title=frontier.problem.profile.name,
    )
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        figures = ticks(*limits)
        if len(figures) > 1:  # else what matplotlib writes
            axis.set_ticks(figures, [f"{one:,.6g}" for one in figures])
            axis.set_ticks([], minor=True)
    written = io.BytesIO()
    figure.savefig(
        written, format=ending, dpi=150, metadata={"Date": None} if ending == "svg" else None
    )
    return written.getvalue()


def ticks(low: float, high: float) -> list[float]:
    """Round figures within a range for a logarithmic axis: 1, 2 and 5 times powers of ten, of a
    wide range the powers alone.

    Examples
    --------
    >>> ticks(0.13, 6.3), ticks(0.002, 3e4)
    ([0.2, 0.5, 1.0, 2.0, 5.0], [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{digit}e{decade}") for decade in decades for digit in (1, 2, 5)]
    within = [figure for figure in ticks if low <= figure <= high]
    return (
        within
        if len(within) <= MOST_TICKS
        else [figure for figure in within if figure in ticks[::3]]
    )
