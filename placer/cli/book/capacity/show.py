"""``placer capacity show``: the table of capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placer.cli.command import Table, as_command
from placer.cli.screen.show import show

if TYPE_CHECKING:
    pass

HEADERS = ("where", "device", "market", "machines", "launch", "range", "stay", "basis", "as of")
EPILOG = """\b
Examples:
  placer capacity show --gpu H100
  placer capacity show --catalog default --catalog capacity --in gcp/us-central1
"""


@as_command("show", EPILOG)
def command(
    *,
    catalog: tuple[str, ...] = (),
    gpu: str | None = None,
    place: str | None = None,
    market: str = "spot",
    as_json: Table,
) -> None:
    """Show how often one zone launches at least so many machines, and how long they stay together.

    Rows of a zone win over those of its region, and these over class rows, in which * is every
    provider or device.

    Parameters
    ----------
    catalog : NAME|DIR|CSV
        Price books, as in offers.
    gpu : NAME
        Only rows that are about this device.
    place : PLACE, --in
        Only rows that are about this place.
    market
        spot, on-demand or any.
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
