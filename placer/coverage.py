"""What a catalog covers: offers by provider, device and market, regions, and how old its figures are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from placer.catalog import Catalog


@dataclass(frozen=True, kw_only=True, slots=True)
class Covered:
    """Offers of one device of one provider; USD/h for each device."""

    provider: str
    gpu: str
    regions: int
    on_demand: int
    spot: int
    usd_per_gpu_hour_low: float
    usd_per_gpu_hour_median: float
    usd_per_gpu_hour_high: float
    estimated: int
    oldest: str
    newest: str


def coverage(catalog: Catalog) -> tuple[Covered, ...]:
    """Count the offers of a catalog by provider and device, in the order of their names."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for offer in catalog.offers:
        groups.setdefault((offer.provider, offer.gpu), []).append(offer)
    found = []
    for (provider, gpu), offers in sorted(groups.items()):
        prices = [offer.usd_per_hour / offer.gpu_count for offer in offers]
        dates = [offer.as_of for offer in offers]
        found.append(
            Covered(
                provider=provider,
                gpu=gpu,
                regions=len({offer.region for offer in offers}),
                on_demand=sum(offer.market == "on_demand" for offer in offers),
                spot=sum(offer.market == "spot" for offer in offers),
                usd_per_gpu_hour_low=min(prices),
                usd_per_gpu_hour_median=median(prices),
                usd_per_gpu_hour_high=max(prices),
                estimated=sum(offer.price_basis == "estimated" for offer in offers),
                oldest=min(dates),
                newest=max(dates),
            )
        )
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class Age:
    """Rows of one kind and the dates of the oldest and the newest."""

    kind: str
    rows: int
    oldest: str
    newest: str


def ages(catalog: Catalog) -> tuple[Age, ...]:
    """Dates of every kind of figure that a catalog has."""
    kinds: Mapping[str, Any] = {
        "machines": catalog.offers,
        "functions": catalog.functions,
        "stores": catalog.stores,
        "egress": catalog.egress,
        "links": catalog.links,
        "regions": catalog.regions.values(),
        "devices": catalog.gpus.values(),
    }
    dates = {kind: [row.as_of for row in rows] for kind, rows in kinds.items()}
    return tuple(Age(kind=kind, rows=len(found), oldest=min(found), newest=max(found)) for kind, found in dates.items() if found)


def regions_by_provider(catalog: Catalog) -> dict[str, int]:
    """How many regions each provider has, sorted by name."""
    return dict(sorted(Counter(region.provider for region in catalog.regions.values()).items()))
