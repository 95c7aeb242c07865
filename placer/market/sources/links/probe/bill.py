"""What a probe may cost at most, worked out before its first byte; and the limits that keep it
there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placer.errors import PlacerError
from placer.market.network.graph import Network
from placer.market.sources.links.probe.client import ROUNDS
from placer.market.sources.links.probe.hosts import ProbeHost
from placer.units import GIB, format_usd

ACKNOWLEDGED = 52 / 1448
"""Bytes that go back for each byte of payload if every segment has an acknowledgement of its own:
TCP with time stamps over Ethernet.
"""
WIRE = 1.03 * (1 + ACKNOWLEDGED)
"""Bytes on the wire over bytes of payload: headers as large as acknowledgements, and 3 % for what
is sent again.
"""
SMALL_TALK_BYTES = 10_000
"""Handshake, question, echoes and report of one connection, generously."""
BLOCK_BYTES = 1 << 17
"""What iperf3 writes at once: its bit rate may be ahead by that much in each stream."""
LEAST_MS = 50
"""Shorter runs tell nothing of a link."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One transfer that is planned: bytes are the limit that both ends keep."""

    verb: str
    streams: int
    most_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BillLine:
    """One direction of one host; ``most_bytes`` on the wire."""

    host: str
    src: str
    dst: str
    most_bytes: float
    usd_per_gib: float

    @property
    def usd(self) -> float:
        """Most that this direction costs."""
        return self.most_bytes / GIB * self.usd_per_gib


def plan_runs(
    network: Network,
    here: str,
    host: ProbeHost,
    streams: Sequence[int],
    seconds: float,
    most_bytes: float,
) -> list[Run]:
    """Plan the transfers of one host: both directions for each number of streams.

    Parameters
    ----------
    network
        Links of the catalog: what a link carries at most bounds the bytes of its run.
    here, host
        The two ends.
    streams
        Numbers of streams.
    seconds, most_bytes
        Limits of one run.

    Notes
    -----
    A link that is faster than the catalog thinks reaches its bytes before its seconds: the run is
    shorter, the bill stays.
    """
    runs = []
    for verb, src, dst in (("upload", here, host.place), ("download", host.place, here)):
        link = network.link(src, dst)
        limit = min(most_bytes, seconds * max(link.cap, link.high))
        runs += [Run(verb=verb, streams=count, most_bytes=math.floor(limit)) for count in streams]
    return runs


def bill(network: Network, here: str, host: ProbeHost, runs: Sequence[Run]) -> list[BillLine]:
    """Price what the runs of one host send at most, each direction by the provider of its source.

    Besides the payload of its own, a direction carries the acknowledgements of the other one.

    Raises
    ------
    PlacerError
        If the catalog has no egress price of a direction: nothing is sent at an unknown price.
    """
    payload = {
        verb: sum(run.most_bytes + run.streams * BLOCK_BYTES for run in runs if run.verb == verb)
        for verb in ("upload", "download")
    }
    talk = SMALL_TALK_BYTES * (ROUNDS + sum(run.streams for run in runs))
    lines = []
    for verb, back, src, dst in (
        ("upload", "download", here, host.place),
        ("download", "upload", host.place, here),
    ):
        most_bytes = WIRE * payload[verb] + ACKNOWLEDGED * payload[back] + talk
        lines.append(
            BillLine(
                host=host.name,
                src=src,
                dst=dst,
                most_bytes=most_bytes,
                usd_per_gib=dearest(network, src, dst),
            )
        )
    return lines


def dearest(network: Network, src: str, dst: str) -> float:
    """Return the highest price of a direction in USD/GiB: over all volume tiers, and over zones if
    both ends share a region.
    """
    zones = (True, False) if src == dst else (True,)
    return max(
        tier.usd_per_gib
        for zone in zones
        for tier in network.egress_tiers(src, dst, same_zone=zone)
    )


def check_cost(price: Callable[[float], float], seconds: float, most_usd: float) -> None:
    """Refuse a bill above the user's limit and name the longest run that fits.

    Parameters
    ----------
    price
        Most that the probe costs in USD, for the seconds of a run; it never falls with them.
    seconds
        What the user asked for.
    most_usd
        The user's limit.

    Raises
    ------
    PlacerError
        If the bill is above ``most_usd``.
    """
    total = price(seconds)
    if total <= most_usd:
        return
    low, high = 0, int(seconds * 1000)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if price(middle / 1000) <= most_usd else (low, middle)
    words = f"the probe may cost up to {format_usd(total)}, above --max-cost {format_usd(most_usd)}"
    hint = (
        f"run it with --seconds {low / 1000:g}: the longest that fits"
        if low >= LEAST_MS
        else "leave hosts or streams out"
    )
    raise PlacerError(words, hint)
