"""What makes a price book doubtful although every cell can be read: slips of the decimal point,
missing prices, impossible links, shares of launches that are old.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from msgspec import Struct

from placer.errors import PlacerError
from placer.market.books.defended_figures import outlier_of
from placer.market.capacity_table import CapacityRow, zone_capacity
from placer.market.catalog import FREE, Catalog, VmOffer
from placer.market.checks.agreement import Located
from placer.market.network.graph import network_of
from placer.market.network.link_model import great_circle_km, light_rtt_s

ABSURD = 1_000.0
"""A price this many times the median of its device, or that small a part of it, is a slip."""
DEARER = "spot above on-demand"  # Words by which the source of a spot price says that it is no slip
OLDEST_YEAR = 2015  # No price of a machine that trains today is older
STEEP = 0.4
"""A contract that takes off more is rare, a multiplier that was meant as what is taken off is not.
"""
OLD_DAYS = 30
"""Shares of a zone that are older say no more than those of its class: neighbouring weeks differ by
10 points and more.
"""


def is_slip(price: float, usual: float) -> bool:
    """Tell whether a price is out of all proportion to what is usual; same unit, above 0."""
    return not usual / ABSURD <= price <= usual * ABSURD


class Finding(Struct, frozen=True):
    """One doubt; ``level`` is error or warning, ``where`` the file and line, or the catalog."""

    level: Literal["error", "warning"]
    where: str
    message: str


def audit(
    rows: Mapping[str, Sequence[Located]], catalog: Catalog, today: date | None = None
) -> tuple[Finding, ...]:
    """Look for doubtful rows, with their lines from `located_rows`, of the catalog that was made of
    them; errors first, in the order of the files. ``today`` is the day in UTC after which a date is
    in the future: by it refreshes date their prices.
    """
    doubts = [
        *_prices(rows["offers.csv"], catalog),
        *_spot(rows["offers.csv"], catalog),
        *_contracts(rows["discounts.csv"], catalog),
        *_dates(rows, (today or datetime.now(UTC).date()).isoformat()),
        *_links(rows["links.csv"], catalog),
        *_egress(catalog),
    ]
    return tuple(sorted(doubts, key=lambda finding: finding.level != "error"))


def _prices(offers: Sequence[Located], catalog: Catalog) -> Iterator[Finding]:
    for where, offer in offers:
        middle = catalog.usual_usd_per_gpu_hour.get((offer.gpu, offer.market))
        price = offer.usd_per_gpu_hour
        if middle is not None and offer.price_basis not in FREE and is_slip(price, middle):
            text = f"costs {price:g} USD/h for each {offer.gpu}; the median of the catalog is"
            yield Finding("error", where, f"{_name(offer)} {text} {middle:g}")


def _spot(offers: Sequence[Located], catalog: Catalog) -> Iterator[Finding]:
    """Yield the spot machines dearer than on demand, unless their source has a word on it."""
    for where, offer in offers:
        kind = offer.place, offer.instance_type, offer.gpu, offer.gpu_count
        other = catalog.offer(*kind, "on_demand") if offer.market == "spot" else None
        if other is None or offer.price_basis in FREE:
            continue
        if offer.usd_per_hour > other.usd_per_hour and DEARER not in offer.source:
            prices = f"{offer.usd_per_hour:g} USD/h on spot and {other.usd_per_hour:g}"
            text = f"costs {prices} on demand"
            yield Finding("warning", where, f"{_name(offer)} {text}")


def far_prices(offers: Sequence[Located], catalog: Catalog) -> Iterator[Finding]:
    """Yield the spot prices far from the usual share of on-demand: one warning for the machines of
    a region that have the same device.

    Beside `audit`, since such a price may well be true. Of a stack of books it is asked of the rows
    of the upper ones alone.
    """
    found: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for where, offer in offers:
        off = outlier_of(offer, catalog)
        if off is None or off.share > 1:  # `audit` has what is dearer than on demand
            continue
        text = (
            f"on spot for {off.share:.2f} x on-demand; the median of {off.usual.regions} regions "
            f"is {off.usual.share:.2f} x (modified z-score {off.score:.1f})"
        )
        machines = found.setdefault((offer.place, offer.gpu), [])
        machines.append((where, offer.instance_type, text))
    for (place, gpu), machines in found.items():
        where, machine, text = machines[0]
        more = f" and {len(machines) - 1} more" if len(machines) > 1 else ""
        yield Finding("warning", where, f"{gpu} in {place} ({machine}{more}) {text}")


def _contracts(lines: Sequence[Located], catalog: Catalog) -> Iterator[Finding]:
    """Yield the lines of a contract that change no price, and multipliers like slips."""
    for where, line in lines:
        what = f"{line.provider}/{line.region} {line.instance_type} {line.gpu} {line.market}"
        off = 1 - line.multiplier
        if not any(line.covers(o) and o.source.endswith(line.words) for o in catalog.offers):
            text = (
                "no machine has this discount: it applies to the layers below, and of its "
                "lines that fit the last counts"
            )
            yield Finding("warning", where, f"{what}: {text}")
        if off < 0:
            text = f"{line.multiplier:g} raises prices; 0.85 is 15 % off"
            yield Finding("warning", where, f"{what}: {text}")
        elif line.multiplier < STEEP:
            text = f"{line.multiplier:g} is {100 * off:.0f} % off; is {off:g} meant?"
            yield Finding("warning", where, f"{what}: {text}")


def _name(offer: VmOffer) -> str:
    return f"{offer.instance_type} ({offer.device}) in {offer.place}"


def _dates(rows: Mapping[str, Sequence[Located]], today: str) -> Iterator[Finding]:
    for file, found in rows.items():
        for where, row in found:
            if row.as_of > today:
                yield Finding("error", where, f"as_of {row.as_of} is in the future")
            elif file == "offers.csv" and row.as_of < f"{OLDEST_YEAR}":
                text = f"as_of {row.as_of} is before {OLDEST_YEAR}: no price of today"
                yield Finding("error", where, text)


def _links(links: Sequence[Located], catalog: Catalog) -> Iterator[Finding]:
    for where, link in links:
        if link.rtt_ms is None:
            continue
        ends = catalog.region(link.src), catalog.region(link.dst)
        km, least_ms = great_circle_km(*ends), light_rtt_s(*ends) * 1e3
        if link.rtt_ms < least_ms:
            text = (
                f"{link.src} to {link.dst}: {link.rtt_ms:g} ms there and back over {km:,.0f} "
                f"km; light in fibre takes {least_ms:.1f} ms"
            )
            yield Finding("error", where, text)


def _egress(catalog: Catalog) -> Iterator[Finding]:
    """Yield the pairs of places with machines without an egress price, by source."""
    network, places = network_of(catalog), sorted(catalog.rows_by_place)
    for src in places:
        missing = []
        for dst in places:
            try:
                network.egress_price(src, dst)
            except PlacerError:
                missing.append(dst)
        if missing:
            text = f"to {len(missing)} places, such as {missing[0]}; it is never taken as free"
            yield Finding("error", catalog.name, f"no egress price from {src} {text}")


def covered(book: Catalog) -> dict[str, int]:
    """Count the kinds of spot machine of a book, each a place and device, by what is known of how
    often they launch: ``zone or region measured``, ``class assumed`` and so on; ``unknown`` without
    any row.
    """
    own: dict[tuple[str, str, str], CapacityRow] = {}
    for row in book.capacity:
        if row.market == "spot" and row.share is not None:
            own.setdefault((row.provider, row.region, row.device), row)
    counted: Counter[str] = Counter()
    for kind in {(offer.provider, offer.region, offer.gpu) for offer in book.offers if offer.moves}:
        provider, region, gpu = kind
        known = zone_capacity(
            book.capacity, provider=provider, region=region, device=gpu, market="spot"
        )
        best = own.get(kind) or next(iter(known.launches), None)
        counted["unknown" if best is None else f"{best.level} {best.basis}"] += 1
    return dict(sorted(counted.items()))


def wrong_dates(rows: Sequence[Located], today: date) -> Iterator[Finding]:
    """Yield the rows of capacity from the future, and old shares of zones and regions."""
    oldest = (today - timedelta(days=OLD_DAYS)).isoformat()
    for where, row in rows:
        if row.as_of > today.isoformat():
            yield Finding("error", where, f"as_of {row.as_of} is in the future")
        elif row.region and row.share is not None and row.as_of < oldest:
            text = (
                f"{row.zone or row.place} {row.device}: as of {row.as_of}, over {OLD_DAYS} days: "
                "shares of neighbouring weeks differ by 10 points and more"
            )
            yield Finding("warning", where, text)
