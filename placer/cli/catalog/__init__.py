"""``placer catalog``: price books; one file a command."""

from __future__ import annotations

import click

from placer.cli.group import LazyGroup

COMMANDS = {
    "list": "List price books and what they cover.",
}
"""Commands in the order of --help, with their short help."""


@click.group("catalog", cls=LazyGroup, package="placer.cli.catalog", helps=COMMANDS, epilog="Example: placer catalog list")
def command() -> None:
    """List, refresh, import, compare and check price books."""
