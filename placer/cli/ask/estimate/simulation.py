"""``placer estimate --simulate``: rounds of the placement, replayed with jitter and stragglers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from placer.errors import PlacerError

if TYPE_CHECKING:
    pass

CHANCES = ("rounds", "seed", "jitter", "stragglers", "straggler_factor")
"""Options of a simulation."""


def chances_of(ctx: click.Context, words: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a simulation out of the words of a command.

    Raises
    ------
    PlacerError
        If one is given without ``--simulate``.
    """
    for name in CHANCES:
        typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and not ctx.params["simulated"]:
            flag = name.replace("_", "-")
            raise PlacerError(f"--{flag} without --simulate", "add --simulate")
    return {name: words.pop(name) for name in CHANCES}
