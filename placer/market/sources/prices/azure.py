"""Prices of Azure: the Retail Prices API, which needs no account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from placer.market.sources.prices.pages import Pages, address, pages
from placer.market.sources.prices.quotes import Gathered, Quote, day_of, price_of
from placer.market.sources.scope import Scope

PRICES_URL = "https://prices.azure.com/api/retail/prices"
VERSION = "2023-01-01-preview"
"""learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices, read 2026-11-21.
"""
SOURCE = "Azure Retail Prices API"
SIZES_A_QUESTION = 15
"""Sizes that one filter names, so that the address stays short."""
REGIONS_A_QUESTION = 10
FULL_PAGE = 100
"""A full page has 100 items, or 1000."""


def gather(scope: Scope, tell: Callable[[str], None]) -> Gathered:
    """Ask for the sizes of the shipped book: the interface names no GPU, vCPU or memory.

    Parameters
    ----------
    scope
        What is asked for.
    tell
        Called with what is being read.

    Raises
    ------
    PlacerError
        With exit code 7 if the interface does not deliver.
    """
    sizes = sorted(name for name, shape in scope.shapes.items() if scope.wants(shape))
    left_out: Counter[str] = Counter()
    quotes: list[Quote] = []
    with pages(address("PLACER_AZURE_PRICES_URL", PRICES_URL)) as source:
        for question in _questions(sizes, scope):
            for item in _items(source, question, tell):
                quote = _quote(item, scope, left_out)
                if quote is not None:
                    quotes.append(quote)
        origins = [source.origin()]
    note = "Azure names no GPU in its prices: only the sizes of the shipped book were asked for"
    return Gathered(quotes=quotes, origins=origins, left_out=left_out, notes=[note])


def _questions(sizes: Sequence[str], scope: Scope) -> Iterator[str]:
    """Yield the filters of the interface, a few sizes each."""
    few = scope.regions if len(scope.regions) <= REGIONS_A_QUESTION else ()
    for start in range(0, len(sizes), SIZES_A_QUESTION):
        parts = ["serviceName eq 'Virtual Machines'", "priceType eq 'Consumption'"]
        parts.append(_any("armSkuName", sizes[start : start + SIZES_A_QUESTION]))
        yield " and ".join(parts + ([_any("armRegionName", few)] if few else []))


def _any(column: str, values: Sequence[str]) -> str:
    words = [value.replace("'", "''") for value in values]
    return "(" + " or ".join(f"{column} eq '{word}'" for word in words) + ")"


def _items(
    source: Pages, question: str, tell: Callable[[str], None]
) -> Iterator[Mapping[str, Any]]:
    """Yield the items of all pages of one filter.

    Notes
    -----
    The interface has left out its link to the next page before (March 2023), so a full page without
    one is followed by its number.
    """
    params: dict[str, str] | None = {
        "api-version": VERSION,
        "currencyCode": "USD",
        "$filter": question,
    }
    url, seen, count = source.base, {""}, 0
    while True:
        tell(f"prices of Azure, page {source.count + 1}")
        page, items = source.rows("Items", url, params)
        link = page.get("NextPageLink")
        if page.get("Count", len(items)) != len(items):
            raise source.broken(f"has {len(items)} items and says {page['Count']}")
        yield from items
        count += len(items)
        if link:
            if not isinstance(link, str) or not source.beside(link):
                raise source.broken("leads to another host")
            if link in seen:
                raise source.broken("leads back to itself")
            seen.add(link)
            url, params = link, None
        elif items and len(items) % FULL_PAGE == 0:
            url, params = (
                source.base,
                {
                    "api-version": VERSION,
                    "currencyCode": "USD",
                    "$filter": question,
                    "$skip": str(count),
                },
            )
        else:
            return


def _quote(item: Mapping[str, Any], scope: Scope, left_out: Counter[str]) -> Quote | None:
    """Read one item; None, and counted where it is worth a word, if it is no price of a Linux
    machine by the hour.
    """
    name, region = str(item.get("armSkuName")), str(item.get("armRegionName"))
    shape = scope.shapes.get(name)
    words = " ".join(str(item.get(key)) for key in ("productName", "skuName", "meterName"))
    why = ""
    if shape is None or not scope.wants(shape):
        why = "answer that was not asked for"
    elif item.get("serviceName") != "Virtual Machines" or item.get("type") != "Consumption":
        why = "no price of a machine as one goes"
    elif "Windows" in words:
        why = "Windows"
    elif "Low Priority" in words or "Dedicated" in words:
        why = "low-priority or dedicated"
    elif item.get("isPrimaryMeterRegion") is False or item.get("tierMinimumUnits", 0) != 0:
        why = "second meter of the same price"
    elif item.get("currencyCode") != "USD" or item.get("unitOfMeasure") != "1 Hour":
        why = f"price in {item.get('currencyCode')} for {item.get('unitOfMeasure')}"[:80]
    elif region not in scope.known_regions:
        why = f"region that the shipped book does not know: azure/{region[:40]}"
    if why or shape is None:
        left_out[why] += 1
        return None
    if region not in scope.regions:
        return None
    return Quote(
        region=region,
        instance_type=name,
        shape=shape,
        market="spot" if "Spot" in words else "on_demand",
        usd_per_hour=price_of(item.get("retailPrice")),
        since=day_of(item.get("effectiveStartDate")),
        source=SOURCE,
    )
