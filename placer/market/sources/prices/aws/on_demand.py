"""On-demand prices of EC2 from the Price List Query API, whose entries are JSON inside JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from placer.errors import PlacerError
from placer.market.sources.prices.quotes import day_of, price_of
from placer.market.sources.reading.fetch import FAILED

WANTED = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
}
"""A plain Linux machine as one goes, without licences."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListPrice:
    """What one type costs in one region: USD/h, first day, and whether the list says that it has
    GPUs.
    """

    instance_type: str
    usd_per_hour: float
    since: date | None
    has_gpu: bool


def filters(region: str) -> list[dict[str, str]]:
    """Return the filters of GetProducts for the machines of one region."""
    wishes = {**WANTED, "regionCode": region}
    return [
        {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wishes.items()
    ]


def list_prices(entries: list[str], region: str) -> list[ListPrice]:
    """Read the entries of GetProducts.

    Parameters
    ----------
    entries
        Each a JSON document with ``product`` and ``terms``.
    region
        The region that was asked for; others are passed over, as are capacity blocks and other
        operating systems.

    Raises
    ------
    PlacerError
        With exit code 7 if an entry is not a JSON document of this kind.
    """
    listed = []
    for entry in entries:
        try:
            document = json.loads(entry)
            attributes = document["product"]["attributes"]
            if not _is_wanted(attributes, region):
                continue
            for term in document["terms"].get("OnDemand", {}).values():
                prices = [
                    price_of(d["pricePerUnit"].get("USD"))
                    for d in term["priceDimensions"].values()
                    if d.get("unit") == "Hrs"
                ]
                if prices:
                    has_gpu = attributes.get("gpu", "NA") not in ("NA", "0")
                    since = day_of(term.get("effectiveDate"))
                    listed.append(
                        ListPrice(
                            instance_type=attributes["instanceType"],
                            usd_per_hour=max(prices),
                            since=since,
                            has_gpu=has_gpu,
                        )
                    )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            what = (
                f"an entry of AWS' price list for {region} cannot be read: {type(error).__name__}"
            )
            raise PlacerError(what, "run this again later", exit_code=FAILED) from None
    return listed


def _is_wanted(attributes: Mapping[str, Any], region: str) -> bool:
    """Check the answer as the filters ask; blocks of capacity and local zones have other prices for
    the same types.
    """
    return (
        all(attributes.get(field) == value for field, value in WANTED.items())
        and attributes.get("regionCode") == region
        and attributes.get("marketoption", "OnDemand") == "OnDemand"
        and attributes.get("locationType", "AWS Region") == "AWS Region"
        and "instanceType" in attributes
    )
