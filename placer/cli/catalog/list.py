"""``placer catalog list``: the price books at hand."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.options import json_option
from placer.cli.output import console, print_json


@click.command("list", epilog="Example: placer catalog list --json")
@json_option
def command(as_json: bool) -> None:
    """List the shipped price books: offers, places, GPUs and dates."""
    from placer.book import catalog_names, load_catalog

    books = [load_catalog(name) for name in catalog_names()]
    rows: list[dict[str, Any]] = [
        {
            "name": book.name,
            "digest": book.digest,
            "offers": len(book.offers),
            "places": len({o.place for o in book.offers}),
            "providers": sorted({o.provider for o in book.offers}),
            "gpus": list(book.rented_gpus),
            "oldest": book.as_of[0],
            "as_of": book.as_of[1],
        }
        for book in books
    ]
    if as_json:
        print_json({"schema": "placer.catalogs/v1", "catalogs": rows})
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="underline")
    for header, right in (("catalog", 0), ("offers", 1), ("places", 1), ("prices of", 0), ("providers", 0), ("devices", 0)):
        table.add_column(header, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(
            str(row["name"]),
            f"{row['offers']:,}",
            str(row["places"]),
            f"{row['oldest']} to {row['as_of']}",
            ", ".join(row["providers"]),
            ", ".join(row["gpus"]),
        )
    console().print(table)
