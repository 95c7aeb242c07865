"""Offers put together by what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from placer.market.catalog import Catalog, VmOffer

GROUPS: Mapping[str, Callable[[VmOffer, Catalog], str]] = {
    "gpu": lambda offer, catalog: offer.gpu,
    "device": lambda offer, catalog: offer.device,
    "machine": lambda offer, catalog: offer.instance_type,
    "place": lambda offer, catalog: offer.place,
    "provider": lambda offer, catalog: offer.provider,
    "country": lambda offer, catalog: catalog.region(offer.place).country,
    "continent": lambda offer, catalog: catalog.region(offer.place).continent,
    "market": lambda offer, catalog: offer.market.replace("_", "-"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferGroup:
    """Offers of one kind; USD/h for each device, the cheapest with its place."""

    group: tuple[str, ...]
    offers: int
    places: int
    usd_per_gpu_hour_low: float
    usd_per_gpu_hour_median: float
    usd_per_gpu_hour_high: float
    cheapest: str
    newest: str


def grouped(offers: Iterable[VmOffer], catalog: Catalog, by: tuple[str, ...]) -> list[OfferGroup]:
    """Put offers together by one or more keys of `GROUPS`; cheapest group first."""
    offers_by_key: dict[tuple[str, ...], list[VmOffer]] = {}
    for offer in offers:
        offers_by_key.setdefault(tuple(GROUPS[key](offer, catalog) for key in by), []).append(offer)
    return sorted(
        (_group(key, members) for key, members in offers_by_key.items()),
        key=lambda g: (g.usd_per_gpu_hour_low, g.group),
    )


def _group(key: tuple[str, ...], members: list[VmOffer]) -> OfferGroup:
    each = [offer.usd_per_gpu_hour for offer in members]
    cheapest = min(members, key=lambda offer: (offer.usd_per_gpu_hour, offer.place))
    return OfferGroup(
        group=key,
        offers=len(members),
        places=len({offer.place for offer in members}),
        usd_per_gpu_hour_low=min(each),
        usd_per_gpu_hour_median=median(each),
        usd_per_gpu_hour_high=max(each),
        cheapest=(
            f"{cheapest.instance_type} {cheapest.market.replace('_', '-')} in {cheapest.place}"
        ),
        newest=max(offer.as_of for offer in members),
    )
