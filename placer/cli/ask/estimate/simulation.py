"""``placer estimate --simulate``: rounds of the placement, replayed with jitter and stragglers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from placer.errors import PlacerError

CHANCES = {
    "rounds": (30, "N", "Rounds to replay, from exchange to exchange."),
    "draw": (0, "N", "Equal numbers give equal results."),
    "jitter": (0.0, "X", "Coefficient of variation of speeds, 0 to 2."),
    "stragglers": (0.0, "P", "Probability that a worker is slow in a step."),
    "straggler_factor": (2.0, "X", "By how much it is slow then."),
}
"""Options of a simulation by their names in Python: default, metavar, help."""


def simulation_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--simulate`` and the options of a simulation."""
    for name, (default, metavar, words) in reversed(CHANCES.items()):
        flag = "--seed" if name == "draw" else f"--{name.replace('_', '-')}"
        function = click.option(
            flag, name, default=default, show_default=True, metavar=metavar, help=words
        )(function)
    words = "Replay it event by event, and compare with the closed formulas."
    return click.option("--simulate", is_flag=True, help=words)(function)


def chances_of(ctx: click.Context, words: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a simulation out of the words of a command.

    Raises
    ------
    PlacerError
        If one is given without ``--simulate``.
    """
    given = [
        name for name in CHANCES if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given and not ctx.params["simulate"]:
        flag = next(p.opts[-1] for p in ctx.command.params if p.name == given[0])
        raise PlacerError(f"{flag} without --simulate", "add --simulate")
    chances = {name: words.pop(name) for name in CHANCES}
    return {"seed": chances.pop("draw"), **chances}
