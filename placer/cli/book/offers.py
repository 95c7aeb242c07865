"""``placer offers``: what can be rented."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from placer.cli.options import catalog_option, table_option
from placer.cli.output import console, new_table, print_json
from placer.errors import unknown

NETWORK_WIDTH = 100
"""Columns of a terminal from which bandwidth and fabric have room in the table."""
EPILOG = """\b
Examples:
  placer offers --gpu A100 --market spot --in 'gcp/*' --limit 10
  placer offers --gpu T4,L4 --group-by gpu,continent
"""


@click.command("offers", epilog=EPILOG)
@catalog_option
@click.option("--gpu", metavar="A,B", help="Only these GPUs.")
@click.option("--in", "places", metavar="PLACE,..", help="Only these places; wildcards allowed.")
@click.option(
    "--market",
    default="any",
    show_default=True,
    metavar="NAME",
    help="spot, on-demand, community or any.",
)
@click.option(
    "--sort",
    default="price",
    show_default=True,
    metavar="KEY",
    help="price (per GPU), place, gpu or age (oldest first).",
)
@click.option(
    "--group-by",
    metavar="KEY,..",
    help="gpu, device, machine, place, provider, country, continent or market: prices of each "
    "group.",
)
@click.option("--limit", default=30, show_default=True, type=click.IntRange(1), help="Most rows.")
@table_option
def command(
    catalog: tuple[str, ...],
    gpu: str | None,
    places: str | None,
    market: str,
    sort: str,
    group_by: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List machines with their price per hour, source and date, or the prices of groups of them."""
    from placer.interface.listings import offers_document, offers_of
    from placer.market.books.book_reader import load_catalog
    from placer.market.checks.groups import grouped

    book = load_catalog(catalog)
    offers = offers_of(book, gpu=gpu, places=places, market=market, sort=sort)
    if group_by is not None:
        keys = _keys(group_by)
        _print_groups(grouped(offers, book, keys), keys, len(offers), limit, book.name, as_json)
        return
    if as_json:
        print_json(offers_document(book, offers, limit))
        return
    _print_offers(offers, limit, book)


def _keys(group_by: str) -> tuple[str, ...]:
    from placer.market.checks.groups import GROUPS
    from placer.market.words.selection import words

    keys = tuple(dict.fromkeys(words(group_by, "group-by")))
    for key in keys:
        if key not in GROUPS:
            raise unknown("group key", key, GROUPS)
    return keys


def _print_offers(offers: Sequence[Any], limit: int, book: Any) -> None:
    from placer.interface.listings import carbon_of

    out = console()
    networks = out.width >= NETWORK_WIDTH
    figures = ("USD/h", "USD/GPU h", "g CO2e/h")
    headers = ("place", "machine", "GPU", "market", *figures)
    table = new_table(
        (*headers, *(("Gb/s", "fabric") if networks else ()), "as of"),
        right=(*figures, "Gb/s"),
        wrap=("machine",),
    )
    for o in offers[:limit]:
        price = f"{o.usd_per_hour:.3f}{'~' if o.price_basis == 'estimated' else ''}"
        carbon = carbon_of(o, book)
        emitted = "-" if carbon is None else f"{carbon:.0f}"
        gbps = "-" if o.network_gbps is None else f"{o.network_gbps:g}"
        table.add_row(
            o.place,
            o.instance_type,
            o.device,
            o.market.replace("_", "-"),
            price,
            f"{o.usd_per_gpu_hour:.3f}",
            emitted,
            *((gbps, o.fabric or "-") if networks else ()),
            o.as_of,
        )
    out.print(table)
    out.print(
        f"{min(limit, len(offers))} of {len(offers):,} offers; ~ is an estimate (--json names "
        f"every source)",
        style="dim",
    )


def _print_groups(
    groups: Sequence[Any],
    keys: tuple[str, ...],
    offers: int,
    limit: int,
    catalog: str,
    as_json: bool,
) -> None:
    import msgspec

    if as_json:
        rows = [msgspec.to_builtins(group) for group in groups[:limit]]
        print_json(
            {
                "schema": "placer.offer-groups/v1",
                "catalog": catalog,
                "by": list(keys),
                "total": len(groups),
                "groups": rows,
            }
        )
        return
    figures = ("offers", "places", "low", "median", "high")
    table = new_table((*keys, *figures, "cheapest"), right=figures)
    for g in groups[:limit]:
        prices = (
            f"{usd:.3f}"
            for usd in (g.usd_per_gpu_hour_low, g.usd_per_gpu_hour_median, g.usd_per_gpu_hour_high)
        )
        table.add_row(*g.group, f"{g.offers:,}", str(g.places), *prices, g.cheapest)
    out = console()
    out.print(table)
    out.print(
        f"{min(limit, len(groups))} of {len(groups):,} groups, {offers:,} offers; USD/h for "
        f"each GPU",
        style="dim",
    )
