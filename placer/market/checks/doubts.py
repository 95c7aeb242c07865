"""What makes a price book doubtful although every cell can be read: slips of the decimal point,
missing prices, impossible links.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

from placer.errors import PlacerError
from placer.market.catalog import FREE, Catalog, VmOffer
from placer.market.checks.agreement import Located
from placer.market.checks.outliers import outlier_of
from placer.market.network.geography import great_circle_km
from placer.market.network.graph import network_of
from placer.market.network.link_model import light_rtt_s

ABSURD = 1_000.0
"""A price this many times the median of its device, or that small a part of it, is a slip."""
DEARER = "spot above on-demand"
"""Words by which the source of a spot price says that it is no slip."""
OLDEST_YEAR = 2015
"""No price of a machine that trains today is older."""
STEEP = 0.4
"""A contract that takes off more is rare, a multiplier that was meant as what is taken off is not.
"""


def is_slip(price: float, usual: float) -> bool:
    """Tell whether a price is out of all proportion to what is usual; both in the same unit, above
    0.
    """
    return not usual / ABSURD <= price <= usual * ABSURD


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One doubt; ``level`` is error or warning, ``where`` the file and line, or the catalog."""

    level: Literal["error", "warning"]
    where: str
    message: str


def audit(
    rows: Mapping[str, Sequence[Located]], catalog: Catalog, today: date | None = None
) -> tuple[Finding, ...]:
    """Look for doubtful rows of a catalog.

    Parameters
    ----------
    rows
        Rows of each file with their lines, from `book_reader.located_rows`.
    catalog
        What was made of them.
    today
        Day after which a date is in the future; None takes today's in UTC, by which refreshes date
        their prices.

    Returns
    -------
    tuple of Finding
        Errors first; in the order of the files.
    """
    doubts = [
        *_prices(rows["offers.csv"], catalog),
        *_spot(rows["offers.csv"]),
        *_contracts(rows["discounts.csv"], catalog),
        *_dates(rows, (today or datetime.now(UTC).date()).isoformat()),
        *_links(rows["links.csv"], catalog),
        *_egress(catalog),
    ]
    return tuple(sorted(doubts, key=lambda finding: finding.level != "error"))


def _prices(offers: Sequence[Located], catalog: Catalog) -> Iterator[Finding]:
    """Yield the prices of a device that are out of all proportion."""
    for where, offer in offers:
        middle, price = (
            catalog.usual_usd_per_gpu_hour.get((offer.gpu, offer.market)),
            offer.usd_per_gpu_hour,
        )
        if middle is None or offer.price_basis in FREE:
            continue
        if is_slip(price, middle):
            text = (
                f"{_name(offer)} costs {price:g} USD/h for each {offer.gpu}; the median of the "
                f"catalog is {middle:g}"
            )
            yield Finding(level="error", where=where, message=text)


def _spot(offers: Sequence[Located]) -> Iterator[Finding]:
    """Yield the spot machines dearer than on demand: it happens, and it is worth a word unless the
    source has it.
    """
    on_demand = {
        _kind(offer): offer.usd_per_hour for _, offer in offers if offer.market == "on_demand"
    }
    for where, offer in offers:
        other = on_demand.get(_kind(offer))
        if (
            offer.market != "spot"
            or other is None
            or offer.price_basis in FREE
            or DEARER in offer.source
        ):
            continue
        if offer.usd_per_hour > other:
            text = (
                f"{_name(offer)} costs {offer.usd_per_hour:g} USD/h on spot and {other:g} on demand"
            )
            yield Finding(level="warning", where=where, message=text)


def far_prices(offers: Sequence[Located], catalog: Catalog) -> Iterator[Finding]:
    """Yield the spot prices far from the usual share of on-demand: one warning for the machines of
    a region that have the same device.

    Notes
    -----
    Beside `audit`, since such a price may well be true. Of a stack of books it is asked of the rows
    of the upper ones alone.
    """
    found: dict[tuple[str, str], list[str]] = {}
    said: dict[tuple[str, str], tuple[str, str]] = {}
    for where, offer in offers:
        off = outlier_of(offer, catalog)
        if off is None or off.share > 1:  # `audit` has what is dearer than on demand
            continue
        key = offer.place, offer.gpu
        found.setdefault(key, []).append(offer.instance_type)
        text = (
            f"on spot for {off.share:.2f} x on-demand; the median of {off.usual.regions} regions "
            f"is {off.usual.share:.2f} x (modified z-score {off.score:.1f})"
        )
        said.setdefault(key, (where, text))
    for (place, gpu), machines in found.items():
        where, text = said[place, gpu]
        more = f" and {len(machines) - 1} more" if len(machines) > 1 else ""
        yield Finding(
            level="warning", where=where, message=f"{gpu} in {place} ({machines[0]}{more}) {text}"
        )


def _contracts(lines: Sequence[Located], catalog: Catalog) -> Iterator[Finding]:
    """Yield the lines of a contract that change no price, such as one of the market ``ondemand``,
    and multipliers that look like slips.
    """
    for where, line in lines:
        what = f"{line.provider}/{line.region} {line.instance_type} {line.gpu} {line.market}"
        if not any(
            line.covers(offer) and offer.source.endswith(line.words) for offer in catalog.offers
        ):
            text = (
                "no machine has this discount: it applies to the layers below, and of its "
                "lines that fit the last counts"
            )
            yield Finding(level="warning", where=where, message=f"{what}: {text}")
        if line.multiplier > 1:
            yield Finding(
                level="warning",
                where=where,
                message=f"{what}: {line.multiplier:g} raises prices; 0.85 is 15 % off",
            )
        elif line.multiplier < STEEP:
            off, meant = 100 * (1 - line.multiplier), 1 - line.multiplier
            yield Finding(
                level="warning",
                where=where,
                message=f"{what}: {line.multiplier:g} is {off:.0f} % off; is {meant:g} meant?",
            )


def _kind(offer: VmOffer) -> tuple[str, str, str, int]:
    return offer.place, offer.instance_type, offer.gpu, offer.gpu_count


def _name(offer: VmOffer) -> str:
    return f"{offer.instance_type} ({offer.device}) in {offer.place}"


def _dates(rows: Mapping[str, Sequence[Located]], today: str) -> Iterator[Finding]:
    """Yield the figures from the future, and prices from before there was anything to rent."""
    for file, found in rows.items():
        for where, row in found:
            if row.as_of > today:
                yield Finding(
                    level="error", where=where, message=f"as_of {row.as_of} is in the future"
                )
            elif file == "offers.csv" and row.as_of < f"{OLDEST_YEAR}":
                yield Finding(
                    level="error",
                    where=where,
                    message=f"as_of {row.as_of} is before {OLDEST_YEAR}: no price of today",
                )


def _links(links: Sequence[Located], catalog: Catalog) -> Iterator[Finding]:
    """Yield the round-trip times that light in fibre could not do."""
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
            yield Finding(level="error", where=where, message=text)


def _egress(catalog: Catalog) -> Iterator[Finding]:
    """Yield the pairs of places with machines that no egress price covers; one finding for each
    source.
    """
    network, places = network_of(catalog), sorted({offer.place for offer in catalog.offers})
    for src in places:
        missing = []
        for dst in places:
            try:
                network.egress_price(src, dst)
            except PlacerError:
                missing.append(dst)
        if missing:
            text = (
                f"no egress price from {src} to {len(missing)} places, such as {missing[0]}; it "
                f"is never taken as free"
            )
            yield Finding(level="error", where=catalog.name, message=text)
