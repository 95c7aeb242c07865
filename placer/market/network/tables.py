"""Tables of the links and of the egress prices between all places of a book: the most specific row
of the book wins; a link that nobody measured is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from placer.market.catalog import Catalog, EgressPrice, MeasuredLink, Region
from placer.market.network.link_model import Array, Pairs
from placer.market.words.own_places import PROVIDER
from placer.units import GIB

GBPS = 1e9 / 8  # Bytes per second of 1 Gb/s
Tiers = tuple[EgressPrice, ...]  # All volume tiers of one price, lowest mark first
NONE = -1  # Number of the tiers of a pair without a price


def streams_bytes_per_s(
    one: Any,
    cap: Any,
    streams: Any,
    least: Callable[[Any, Any], Any] = min,
    most: Callable[[Any, Any], Any] = max,
) -> Any:
    """Return the bytes/s of some streams side by side, each of which reaches ``one`` alone; for
    arrays with NumPy's ``least`` and ``most``.

    Erben et al. (2024): k streams move k times as much until the cap of the path (1, 5, 10, 20
    streams between continents: 0.21, 1.06, 2.09, 4.27 Gb/s, then flat).
    """
    return least(streams * one, most(cap, one))


def _cards_bytes_per_s(catalog: Catalog, places: Sequence[str]) -> Array:
    """Return the network of the best machine of each place; infinite where an offer is silent."""
    gbps = catalog.table.column("network_gbps").numbers
    rows = (catalog.rows_by_place.get(place) for place in places)
    # The largest of some with a NaN, which stands for silence, is NaN.
    most = np.array([math.nan if at is None else gbps[at].max() for at in rows])
    return np.where(np.isnan(most), math.inf, most * GBPS)


_pairs = lru_cache(maxsize=16)(Pairs)
"""What regions alone decide is kept: many books differ in what is measured between them."""


class LinkGrid:
    """Links from every place to every other, or between some ``ends`` as nobody had measured them.

    All tables have the shape (places, places): ``rtt_s``, round-trip times; ``one``, ``low`` and
    ``high``, bytes/s of one TCP stream; ``cap``, bytes/s that any number of streams of one pair of
    machines reaches together: the caps of the providers and of the largest network cards that both
    places rent out.
    """

    def __init__(self, catalog: Catalog, *ends: str) -> None:
        regions = tuple(map(catalog.region, ends)) if ends else (*catalog.regions.values(),)
        self.index = {region.place: at for at, region in enumerate(regions)}
        own = np.array([region.provider == PROVIDER for region in regions])
        self._sites = own[:, None] | own
        self._speeds: dict[tuple[int, int], Array] = {}
        pairs = _pairs(regions)
        cards = _cards_bytes_per_s(catalog, [region.place for region in regions])
        last = {} if ends else {(row.src, row.dst): row for row in catalog.links}
        rows = [
            ((self.index[src], self.index[dst]), row)
            for (src, dst), row in last.items()
            if src in self.index and dst in self.index
        ]
        self.rtt_s: Array = pairs.rtt_s.copy()
        for at, row in rows:
            if row.rtt_ms is not None:
                self.rtt_s[at] = row.rtt_ms / 1e3
        self.cap: Array = np.minimum(
            pairs.cap_bytes_per_s(self.rtt_s), np.minimum(cards[:, None], cards)
        )
        for at, row in rows:
            if row.gbps_many_streams is not None:
                self.cap[at] = row.gbps_many_streams * GBPS
        self.one: Array = np.minimum(pairs.one_stream_bytes_per_s(self.rtt_s), self.cap)
        wide = pairs.spread(self.rtt_s)
        for at, row in rows:
            if row.gbps_one_stream is not None:
                self.one[at] = row.gbps_one_stream * GBPS
        self.low: Array = self.one / wide
        self.high: Array = self.one * wide
        for at, row in rows:
            if row.gbps_one_stream is not None:
                self._take_interval(at, row)

    def _take_interval(self, at: tuple[int, int], row: MeasuredLink) -> None:
        """Take the measured interval of one stream; many streams reach at least its high."""
        if row.gbps_low is not None:
            self.low[at] = row.gbps_low * GBPS
        if row.gbps_high is not None:
            self.high[at] = row.gbps_high * GBPS
        if row.gbps_many_streams is None:
            self.cap[at] = max(self.high[at], self.cap[at])

    def speed(self, streams: int, machines: int = 1) -> Array:
        """Return bytes/s of pairs of machines with streams each; see `Link.of_machines`."""
        known = self._speeds.get((streams, machines))
        if known is None:
            pairs = np.where(self._sites, 1, machines)
            each = streams * machines // pairs
            known = self._speeds[streams, machines] = streams_bytes_per_s(
                pairs * self.one, pairs * self.cap, each, np.minimum, np.maximum
            )
        return known


def first_paid(tiers: Sequence[EgressPrice]) -> EgressPrice:
    """Return the lowest volume tier that costs something; the first one if all are free."""
    return next((tier for tier in tiers if tier.usd_per_gib > 0), tiers[0])


class EgressGrid:
    """The price of bytes from every place to every other: the most specific row of the book wins.
    Which row names which pair is taken from ``alike``, the table of a catalog whose rows differ in
    their prices alone, if it is one.

    A row names its source by region, egress zone or ``*``, and so its destination where both belong
    to one provider; a place of another provider is ``internet``, or in a changed world its own
    name. Machines of one place pay ``intra_zone`` or ``inter_zone``. Of two rows that are equally
    specific together, the one with the more specific source wins.
    """

    def __init__(self, catalog: Catalog, alike: EgressGrid | None = None) -> None:
        self._regions = [*catalog.regions.values()]
        self.index = {region.place: at for at, region in enumerate(self._regions)}
        groups: dict[tuple[str, str, str], list[EgressPrice]] = {}
        for price in catalog.egress:
            groups.setdefault((price.provider, price.src, price.dst), []).append(price)
        self._keys = [*groups]
        self.tiers: list[Tiers] = [
            tuple(sorted(group, key=lambda tier: tier.above_gib_per_month))
            for group in groups.values()
        ]
        self._numbers: dict[bool, Array] = {}
        if alike is not None and alike._keys == self._keys and alike._regions == self._regions:
            self._numbers = alike._numbers
            return
        apart = self._apart()
        for same_zone, name in ((True, "intra_zone"), (False, "inter_zone")):
            table = apart.copy()
            np.fill_diagonal(table, self._inside(name))
            self._numbers[same_zone] = table

    def of(self, src: str, dst: str, *, same_zone: bool) -> Tiers | None:
        """Return the tiers from one place to another; None where the book has none."""
        number = int(self._numbers[same_zone][self.index[src], self.index[dst]])
        return None if number == NONE else self.tiers[number]

    def usd_per_byte(self, same_zone: bool) -> Array:
        """Return USD per byte of first paid tiers, NaN without one; shape (places, places)."""
        built: Array = self._first_paid[self._numbers[same_zone]]  # the number of none is the last
        return built

    @cached_property
    def _first_paid(self) -> Array:
        return np.array([*(first_paid(t).usd_per_gib / GIB for t in self.tiers), np.nan])

    def _apart(self) -> Array:
        """Return the numbers of the tiers between different places; shape (places, places)."""
        table = np.full((len(self._regions), len(self._regions)), NONE)
        matches = sorted(
            (match for number in range(len(self._keys)) for match in self._matches(number)),
            key=lambda match: match[:2],
            reverse=True,
        )
        for _, _, number, rows, columns in matches:  # the most specific come last
            table[np.ix_(rows, columns)] = number
        return table

    def _matches(self, number: int) -> Iterator[tuple[int, int, int, list[int], list[int]]]:
        """Yield how specific a row is, in all and in its source, its number, and its cells."""
        provider, src, dst = self._keys[number]
        for i, sources in enumerate(self._ends):
            rows = sources.get((provider, src))
            if rows is None:
                continue
            for j, destinations in enumerate(self._ends):
                columns = destinations.get((provider, dst))
                if columns is not None:
                    yield i + j, i, number, rows, columns
            others = self._others(provider, dst)
            if others:
                yield i + (dst == "internet"), i, number, rows, others

    def _others(self, provider: str, dst: str) -> list[int]:
        """List the places of other providers that a row names."""
        if dst != "internet":
            at = self.index.get(dst)
            return [] if at is None or self._regions[at].provider == provider else [at]
        return [at for at, region in enumerate(self._regions) if region.provider != provider]

    def _inside(self, name: str) -> list[int]:
        """Return the number of the tiers inside each place."""
        numbers = {
            (provider, src): number
            for number, (provider, src, dst) in enumerate(self._keys)
            if dst == name
        }
        keys = ([(region.provider, end) for end in _ends(region)] for region in self._regions)
        return [next((numbers[key] for key in ends if key in numbers), NONE) for ends in keys]

    @cached_property
    def _ends(self) -> tuple[dict[tuple[str, str], list[int]], ...]:
        """Places by provider and region, by provider and egress zone, and by provider."""
        found: tuple[dict[tuple[str, str], list[int]], ...] = ({}, {}, {})
        for at, region in enumerate(self._regions):
            for level, end in zip(found, _ends(region), strict=True):
                level.setdefault((region.provider, end), []).append(at)
        return found


def _ends(region: Region) -> tuple[str, str, str]:
    """Return the names under which rows mean a place, the most specific first."""
    return region.region, region.egress_zone, "*"
