"""How one worker takes part in an average inside a zone: software and network, as a class of
averaging time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct, field, to_builtins

from placer.errors import PlacerError
from placer.market.books.defended_figures import UNPROMISED_GBPS, UNPROMISED_SPREAD
from placer.market.words.own_places import SITES
from placer.records import Amount
from placer.workload.island.transports import (
    TRANSPORTS,
    Transport,
    attained_bytes_per_s,
    network_seconds,
)

ASSUMED_GBPS = 10.0
"""Network of a machine whose provider promises none, at the figures of a book: assumed."""
RINGS = tuple(name for name in TRANSPORTS if name != "hivemind")
"""Transports whose time follows from the network; hivemind's is fitted to runs, by host class."""


class Peer(Struct, frozen=True, kw_only=True):
    """A worker of a ring: the software, and Gb/s of all its machines together."""

    transport: str
    gbps: float

    @property
    def via(self) -> Transport:
        """Constants, error band and range of the software."""
        return TRANSPORTS[self.transport]

    @property
    def name(self) -> str:
        """Return the class as documents and solvers write it: ``nccl 3200 Gb/s``."""
        return f"{self.transport} {self.gbps:.10g} Gb/s"

    def seconds(self, byte_count: float, peers: Any) -> Any:
        """Return the seconds of an all-reduce among peers of this class.

        >>> # 2 x 7 / 8 x 16 GB over 0.73 x 400 GB/s, and the latency
        >>> round(Peer(transport="nccl", gbps=3200).seconds(16e9, 8), 4)
        0.0963
        """
        return network_seconds(byte_count, peers, self.gbps, self.via)

    @property
    def spread(self) -> tuple[float, float, float]:
        """Multiples of the time: expected, slow, fast; ten times as wide if nobody promises it."""
        doubt = UNPROMISED_SPREAD if self.gbps == UNPROMISED_GBPS else 1.0
        return 1.0, self.via.slow * doubt, self.via.fast / doubt

    @property
    def is_assumed(self) -> bool:
        """Whether the network is assumed, for nobody promises one."""
        return self.gbps in (ASSUMED_GBPS, UNPROMISED_GBPS)


@lru_cache(maxsize=4096)
def peer_of(name: str) -> Peer | None:
    """Read the name of a class; None for a class of hosts, whose time is fitted to runs."""
    words = name.split(" ")
    if len(words) != 3 or words[0] not in RINGS:
        return None
    return Peer(transport=words[0], gbps=float(words[1]))


NINETY_PERCENT = 1.645
"""Standard errors on each side that hold 90 % of a normal distribution: intervals of fits."""


HIVEMIND = "hivemind"
"""The software whose runs the constants of hosts and links were fitted to."""
NO_SITE_KAPPA = (1.0, 1.0, 1.0)
"""Links to sites take as long as all others."""
NEAR_SITE_RTT_S = 0.05
"""Round trip up to which a line to a site is taken as one within a continent, whose streams are not
limited by their windows; assumed: those of Erben et al. (2024) take 0.016 and 0.15 s.
"""
RING_KAPPA = (1.0, 1.2, 0.74)
"""Multiples of bytes over bandwidth between regions for all software but hivemind: expected, slow,
fast; assumed.
"""


MEASURED_BESIDE = frozenset({"T4", "A10", "RTX8000", "V100"})
"""Devices beside which hosts averaged in the runs of Erben et al. (2024)."""
UNMEASURED_HOSTS = (1.0, 1.5, 0.67)
"""Multiples of the averaging time of hosts nobody measured: the two classes of hosts that were lie
1.5 apart.
"""


class HostConstants(Struct, frozen=True):
    """What averaging costs a host inside one zone under hivemind: seconds, s/GB, s/peer, s/tensor.
    ``s_per_gb`` counts the gradient, ``s_per_gb_sent`` what the host sends of it: 2 (N - 1) / N
    gradients among N peers. ``least_period_s``
    is the least from the end of one average among all peers to the beginning of the next.
    """

    base_s: Amount
    s_per_gb: Amount
    s_per_peer: Amount
    s_per_tensor: Amount = 0.0
    s_per_gb_sent: Amount = 0.0
    least_period_s: Amount = 0.0

    def __post_init__(self) -> None:
        """Refuse negative and infinite times."""
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) < float("inf"):
                raise PlacerError(
                    f"{name} of a host is {getattr(self, name)}", "give a time of 0 or more"
                )


