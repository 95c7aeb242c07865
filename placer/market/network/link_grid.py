"""Tables of the links between all places of a book: measured where it has a row, else estimated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from placer.market.catalog import Catalog, MeasuredLink
from placer.market.network.geography import Array
from placer.market.network.link_model import Pairs
from placer.market.words.own_places import PROVIDER

GBPS = 1e9 / 8
"""Bytes per second of 1 Gb/s."""


def streams_bytes_per_s(
    one: Any,
    cap: Any,
    streams: Any,
    least: Callable[[Any, Any], Any] = min,
    most: Callable[[Any, Any], Any] = max,
) -> Any:
    """Return the bytes/s of some streams side by side, each of which reaches ``one`` alone; for
    arrays with NumPy's ``least`` and ``most``.

    Notes
    -----
    Erben et al. (2024): k streams move k times as much until the cap of the path (1, 5, 10, 20
    streams between continents: 0.21, 1.06, 2.09, 4.27 Gb/s, then flat).
    """
    return least(streams * one, most(cap, one))


def card_bytes_per_s(catalog: Catalog, place: str) -> float:
    """Return the network of the best machine of a place; without end where an offer does not
    say.
    """
    cards = [offer.network_gbps for offer in catalog.offers_at(place)]
    known = [gbps for gbps in cards if gbps is not None]
    return max(known) * GBPS if known and len(known) == len(cards) else math.inf


class LinkGrid:
    """Links from every place to every other; tables have the shape (places, places).

    Parameters
    ----------
    catalog
        Regions, offers and measured links.
    ends
        Places; by default all of the book. What the book has measured counts only then.

    Attributes
    ----------
    rtt_s
        Round-trip times.
    one, low, high
        Bytes/s of one TCP stream.
    cap
        Bytes/s that any number of streams of one pair of machines reaches together: the caps of
        the providers and of the largest network cards that both places rent out.
    """

    def __init__(self, catalog: Catalog, *ends: str) -> None:
        regions = [catalog.region(place) for place in ends] if ends else [*catalog.regions.values()]
        self.index = {region.place: at for at, region in enumerate(regions)}
        own = np.array([region.provider == PROVIDER for region in regions])
        self._sites = own[:, None] | own
        pairs = Pairs(regions, regions)
        cards = np.array([card_bytes_per_s(catalog, region.place) for region in regions])
        rows = [] if ends else self._rows(catalog)
        self.rtt_s: Array = pairs.rtt_s
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
            self._take_interval(at, row)

    def speed(self, streams: int, machines: int = 1) -> Array:
        """Return the bytes/s of so many pairs of machines, each with so many streams; see
        `Link.of_machines`.
        """
        pairs = np.where(self._sites, 1, machines)
        each = streams * machines // pairs
        built: Array = streams_bytes_per_s(
            pairs * self.one, pairs * self.cap, each, np.minimum, np.maximum
        )
        return built

    def _rows(self, catalog: Catalog) -> list[tuple[tuple[int, int], MeasuredLink]]:
        """List the measured rows with their cells; the last row of a pair counts."""
        last = {(row.src, row.dst): row for row in catalog.links}
        return [
            ((self.index[src], self.index[dst]), row)
            for (src, dst), row in last.items()
            if src in self.index and dst in self.index
        ]

    def _take_interval(self, at: tuple[int, int], row: MeasuredLink) -> None:
        """Take the measured interval of one stream; many streams reach at least its high."""
        if row.gbps_one_stream is None:
            return
        if row.gbps_low is not None:
            self.low[at] = row.gbps_low * GBPS
        if row.gbps_high is not None:
            self.high[at] = row.gbps_high * GBPS
        if row.gbps_many_streams is None:
            self.cap[at] = max(self.high[at], self.cap[at])
