"""``placer offers``: what can be rented."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from placer.cli.options import catalog_option, json_option
from placer.cli.output import console, print_json
from placer.errors import unknown

SORTS: dict[str, Callable[[Any], Any]] = {
    "price": lambda o: (o.usd_per_hour / o.gpu_count, o.place, o.instance_type),
    "place": lambda o: (o.place, o.gpu, o.gpu_count, o.usd_per_hour),
    "gpu": lambda o: (o.gpu, o.usd_per_hour / o.gpu_count, o.place),
}


@click.command("offers", epilog="Example: placer offers --gpu A100 --market spot --in 'gcp/*' --limit 10")
@catalog_option
@click.option("--gpu", metavar="A,B", help="Only these GPUs.")
@click.option("--in", "places", metavar="PLACE,..", help="Only these places; wildcards allowed.")
@click.option("--market", default="any", show_default=True, metavar="NAME", help="spot, on-demand or any.")
@click.option("--sort", default="price", show_default=True, metavar="KEY", help="price (per GPU), place or gpu.")
@click.option("--limit", default=30, show_default=True, type=click.IntRange(1), help="Most rows.")
@json_option
def command(catalog: str, gpu: str | None, places: str | None, market: str, sort: str, limit: int, as_json: bool) -> None:
    """List machines with their price per hour, source and date."""
    import msgspec

    from placer.book import load_catalog
    from placer.request import filter_offers

    if sort not in SORTS:
        raise unknown("sort key", sort, SORTS)
    found = sorted(filter_offers(load_catalog(catalog), gpu=gpu, places=places, market=market), key=SORTS[sort])
    if as_json:
        print_json(
            {
                "schema": "placer.offers/v1",
                "catalog": catalog,
                "total": len(found),
                "offers": [msgspec.to_builtins(o) for o in found[:limit]],
            }
        )
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="underline")
    for header, right in (("place", 0), ("machine", 0), ("GPU", 0), ("market", 0), ("USD/h", 1), ("USD/GPU h", 1), ("as of", 0)):
        table.add_column(header, justify="right" if right else "left", no_wrap=header != "machine")
    for o in found[:limit]:
        price = f"{o.usd_per_hour:.3f}{'~' if o.price_basis == 'estimated' else ''}"
        table.add_row(o.place, o.instance_type, o.device, o.market.replace("_", "-"), price, f"{o.usd_per_hour / o.gpu_count:.3f}", o.as_of)
    out = console()
    out.print(table)
    out.print(f"{min(limit, len(found))} of {len(found):,} offers; ~ is an estimate (--json names every source)", style="dim")
