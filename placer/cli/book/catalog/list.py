"""``placer catalog list``: the price books at hand."""

from __future__ import annotations

import click

from placer.cli.options import table_option
from placer.cli.output import console, new_table, print_json


@click.command("list", epilog="Example: placer catalog list --json")
@table_option
def command(as_json: bool) -> None:
    """List the shipped price books and your own: what they hold and how old it is."""
    from placer.interface.listings import catalogs_document

    document = catalogs_document()
    rows = document["catalogs"]
    if as_json:
        print_json(document)
        return
    table = new_table(
        ("catalog", "offers", "places", "links", "prices of", "providers", "devices"),
        right=("offers", "places", "links"),
        wrap=("prices of", "providers", "devices"),
    )
    for row in rows:
        table.add_row(
            f"{row['name']}{'*' if row['used'] else ''}",
            f"{row['offers']:,}",
            str(row["places"]),
            f"{row['links']:,}",
            row["problem"] or (f"{row['oldest']} to {row['as_of']}" if row["as_of"] else "-"),
            ", ".join(row["providers"]),
            ", ".join(row["gpus"]),
        )
    console().print(table)
    console().print(
        f"* is used where no --catalog is given; your own books lie in {document['folder']}",
        style="dim",
    )
