"""How one worker takes part in an average inside a zone: software and network, as a class of
averaging time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

GBPS = 1e9 / 8
"""Bytes per second of one Gb/s."""
ASSUMED_GBPS = 10.0
"""Network of a machine whose provider promises none: assumed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ring:
    """An all-reduce among machines: constants, error band and range of validity.

    Parameters
    ----------
    title
        The software in words.
    network_share
        Share of the network's rate that a ring reaches.
    latency_s
        Seconds of an all-reduce of a few bytes.
    spread
        Multiples of the time: expected, slow, fast.
    most_machines
        Largest number of machines that was measured.
    source
        What the constants were fitted to.
    """

    title: str
    network_share: float
    latency_s: float
    spread: tuple[float, float, float]
    most_machines: int
    source: str

    def seconds(self, byte_count: float, peers: int, bytes_per_s: float) -> float:
        """Return the seconds of an all-reduce: 2 (n - 1) / n bytes of each peer over its network.

        Examples
        --------
        >>> # 2 x 7 / 8 x 16 GB over 0.73 x 400 GB/s, and the latency
        >>> round(RINGS["nccl"].seconds(16e9, 8, 400e9), 4)
        0.0963
        """
        if peers < 2:
            return 0.0
        moved = 2 * (peers - 1) / peers * byte_count
        return moved / (self.network_share * bytes_per_s) + self.latency_s


RINGS = {
    "nccl": Ring(
        title="NCCL",
        network_share=0.73,
        latency_s=0.4e-3,
        spread=(1.0, 1.35, 0.8),
        most_machines=16,
        source="bus bandwidth of four 8 x B200 machines from 1 MB, and 35 public runs on 8 to 128 "
        "A100",
    ),
    "gloo": Ring(
        title="Gloo",
        network_share=1 / 1.90,
        latency_s=2e-3,
        spread=(1.0, 1.33, 0.75),
        most_machines=8,
        source="32 all-reduces over shaped links: 1.90 x an ideal ring",
    ),
}
"""Transports whose time follows from the network; hivemind's is fitted to runs, by host class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """A worker of a ring: the software, and Gb/s of all its machines together."""

    transport: str
    gbps: float

    @property
    def name(self) -> str:
        """Return the class as documents and solvers write it: ``nccl 3200 Gb/s``."""
        return f"{self.transport} {self.gbps:.10g} Gb/s"

    def seconds(self, byte_count: float, peers: int) -> float:
        """Return the seconds of an all-reduce among peers of this class."""
        return RINGS[self.transport].seconds(byte_count, peers, self.gbps * GBPS)


@lru_cache(maxsize=4096)
def peer_of(name: str) -> Peer | None:
    """Read the name of a class; None for a class of hosts, whose time is fitted to runs."""
    words = name.split(" ")
    if len(words) != 3 or words[0] not in RINGS:
        return None
    return Peer(transport=words[0], gbps=float(words[1]))
