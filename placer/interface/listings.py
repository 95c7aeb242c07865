"""What can be rented, trained and read, as the documents that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from placer.errors import PlacerError, unknown
from placer.market.books.book_reader import located_rows
from placer.market.books.folders import own_book_names, own_books
from placer.market.books.layers import DEFAULT_CATALOG, catalog_names, find_layer, pinned
from placer.market.carbon import offer_carbon
from placer.market.catalog import Catalog, VmOffer
from placer.market.words.selection import filter_offers
from placer.workload.profile import SCHEMA as PROFILE_SCHEMA
from placer.workload.profile import load_profile, profile_document, profile_names

OFFERS_SCHEMA = "placer.offers/v1"
MODELS_SCHEMA = "placer.models/v1"
CATALOGS_SCHEMA = "placer.catalogs/v1"
SORTS: Mapping[str, Callable[[VmOffer], Any]] = {
    "price": lambda o: (o.usd_per_gpu_hour, o.place, o.instance_type),
    "place": lambda o: (o.place, o.gpu, o.gpu_count, o.usd_per_hour),
    "gpu": lambda o: (o.gpu, o.usd_per_gpu_hour, o.place),
    "age": lambda o: (o.as_of, o.usd_per_gpu_hour, o.place),
}
"""Orders of offers by name."""


def offers_of(
    book: Catalog,
    *,
    gpu: str | None = None,
    places: str | None = None,
    market: str = "any",
    sort: str = "price",
) -> list[VmOffer]:
    """List the offers of a catalog that pass some filters, in an order of `SORTS`.

    Raise `PlacerError` if a filter names nothing, or there is no such order.
    """
    if sort not in SORTS:
        raise unknown("sort key", sort, SORTS)
    return sorted(filter_offers(book, gpu=gpu, places=places, market=market), key=SORTS[sort])


def offers_document(book: Catalog, offers: Sequence[VmOffer], limit: int) -> dict[str, Any]:
    """Build the ``placer.offers/v1`` document of the first offers of a list."""
    rows = []
    for offer in offers[:limit]:
        carbon = offer_carbon(offer, book)
        grams = None if carbon is None else round(carbon.value, 3)
        rows.append(msgspec.to_builtins(offer) | {"carbon_g_per_hour": grams})
    return {"schema": OFFERS_SCHEMA, "catalog": book.name, "total": len(offers), "offers": rows}


def models_document() -> dict[str, Any]:
    """Build the ``placer.models/v1`` document: the profiles that come with placer."""
    profiles = [load_profile(name) for name in profile_names()]
    rows = [{"schema": PROFILE_SCHEMA, **profile_document(profile)} for profile in profiles]
    return {"schema": MODELS_SCHEMA, "models": rows}


def catalogs_document() -> dict[str, Any]:
    """Build the ``placer.catalogs/v1`` document: the shipped books and the user's own."""
    shipped = catalog_names()
    chosen = [name for name, _ in pinned()] or [DEFAULT_CATALOG]
    names = [*shipped, *(name for name in own_book_names() if name not in shipped)]
    rows = [_book_row(name, name in shipped, name in chosen) for name in names]
    return {"schema": CATALOGS_SCHEMA, "catalogs": rows, "folder": str(own_books())}


def _book_row(name: str, shipped: bool, used: bool) -> dict[str, Any]:
    """Count what one book holds; a book of the user's own that cannot be read says why."""
    problem, rows, digest = "", {}, ""
    try:
        layer = find_layer(name)
        rows, digest = located_rows([layer]), layer.digest
    except PlacerError as error:
        problem = str(error)
    offers = [offer for _, offer in rows.get("offers.csv", [])]
    links = [link for _, link in rows.get("links.csv", [])]
    dates = [row.as_of for row in offers or links]
    return {
        "name": name,
        "digest": digest,
        "shipped": shipped,
        "used": used,
        "offers": len(offers),
        "places": len(
            {offer.place for offer in offers}
            or {place for link in links for place in (link.src, link.dst)}
        ),
        "links": len(links),
        "providers": sorted({offer.provider for offer in offers}),
        "gpus": sorted({offer.gpu for offer in offers}),
        "oldest": min(dates, default=None),
        "as_of": max(dates, default=None),
        "problem": problem,
    }
