"""``placer catalog list``: the price books at hand."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.options import json_option
from placer.cli.output import console, new_table, print_json


@click.command("list", epilog="Example: placer catalog list --json")
@json_option
def command(as_json: bool) -> None:
    """List the shipped price books and your own: what they hold and how old it is."""
    from placer.market.books.folders import own_book_names, own_books
    from placer.market.books.layers import catalog_names
    from placer.market.books.pin import pinned

    shipped = catalog_names()
    chosen = [name for name, _ in pinned()] or ["default"]
    rows = [
        _row(name, name in shipped, name in chosen)
        for name in [*shipped, *(n for n in own_book_names() if n not in shipped)]
    ]
    if as_json:
        print_json({"schema": "placer.catalogs/v1", "catalogs": rows, "folder": str(own_books())})
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
        f"* is used where no --catalog is given; your own books lie in {own_books()}", style="dim"
    )


def _row(name: str, shipped: bool, used: bool) -> dict[str, Any]:
    """Count what one book holds; a book of the user's own that cannot be read says why."""
    from placer.errors import PlacerError
    from placer.market.books.book_reader import located_rows
    from placer.market.books.layers import find_layer

    problem, rows, digest = "", {}, ""
    try:
        layer = find_layer(name)
        rows, digest = located_rows([layer]), layer.digest
    except PlacerError as error:
        problem = str(error)
    offers = [offer for _, offer in rows.get("offers.csv", [])]
    links = [link for _, link in rows.get("links.csv", [])]
    dates = [row.as_of for row in offers or links]
    return {
        "name": name,
        "digest": digest,
        "shipped": shipped,
        "used": used,
        "offers": len(offers),
        "places": len(
            {offer.place for offer in offers}
            or {place for link in links for place in (link.src, link.dst)}
        ),
        "links": len(links),
        "providers": sorted({offer.provider for offer in offers}),
        "gpus": sorted({offer.gpu for offer in offers}),
        "oldest": min(dates, default=None),
        "as_of": max(dates, default=None),
        "problem": problem,
    }
