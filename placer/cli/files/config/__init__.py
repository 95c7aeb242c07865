"""``placer config``: the defaults of the options; one file a command."""

from __future__ import annotations

import click

from placer.cli.group import LazyGroup

COMMANDS = {
    "init": "Write placer.toml, a file of defaults.",
    "show": "List the defaults that hold, and where each comes from.",
}


@click.group(
    "config",
    cls=LazyGroup,
    package="placer.cli.files.config",
    helps=COMMANDS,
    epilog="Example: placer config show --origin",
)
def command() -> None:
    """Write and show the defaults of the options, and where they come from."""
