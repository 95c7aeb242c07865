"""``placer network``: links between places; one file a command."""

from __future__ import annotations

import click

from placer.cli.group import LazyGroup

COMMANDS = {
    "show": "Show bandwidth, round-trip time and egress price of pairs of places.",
    "check": "Compare estimated links with measured ones, and list implausible rows.",
    "import": "Import measured links: Skyplane's grids, iperf3, any CSV.",
}
"""Commands in the order of --help, with their short help."""


@click.group(
    "network",
    cls=LazyGroup,
    package="placer.cli.book.network",
    helps=COMMANDS,
    epilog="Example: placer network show gcp/us-central1 gcp/europe-west1 aws/us-west-2",
)
def command() -> None:
    """Show, check and import links between places."""
