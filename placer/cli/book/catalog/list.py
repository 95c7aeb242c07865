"""``placer catalog list``: the price books at hand."""

from __future__ import annotations

from placer.cli.command import Table, as_command
from placer.cli.screen.show import show


@as_command("list", "Example: placer catalog list --json")
def command(*, as_json: Table) -> None:
    """List the shipped price books and your own: what they hold and how old it is."""
    from placer.interface.listings import catalogs_document

    show(catalogs_document(), as_json=as_json)
