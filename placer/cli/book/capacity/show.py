"""``placer capacity show``: the table of capacity."""

from __future__ import annotations

import click

from placer.cli.options import table_option
from placer.cli.screen.show import show

EPILOG = """\b
Examples:
  placer capacity show --gpu H100
  placer capacity show --catalog default --catalog capacity --in gcp/us-central1
"""


@click.command("show", epilog=EPILOG)
@click.option("--catalog", multiple=True, metavar="NAME|DIR|CSV", help="Price books, as in offers.")
@click.option("--gpu", metavar="NAME", help="Only rows that are about this device.")
@click.option("--in", "place", metavar="PLACE", help="Only rows that are about this place.")
@click.option("--market", default="spot", show_default=True, help="spot, on-demand or any.")
@table_option
def command(
    catalog: tuple[str, ...], gpu: str | None, place: str | None, market: str, as_json: bool
) -> None:
    """Show how often one zone launches at least so many machines, and how long they stay together.

    Rows of a zone win over those of its region, and these over class rows, in which * is every
    provider or device.
    """
    from placer.market.books.partial_books import over_default
    from placer.market.capacity_table import capacity_document
    from placer.market.words.selection import ASKED_MARKETS, gpus_of

    book, _ = over_default(catalog)
    wanted = market.replace("-", "_")
    if wanted not in ASKED_MARKETS:
        from placer.errors import unknown

        raise unknown("market", market, ASKED_MARKETS)
    gpus = None if gpu is None else {"*", *gpus_of(gpu, book)}
    where = None if place is None else book.region(place)
    rows = [
        row
        for row in book.capacity
        if (gpus is None or row.device in gpus)
        and wanted in ("any", row.market)
        and (
            where is None
            or (row.provider in ("*", where.provider) and row.region in ("", where.region))
        )
    ]
    document = {"schema": "placer.capacity/v1", "catalog": book.name}
    show({**document, "rows": [capacity_document(row) for row in rows]}, as_json=as_json)
