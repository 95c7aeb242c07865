"""Prices of Azure: the Retail Prices API, which needs no account."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from placer.market.sources.harvest import Tally
from placer.market.sources.prices.pages import Pages, Step, address, pages
from placer.market.sources.prices.scope import Scope
from placer.market.sources.reading.mapped_rows import Found, shipped_rows
from placer.records import replace

PRICES_URL = "https://prices.azure.com/api/retail/prices"
VERSION = "2023-01-01-preview"
"""learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices, read 2026-11-21.
"""
SIZES_A_QUESTION = 15  # Sizes that one filter names, so that the address stays short
REGIONS_A_QUESTION = 10
FULL_PAGE = 100  # A full page has 100 items, or 1000


def gather(scope: Scope, tally: Tally, tell: Callable[[str], None]) -> list[Found]:
    """Ask for the sizes of the shipped book: the interface names no GPU, vCPU or memory."""
    known = replace(scope.known, machines=scope.machines)
    with pages(address("PLACER_AZURE_PRICES_URL", PRICES_URL)) as source:
        items = [
            item
            for question in _questions(sorted(known.machines), scope)
            for item in _items(source, question, tell)
        ]
        tally.origins.append(source.origin())
    today = datetime.now(UTC).date().isoformat()
    rows = shipped_rows("azure", {"Items": items}, source.base, tally, None, known, today)
    tally.words.append(
        "Azure names no GPU in its prices: only the sizes of the shipped book were asked for"
    )
    return [one for one in rows if one.row["region"] in scope.regions]


def _questions(sizes: Sequence[str], scope: Scope) -> Iterator[str]:
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

    The interface has left out its link to the next page before (March 2023), so a full page without
    one is followed by its number.
    """
    asked = {"api-version": VERSION, "currencyCode": "USD", "$filter": question}

    def following(page: Mapping[str, Any], count: int) -> Step | None:
        here, link = len(page["Items"]), page.get("NextPageLink")
        if page.get("Count", here) != here:
            raise source.broken(f"has {here} items and says {page['Count']}")
        if link and not (isinstance(link, str) and source.beside(link)):
            raise source.broken("leads to another host")
        if link:
            return link, None
        full = here and here % FULL_PAGE == 0
        return (source.base, {**asked, "$skip": str(count)}) if full else None

    words = "prices of Azure, "
    return source.rows("Items", (source.base, asked), following, lambda page: tell(words + page))
