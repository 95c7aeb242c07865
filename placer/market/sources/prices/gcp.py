"""Prices of Google Cloud: the Cloud Billing Catalog API, which sells machines in parts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from statistics import median
from typing import Any

from placer.errors import PlacerError
from placer.files.json_text import parse_json
from placer.market.accelerators import processor_vcpus
from placer.market.checks.doubts import is_slip
from placer.market.sources.harvest import Harvest, Row, Tally
from placer.market.sources.prices.pages import Pages, Step, address, pages, secret
from placer.market.sources.prices.scope import Scope, checked, quote, scope_of
from placer.market.sources.reading.book_rows import date_of
from placer.market.sources.reading.fetch import read_document
from placer.market.sources.reading.mapped_rows import Found, shipped_rows

CATALOG_URL = "https://cloudbilling.googleapis.com/v1"
COMPUTE = "services/6F81-5844-456A/skus"  # Compute Engine in the catalog of services
SOURCE = "Google Cloud Billing Catalog API"
KEYS = ("PLACER_GCP_API_KEY", "GOOGLE_API_KEY")
PAGE_SKUS = "5000"  # Most that the interface gives in one page
UNITS = {"h": 1.0, "GiBy.h": 1.0, "GiBy.mo": 730.0}
"""Hours of each unit of a price; memory and disks are sold by GiB. A month is Google's own, by
which it turns monthly prices of disks into hourly ones.
"""
FAMILIES = {"c2": "Compute optimized", "a3-megagpu": "A3Plus", "a3-ultragpu": "A3Ultra"}
"""Google's words for families of machines; the others are the first part of their names."""
SSD_GIB = {"a2-ultragpu": 375.0, "a3-highgpu": 750.0, "a3-megagpu": 750.0, "a3-ultragpu": 1500.0}
"""Local SSD for each GPU that these machines always have, GiB:
cloud.google.com/compute/docs/accelerator-optimized-machines, 2026-03."""

Prices = dict[tuple[str, str, str], tuple[float, str]]
"""USD/h and the first day of what is sold, in which region and market: ``("A2 Core",
"us-central1", "spot")``.
"""


def gather(scope: Scope, tally: Tally, tell: Callable[[str], None]) -> list[Found]:
    """Add up cores, memory, GPUs and disks that a machine always has; exit code 2 without a key."""
    base = address("PLACER_GCP_BILLING_URL", CATALOG_URL)
    key = secret(
        KEYS,
        "the key for Google's price list",
        "no key for Google's price list",
        f"set {KEYS[0]} to an API key whose project may use the Cloud Billing API",
    )
    with pages(base, headers={"X-Goog-Api-Key": key}) as source:
        skus = [*_skus(source, tell)]
        tally.origins.append(source.origin())
    return _found(skus, scope, tally)


def read_skus(places: Sequence[str], day: date | None, read_seconds: float) -> Harvest:
    """Read saved pages of the list, by path or URL, as prices of a day, None: of the newest file; a
    machine whose parts are not all there has no price.
    """
    scope, tally = scope_of("gcp"), Tally(skip_bad=True, by_reason=True)
    skus: list[Any] = []
    documents = [read_document(place, read_seconds=read_seconds) for place in places]
    for place, document in zip(places, documents, strict=True):
        try:
            page = parse_json(document.data)
        except (ValueError, RecursionError):
            page = None
        rows = page.get("skus") if isinstance(page, Mapping) else page or None
        if not (isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows)):
            tip = "give what services.skus.list of the Cloud Billing API answered"
            raise PlacerError(f"'{place}' is no list of Google's SKUs", tip)
        skus += rows
    tally.origins += [document.origin for document in documents]
    found = _found(skus, scope, tally)
    rows = checked(found, scope, tally, day or max(map(date_of, places)))
    if not rows:
        reasons = sorted(tally.reasons().items())[:2]
        why = "; ".join(f"{count} x {reason}" for reason, count in reasons)
        words = "no machine of the shipped book has all its parts there"
        raise PlacerError(f"{words}: {why}" if why else words, "give all pages of the list at once")
    return tally.harvest({"offers.csv": rows})


