"""``placer network check``: how far the link model is from measured links."""

from __future__ import annotations

import click

from placer.cli.options import catalog_option, table_option
from placer.cli.screen.show import show


@click.command("check", epilog="Example: placer network check erben-2023")
@click.argument("grids", nargs=-1, metavar="[GRID]...")
@catalog_option
@click.option(
    "--fit",
    is_flag=True,
    help="Also show the route factors that the grids ask for, beside those in use.",
)
@table_option
def command(grids: tuple[str, ...], catalog: tuple[str, ...], fit: bool, as_json: bool) -> None:
    """Compare estimated links with measured ones.

    A GRID is a book, a folder or a CSV file with the columns of links.csv; without one, the links
    of the catalog itself are compared. The estimate never uses the measured rows.
    """
    import msgspec

    from placer.market.network.measured_links import check_network

    check = check_network(grids, catalog)
    document = msgspec.to_builtins(check)
    if not fit:
        del document["factors"]
    show({"schema": "placer.network-check/v1", **document}, as_json=as_json)
