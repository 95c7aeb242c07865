"""``placer catalog import``: price books from files of other tools; one file a kind."""

from __future__ import annotations

import click

from placer.cli.group import LazyGroup

COMMANDS = {
    "skypilot": "Machines and prices from SkyPilot's catalogs (vms.csv).",
    "csv": "Rows of any CSV file whose columns you name.",
}
"""Commands in the order of --help, with their short help."""


@click.group(
    "import",
    cls=LazyGroup,
    package="placer.cli.book.catalog.import_",
    helps=COMMANDS,
    epilog="Example: placer catalog import skypilot ~/.sky/catalogs/v8",
)
def command() -> None:
    """Make a book of your own from files or URLs of other tools."""
