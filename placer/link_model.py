"""The link that nobody measured: round-trip time from geography, one stream from its window.

Every figure that comes from here is labelled ``estimated``.
"""

from __future__ import annotations

import math

from placer.catalog import Region

EARTH_RADIUS_KM = 6371.0
FIBRE_KM_PER_RTT_S = 100_000.0
"""Kilometres of great circle that light in fibre covers there and back in one second (c / 1.5 / 2)."""
RTT_FLOOR_S = 0.0025
"""Median round-trip time between providers in one city: 2.3 to 2.8 ms in public ICMP measurements."""
IN_REGION_RTT_S = 0.0007
"""Erben et al. (2024), table 3: 0.64 to 0.72 ms inside a region."""
STREAM_WINDOW_BYTES = 2.67e6
"""Bytes one TCP stream keeps in flight with Linux defaults: 21.4 Mbit, Erben et al. (2024), tables 3 to 5."""
STREAM_CAP_BYTES_PER_S = {"aws": 4.8e9 / 8, "gcp": 7.0e9 / 8, "azure": 7.6e9 / 8, "lambda": 3.3e9 / 8}
"""What one stream reaches inside a region: Erben et al. (2024), tables 3 and 4 and section 3."""
DEFAULT_STREAM_CAP_BYTES_PER_S = 3.3e9 / 8
SPREAD = 1.4
"""90 % of the estimated round-trip times lie within a factor 1.4 of the measured ones."""

ROUTE_FACTOR = {
    ("AF", "AF"): 2.00,
    ("AF", "AS"): 2.90,
    ("AF", "EU"): 1.87,
    ("AF", "NA"): 1.81,
    ("AF", "OC"): 3.69,
    ("AF", "SA"): 4.65,
    ("AS", "AS"): 1.86,
    ("AS", "EU"): 2.35,
    ("AS", "NA"): 1.47,
    ("AS", "OC"): 1.58,
    ("AS", "SA"): 1.69,
    ("EU", "EU"): 1.94,
    ("EU", "NA"): 1.57,
    ("EU", "OC"): 1.60,
    ("EU", "SA"): 1.93,
    ("NA", "NA"): 1.88,
    ("NA", "OC"): 1.24,
    ("NA", "SA"): 1.60,
    ("OC", "OC"): 1.59,
    ("OC", "SA"): 2.31,
    ("SA", "SA"): 2.03,
}
"""Route length over great circle for each pair of continents.

Fitted as the median of (measured rtt - floor) / (great circle / 100 km per ms) over 4,682 public ICMP
measurements between cloud regions more than 500 km apart (2022); the error on the same pairs is 9 %
in the median and 29 % at the 90th percentile. AF-AF is assumed: there is one pair.
"""


def great_circle_km(a: Region, b: Region) -> float:
    """Great-circle distance of two regions in kilometres (haversine)."""
    lat_a, lat_b = math.radians(a.latitude_deg), math.radians(b.latitude_deg)
    d_lat, d_lon = lat_b - lat_a, math.radians(b.longitude_deg - a.longitude_deg)
    h = math.sin(d_lat / 2) ** 2 + math.cos(lat_a) * math.cos(lat_b) * math.sin(d_lon / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(h)))


def estimated_rtt_s(a: Region, b: Region) -> float:
    """Round-trip time in seconds between two regions from distance and the route factor of their continents."""
    if a.place == b.place:
        return IN_REGION_RTT_S
    pair = (min(a.continent, b.continent), max(a.continent, b.continent))
    return RTT_FLOOR_S + ROUTE_FACTOR[pair] * great_circle_km(a, b) / FIBRE_KM_PER_RTT_S


def one_stream_bytes_per_s(src: Region, dst: Region, rtt_s: float) -> float:
    """Throughput of one TCP stream: min(cap of the slower side, window / rtt), in bytes per second."""
    return min(pair_cap_bytes_per_s(src, dst), STREAM_WINDOW_BYTES / rtt_s)


def pair_cap_bytes_per_s(src: Region, dst: Region) -> float:
    """What any number of streams between two machines reaches: the cap of the slower side."""
    return min(STREAM_CAP_BYTES_PER_S.get(r.provider, DEFAULT_STREAM_CAP_BYTES_PER_S) for r in (src, dst))
