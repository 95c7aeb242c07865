"""``placer catalog import skypilot``: machines and prices from SkyPilot's catalogs."""

from __future__ import annotations

import click

from placer.cli.book.catalog.import_.import_report import finish, import_options, seconds
from placer.cli.harvest import past_date


@click.command(
    "skypilot", epilog="Example: placer catalog import skypilot ~/.sky/catalogs/v8 --dry-run"
)
@click.argument("places", nargs=-1, required=True, metavar="DIR|FILE|URL...")
@click.option(
    "--provider",
    metavar="NAME",
    help="aws, azure, gcp, lambda or runpod; default: the name of the file's folder.",
)
@click.option(
    "--as-of",
    metavar="DATE",
    help="Date of prices without one beside; default: the file's own, today for a URL.",
)
@import_options
def command(
    places: tuple[str, ...],
    provider: str | None,
    as_of: str | None,
    name: str | None,
    skip_bad: bool,
    dry_run: bool,
    timeout: str,
    as_json: bool,
) -> None:
    """Make a book from vms.csv files of SkyPilot (schema v5 to v8): a folder with aws/vms.csv and
    so on, files or URLs.

    A region has the spot price of its cheapest zone. On Google Cloud the prices of a host and its
    devices are added. Regions and devices that no book knows are left out and counted; put a
    regions.csv or gpus.csv with placer's columns into the folder to bring your own. SkyPilot's
    files do not say how old a price is: what an export of placer wrote beside them
    (placer-sources.csv) does, as long as the price is the same; other prices count as list prices
    of the file's date.
    """
    from placer.market.books.folders import check_book_name
    from placer.market.books.layers import catalog_names
    from placer.market.sources.prices.skypilot.catalogs import read_skypilot

    if name is not None:
        check_book_name(name, catalog_names())
    day = None if as_of is None else past_date(as_of, "--as-of")
    harvest = read_skypilot(
        places, provider=provider, skip_bad=skip_bad, as_of=day, read_seconds=seconds(timeout)
    )
    clouds = sorted({str(row["provider"]) for row in harvest.rows["offers.csv"]})
    finish(
        harvest,
        name or (f"skypilot-{clouds[0]}" if len(clouds) == 1 else "skypilot"),
        dry_run=dry_run,
        as_json=as_json,
    )
