"""``placer capacity``: what zones launch; one file a command."""

from __future__ import annotations

import click

from placer.cli.group import LazyGroup

COMMANDS = {
    "show": "Show how often zones launch so many machines, and how long they stay.",
    "forecast": "Forecast from a log of launches which zones will have enough.",
    "replay": "Run policies over a trace of capacity: dollars to finish in time.",
    "import": "Make a table of your own from what providers say, or from a log.",
    "check": "Check a table, and say what of a book it knows.",
}
"""Commands in the order of --help, with their short help."""


@click.group(
    "capacity",
    cls=LazyGroup,
    package="placer.cli.book.capacity",
    helps=COMMANDS,
    epilog="Example: placer capacity show --gpu H100",
)
def command() -> None:
    """Show, import, check and forecast the capacity of zones, and run policies over a trace."""