class ServiceConstants(Struct, frozen=True, kw_only=True):
    """What object stores, cloud functions and parameter servers take.

    start_s: First byte of an object store for a client that connects anew, in region (public S3
        measurements); also the start of a function.
    round_trips: TCP and TLS handshakes and the request itself.
    stream_bytes_per_s: One connection to an object store: assumed, as S3's guidance of 85 to 90
        MB/s per request.
    function_bytes_per_s: Network of a cloud function, about 600 Mb/s: assumed.
    sum_bytes_per_s: Bytes that a cloud function sums per second: assumed.
    server_sum_bytes_per_s: FP32 bytes of gradients, arriving as FP16, that each vCPU of a parameter
        server sums per second: measured in November 2026 on both vCPUs of an x86 VM (AMD EPYC,
        PyTorch 2.13). None: any server sums like a cloud function.
    """

    start_s: float = 0.5
    round_trips: float = 4.0
    stream_bytes_per_s: float = 90e6
    function_bytes_per_s: float = 75e6
    sum_bytes_per_s: float = 500e6
    server_sum_bytes_per_s: float | None = 1.06e9

    def __post_init__(self) -> None:
        """Refuse negative times and speeds that are not positive."""
        for name in self.__struct_fields__:
            value, is_speed = getattr(self, name), name.endswith("bytes_per_s")
            if value is None or ((value > 0 if is_speed else value >= 0) and value < float("inf")):
                continue
            hint = "give bytes per second above 0" if is_speed else "give a figure of 0 or more"
            raise PlacerError(f"{name} of a service is {value}", hint)


class Calibration(Struct, frozen=True, kw_only=True, dict=True):
    """Host constants by class, the factors on links between regions, and how far measurements lie
    around them. The tuples are (value, slow, fast): multiples of a time. ``kappa`` is hivemind's,
    ``site_kappa`` its multiple where one end is a site of one's own on the same continent,
    ``ring_kappa`` that of all other software. ``stream_power`` is how the slowest of m streams to a
    site falls behind one: m to that power; 0: ``site_kappa`` counts on all lines. ``spreads`` holds
    the spread of averaging of a host class where its own runs say it; ``most_workers`` is the
    largest run behind the constants.
    """

    name: str
    hosts: Mapping[str, HostConstants]
    kappa: tuple[float, float, float]
    averaging_spread: tuple[float, float, float]
    spreads: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    most_workers: int = 10
    services: ServiceConstants = ServiceConstants()
    site_kappa: tuple[float, float, float] = NO_SITE_KAPPA
    ring_kappa: tuple[float, float, float] = RING_KAPPA
    stream_power: float = 0.0

    def __post_init__(self) -> None:
        """Refuse factors that are not positive and ordered."""
        own = ((f"spread of {host}", spread) for host, spread in self.spreads.items())
        for what, (value, slow, fast) in (
            ("kappa", self.kappa),
            ("site_kappa", self.site_kappa),
            ("ring_kappa", self.ring_kappa),
            ("averaging_spread", self.averaging_spread),
            *own,
        ):
            if not 0 < fast <= value <= slow < float("inf"):
                raise PlacerError(
                    f"{what} is {value}, {slow}, {fast}",
                    "give value, slow, fast with 0 < fast <= value <= slow",
                )
        if not 0 <= self.stream_power <= 1:
            raise PlacerError(f"stream_power is {self.stream_power}", "give a power from 0 to 1")
        if self.most_workers < 1:
            raise PlacerError(f"most_workers is {self.most_workers}", "give a whole number from 1")

    def line_factor(
        self, software: str, src: str, dst: str, *, rtt_s: float, peers: int = 2, case: int = 0
    ) -> float:
        """Return the multiple of bytes over bandwidth that a link between two places takes.

        peers: Workers that exchange: each waits for the slowest of its streams to and from the
            others. Two bound the factor from below.

        >>> PUBLISHED.line_factor("nccl", "gcp/a", "onprem/b", rtt_s=0.016), RING_KAPPA[0]
        (1.0, 1.0)
        >>> far = [
        ...     PUBLISHED.line_factor("hivemind", "gcp/a", "onprem/b", rtt_s=0.15, peers=n)
        ...     for n in (2, 9)]
        >>> [round(factor, 2) for factor in far]  # 0.85 x 2 ** 0.2, 0.85 x 16 ** 0.2
        [0.98, 1.48]
        """
        if software != HIVEMIND:
            return self.ring_kappa[case]
        if not (src.startswith(SITES) or dst.startswith(SITES)):
            return self.kappa[case]
        site = self.site_kappa[case]
        if self.stream_power and rtt_s > NEAR_SITE_RTT_S:
            site /= self.site_kappa[0]
        return self.kappa[case] * site * self.slowest_stream(peers)

    def slowest_stream(self, peers: int) -> float:
        """Return the time of the slowest stream to and from the other peers, over that of one."""
        return float((2 * (peers - 1)) ** self.stream_power)

    def spread(self, hosts: Iterable[str], case: int) -> float:
        """Return the widest multiple of the averaging time; ``case`` 0 expected, 1 slow, 2 fast."""
        spreads = [self._spread(host)[case] for host in hosts]
        return min(spreads) if case == 2 else max(spreads)

    def host_spread(self, host: str, gpu: str, case: int) -> float:
        """Return the multiple of the averaging time of a host beside a device."""
        fitted = peer_of(host) is not None or host in self.spreads or gpu in MEASURED_BESIDE
        return self.spread([host], case) if fitted else UNMEASURED_HOSTS[case]

    def _spread(self, host: str) -> tuple[float, float, float]:
        peer = peer_of(host)
        own = self.averaging_spread if peer is None else peer.spread
        return self.spreads.get(host, own)


