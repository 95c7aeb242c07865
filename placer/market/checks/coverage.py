"""What a catalog covers: offers put together by what they have in common, how old its figures are,
where the sources stand in public that its rows name; and what changed from one catalog to another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import median
from typing import Any, Literal

from msgspec import Struct, convert

from placer.market.books.csv_rows import key_columns, shipped_table
from placer.market.catalog import MARKETS, TABLES, Catalog, VmOffer

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
_VIA = re.compile(r"\(via ([^()]+)\)")
"""What repeats the figures of another: ``(via tsaol/aws-gpu)``."""
UNSURE: Mapping[str, Callable[[str], bool]] = {
    "not yet checked against the price list": lambda text: "from memory" in text,
    "assumed in part": lambda text: "assumed" in text,
    "estimates": lambda text: text.startswith("estimate: "),
}
"""How the source of a row says that nobody read its figure where it is published."""


class OfferGroup(Struct, frozen=True, kw_only=True):
    """Offers of one kind; USD/h for each device, the cheapest with its place."""

    group: tuple[str, ...]
    offers: int
    places: int
    usd_per_gpu_hour_low: float
    usd_per_gpu_hour_median: float
    usd_per_gpu_hour_high: float
    cheapest: str
    newest: str


class Covered(Struct, frozen=True, kw_only=True):
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


class Age(Struct, frozen=True, kw_only=True):
    """Rows of one kind and the dates of the oldest and the newest."""

    kind: str
    rows: int
    oldest: str
    newest: str


class Source(Struct, frozen=True, kw_only=True):
    """One line of sources.csv: the words that name a source, who answers for it, where it is."""

    source: str
    publisher: str
    kind: str
    url: str
    note: str


class Cited(Struct, frozen=True, kw_only=True):
    """A source of sources.csv and how many rows of a catalog name it."""

    source: str
    publisher: str
    kind: str
    url: str
    rows: int


class Unsure(Struct, frozen=True, kw_only=True):
    """Rows of one kind whose source says that nobody read the figure; ``of`` counts all rows of the
    kind.
    """

    kind: str
    words: str
    rows: int
    of: int


def _grouped(
    offers: Iterable[VmOffer], catalog: Catalog, by: tuple[str, ...]
) -> dict[tuple[str, ...], list[VmOffer]]:
    groups: dict[tuple[str, ...], list[VmOffer]] = {}
    for offer in offers:
        groups.setdefault(tuple(GROUPS[key](offer, catalog) for key in by), []).append(offer)
    return groups


def _summed_up(members: Sequence[VmOffer]) -> dict[str, Any]:
    """Count some offers; fields of `OfferGroup` and `Covered`."""
    best = min(members, key=lambda offer: (offer.usd_per_gpu_hour, offer.place))
    each, dates = [o.usd_per_gpu_hour for o in members], [o.as_of for o in members]
    ends = {"low": min(each), "median": median(each), "high": max(each)}
    markets = Counter(offer.market for offer in members)
    return {
        "offers": len(members),
        "places": len({offer.place for offer in members}),
        "regions": len({offer.region for offer in members}),
        **{market: markets[market] for market in MARKETS},
        **{f"usd_per_gpu_hour_{name}": usd for name, usd in ends.items()},
        "cheapest": f"{best.instance_type} {best.market.replace('_', '-')} in {best.place}",
        "estimated": sum(offer.price_basis == "estimated" for offer in members),
        "oldest": min(dates),
        "newest": max(dates),
    }


def grouped(offers: Iterable[VmOffer], catalog: Catalog, by: tuple[str, ...]) -> list[OfferGroup]:
    """Put offers together by one or more keys of `GROUPS`; cheapest group first."""
    groups = (
        convert({"group": key, **_summed_up(members)}, OfferGroup)
        for key, members in _grouped(offers, catalog, by).items()
    )
    return sorted(groups, key=lambda group: (group.usd_per_gpu_hour_low, group.group))


def coverage(catalog: Catalog) -> tuple[Covered, ...]:
    """Count the offers of a catalog by provider and device, in the order of their names."""
    groups = _grouped(catalog.offers, catalog, ("provider", "gpu"))
    return tuple(
        convert({"provider": provider, "gpu": gpu, **_summed_up(offers)}, Covered)
        for (provider, gpu), offers in sorted(groups.items())
    )


def rows_by_kind(catalog: Catalog) -> Mapping[str, Sequence[Any]]:
    """Return every row of a catalog by what it is about, in words."""
    tables = ("offers", "functions", "stores", "egress", "links", "regions", "gpus")
    words = {"offers": "machines", "gpus": "devices"}
    return {words.get(table, table): catalog.rows_of(table) for table in tables}


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


def resolve(text: str) -> Source | None:
    """Find the source that the ``source`` cell of a row names: it begins with the words by which
    catalogs/sources.csv knows the source, and the longest such words win. None for a source of the
    user's own.

    >>> resolve("AWS Lambda price list (arm)").url
    'https://aws.amazon.com/lambda/pricing/'
    >>> resolve("quote 4711 of our dealer") is None
    True
    """
    sources = (
        s
        for s in shipped_table("sources.csv", Source)
        if text.startswith(s.source) and not text[len(s.source) :][:1].isalnum()
    )
    return max(sources, key=lambda s: len(s.source), default=None)


@lru_cache(maxsize=4096)
def trail(text: str) -> tuple[Source | None, ...]:
    """Find the source that a cell names and behind it the mirrors where it was read.

    >>> [found.kind for found in trail("AWS EC2 price list (via tsaol/aws-gpu)")]
    ['price-list', 'mirror']
    """
    return resolve(text), *(resolve(name) for name in _VIA.findall(text))


def cited(catalog: Catalog) -> tuple[tuple[Cited, ...], int]:
    """List the sources and mirrors that the rows of a catalog name, most named first; and count the
    rows that name a source that sources.csv does not know: the user's own.
    """
    texts = [row.source for rows in rows_by_kind(catalog).values() for row in rows]
    # A row of regions.csv may name two: one of its point, one of its carbon intensity.
    texts += [region.carbon_source for region in catalog.regions.values() if region.carbon_source]
    counts = Counter(found for text in texts for found in trail(text))
    own = counts.pop(None, 0)
    listed = [
        Cited(source=s.source, publisher=s.publisher, kind=s.kind, url=s.url, rows=rows)
        for s, rows in counts.most_common()
        if s is not None
    ]
    return tuple(listed), own


def unsure(catalog: Catalog) -> tuple[Unsure, ...]:
    """Count the rows that are not checked, assumed or estimated, by kind; some count twice."""
    texts = (
        Unsure(kind=kind, words=words, rows=sum(holds(row.source) for row in rows), of=len(rows))
        for words, holds in UNSURE.items()
        for kind, rows in rows_by_kind(catalog).items()
    )
    return tuple(count for count in texts if count.rows)


UNSAID = ("source", "as_of", "price_basis")
"""Where a figure comes from may change without the figure."""


class Change(Struct, frozen=True, kw_only=True):
    """One row: ``kind`` is new, gone or changed; ``before`` and ``after`` are the value of
    ``field`` for a changed one.
    """

    file: str
    kind: Literal["new", "gone", "changed"]
    key: tuple[str, ...]
    field: str = ""
    before: str | float | bool | None = None
    after: str | float | bool | None = None

    @property
    def ratio(self) -> float:
        """How many times the figure became, at least 1 either way; 1 for what is not a number."""
        before, after, numbers = self.before, self.after, (int, float)
        if not isinstance(before, numbers) or not isinstance(after, numbers):
            return 1.0
        least = min(before, after)
        return max(before, after) / least if least > 0 else 1.0


def differences(old: Catalog, new: Catalog) -> tuple[Change, ...]:
    """Compare two catalogs row by row: of each file the largest changes first."""
    differences: list[Change] = []
    order = ("offers", "functions", "stores", "egress", "links", "regions", "gpus", "capacity")
    for table in order:
        file, columns = f"{table}.csv", key_columns(f"{table}.csv")
        before, after = (
            {tuple(str(getattr(row, c)) for c in columns): row for row in catalog.rows_of(table)}
            for catalog in (old, new)
        )
        changed = [
            Change(file=file, kind="changed", key=key, field=name, before=was, after=now)
            for key in before.keys() & after.keys()
            if before[key] != after[key]
            for name in TABLES[table].__struct_fields__
            if name not in UNSAID
            and (was := getattr(before[key], name)) != (now := getattr(after[key], name))
        ]
        differences += sorted(changed, key=lambda c: (-c.ratio, c.key, c.field))
        came, went = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
        differences += [Change(file=file, kind="new", key=key) for key in came]
        differences += [Change(file=file, kind="gone", key=key) for key in went]
    return tuple(differences)
