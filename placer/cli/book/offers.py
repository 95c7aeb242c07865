"""``placer offers``: what can be rented."""

from __future__ import annotations

from placer.cli.command import Catalog, Table, as_command
from placer.cli.screen.show import show
from placer.errors import unknown

EPILOG = """\b
Examples:
  placer offers --gpu A100 --market spot --in 'gcp/*' --limit 10
  placer offers --gpu T4,L4 --group-by gpu,continent
"""


@as_command("offers", EPILOG)
def command(
    *,
    catalog: Catalog,
    gpu: str | None = None,
    places: str | None = None,
    market: str = "any",
    sort: str = "price",
    group_by: str | None = None,
    limit: int = 30,
    as_json: Table,
) -> None:
    """List machines with their price per hour, source and date, or the prices of groups of them.

    gpu (A,B): Only these GPUs.
    places (PLACE,.., --in): Only these places; wildcards allowed.
    market (NAME): spot, on-demand, community or any.
    sort (KEY): price (per GPU), place, gpu or age (oldest first).
    group_by (KEY,..): gpu, device, machine, place, provider, country, continent or market: prices
        of each group.
    limit (1..): Most rows.
    """
    import msgspec

    from placer.interface.listings import offers_document, offers_of
    from placer.market.books.book_reader import load_catalog
    from placer.market.checks.coverage import GROUPS, grouped
    from placer.market.words.selection import words

    book = load_catalog(catalog)
    offers = offers_of(book, gpu=gpu, places=places, market=market, sort=sort)
    if group_by is None:
        show(offers_document(book, offers, limit), as_json=as_json)
        return
    keys = tuple(dict.fromkeys(words(group_by, "group-by")))
    for key in keys:
        if key not in GROUPS:
            raise unknown("group key", key, GROUPS)
    groups = grouped(offers, book, keys)
    document = {
        "schema": "placer.offer-groups/v1",
        "catalog": book.name,
        "by": list(keys),
        "total": len(groups),
        "groups": msgspec.to_builtins(groups[:limit]),
    }
    show(document, as_json=as_json)