def _found(skus: Sequence[Mapping[str, Any]], scope: Scope, tally: Tally) -> list[Found]:
    prices, machines = _prices(skus, scope, tally), scope.machines
    sold = {(o.region, o.instance_type) for o in scope.book.offers if o.provider == "gcp"}
    tally.words.append(
        "Google's prices do not say which region has which machine: the pairs of the shipped "
        "book were priced"
    )
    return [
        one
        for region, name in sorted(sold)
        if region in scope.regions and name in machines
        for market in ("on_demand", "spot")
        if (one := _quote(region, name, machines[name], market, prices, tally)) is not None
    ]


def _skus(source: Pages, tell: Callable[[str], None]) -> Iterator[Mapping[str, Any]]:
    url, params = f"{source.base}/{COMPUTE}", {"pageSize": PAGE_SKUS, "currencyCode": "USD"}

    def following(page: Mapping[str, Any], _: int) -> Step | None:
        token = page.get("nextPageToken", "")
        if not isinstance(token, str):
            raise source.broken("has no nextPageToken that is text")
        return (url, {**params, "pageToken": token}) if token else None

    words = "prices of Google Cloud, "
    return source.rows("skus", (url, params), following, lambda page: tell(words + page))


def _prices(skus: Sequence[Mapping[str, Any]], scope: Scope, tally: Tally) -> Prices:
    """Return the prices of parts by region and market; of two prices of one part the newer."""
    prices: Prices = {}
    for _, row, _ in shipped_rows("gcp", {"skus": skus}, SOURCE, tally):
        name, market, unit = str(row["part"]), str(row["market"]), str(row["unit"])
        by_gib = name.endswith(("Ram", "SSD"))
        # A part of another unit than such a part has is no price.
        hours = UNITS.get(unit, math.nan) if by_gib == unit.startswith("GiBy.") else math.nan
        price = float(row["usd_per_unit"] or 0) / hours, str(row["since"] or "")
        for region in str(row["regions"]).split():
            if scope.knows(region):
                before = prices.setdefault((name, region, market), price)
                prices[name, region, market] = max(before, price, key=lambda p: (p[1], p[0]))
            elif region != "global":
                place = f"gcp/{region[:40]}"
                tally.leave_out(f"part in a region that the shipped book does not know: {place}")
    return _without_slips(prices, tally)


def _without_slips(prices: Prices, tally: Tally) -> Prices:
    """Drop parts far from their median over regions: a sum would hide a GPU for nothing."""
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
        tally.leave_out(f"price of a part that cannot be: {name} {market.replace('_', '-')}")
    return kept


def _quote(
    region: str, name: str, machine: Row, market: str, prices: Prices, tally: Tally
) -> Found | None:
    """Price a machine; None if a part has no price, which is counted unless all parts lack one."""
    parts = _parts(name, machine)
    amounts = {
        part: prices[part, region, market] for part in parts if (part, region, market) in prices
    }
    if len(amounts) < len(parts):
        if amounts and (len(parts) == 2 or any(part.startswith("GPU ") for part in amounts)):
            missing = ", ".join(sorted(parts.keys() - amounts.keys()))
            tally.leave_out(f"machine without a price of a part: {missing}")
        return None
    since = max(day for _, day in amounts.values())
    usd = sum(amount * amounts[part][0] for part, amount in parts.items())
    gpus = ", GPUs" if len(parts) > 2 else ""
    disks = " and local SSD" if "SSD" in parts else ""
    source = f"{SOURCE}: cores, memory{gpus}{disks}"
    return quote(
        machine,
        region=region,
        instance_type=name,
        market=market,
        usd_per_hour=usd,
        source=source,
        since=since,
    )


def _parts(name: str, machine: Row) -> dict[str, float]:
    """Return the amounts of each part of a machine, such as ``n1-standard-4+1xT4``."""
    series = "-".join(name.split("-")[:2])
    family = series if series in FAMILIES else name.partition("-")[0]
    family = FAMILIES.get(family, family.upper())
    gpus, vcpus, memory_gib = (float(machine[n] or 0) for n in ("gpu_count", "vcpus", "memory_gib"))
    parts = {f"{family} Core": vcpus, f"{family} Ram": memory_gib}
    if processor_vcpus(str(machine["gpu"])) is None:
        gpu = "H100 Mega" if series == "a3-megagpu" else machine["gpu"]
        parts[f"GPU {gpu}"] = gpus
    if series in SSD_GIB:
        parts["SSD"] = SSD_GIB[series] * gpus
    return parts
