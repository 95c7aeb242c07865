"""The link that nobody measured: round-trip time over the cables of the world, one stream from its
window; and lengths on the globe.

Every figure that comes from here is labelled ``estimated``. The error stands at `ROUTE_FACTORS` and
`SPREAD`; ``placer network check`` works it out for any measured grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from placer.market.books.csv_rows import shipped_table
from placer.market.catalog import Region

EARTH_RADIUS_KM = 6371.0
ACCESS_FACTOR = 1.5
"""Length of the way from a place to a hub over its great circle. Fitted; 1.2 to 2 do as well."""
ACCESS_HUBS = 2  # A place joins its nearest two hubs. Fitted; 1 and 3 are no better.


Array = np.ndarray[Any, Any]


class Point(Protocol):
    """Something on the globe: a region, a hub."""

    @property
    def latitude_deg(self) -> float:
        """North is positive."""

    @property
    def longitude_deg(self) -> float:
        """East is positive."""


class Hub(Struct, frozen=True, kw_only=True):
    """A city where cables meet; ``zone`` is the part of the world around it."""

    hub: str
    latitude_deg: float
    longitude_deg: float
    zone: str
    source: str
    as_of: str


class Corridor(Struct, frozen=True, kw_only=True):
    """A way that cables take between two hubs; Google Cloud's is ``gcp_factor`` longer."""

    hub_a: str
    hub_b: str
    gcp_factor: float | None
    source: str
    as_of: str


def great_circle_km(a: Point, b: Point) -> float:
    """Return the great-circle distance of two points in kilometres."""
    return float(great_circles_km(*_degrees([a]), *_degrees([b]))[0])


def pairwise_km(pairs: Sequence[tuple[Point, Point]]) -> list[float]:
    """Return the great-circle distance of each pair of points in kilometres."""
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    apart: list[float] = great_circles_km(*_degrees(first), *_degrees(second)).tolist()
    return apart


def great_circles_km(lat_a: Array, lon_a: Array, lat_b: Array, lon_b: Array) -> Array:
    """Return great-circle distances in km of points in degrees (haversine); they broadcast."""
    lat_a, lat_b, d_lon = np.radians(lat_a), np.radians(lat_b), np.radians(lon_b - lon_a)
    h = np.sin((lat_b - lat_a) / 2) ** 2 + np.cos(lat_a) * np.cos(lat_b) * np.sin(d_lon / 2) ** 2
    built: Array = 2 * EARTH_RADIUS_KM * np.arcsin(np.minimum(1.0, np.sqrt(h)))
    return built


