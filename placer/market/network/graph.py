"""The directed graph of regions: bandwidth of one stream, round-trip time and egress price of each
pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.market.catalog import Catalog, EgressPrice, MeasuredLink, Region, VmOffer
from placer.market.network.link_model import (
    estimated_rtt_s,
    one_stream_bytes_per_s,
    pair_cap_bytes_per_s,
    spread,
)
from placer.units import GIB

if TYPE_CHECKING:
    import networkx as nx

GBPS = 1e9 / 8
"""Bytes per second of 1 Gb/s."""
MODEL = "link model: way along cables, factor of zones, window / rtt"
"""Source of an estimated link."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One direction between two places.

    Notes
    -----
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

        Notes
        -----
        Erben et al. (2024): k streams move k times as much until the cap of the path (1, 5, 10, 20
        streams between continents: 0.21, 1.06, 2.09, 4.27 Gb/s, then flat).

        Examples
        --------
        >>> link = Link(
        ...     src="a", dst="b", bytes_per_second=2.0, low=1.0, high=3.0, cap=7.0, rtt_s=0.1,
        ...     basis="measured", source="")
        >>> link.speed(3), link.speed(4), link.speed(2, case=1)
        (6.0, 7.0, 2.0)
        """
        one = (self.bytes_per_second, self.low, self.high)[case]
        return min(streams * one, max(self.cap, one))

    def of_streams(self, streams: int) -> Link:
        """Return the link as somebody sees it whose every stream is so many side by side."""
        return replace(
            self,
            bytes_per_second=self.speed(streams, 0),
            low=self.speed(streams, 1),
            high=self.speed(streams, 2),
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
        """Return the row of a price book that says what is known of the link, so that it stays the
        same in a smaller book.
        """
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


def first_paid(tiers: Sequence[EgressPrice]) -> EgressPrice:
    """Return the lowest volume tier that costs something; the first one if all are free."""
    return next((tier for tier in tiers if tier.usd_per_gib > 0), tiers[0])


def network_of(catalog: Catalog) -> Network:
    """Give the network of a catalog: the same one for every question, so that links and prices are
    worked out once.
    """
    network = catalog.memo.get("network")
    if network is None:
        network = catalog.memo.setdefault("network", Network(catalog))
    assert isinstance(network, Network)
    return network


def largest_cards(catalog: Catalog, places: Iterable[str]) -> list[VmOffer]:
    """Pick the offer of each place that says what many streams reach there: a cut-down catalog with
    it keeps its links.
    """
    offers = (catalog.offers_at(place) for place in places)
    return [
        max(rows, key=lambda row: math.inf if row.network_gbps is None else row.network_gbps)
        for rows in offers
        if rows
    ]


class Network:
    """Links and egress prices of a catalog, worked out when first asked for.

    Parameters
    ----------
    catalog
        Regions with coordinates, measured links, egress prices.
    linked
        A network with the same regions, offers and measured links, whose links are shared.
    """

    def __init__(self, catalog: Catalog, linked: Network | None = None) -> None:
        self._catalog = catalog
        self._measured = {(link.src, link.dst): link for link in catalog.links}
        self._links: dict[tuple[str, str], Link] = {} if linked is None else linked._links
        self._cards: dict[str, float] = {}
        self._rtts_s: dict[tuple[str, str], float] = {}
        self._egress: dict[tuple[str, str, bool], EgressPrice] = {}
        self._tiers: dict[tuple[str, str, bool], tuple[EgressPrice, ...]] = {}
        self._prices: dict[tuple[str, str, str], list[EgressPrice]] = {}
        for price in catalog.egress:
            self._prices.setdefault((price.provider, price.src, price.dst), []).append(price)

    @cached_property
    def tables(self) -> dict[object, Any]:
        """Tables over many places that solvers work out of this network and want again."""
        return {}

    def link(self, src: str, dst: str) -> Link:
        """Find the link from ``src`` to ``dst``: measured if the book has it, else estimated.

        Raises
        ------
        PlacerError
            If a place is unknown.
        """
        link = self._links.get((src, dst))
        if link is None:
            link = self._links[src, dst] = self._find(src, dst)
        return link

    def machine_bytes_per_s(self, place: str) -> float:
        """Return what one machine sends or receives in all: one stream inside its region reaches
        it.
        """
        return self.link(place, place).bytes_per_second

    def egress_price(self, src: str, dst: str, *, same_zone: bool = True) -> EgressPrice:
        """Find the price per GiB that everything per hour counts with: the first paid tier of
        `egress_tiers`.

        Parameters
        ----------
        src, dst
            Places.
        same_zone
            Whether two machines of one region share a zone.

        Raises
        ------
        PlacerError
            If the book has no price: egress is never free by omission.

        Notes
        -----
        A monthly free allowance and the cheaper tiers of large volumes are left out, so that
        dollars per hour stay linear in bytes and, with prices that fall with volume, never too low.
        `placer.cost_model.dollars.month` prices a whole month with all tiers.
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
        specific pair of the book wins.

        Parameters
        ----------
        src, dst
            Places.
        same_zone
            Whether two machines of one region share a zone.

        Raises
        ------
        PlacerError
            If the book has no price: egress is never free by omission.
        """
        key = (src, dst, same_zone)
        tiers = self._tiers.get(key)
        if tiers is None:
            tiers = self._tiers[key] = self._find_tiers(
                self._catalog.region(src), self._catalog.region(dst), same_zone
            )
        return tiers

    def usd_per_byte(self, src: str, dst: str, *, same_zone: bool = True) -> float:
        """Return the egress price in USD per byte; see `egress_price`."""
        return self.egress_price(src, dst, same_zone=same_zone).usd_per_gib / GIB

    def graph(self, places: list[str]) -> nx.DiGraph[str]:
        """Build the complete directed graph of some places, with link and price attributes."""
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        for src in places:
            for dst in places:
                link = self.link(src, dst)
                graph.add_edge(
                    src,
                    dst,
                    **{
                        f: getattr(link, f)
                        for f in ("bytes_per_second", "rtt_s", "basis", "source")
                    },
                )
                graph.edges[src, dst]["usd_per_gib"] = self.egress_price(src, dst).usd_per_gib
        return graph

    def estimated_link(self, src: str, dst: str) -> Link:
        """Estimate the link from ``src`` to ``dst``, whatever the book has measured.

        Raises
        ------
        PlacerError
            If a place is unknown.
        """
        a, b = self._catalog.region(src), self._catalog.region(dst)
        rtt_s = self._rtt_s(a, b)
        return _estimated(a, b, rtt_s, self._cap(a, b, rtt_s), MODEL)

    def _find(self, src: str, dst: str) -> Link:
        row = self._measured.get((src, dst))
        return self.estimated_link(src, dst) if row is None else self._completed(row)

    def _completed(self, row: MeasuredLink) -> Link:
        """Return the link of a measured row; what nobody measured is estimated."""
        a, b = self._catalog.region(row.src), self._catalog.region(row.dst)
        rtt_s = self._rtt_s(a, b) if row.rtt_ms is None else row.rtt_ms / 1e3
        cap = (
            self._cap(a, b, rtt_s)
            if row.gbps_many_streams is None
            else row.gbps_many_streams * GBPS
        )
        if row.gbps_one_stream is None:
            return _estimated(a, b, rtt_s, cap, f"{row.source}; one stream: window / rtt")
        one, wide = row.gbps_one_stream * GBPS, spread(a, b, rtt_s)
        low = one / wide if row.gbps_low is None else row.gbps_low * GBPS
        high = one * wide if row.gbps_high is None else row.gbps_high * GBPS
        return Link(
            src=row.src,
            dst=row.dst,
            bytes_per_second=one,
            low=low,
            high=high,
            cap=max(high, cap) if row.gbps_many_streams is None else cap,
            rtt_s=rtt_s,
            basis=row.basis,
            source=row.source,
        )

    def _rtt_s(self, a: Region, b: Region) -> float:
        """Estimate of a round-trip time, worked out once for both directions."""
        ends = (a.place, b.place) if a.place <= b.place else (b.place, a.place)
        rtt_s = self._rtts_s.get(ends)
        if rtt_s is None:
            rtt_s = self._rtts_s[ends] = estimated_rtt_s(a, b)
        return rtt_s

    def _cap(self, src: Region, dst: Region, rtt_s: float) -> float:
        """Return what many streams reach: the caps of the providers and of the largest network
        cards that both places rent out.
        """
        return min(
            pair_cap_bytes_per_s(src, dst, rtt_s),
            self._card_bytes_per_s(src.place),
            self._card_bytes_per_s(dst.place),
        )

    def _card_bytes_per_s(self, place: str) -> float:
        """Return the network of the best machine of a place; without end where an offer does not
        say.
        """
        card = self._cards.get(place)
        if card is None:
            cards = [offer.network_gbps for offer in self._catalog.offers_at(place)]
            known = [gbps for gbps in cards if gbps is not None]
            card = self._cards[place] = (
                max(known) * GBPS if known and len(known) == len(cards) else math.inf
            )
        return card

    def _find_tiers(self, src: Region, dst: Region, same_zone: bool) -> tuple[EgressPrice, ...]:
        if src.place == dst.place:
            wanted = ["intra_zone" if same_zone else "inter_zone"]
        elif src.provider != dst.provider:
            wanted = [
                dst.place,
                "internet",
            ]  # a place of another provider is priced apart only in a changed world
        else:
            wanted = [dst.region, dst.egress_zone, "*"]
        ranked = (
            (i + j, self._prices.get((src.provider, a, b)))
            for i, a in enumerate((src.region, src.egress_zone, "*"))
            for j, b in enumerate(wanted)
        )
        matches = [(rank, tiers) for rank, tiers in ranked if tiers is not None]
        if not matches:
            raise PlacerError(
                f"catalog {self._catalog.name} has no egress price from {src.place} to {dst.place}",
                "add a row to egress.csv; a missing price is never taken as free",
                exit_code=5,
            )
        return tuple(
            sorted(min(matches, key=lambda m: m[0])[1], key=lambda tier: tier.above_gib_per_month)
        )


def _estimated(a: Region, b: Region, rtt_s: float, cap: float, source: str) -> Link:
    """Return the link whose one stream is estimated from its window, its round-trip time and what
    the pair carries at most.
    """
    speed, wide = min(one_stream_bytes_per_s(a, b, rtt_s), cap), spread(a, b, rtt_s)
    return Link(
        src=a.place,
        dst=b.place,
        bytes_per_second=speed,
        low=speed / wide,
        high=speed * wide,
        cap=cap,
        rtt_s=rtt_s,
        basis="estimated",
        source=source,
    )
