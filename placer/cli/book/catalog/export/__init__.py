"""``placer catalog export``: price books as files of other tools; one file a kind."""

from __future__ import annotations

import click

from placer.cli.group import LazyGroup

COMMANDS = {
    "skypilot": "SkyPilot's catalogs: a vms.csv of each provider.",
}
"""Commands in the order of --help, with their short help."""


@click.group(
    "export",
    cls=LazyGroup,
    package="placer.cli.book.catalog.export",
    helps=COMMANDS,
    epilog="Example: placer catalog export skypilot my-catalogs",
)
def command() -> None:
    """Write a book in the format of another tool."""
