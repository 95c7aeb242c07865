"""What a catalog covers: offers by provider, device and market, regions, and how old its figures
are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from placer.market.catalog import Catalog
from placer.market.checks.provenance import trail


@dataclass(frozen=True, kw_only=True, slots=True)
class Covered:
    """Offers of one device of one provider; USD/h for each device."""

    provider: str
    gpu: str
    regions: int
    on_demand: int
    spot: int
    community: int
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
    figures = []
    for (provider, gpu), offers in sorted(groups.items()):
        prices = [offer.usd_per_gpu_hour for offer in offers]
        dates = [offer.as_of for offer in offers]
        figures.append(
            Covered(
                provider=provider,
                gpu=gpu,
                regions=len({offer.region for offer in offers}),
                on_demand=sum(offer.market == "on_demand" for offer in offers),
                spot=sum(offer.market == "spot" for offer in offers),
                community=sum(offer.market == "community" for offer in offers),
                usd_per_gpu_hour_low=min(prices),
                usd_per_gpu_hour_median=median(prices),
                usd_per_gpu_hour_high=max(prices),
                estimated=sum(offer.price_basis == "estimated" for offer in offers),
                oldest=min(dates),
                newest=max(dates),
            )
        )
    return tuple(figures)


def rows_by_kind(catalog: Catalog) -> Mapping[str, Collection[Any]]:
    """Return every row of a catalog by what it is about, in words."""
    return {
        "machines": catalog.offers,
        "functions": catalog.functions,
        "stores": catalog.stores,
        "egress": catalog.egress,
        "links": catalog.links,
        "regions": catalog.regions.values(),
        "devices": catalog.gpus.values(),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Age:
    """Rows of one kind and the dates of the oldest and the newest."""

    kind: str
    rows: int
    oldest: str
    newest: str


def ages(catalog: Catalog) -> tuple[Age, ...]:
    """Return the dates of every kind of figure that a catalog has."""
    dates = {kind: [row.as_of for row in rows] for kind, rows in rows_by_kind(catalog).items()}
    return tuple(
        Age(kind=kind, rows=len(found), oldest=min(found), newest=max(found))
        for kind, found in dates.items()
        if found
    )


def regions_by_provider(catalog: Catalog) -> dict[str, int]:
    """Return how many regions each provider has, sorted by name."""
    return dict(sorted(Counter(region.provider for region in catalog.regions.values()).items()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cited:
    """A source of sources.csv and how many rows of a catalog name it."""

    source: str
    publisher: str
    kind: str
    url: str
    rows: int


def cited(catalog: Catalog) -> tuple[tuple[Cited, ...], int]:
    """List the sources and mirrors that the rows of a catalog name, most named first.

    Returns
    -------
    tuple of Cited
        A row of regions.csv may name two: one of its point, one of its carbon intensity.
    int
        How many rows name a source that sources.csv does not know: the user's own.
    """
    counts = Counter(found for text in _source_texts(catalog) for found in trail(text))
    own = counts.pop(None, 0)
    listed = [
        Cited(
            source=found.source,
            publisher=found.publisher,
            kind=found.kind,
            url=found.url,
            rows=rows,
        )
        for found, rows in counts.most_common()
        if found is not None
    ]
    return tuple(listed), own


def _source_texts(catalog: Catalog) -> Iterator[str]:
    for rows in rows_by_kind(catalog).values():
        yield from (row.source for row in rows)
    yield from (region.carbon_source for region in catalog.regions.values() if region.carbon_source)


UNSURE: Mapping[str, Callable[[str], bool]] = {
    "not yet checked against the price list": lambda text: "from memory" in text,
    "assumed in part": lambda text: "assumed" in text,
    "estimates": lambda text: text.startswith("estimate: "),
}
"""How the source of a row says that its figure was not read where it is published, in words and as
a test.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsure:
    """Rows of one kind whose source says that nobody read the figure; ``of`` counts all rows of the
    kind.
    """

    kind: str
    words: str
    rows: int
    of: int


def unsure(catalog: Catalog) -> tuple[Unsure, ...]:
    """Count the rows that are not checked, assumed or estimated, by kind; a row may be counted
    under two words.
    """
    texts = (
        Unsure(kind=kind, words=words, rows=sum(holds(row.source) for row in rows), of=len(rows))
        for words, holds in UNSURE.items()
        for kind, rows in rows_by_kind(catalog).items()
    )
    return tuple(count for count in texts if count.rows)
