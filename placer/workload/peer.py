"""How one worker takes part in an average inside a zone: software and network, as a class of
averaging time.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from placer.market.books.defended_figures import UNPROMISED_GBPS, UNPROMISED_SPREAD
from placer.workload.island.collectives import network_seconds
from placer.workload.island.transports import TRANSPORTS, Transport

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

    def seconds(self, byte_count: float, peers: int) -> float:
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
