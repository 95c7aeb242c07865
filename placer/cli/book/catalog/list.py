"""``placer catalog list``: the price books at hand."""

from __future__ import annotations

import click

from placer.cli.options import table_option
from placer.cli.screen.show import show


@click.command("list", epilog="Example: placer catalog list --json")
@table_option
def command(as_json: bool) -> None:
    """List the shipped price books and your own: what they hold and how old it is."""
    from placer.interface.listings import catalogs_document

    show(catalogs_document(), as_json=as_json)