PUBLISHED = Calibration(
    name="published",
    hosts={
        "t4": HostConstants(0.0, 0.0, 0.40, 0.0086, 7.7, 18.0),
        "a10": HostConstants(0.0, 0.0, 0.279, 0.0064, 4.96),
    },
    kappa=(0.85, 1.2, 0.65),
    site_kappa=(1.8, 1.3 * 1.8, 1.8 / 1.6),
    stream_power=0.2,
    averaging_spread=(1.0, 1.15, 0.87),
)
"""Fitted to 55 runs of Erben et al. (2024) under hivemind; A-3, A-4, A-6 and D-2 are held out.

A host sends 2 (N - 1) / N gradients, meets N peers and handles T tensors; t4 on all runs with T4,
a10, about 0.7 of it, on the runs of eight models with 2 and 8 machines. Hosts of devices nobody
measured use a10: assumed. kappa: between 0.77, which runs B and C between clouds say, whose streams
carry more than one of iperf, and 1, which the paper's C-8 asks for. site_kappa: runs E-A and F-A,
from one site to one region. stream_power: the five runs of iperf on each of the six lines of the
sites spread by 0.13 to 0.49 of their logarithm, 0.30 on average (measured, public logs), and the
slowest of m such streams takes m ** 0.2 as long; fitted to no exchange. least_period_s of t4: at a
batch of 512 eight T4 do 1.27 times what one does (published, section 11), so that 18.8 s pass
beside an average of 13.8 s; the A10 hosts, whose runs set group forming to 5 s, need none: 3.9 s
pass there.
"""


def host_constants(name: str) -> HostConstants:
    """Return the published constants of a class of averaging time: of hosts under hivemind, or of a
    ring over a network, in the same form.

    >>> host_constants("gloo 10 Gb/s").s_per_gb_sent  # 1 GB over 10 Gb/s, of which 1 / 1.9 is used
    1.52
    """
    peer = peer_of(name)
    if peer is None:
        return PUBLISHED.hosts[name]
    per_gb = 1e9 / attained_bytes_per_s(peer.gbps, peer.via)
    return HostConstants(peer.via.network_latency_s, 0.0, 0.0, s_per_gb_sent=round(per_gb, 12))


def calibration_document(calibration: Calibration) -> dict[str, Any]:
    """Build the JSON document of a calibration, without factors that change nothing."""
    built: dict[str, Any] = to_builtins(calibration)
    for row in built["hosts"].values():
        drop_unused(row)
    if calibration.site_kappa == NO_SITE_KAPPA:
        built.pop("site_kappa", None)
    if not calibration.stream_power:
        del built["stream_power"]
    return built


def drop_unused(host: dict[str, Any]) -> None:
    """Take fields of newer versions out of the document of a host class that does not use them."""
    for name in ("s_per_gb_sent", "least_period_s"):
        if not host[name]:
            del host[name]
