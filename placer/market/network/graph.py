"""The directed graph of regions: bandwidth, round-trip time and egress price of each pair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from placer.errors import PlacerError
from placer.market.catalog import Catalog, EgressPrice, MeasuredLink, VmOffer
from placer.market.network.link_model import Array
from placer.market.network.tables import GBPS, EgressGrid, LinkGrid, first_paid, streams_bytes_per_s
from placer.market.words.own_places import SITES
from placer.records import replace
from placer.units import GIB

MODEL = "link model: way along cables, factor of zones, window / rtt"  # Source of an estimated link


class Link(Struct, frozen=True, kw_only=True):
    """One direction between two places.

    ``bytes_per_second`` is one TCP stream, with a low and a high; ``cap`` what any number of
    streams of one pair of machines reaches together. ``basis`` is measured, published or estimated.
    """

    src: str
    dst: str
    bytes_per_second: float
    low: float
    high: float
    cap: float
    rtt_s: float
    basis: str
    source: str

    def speed(self, streams: int = 1, case: int = 0) -> float:
        """Return the bytes/s of some streams side by side; ``case`` 0 takes the value, 1 the low, 2
        the high bandwidth.

        >>> link = Link(
        ...     src="a", dst="b", bytes_per_second=2.0, low=1.0, high=3.0, cap=7.0, rtt_s=0.1,
        ...     basis="measured", source="")
        >>> link.speed(3), link.speed(4), link.speed(2, case=1)
        (6.0, 7.0, 2.0)
        """
        one = (self.bytes_per_second, self.low, self.high)[case]
        speed: float = streams_bytes_per_s(one, self.cap, streams)
        return speed

    def of_machines(self, count: int) -> Link:
        """Return the link between so many pairs of machines: each pair has a cap of its own, but
        all machines of a site of one's own share its line.
        """
        if not (self.src.startswith(SITES) or self.dst.startswith(SITES)):
            return self if count == 1 else self.scaled(count)
        return replace(
            self,
            bytes_per_second=self.speed(count, 0),
            low=self.speed(count, 1),
            high=self.speed(count, 2),
        )

    def scaled(self, factor: float) -> Link:
        """Return the link with a multiple of its bandwidth; its round-trip time stays."""
        return replace(
            self,
            bytes_per_second=self.bytes_per_second * factor,
            low=self.low * factor,
            high=self.high * factor,
            cap=self.cap * factor,
        )

    def row(self, day: str) -> MeasuredLink:
        """Return the row of a book that says what is known, so that the link stays as it is."""
        return MeasuredLink(
            src=self.src,
            dst=self.dst,
            gbps_one_stream=self.bytes_per_second / GBPS,
            gbps_low=self.low / GBPS,
            gbps_high=self.high / GBPS,
            gbps_many_streams=self.cap / GBPS,
            rtt_ms=self.rtt_s * 1e3,
            basis=self.basis,
            source=self.source,
            as_of=day,
        )


IDEAL = Link(
    src="",
    dst="",
    bytes_per_second=math.inf,
    low=math.inf,
    high=math.inf,
    cap=math.inf,
    rtt_s=0.0,
    basis="",
    source="",
)
"""A link that no real one beats, for bounds."""


def network_of(catalog: Catalog) -> Network:
    """Give the network of a catalog, the same for every question: it is worked out once."""
    network = catalog.memo.get("network")
    if network is None:
        network = catalog.memo.setdefault("network", Network(catalog))
    assert isinstance(network, Network)
    return network


def largest_cards(catalog: Catalog, places: Iterable[str]) -> list[VmOffer]:
    """Pick the offer of each place that bounds many streams: with it links stay the same."""
    offers = (catalog.offers_at(place) for place in places)
    return [
        max(rows, key=lambda row: math.inf if row.network_gbps is None else row.network_gbps)
        for rows in offers
        if rows
    ]


class Network:
    """Links and egress prices of a catalog, worked out when first asked for; links are shared with
    ``linked``, a network with the same regions, offers and measured links, and prices with
    ``priced``, one with the same regions and prices.
    """

    def __init__(
        self, catalog: Catalog, linked: Network | None = None, priced: Network | None = None
    ) -> None:
        self._catalog, self._linked, self._priced = catalog, linked, priced
        self._links: dict[tuple[str, str], Link] = {} if linked is None else linked._links
        self._egress: dict[tuple[str, str, bool], EgressPrice] = {}
        self.memo: dict[str, Any] = {}
        """What others work out of the links, and keep with them."""

    @cached_property
    def _grid(self) -> LinkGrid:
        return LinkGrid(self._catalog) if self._linked is None else self._linked._grid

    @cached_property
    def _index(self) -> dict[str, int]:
        """Row of each place in the tables of links and prices: the order of the book."""
        return {place: at for at, place in enumerate(self._catalog.regions)}

    @cached_property
    def _prices(self) -> EgressGrid:
        if self._priced is not None:
            return self._priced._prices
        alike = None if self._linked is None else self._linked.__dict__.get("_prices")
        return EgressGrid(self._catalog, alike)

    @cached_property
    def _measured(self) -> dict[tuple[str, str], MeasuredLink]:
        return {(row.src, row.dst): row for row in self._catalog.links}

    def rtts_s(self, places: Sequence[str]) -> Array:
        """Return the round-trip times in seconds between some places; shape (places, places)."""
        return self._between(self._grid.rtt_s, places)

    def speeds(self, places: Sequence[str], streams: int = 1, machines: int = 1) -> Array:
        """Return bytes/s from place to place of pairs of machines; shape (places, places)."""
        return self._between(self._grid.speed(streams, machines), places)

    def fastest_links(self, streams: int) -> Mapping[str, float]:
        """Return the bytes/s of the fastest link from or to each place, its own among them."""
        known: dict[int, Mapping[str, float]] = self.memo.setdefault("fastest links", {})
        if streams not in known:
            speeds = self.speeds([*self._index], streams)
            fastest = np.maximum(speeds.max(axis=0), speeds.max(axis=1))
            known[streams] = dict(zip(self._index, fastest.tolist(), strict=True))
        return known[streams]

    def prices(self, places: Sequence[str], *, same_zone: bool = True) -> Array:
        """Return egress prices in USD per byte; see `egress_price`; shape (places, places)."""
        table = self._between(self._prices.usd_per_byte(same_zone), places)
        for src, dst in np.argwhere(np.isnan(table))[:1]:
            self.egress_tiers(places[src], places[dst], same_zone=same_zone)
        return table

    def _between(self, table: Array, places: Sequence[str]) -> Array:
        at = [self._at(place) for place in places]
        part: Array = table[np.ix_(at, at)]
        return part

    def _at(self, place: str) -> int:
        """Return the row of a place in every table; raises PlacerError if it is unknown."""
        self._catalog.region(place)
        return self._index[place]

    def link(self, src: str, dst: str) -> Link:
        """Find the link from ``src`` to ``dst``: measured if the book has it, else estimated."""
        link = self._links.get((src, dst))
        if link is not None:
            return link
        self._at(src), self._at(dst)
        row, basis, source = self._measured.get((src, dst)), "estimated", MODEL
        if row is not None and row.gbps_one_stream is None:
            source = f"{row.source}; one stream: window / rtt"
        elif row is not None:
            basis, source = row.basis, row.source
        link = self._links[src, dst] = _link(self._grid, src, dst, basis, source)
        return link

    def machine_bytes_per_s(self, place: str, machines: int = 1) -> float:
        """Return what some machines of a place send or receive in all: one stream inside its region
        reaches what one machine does, or what a site of one's own does in all.
        """
        one = self.link(place, place).bytes_per_second
        return one if place.startswith(SITES) else machines * one

    def egress_price(self, src: str, dst: str, *, same_zone: bool = True) -> EgressPrice:
        """Find the price per GiB that everything per hour counts with: the first paid tier of
        `egress_tiers`.

        A monthly free allowance and the cheaper tiers of large volumes are left out, so that
        dollars per hour stay linear in bytes and, with prices that fall with volume, never too low.
        `placer.cost_model.dollars` prices a whole month with all tiers.
        """
        key = (src, dst, same_zone)
        price = self._egress.get(key)
        if price is None:
            price = self._egress[key] = first_paid(self.egress_tiers(src, dst, same_zone=same_zone))
        return price

    def egress_tiers(
        self, src: str, dst: str, *, same_zone: bool = True
    ) -> tuple[EgressPrice, ...]:
        """Find all volume tiers of bytes from ``src`` to ``dst``, lowest mark first; the most
        specific pair of the book wins. Two machines of one region may share a zone or not.
        PlacerError if the book has no price: egress is never free by omission.
        """
        self._at(src), self._at(dst)
        tiers = self._prices.of(src, dst, same_zone=same_zone)
        if tiers is None:
            raise PlacerError(
                f"catalog {self._catalog.name} has no egress price from {src} to {dst}",
                "add a row to egress.csv; a missing price is never taken as free",
                exit_code=5,
            )
        return tiers

    def usd_per_byte(self, src: str, dst: str, *, same_zone: bool = True) -> float:
        """Return the egress price in USD per byte; see `egress_price`."""
        return self.egress_price(src, dst, same_zone=same_zone).usd_per_gib / GIB

    def estimated_link(self, src: str, dst: str) -> Link:
        """Estimate the link from ``src`` to ``dst``, whatever the book has measured."""
        return _link(LinkGrid(self._catalog, src, dst), src, dst, "estimated", MODEL)


def _link(grid: LinkGrid, src: str, dst: str, basis: str, source: str) -> Link:
    at = grid.index[src], grid.index[dst]
    return Link(
        src=src,
        dst=dst,
        bytes_per_second=float(grid.one[at]),
        low=float(grid.low[at]),
        high=float(grid.high[at]),
        cap=float(grid.cap[at]),
        rtt_s=float(grid.rtt_s[at]),
        basis=basis,
        source=source,
    )
