"""Prices of Google Cloud: the Cloud Billing Catalog API, which sells machines in parts."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from statistics import median
from typing import Any

from placer.errors import PlacerError
from placer.market.checks.doubts import is_slip
from placer.market.sources.prices.pages import Pages, address, pages
from placer.market.sources.prices.quotes import Gathered, day_of, price_of, quote
from placer.market.sources.reading.mapped_rows import Found
from placer.market.sources.scope import Scope, Shape

CATALOG_URL = "https://cloudbilling.googleapis.com/v1"
COMPUTE = "services/6F81-5844-456A/skus"
"""Compute Engine in the catalog of services."""
SOURCE = "Google Cloud Billing Catalog API"
KEYS = ("PLACER_GCP_API_KEY", "GOOGLE_API_KEY")
PAGE_SKUS = "5000"
"""Most that the interface gives in one page."""
HOURS_A_MONTH = 730.0
"""Google's own month, by which it turns monthly prices of disks into hourly ones."""
PART = re.compile(
    r"(?P<spot>(?:Spot )?Preemptible )?(?:(?P<family>[A-Z]\d+[A-Z]?|A3Plus|A3Ultra)(?: "
    r"Predefined| AMD| Arm)?|Compute optimized)"
    r"(?: Instance)? (?P<part>Core|Ram) running in .+"
)
DEVICE = re.compile(
    r"(?:Nvidia )?(?:Tesla )?(?P<gpu>[A-Z]\d+[A-Z]?(?: \d+GB)?(?: Mega| Plus)?) GPU "
    r"(?P<spot>attached to Spot Preemptible VMs )?running in .+"
)
DISK = re.compile(
    r"SSD backed Local Storage(?P<spot> attached to Spot Preemptible VMs?)?(?: (?:running )?in .+)?"
)
"""Descriptions of the parts; reservations, commitments, custom machines, sole tenancy and
workstations have other words.
"""
GPU_WORDS = {
    "T4": "T4",
    "V100": "V100",
    "L4": "L4",
    "A100": "A100-40",
    "A100 80GB": "A100-80",
    "H100 80GB": "H100",
    "H100 80GB Mega": "H100 Mega",
    "H100 80GB Plus": "H100 Mega",
    "H200 141GB": "H200",
}
"""Google's words for a GPU to gpus.csv; the H100 of a3-megagpu has a price of its own."""
FAMILIES = {None: "c2", "A3Plus": "a3-megagpu", "A3Ultra": "a3-ultragpu"}
"""Families whose words in a description are not the first part of their machines' names; "Compute
optimized" names none.
"""
SSD_GIB = {
    "a2-ultragpu": 375.0,
    "a3-highgpu": 750.0,
    "a3-megagpu": 750.0,
    "a3-ultragpu": 1500.0,
}
"""Local SSD for each GPU that these machines always have, GiB:
cloud.google.com/compute/docs/accelerator-optimized-machines, 2026-03."""

Part = tuple[str, str, str]
"""What is sold, in which region and market: ``("a2 Core", "us-central1", "spot")``."""
Prices = dict[Part, tuple[float, date | None]]


def gather(scope: Scope, tell: Callable[[str], None]) -> Gathered:
    """Add up cores, memory, GPUs and disks that a machine always has.

    Parameters
    ----------
    scope
        What is asked for.
    tell
        Called with what is being read.

    Raises
    ------
    PlacerError
        With exit code 2 without a key; with exit code 7 if the interface does not deliver.
    """
    left_out: Counter[str] = Counter()
    base = address("PLACER_GCP_BILLING_URL", CATALOG_URL)
    with pages(base, headers={"X-Goog-Api-Key": _key()}) as source:
        prices = _prices(_skus(source, tell), scope, left_out)
        origins = [source.origin()]
    found = [
        one
        for region, name in sorted(scope.sold)
        if region in scope.regions and scope.wants(scope.shapes[name])
        for market in ("on_demand", "spot")
        if (one := _quote(region, name, scope.shapes[name], market, prices, left_out)) is not None
    ]
    note = (
        "Google's prices do not say which region has which machine: the pairs of the shipped "
        "book were priced"
    )
    return Gathered(found=found, origins=origins, left_out=left_out, notes=[note])


def _key() -> str:
    key = next((value for name in KEYS if (value := os.environ.get(name, "").strip())), "")
    if not key:
        raise PlacerError(
            "no key for Google's price list",
            f"set {KEYS[0]} to an API key whose project may use the Cloud Billing API",
        )
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise PlacerError(
            "the key for Google's price list has characters that no key has",
            f"check {' and '.join(KEYS)}",
        )
    return key


def _skus(source: Pages, tell: Callable[[str], None]) -> Iterator[Mapping[str, Any]]:
    token, seen = "", {""}
    while True:
        tell(f"prices of Google Cloud, page {source.count + 1}")
        params = {"pageSize": PAGE_SKUS, "currencyCode": "USD"} | (
            {"pageToken": token} if token else {}
        )
        page, skus = source.rows("skus", f"{source.base}/{COMPUTE}", params)
        token = page.get("nextPageToken", "")
        if not isinstance(token, str):
            raise source.broken("has no nextPageToken that is text")
        yield from skus
        if not token:
            return
        if token in seen:
            raise source.broken("leads back to itself")
        seen.add(token)


