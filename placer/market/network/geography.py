"""Lengths on the globe: great circles, and ways over the cables of the world."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs

EARTH_RADIUS_KM = 6371.0
ACCESS_FACTOR = 1.5
"""Length of the way from a place to a hub over its great circle: rarely straight. Fitted; 1.2 to 2
do as well.
"""
ACCESS_HUBS = 2
"""A place joins its nearest two hubs. Fitted; 1 and 3 are no better."""


class Point(Protocol):
    """Something on the globe: a region, a hub."""

    @property
    def latitude_deg(self) -> float:
        """North is positive."""

    @property
    def longitude_deg(self) -> float:
        """East is positive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hub:
    """A city where cables meet; ``zone`` is the part of the world around it."""

    hub: str
    latitude_deg: float
    longitude_deg: float
    zone: str
    source: str
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Corridor:
    """A way that cables take between two hubs; ``gcp_factor`` says how much longer Google Cloud's
    way along it is.
    """

    hub_a: str
    hub_b: str
    gcp_factor: float | None
    source: str
    as_of: str


def great_circle_km(a: Point, b: Point) -> float:
    """Return the great-circle distance of two points in kilometres (haversine)."""
    lat_a, lat_b = math.radians(a.latitude_deg), math.radians(b.latitude_deg)
    d_lat, d_lon = lat_b - lat_a, math.radians(b.longitude_deg - a.longitude_deg)
    h = math.sin(d_lat / 2) ** 2 + math.cos(lat_a) * math.cos(lat_b) * math.sin(d_lon / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(h)))


@lru_cache(maxsize=1)
def hubs() -> dict[str, Hub]:
    """Return the hubs by name (catalogs/hubs.csv)."""
    return {
        row["hub"]: Hub(**row) for row in read_rows(shipped_catalogs() / "hubs.csv", "hubs.csv")
    }


@lru_cache(maxsize=1)
def corridors() -> tuple[Corridor, ...]:
    """Return the corridors between hubs (catalogs/corridors.csv)."""
    return tuple(
        Corridor(**row) for row in read_rows(shipped_catalogs() / "corridors.csv", "corridors.csv")
    )


def zone_of(point: Point) -> str:
    """Return the part of the world of a point: the zone of its nearest hub."""
    return hubs()[_access(point.latitude_deg, point.longitude_deg)[0][1]].zone


def way_km(a: Point, b: Point, *, gcp: bool = False) -> float:
    """Return the length of the shortest way over the corridors, with the access of both ends; the
    same in both directions.

    Parameters
    ----------
    a, b
        Two points.
    gcp
        Whether Google Cloud carries the traffic: some corridors are longer for it.
    """
    if (b.latitude_deg, b.longitude_deg) < (a.latitude_deg, a.longitude_deg):
        a, b = b, a
    reach = _reach(a.latitude_deg, a.longitude_deg, gcp)
    return min(km + reach[hub] for km, hub in _access(b.latitude_deg, b.longitude_deg))


@dataclass(frozen=True, slots=True)
class _Spot:
    latitude_deg: float
    longitude_deg: float


@lru_cache(maxsize=4096)
def _access(latitude_deg: float, longitude_deg: float) -> tuple[tuple[float, str], ...]:
    """Return the nearest hubs of a point with the length of the way to each, nearest first."""
    spot = _Spot(latitude_deg, longitude_deg)
    ways = ((ACCESS_FACTOR * great_circle_km(spot, hub), name) for name, hub in hubs().items())
    return tuple(heapq.nsmallest(ACCESS_HUBS, ways))


@lru_cache(maxsize=4096)
def _reach(latitude_deg: float, longitude_deg: float, gcp: bool) -> dict[str, float]:
    """Return the kilometres from a point to every hub."""
    starts = [(km, hub_distances_km(hub, gcp)) for km, hub in _access(latitude_deg, longitude_deg)]
    return {hub: min(km + distances[hub] for km, distances in starts) for hub in hubs()}


@lru_cache(maxsize=512)
def hub_distances_km(start: str, gcp: bool = False) -> dict[str, float]:
    """Return the kilometres of corridors from one hub to every hub.

    Notes
    -----
    Dijkstra's algorithm with the standard library: a tenth of a millisecond a hub, where the import
    of networkx alone would take 0.4 s of every recommendation; a test compares it with networkx.
    """
    distances: dict[str, float] = {}
    queue = [(0.0, start)]
    while queue:
        km, hub = heapq.heappop(queue)
        if hub in distances:
            continue
        distances[hub] = km
        for near, length_km in _neighbours(gcp)[hub]:
            if near not in distances:
                heapq.heappush(queue, (km + length_km, near))
    return distances


@lru_cache(maxsize=2)
def _neighbours(gcp: bool) -> dict[str, list[tuple[str, float]]]:
    """Return the neighbours of each hub over its corridors, with lengths in kilometres."""
    neighbours: dict[str, list[tuple[str, float]]] = {hub: [] for hub in hubs()}
    for corridor in corridors():
        length_km = great_circle_km(hubs()[corridor.hub_a], hubs()[corridor.hub_b])
        if gcp and corridor.gcp_factor is not None:
            length_km *= corridor.gcp_factor
        neighbours[corridor.hub_a].append((corridor.hub_b, length_km))
        neighbours[corridor.hub_b].append((corridor.hub_a, length_km))
    return neighbours
