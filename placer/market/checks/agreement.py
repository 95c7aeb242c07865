"""What the rows of a price book must agree on: places, devices, prices and volume tiers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import Any

from placer.errors import PlacerError, unknown
from placer.market.capacity_table import ANY, CapacityRow
from placer.market.catalog import FABRICS, FREE, Catalog, Gpu, Region, VmOffer

MOST = 1e12  # No figure of a book is so large
POSITIVE = {
    "gpus": (
        "memory_gib",
        "fp16_tflops",
        "memory_gb_per_s",
        "matmul_tflops",
        "nvlink_gb_per_s",
        "pcie_gb_per_s",
    ),
    "offers": ("network_gbps", "max_island_machines"),
    "functions": ("billing_step_ms", "gib_per_vcpu"),
    "links": ("gbps_one_stream", "gbps_low", "gbps_high", "gbps_many_streams", "rtt_ms"),
}
"""Columns by table whose figures are above 0 where they are known."""
SIGNED = ("latitude_deg", "longitude_deg")
CONTINENTS = {"AF", "AS", "EU", "NA", "OC", "SA"}
Located = tuple[str, Any]  # A row after the words that say where it stands: ``path:line``


def check_book(
    rows: Mapping[str, Sequence[Located]], regions: Mapping[str, Region], gpus: Mapping[str, Gpu]
) -> None:
    """Refuse rows whose place or device no other file knows, and figures that cannot be."""
    for file in ("offers.csv", "functions.csv", "stores.csv"):
        for where, row in rows[file]:
            _check_known(where, "region", row.place, regions, "add it there with its coordinates")
    for where, offer in rows["offers.csv"]:
        _check_known(where, "gpu", offer.gpu, gpus, "add it there with its memory")
        _check_offer(where, offer)
    _check_egress(rows["egress.csv"], regions)
    for where, link in rows["links.csv"]:
        for place in (link.src, link.dst):
            _check_known(where, "region", place, regions, "add it there")
        _check_rising(where, link, "gbps_low", "gbps_one_stream", "gbps_high")
    _check_capacity(rows["capacity.csv"], regions, gpus)


def _check_known(where: str, kind: str, name: str, known: Container[str], tip: str) -> None:
    if name not in known:
        raise PlacerError(f"{where}: {kind} '{name}' is not in {kind}s.csv", tip)


def check_figures(catalog: Catalog) -> None:
    """Refuse figures that no book can have, in one that was read from a document."""
    for table in ("regions", "gpus", "offers", "functions", "stores", "egress", "links"):
        for row in catalog.rows_of(table):
            _check_figures(table, row)
    for offer in catalog.offers:
        if offer.fabric and offer.fabric not in FABRICS:
            what = f"fabric of {offer.instance_type} in {offer.place}"
            raise unknown(what, offer.fabric, FABRICS)


def _check_figures(table: str, row: Any) -> None:
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if not isinstance(value, int | float) or name in SIGNED:
            continue
        positive = name in POSITIVE.get(table, ())
        if not 0 <= value < MOST or (positive and value == 0):
            clash = next(
                getattr(row, word) for word in ("gpu", "place", "src") if hasattr(row, word)
            )
            tip = f"it is {'above' if positive else 'at least'} 0 and below {MOST:g}"
            raise PlacerError(f"{name} '{value:g}' of {clash} in {table}", tip)


def _check_offer(where: str, offer: VmOffer) -> None:
    """Refuse prices of nothing, and ranges of prices or interruptions that are reversed."""
    if offer.usd_per_hour == 0 and offer.price_basis not in FREE:
        tip = "give its price, or price_basis owned or reserved"
        raise PlacerError(f"{where}: usd_per_hour '0' of a rented machine", tip)
    _check_rising(where, offer, "usd_per_hour_low", "usd_per_hour_high")
    _check_rising(where, offer, "interruption_low", "interruption_high")
    low, high = offer.interruption_low, offer.interruption_high
    if (high or 0) > 1 or (low or 0) >= 1:
        words = f"{where}: interruptions from {low} to {high} are no shares of the machines"
        raise PlacerError(words, "write 5 to 10 % as 0.05 and 0.1; an open band ends at 1")


def _check_rising(where: str, row: Any, *names: str) -> None:
    """Refuse figures of a row that are known and not in order; equal ones are."""
    known = [(name, value) for name in names if (value := getattr(row, name)) is not None]
    for (lower, low), (upper, high) in pairwise(known):
        if low > high:
            words = f"{where}: {lower} '{low:g}' is above {upper} '{high:g}'"
            raise PlacerError(words, "correct one of the two")


def _check_egress(prices: Sequence[Located], regions: Mapping[str, Region]) -> None:
    """Refuse ends that no region has, which would fall back, and tiers that do not rise."""
    known: dict[str, set[str]] = {}
    for region in regions.values():
        known.setdefault(region.provider, {"*"}).update((region.region, region.egress_zone))
    zones = {region.egress_zone for region in regions.values()} | CONTINENTS
    highest: dict[tuple[str, str, str], float] = {}
    for where, price in prices:
        if price.provider not in known:
            words = f"{where}: provider '{price.provider}' has no region"
            raise PlacerError(words, "correct it, or add its regions")
        allowed = known[price.provider] | zones
        ends = allowed | {"intra_zone", "inter_zone", "internet"}
        for name, known_ends in (("src", allowed), ("dst", ends)):
            value = getattr(price, name)
            if value not in known_ends:
                what = f"{name} '{value}' is no region or egress zone of {price.provider}"
                raise PlacerError(f"{where}: {what}", "correct this cell")
    for where, price in prices:
        pair = price.provider, price.src, price.dst
        mark, before = price.above_gib_per_month, highest.get(pair)
        words = f"{where}: above_gib_per_month '{mark:g}' of {'/'.join(pair)}"
        if before is None and mark != 0:
            tip = "add the row of the first GiB, free or not, above this one"
            raise PlacerError(f"{words} has no tier from 0 before it", tip)
        if before is not None and mark <= before:
            tip = "order the tiers by rising marks, each mark once"
            raise PlacerError(f"{words} is not above the mark before it, {before:g}", tip)
        highest[pair] = mark


def _check_capacity(
    rows: Sequence[Located], regions: Mapping[str, Region], gpus: Mapping[str, Gpu]
) -> None:
    """Refuse rows of places and devices that nobody knows, and chances that contradict others."""
    providers = {region.provider for region in regions.values()}
    for where, row in rows:
        if row.provider not in (ANY, *providers):
            words = f"{where}: provider '{row.provider}' has no region"
            raise PlacerError(words, "correct it, or write *")
        if row.region:
            tip = "add it there, or leave it empty for a class row"
            _check_known(where, "region", row.place, regions, tip)
        if row.device not in (ANY, *gpus):
            words = f"{where}: device '{row.device}' is not in gpus.csv"
            raise PlacerError(words, "correct it, or write *")
        _check_capacity_row(where, row)
    groups: dict[tuple[Any, ...], list[tuple[int, str, float]]] = defaultdict(list)
    for where, row in rows:
        if row.share is not None:
            key = (row.provider, row.region, row.zone, row.device, row.market, row.machines_asked)
            groups[key].append((row.machines, where, row.share))
    for group in groups.values():  # shares that grow with the machines: who has eight has four
        for (fewer, _, wide), (machines, where, share) in pairwise(sorted(group)):
            if share > wide:
                words = f"{where}: share '{share:g}' of {machines} machines is above that of"
                tip = "at least eight machines means at least four: correct one of the two"
                raise PlacerError(f"{words} {fewer}, {wide:g}", tip)


def _check_capacity_row(where: str, row: CapacityRow) -> None:
    if row.zone and not row.region:
        raise PlacerError(f"{where}: zone '{row.zone}' has no region", "name its region")
    if row.machines > row.machines_asked:
        words = f"{where}: machines '{row.machines}' of {row.machines_asked} that were asked for"
        raise PlacerError(words, "machines is at most machines_asked")
    if row.share is None and row.survival_a is None:
        raise PlacerError(f"{where}: neither share nor survival", "give one of the two")
    for names in (("share", "share_low", "share_high"), ("survival_a", "survival_b_h")):
        missing = [name for name in names if getattr(row, name) is None]
        if missing and len(missing) < len(names):
            raise PlacerError(f"{where}: {missing[0]} is empty", f"give {' and '.join(names)}")
    _check_rising(where, row, "share_low", "share", "share_high")
    _check_rising(where, row, "corr_across", "corr_region")
    if (row.corr_region is None) != (row.corr_across is None):
        raise PlacerError(f"{where}: one of two correlations", "give corr_region and corr_across")
