"""``placer offers``: what can be rented."""

from __future__ import annotations

import click

from placer.cli.options import catalog_option, table_option
from placer.cli.screen.show import show
from placer.errors import unknown

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
    import msgspec

    from placer.interface.listings import offers_document, offers_of
    from placer.market.books.book_reader import load_catalog
    from placer.market.checks.groups import grouped

    book = load_catalog(catalog)
    offers = offers_of(book, gpu=gpu, places=places, market=market, sort=sort)
    if group_by is None:
        show(offers_document(book, offers, limit), as_json=as_json)
        return
    keys = _keys(group_by)
    groups = grouped(offers, book, keys)
    document = {
        "schema": "placer.offer-groups/v1",
        "catalog": book.name,
        "by": list(keys),
        "total": len(groups),
        "groups": msgspec.to_builtins(groups[:limit]),
    }
    show(document, as_json=as_json)


def _keys(group_by: str) -> tuple[str, ...]:
    from placer.market.checks.groups import GROUPS
    from placer.market.words.selection import words

    keys = tuple(dict.fromkeys(words(group_by, "group-by")))
    for key in keys:
        if key not in GROUPS:
            raise unknown("group key", key, GROUPS)
    return keys
