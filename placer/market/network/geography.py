"""Lengths on the globe: great circles, and ways over the cables of the world."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from placer.market.books.csv_rows import shipped_table

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


@lru_cache(maxsize=1)
def hubs() -> dict[str, Hub]:
    """Return the hubs by name (catalogs/hubs.csv)."""
    return {row.hub: row for row in shipped_table("hubs.csv", Hub)}


class Access:
    """Ways from some points to their nearest hubs, nearest first: numbers of hubs in the order of
    `hubs`, and km; shape (points, `ACCESS_HUBS`).
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self.latitude_deg, self.longitude_deg = _degrees(points)
        every = ACCESS_FACTOR * great_circles_km(
            self.latitude_deg[:, None], self.longitude_deg[:, None], *_degrees([*hubs().values()])
        )
        self.hub = np.argsort(every, axis=1, kind="stable")[:, :ACCESS_HUBS]
        self.km = np.take_along_axis(every, self.hub, axis=1)

    @property
    def zones(self) -> list[str]:
        """The part of the world of each point: the zone of its nearest hub."""
        zones = [hub.zone for hub in hubs().values()]
        return [zones[hub] for hub in self.hub[:, 0]]


def ways_km(a: Access, b: Access, *, gcp: bool = False) -> Array:
    """Return the lengths of the shortest ways over the corridors, with the access of both ends; the
    same in both directions; shape (points of a, points of b). Some corridors are longer where
    Google Cloud carries the traffic.
    """
    between = hub_distances_km(gcp)
    there, back = _ways_km(a, b, between), _ways_km(b, a, between).T
    # Sums in another order differ in the last digit, so one end is the first in both directions.
    latitude_deg, longitude_deg = a.latitude_deg[:, None], a.longitude_deg[:, None]
    turned = (b.latitude_deg < latitude_deg) | (
        (b.latitude_deg == latitude_deg) & (b.longitude_deg < longitude_deg)
    )
    built: Array = np.where(turned, back, there)
    return built


def _ways_km(a: Access, b: Access, between: Array) -> Array:
    """Return the least sum of way to a hub, corridors and way from a hub; shape (a, b)."""
    reach = (a.km[:, :, None] + between[a.hub]).min(axis=1)  # of each hub from each point of a
    built: Array = (reach[:, b.hub] + b.km).min(axis=2)
    return built


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
