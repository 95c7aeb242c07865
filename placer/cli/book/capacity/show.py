"""``placer capacity show``: the table of capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from placer.cli.options import table_option
from placer.cli.output import console, new_table, print_json

if TYPE_CHECKING:
    from placer.market.capacity_table import CapacityRow

HEADERS = ("where", "device", "market", "machines", "launch", "range", "stay", "basis", "as of")
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
    if as_json:
        document = {"schema": "placer.capacity/v1", "catalog": book.name}
        print_json({**document, "rows": [capacity_document(row) for row in rows]})
    else:
        _print(rows, book.name)


def _print(rows: Sequence[CapacityRow], name: str) -> None:
    out = console()
    if not rows:
        out.print(f"no row of catalog {name} fits")
        return
    table = new_table(HEADERS, right=("machines", "launch", "range", "stay"), wrap=("range",))
    for row in rows:
        of = "" if row.machines == row.machines_asked else f" of {row.machines_asked:,}"
        table.add_row(
            row.zone or row.place,
            row.device,
            row.market.replace("_", "-"),
            f"{row.machines:,}{of}",
            "" if row.share is None else f"{100 * row.share:.0f} %",
            ""
            if row.share_low is None or row.share_high is None
            else f"{100 * row.share_low:.0f} to {100 * row.share_high:.0f} %",
            _stay(row),
            row.basis,
            row.as_of,
        )
    out.print(table)
    out.print()
    out.print(
        "launch: share of the time in which one zone has at least so many machines; stay: time"
    )
    out.print("after which half of such gangs have lost machines; empty: not observed")
    for source in dict.fromkeys(row.source for row in rows):
        out.print(f"source: {source}", style="dim")


def _stay(row: CapacityRow) -> str:
    from placer.cli.report.recommend.risk_words import hours_words
    from placer.cost_model.capacity.survival import Stay

    if row.survival_a is None or row.survival_b_h is None:
        return ""
    return hours_words(Stay(a=row.survival_a, b_h=row.survival_b_h).median_h)
