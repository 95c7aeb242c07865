"""The link that nobody measured: round-trip time over the cables of the world, one stream from its
window.

Every figure that comes from here is labelled ``estimated``. The error stands at `ROUTE_FACTORS` and
`SPREAD`; ``placer network check`` works it out for any measured grid, and
`placer.market.network.link_fit` refits the factors.
"""

from __future__ import annotations

import math

from placer.market.catalog import Region
from placer.market.network.geography import great_circle_km, way_km, zone_of

FIBRE_KM_PER_RTT_S = 100_000.0
"""Kilometres of great circle that light in fibre covers there and back in one second (c / 1.5 / 2).
"""
RTT_FLOOR_S = 0.0024
"""Median round-trip time between providers in one city: 2.1 to 2.8 ms in public ICMP measurements.
"""
IN_REGION_RTT_S = 0.0007
"""Erben et al. (2024), table 3: 0.64 to 0.72 ms inside a region."""
SAME_CITY_KM = 60.0
"""Places as near as this reach each other without a hub."""
BACKBONE_KM = 300.0
"""Places of one cloud as near as this may be joined by its own fibre; two providers meet at a hub.
"""
CITY_FACTOR = 1.3
"""Length of a direct way over its great circle; assumed."""
OWN_BACKBONE = 0.96
"""How much shorter the way inside one cloud is than between two, which have to meet. Fitted."""
CLOUDS = ("aws", "azure", "gcp")
"""Providers with a backbone of their own, and those that the model was fitted to."""
STREAM_WINDOW_BYTES = 2.67e6
"""Bytes one TCP stream keeps in flight with Linux defaults: 21.4 Mbit, Erben et al. (2024), tables
3 to 5.
"""
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
NEAR_RTT_S = 0.02
"""Nearer places depend more on where networks meet than on the way between them."""
NEAR_SPREAD = 1.6
"""The same for places with a shorter round-trip time than `NEAR_RTT_S`: holds 90 % of the other
166.
"""
UNKNOWN_SPREAD = 3.1
"""The same where nobody measured a stream of one of the providers: the window of its hosts is not
known.

Erben et al. (2024), table 5: streams from an on-premise cluster kept 0.9 to 1.5 MB in flight, and
the way of one of them took 1.3 times as long as estimated.
"""

ZONES = (
    "africa",
    "america-east",
    "america-west",
    "east-asia",
    "europe",
    "india",
    "middle-east",
    "oceania",
    "south-america",
    "southeast-asia",
)
"""Parts of the world in the order of `ROUTE_FACTORS`; a place is in the zone of its nearest hub
(catalogs/hubs.csv).
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

Fitted by `placer.market.network.link_fit` to public ICMP measurements between 70 regions of AWS,
Azure and GC (2022; 2,342 pairs, both directions alike). On these pairs the round-trip time is 4.2 %
off in the median and 14.0 % at the 90th percentile; on regions that the fit had not seen (a third
left out, four draws) 4.6 % and 15.3 %; on the pairs of a provider it had not seen 4.8 % and 14.7 %
(AWS), 5.7 % and 16.9 % (Azure), 5.3 % and 18.2 % (GC). Which corridors clouds use (not the South
Atlantic, not from India to South Africa), the factor of GC in catalogs/corridors.csv and the
constants above were chosen on all pairs, so only the factors are held out. The factor of GC (any
from 1.3 to 1.8 does as well) and Texas as a part of the west follow one published pair each (Erben
et al. (2024), tables 3 and 4). Near pairs are worst: 14 % in the median between 60 and 500 km.
africa and middle-east with themselves have one pair each.
"""


def estimated_rtt_s(a: Region, b: Region) -> float:
    """Return the round-trip time in seconds between two places: floor + factor of their zones x
    way, and no faster than light in fibre.
    """
    if a.place == b.place:
        return IN_REGION_RTT_S
    direct_km = great_circle_km(a, b)
    rtt_s = (
        RTT_FLOOR_S
        + route_factor(zone_of(a), zone_of(b)) * weighted_km(a, b, direct_km) / FIBRE_KM_PER_RTT_S
    )
    return max(rtt_s, light_rtt_s(a, b))


def light_rtt_s(a: Region, b: Region) -> float:
    """Return the least round-trip time in seconds between two places: light in fibre along the
    great circle.
    """
    return great_circle_km(a, b) / FIBRE_KM_PER_RTT_S


def route_factor(zone_a: str, zone_b: str) -> float:
    """Return the factor of two zones, in any order."""
    return _FACTORS[zone_a, zone_b]


_FACTORS = {
    pair: factor
    for zone, row in ROUTE_FACTORS.items()
    for other, factor in zip(ZONES, row, strict=False)
    for pair in ((zone, other), (other, zone))
}


def weighted_km(a: Region, b: Region, direct_km: float) -> float:
    """Return the way between two places in kilometres, before the factor of their zones;
    ``direct_km`` is their great circle.
    """
    own = a.provider == b.provider and a.provider in CLOUDS
    km = way_km(a, b, gcp="gcp" in (a.provider, b.provider))
    if direct_km <= (BACKBONE_KM if own else SAME_CITY_KM):
        km = min(km, CITY_FACTOR * direct_km)
    return OWN_BACKBONE * km if own else km


def spread(a: Region, b: Region, rtt_s: float) -> float:
    """Return the factor of the low and high of an estimated bandwidth between two places."""
    if a.place == b.place:
        return SPREAD
    if a.provider not in STREAM_CAP_BYTES_PER_S or b.provider not in STREAM_CAP_BYTES_PER_S:
        return UNKNOWN_SPREAD
    return SPREAD if rtt_s >= NEAR_RTT_S else NEAR_SPREAD


def one_stream_bytes_per_s(src: Region, dst: Region, rtt_s: float) -> float:
    """Return the throughput of one TCP stream: min(caps of both ends, window / rtt), in bytes per
    second.
    """
    ends = min(STREAM_CAP_BYTES_PER_S.get(r.provider, DEFAULT_CAP_BYTES_PER_S) for r in (src, dst))
    return min(ends, pair_cap_bytes_per_s(src, dst, rtt_s), STREAM_WINDOW_BYTES / rtt_s)


def pair_cap_bytes_per_s(src: Region, dst: Region, rtt_s: float) -> float:
    """Return what any number of streams between two machines reaches.

    Notes
    -----
    Inside a region the cap of one stream. Elsewhere the source's cap on egress: clouds do not
    throttle what comes in (public measurements: 6.9 Gb/s from GC into AWS, which sends 4.8). A
    provider that nobody measured takes in no more than it sends.
    """
    if src.place == dst.place:
        return STREAM_CAP_BYTES_PER_S.get(src.provider, DEFAULT_CAP_BYTES_PER_S)
    long_way = LONG_WAY_BYTES_PER_SQRT_S.get(
        src.provider, min(LONG_WAY_BYTES_PER_SQRT_S.values())
    ) / math.sqrt(rtt_s)
    sends = min(EGRESS_CAP_BYTES_PER_S.get(src.provider, DEFAULT_CAP_BYTES_PER_S), long_way)
    return sends if dst.provider in CLOUDS else min(sends, DEFAULT_CAP_BYTES_PER_S)