def _prices(skus: Iterator[Mapping[str, Any]], scope: Scope, left_out: Counter[str]) -> Prices:
    """Return the prices of parts by region and market; of two prices of one part the newer."""
    prices: Prices = {}
    for sku in skus:
        part = _part(sku)
        if part is None:
            continue
        name, market, price, since = part
        regions = sku.get("serviceRegions")
        for region in map(str, regions if isinstance(regions, list) else ()):
            if region not in scope.known_regions:
                if region != "global":
                    left_out[
                        f"part in a region that the shipped book does not know: gcp/{region[:40]}"
                    ] += 1
                continue
            key = name, region, market
            if key not in prices or (since or date.min, price) > (
                prices[key][1] or date.min,
                prices[key][0],
            ):
                prices[key] = price, since
    return _without_slips(prices, left_out)


def _without_slips(prices: Prices, left_out: Counter[str]) -> Prices:
    """Drop parts far from their median over regions: a GPU for nothing would hide in the sum of a
    machine.
    """
    of_part: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (name, _, market), (price, _) in prices.items():
        if price > 0:
            of_part[name, market].append(price)
    usual = {part: median(found) for part, found in of_part.items()}
    kept = {
        key: (price, since)
        for key, (price, since) in prices.items()
        if price > 0 and not is_slip(price, usual[key[0], key[2]])
    }
    for name, _, market in prices.keys() - kept.keys():
        left_out[f"price of a part that cannot be: {name} {market.replace('_', '-')}"] += 1
    return kept


def _part(sku: Mapping[str, Any]) -> tuple[str, str, float, date | None] | None:
    """Name, market, hourly price and first day of one SKU; None for what no machine of a book is
    made of.
    """
    words, category = str(sku.get("description")), sku.get("category")
    if not isinstance(category, dict) or category.get("usageType") not in (
        "OnDemand",
        "Preemptible",
    ):
        return None
    if core := PART.fullmatch(words):
        family = FAMILIES.get(core["family"]) or core["family"].lower()
        name, spot, unit = (
            f"{family} {core['part']}",
            core["spot"],
            "h" if core["part"] == "Core" else "GiBy.h",
        )
    elif (device := DEVICE.fullmatch(words)) and device["gpu"] in GPU_WORDS:
        name, spot, unit = f"GPU {GPU_WORDS[device['gpu']]}", device["spot"], "h"
    elif disk := DISK.fullmatch(words):
        name, spot, unit = "SSD", disk["spot"], "GiBy.h"
    else:
        return None
    price, since = _hourly(sku, unit)
    # Google files some spot SKUs under OnDemand: the words of the description decide.
    return (
        name,
        "spot" if spot or category["usageType"] == "Preemptible" else "on_demand",
        price,
        since,
    )


def _hourly(sku: Mapping[str, Any], unit: str) -> tuple[float, date | None]:
    """Price for an hour; NaN where it is not in the format that Google documents."""
    try:
        info = sku["pricingInfo"][-1]
        expression = info["pricingExpression"]
        price = max(_money(rate["unitPrice"]) for rate in expression["tieredRates"])
        hours = {unit: 1.0, f"{unit.removesuffix('h')}mo": HOURS_A_MONTH}[expression["usageUnit"]]
        return price / hours, day_of(info.get("effectiveTime"))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return price_of(None), None


def _money(amount: Mapping[str, Any]) -> float:
    if amount.get("currencyCode", "USD") != "USD":
        raise ValueError("not in USD")
    return price_of(amount.get("units", "0")) + price_of(amount.get("nanos", 0)) / 1e9


def _quote(
    region: str, name: str, shape: Shape, market: str, prices: Prices, left_out: Counter[str]
) -> Found | None:
    """Price a machine; None if a part has no price, which is counted unless all parts lack one."""
    parts = _parts(name, shape)
    amounts = {
        part: prices[part, region, market] for part in parts if (part, region, market) in prices
    }
    if len(amounts) < len(parts):
        if amounts and (len(parts) == 2 or any(part.startswith("GPU ") for part in amounts)):
            left_out[
                (
                    f"machine without a price of a part: "
                    f"{', '.join(sorted(parts.keys() - amounts.keys()))}"
                )
            ] += 1
        return None
    days = [since for _, since in amounts.values() if since is not None]
    gpus = ", GPUs" if len(parts) > 2 else ""
    disks = " and local SSD" if "SSD" in parts else ""
    return quote(
        region,
        name,
        shape,
        market,
        sum(amount * amounts[part][0] for part, amount in parts.items()),
        f"{SOURCE}: cores, memory{gpus}{disks}",
        max(days, default=None),
    )


def _parts(name: str, shape: Shape) -> dict[str, float]:
    """Return the amounts of each part of a machine, such as ``n1-standard-4+1xT4``."""
    series = "-".join(name.split("-")[:2])
    family = series if series in FAMILIES.values() else name.partition("-")[0]
    parts = {f"{family} Core": shape.vcpus, f"{family} Ram": shape.memory_gib}
    if not shape.gpu.startswith("CPU-"):
        parts[f"GPU {'H100 Mega' if series == 'a3-megagpu' else shape.gpu}"] = float(
            shape.gpu_count
        )
    if series in SSD_GIB:
        parts["SSD"] = SSD_GIB[series] * shape.gpu_count
    return parts