def _each_to_each_km(a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
    return great_circles_km(a[0][:, None], a[1][:, None], *b)


@lru_cache(maxsize=1)
def hubs() -> dict[str, Hub]:
    """Return the hubs by name (catalogs/hubs.csv)."""
    return {row.hub: row for row in shipped_table("hubs.csv", Hub)}


def _degrees(points: Sequence[Point]) -> tuple[Array, Array]:
    return (
        np.array([point.latitude_deg for point in points], dtype=float),
        np.array([point.longitude_deg for point in points], dtype=float),
    )


@lru_cache(maxsize=2)
def hub_distances_km(gcp: bool = False) -> Array:
    """Return the kilometres of corridors between all hubs, in the order of `hubs`; shape (hubs,
    hubs).

    Floyd and Warshall's algorithm, a hub at a time: half a millisecond for 89 hubs. The import of
    networkx alone would take 0.4 s of every recommendation; a test compares the two.
    """
    at = {hub: number for number, hub in enumerate(hubs())}
    table = np.full((len(at), len(at)), np.inf)
    np.fill_diagonal(table, 0.0)
    for corridor in shipped_table("corridors.csv", Corridor):
        length_km = great_circle_km(hubs()[corridor.hub_a], hubs()[corridor.hub_b])
        if gcp and corridor.gcp_factor is not None:
            length_km *= corridor.gcp_factor
        a, b = at[corridor.hub_a], at[corridor.hub_b]
        table[a, b] = table[b, a] = min(table[a, b], length_km)
    for between in range(len(at)):
        np.minimum(table, table[:, between, None] + table[between], out=table)
    table.setflags(write=False)
    return table


FIBRE_KM_PER_RTT_S = 100_000.0
"""Kilometres of great circle that light in fibre covers there and back in one second (c / 1.5 / 2).
"""
RTT_FLOOR_S = 0.0024
"""Median round-trip time between providers in one city: 2.1 to 2.8 ms in public ICMP measurements.
"""
IN_REGION_RTT_S = 0.0007  # Erben et al. (2024), table 3: 0.64 to 0.72 ms inside a region.
SAME_CITY_KM = 60.0  # Places as near as this reach each other without a hub
BACKBONE_KM = 300.0
"""Places of one cloud as near as this may be joined by its own fibre; two providers meet at a hub.
"""
CITY_FACTOR = 1.3  # Length of a direct way over its great circle; assumed
OWN_BACKBONE = 0.96
"""How much shorter the way inside one cloud is than between two, which have to meet. Fitted."""
CLOUDS = ("aws", "azure", "gcp")
"""Providers with a backbone of their own, and those that the model was fitted to."""
STREAM_WINDOW_BYTES = 2.67e6
"""Bytes one TCP stream keeps in flight: 21.4 Mbit, Erben et al. (2024), tables 3 to 5."""
STREAM_CAP_BYTES_PER_S = {
    "aws": 4.8e9 / 8,
    "gcp": 7.0e9 / 8,
    "azure": 7.6e9 / 8,
    "lambda": 3.3e9 / 8,
}
"""What one stream reaches inside a region: Erben et al. (2024), tables 3 and 4 and section 3."""
EGRESS_CAP_BYTES_PER_S = {"aws": 4.8e9 / 8, "gcp": 7.0e9 / 8, "azure": 9.5e9 / 8}
"""What one machine sends to other regions and providers with many streams, however many help.

Highest of public iperf measurements with 64 streams over short ways (2022): 4.8 Gb/s from AWS, 7.1
from GC, 9.5 from Azure to AWS.
"""
LONG_WAY_BYTES_PER_SQRT_S = {"aws": 1.42e9 / 8, "gcp": 1.78e9 / 8, "azure": 1.27e9 / 8}
"""What many streams reach over a long way, times the square root of its round-trip time: CUBIC
shares a busy way so.

Median of the public measurements with 64 streams (2022, 5 s each, pairs below 80 % of
`EGRESS_CAP_BYTES_PER_S`). With it the throughput of many streams is 4 % off in the median and 13 %
at the 90th percentile from AWS (1,428 pairs), 8 % and 32 % from GC (1,803), 47 % and 80 % from
Azure (1,363), whose hosts differed. Checked on the logs of Erben et al. (2024): 6.17 Gb/s from the
EU to the US of GC with 40 streams, 5.5 here.
"""
DEFAULT_CAP_BYTES_PER_S = 3.3e9 / 8
"""For providers that nobody measured: the least of the measured ones."""
SPREAD = 1.25
"""Low and high of an estimated bandwidth between clouds are this factor below and above it.

Holds 97 % of the 2,176 measured round-trip times whose estimate is `NEAR_RTT_S` or more, and all
published streams between clouds: their windows are 0.88 to 1.17 times `STREAM_WINDOW_BYTES`.
"""
NEAR_RTT_S = 0.02  # Nearer places depend more on where networks meet than on the way between them
NEAR_SPREAD = 1.6  # The same for places nearer than `NEAR_RTT_S`: holds 90 % of the other 166
UNKNOWN_SPREAD = 3.1
"""The same where nobody measured a stream of one of the providers: the window of its hosts is not
known.

Erben et al. (2024), table 5: streams from an on-premise cluster kept 0.9 to 1.5 MB in flight, and
the way of one of them took 1.3 times as long as estimated.
"""

ROUTE_FACTORS = {
    "africa": (1.33,),
    "america-east": (1.35, 1.45),
    "america-west": (1.40, 1.68, 1.35),
    "east-asia": (1.26, 1.37, 1.23, 1.83),
    "europe": (1.34, 1.34, 1.44, 1.29, 1.79),
    "india": (1.24, 1.28, 1.29, 1.41, 1.30, 1.56),
    "middle-east": (1.08, 1.42, 1.39, 1.35, 1.50, 1.41, 1.28),
    "oceania": (1.28, 1.26, 1.18, 1.49, 1.26, 1.35, 1.31, 1.54),
    "south-america": (1.34, 1.35, 1.38, 1.32, 1.33, 1.31, 1.36, 1.28, 1.70),
    "southeast-asia": (1.23, 1.30, 1.22, 1.41, 1.30, 1.45, 1.38, 1.29, 1.29, 1.41),
}
"""Route length over the way along corridors, for each zone with the zones up to itself.

Medians of (rtt - floor) / way, weighted by way / rtt, of pairs at least 300 km apart, drawn to the
median of all by the weight of three pairs: public ICMP measurements between 70 regions of AWS,
Azure and GC (2022; 2,342 pairs, both directions alike). On these pairs the round-trip time is
4.2 % off in the median and 14.0 % at the 90th percentile; on regions that the fit had not seen (a
third left out, four draws) 4.6 % and 15.3 %; on the pairs of a provider it had not seen 4.8 % and
14.7 % (AWS), 5.7 % and 16.9 % (Azure), 5.3 % and 18.2 % (GC). Which corridors clouds use (not the
South Atlantic, not from India to South Africa), the factor of GC in catalogs/corridors.csv and the
constants above were chosen on all pairs, so only the factors are held out. The factor of GC (any
from 1.3 to 1.8 does as well) and Texas as a part of the west follow one published pair each (Erben
et al. (2024), tables 3 and 4). Near pairs are worst: 14 % in the median between 60 and 500 km.
africa and middle-east with themselves have one pair each.
"""
ZONES = tuple(ROUTE_FACTORS)
"""Parts of the world; a place is in that of its nearest hub."""


def light_rtt_s(a: Region, b: Region) -> float:
    """Return the least round-trip time in s of two places: light in fibre, great circle."""
    return great_circle_km(a, b) / FIBRE_KM_PER_RTT_S


def _factors() -> Array:
    table = np.zeros((len(ZONES), len(ZONES)))
    for at, row in enumerate(ROUTE_FACTORS.values()):
        table[at, : at + 1] = table[: at + 1, at] = row
    return table


_FACTORS = _factors()


class Pairs:
    """Estimates of all links from some places to each other; shape (places, places)."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = regions
        names = np.array([region.place for region in regions])
        self.same: Array = names[:, None] == names
        takes = np.array([region.provider for region in regions])
        self._own: Array = (takes[:, None] == takes) & np.isin(takes, CLOUDS)
        self._gcp: Array = (takes[:, None] == "gcp") | (takes == "gcp")
        self._degrees = _degrees(regions)

    @cached_property
    def direct_km(self) -> Array:
        """Great circles."""
        return _each_to_each_km(self._degrees, self._degrees)

    @cached_property
    def weighted_km(self) -> Array:
        """Ways between the places, before the factor of their zones."""
        km = self._corridors_km()
        if self._gcp.any():
            km = np.where(self._gcp, self._corridors_km(gcp=True), km)
        near = self.direct_km <= np.where(self._own, BACKBONE_KM, SAME_CITY_KM)
        km = np.where(near, np.minimum(km, CITY_FACTOR * self.direct_km), km)
        return np.where(self._own, OWN_BACKBONE * km, km)

    @cached_property
    def rtt_s(self) -> Array:
        """Round-trip times: floor + factor of the zones x way, no faster than light in fibre."""
        zones = [ZONES.index(zone) for zone in self.zones]
        way_s = _FACTORS[np.ix_(zones, zones)] * self.weighted_km / FIBRE_KM_PER_RTT_S
        light_s = self.direct_km / FIBRE_KM_PER_RTT_S
        return np.where(self.same, IN_REGION_RTT_S, np.maximum(RTT_FLOOR_S + way_s, light_s))

    def spread(self, rtt_s: Array) -> Array:
        """Return the factors of the low and high of an estimated bandwidth."""
        known = self._each(STREAM_CAP_BYTES_PER_S.__contains__)
        apart = np.where(rtt_s >= NEAR_RTT_S, SPREAD, NEAR_SPREAD)
        both = np.where(known[:, None] & known, apart, UNKNOWN_SPREAD)
        return np.where(self.same, SPREAD, both)

    def one_stream_bytes_per_s(self, rtt_s: Array) -> Array:
        """Return the throughput of one TCP stream: min(caps of both ends, window / rtt)."""
        ends = np.minimum(self._one_stream_caps[:, None], self._one_stream_caps)
        built: Array = np.minimum(
            np.minimum(ends, self.cap_bytes_per_s(rtt_s)), STREAM_WINDOW_BYTES / rtt_s
        )
        return built

    def cap_bytes_per_s(self, rtt_s: Array) -> Array:
        """Return what any number of streams between two machines reaches.

        Inside a region the cap of one stream. Elsewhere the source's cap on egress: clouds do not
        throttle what comes in (public measurements: 6.9 Gb/s from GC into AWS, which sends 4.8). A
        provider that nobody measured takes in no more than it sends.
        """
        slowest = min(LONG_WAY_BYTES_PER_SQRT_S.values())
        long_way = self._each(lambda name: LONG_WAY_BYTES_PER_SQRT_S.get(name, slowest))
        leaves = self._each(lambda name: EGRESS_CAP_BYTES_PER_S.get(name, DEFAULT_CAP_BYTES_PER_S))
        takes_all = self._each(CLOUDS.__contains__)
        sends = np.minimum(leaves[:, None], long_way[:, None] / np.sqrt(rtt_s))
        apart = np.where(takes_all, sends, np.minimum(sends, DEFAULT_CAP_BYTES_PER_S))
        return np.where(self.same, self._one_stream_caps[:, None], apart)

    @property
    def zones(self) -> list[str]:
        """The part of the world of each place: the zone of its nearest hub."""
        zones = [hub.zone for hub in hubs().values()]
        return [zones[hub] for hub in self._access[0][:, 0]]

    @cached_property
    def _access(self) -> tuple[Array, Array]:
        """Ways from the places to their nearest hubs, nearest first: numbers of hubs in the order
        of `hubs`, and km; shape (places, `ACCESS_HUBS`).
        """
        every = ACCESS_FACTOR * _each_to_each_km(self._degrees, _degrees([*hubs().values()]))
        hub = np.argsort(every, axis=1, kind="stable")[:, :ACCESS_HUBS]
        return hub, np.take_along_axis(every, hub, axis=1)

    def _corridors_km(self, *, gcp: bool = False) -> Array:
        """Return the lengths of the shortest ways over the corridors, with the access of both ends;
        the same in both directions. Some corridors are longer where Google Cloud carries the
        traffic.
        """
        hub, km = self._access
        reach = (km[:, :, None] + hub_distances_km(gcp)[hub]).min(axis=1)  # of each hub
        there = (reach[:, hub] + km).min(axis=2)
        # Sums in another order differ in the last digit, so one end is the first both ways.
        latitude_deg, longitude_deg = (degrees[:, None] for degrees in self._degrees)
        turned = (latitude_deg > latitude_deg.T) | (
            (latitude_deg == latitude_deg.T) & (longitude_deg > longitude_deg.T)
        )
        built: Array = np.where(turned, there.T, there)
        return built

    @cached_property
    def _one_stream_caps(self) -> Array:
        return self._each(lambda name: STREAM_CAP_BYTES_PER_S.get(name, DEFAULT_CAP_BYTES_PER_S))

    def _each(self, known: Callable[[str], float]) -> Array:
        """Look a figure of the provider up for each place."""
        return np.array([known(region.provider) for region in self.regions])
