"""``placer catalog import csv``: rows of any CSV file whose columns the user names."""

from __future__ import annotations

import click

from placer.cli.catalog.import_.outcome import finish, import_options, seconds


@click.command(
    "csv",
    epilog="Example: placer catalog import csv quote.csv --kind offers --map instance_type=Machine,usd_per_hour=Price --set provider=aws "
    "--set market=on_demand --set price_basis=list --set source='quote 4711' --set as_of=2026-11-01 --as quote",
)
@click.argument("place", metavar="FILE|URL")
@click.option("--kind", default="offers", show_default=True, metavar="NAME", help="offers, egress, stores, functions or regions.")
@click.option(
    "--map", "maps", multiple=True, metavar="FILE.toml|A=B,..", help="Their column B is placer's column A; equal names need none."
)
@click.option("--set", "constants", multiple=True, metavar="A=VALUE", help="The same value of placer's column A in every row.")
@import_options
def command(
    place: str,
    kind: str,
    maps: tuple[str, ...],
    constants: tuple[str, ...],
    name: str | None,
    skip_bad: bool,
    dry_run: bool,
    timeout: str,
    as_json: bool,
) -> None:
    """Make a book from any CSV file: each of placer's columns is mapped, set, or has the same name there.

    A TOML file has the tables [columns], [set] and [values.COLUMN], the last one to rename values: [values.market] with
    "On Demand" = "on_demand". Prices are plain numbers in USD; a leading $ is taken away, anything else beside a number is refused.
    """
    from placer.layers import catalog_names
    from placer.shelf import check_book_name
    from placer.sources.mapped_csv import read_mapped, read_mapping

    if name is not None:
        check_book_name(name, catalog_names())
    mapping = read_mapping(kind, maps, constants)
    harvest = read_mapped(place, mapping, skip_bad=skip_bad, read_seconds=seconds(timeout))
    finish(harvest, name or f"imported-{kind}", dry_run=dry_run, as_json=as_json)
