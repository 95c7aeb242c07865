"""Point-to-point transfers over plain streams: a parameter server, or servers of regions among themselves."""

from __future__ import annotations

from collections.abc import Sequence

from placer.exchange.phase import Phase
from placer.network import Link, Network
from placer.timing.transfer import load_seconds, transfer_seconds

GOODPUT = 0.93
"""Share of a link's rate that reaches the application: runs through emulated links."""
DIRECT_SPREAD = (1.0, 1.05, 0.95)
"""Runs through emulated links lie within 2 to 5 % of the form."""


def direct_seconds(byte_count: float, link: Link, streams: int = 1, case: int = 0) -> float:
    """Time of one transfer: half a round trip and its bytes at goodput.

    Examples
    --------
    >>> from placer.network import Link
    >>> link = Link(src="a", dst="b", bytes_per_second=1e8, low=1e8, high=1e8, cap=1e8, rtt_s=0.1, basis="measured", source="")
    >>> round(direct_seconds(93e6, link), 3)  # 93 MB at 93 MB/s, and 0.05 s
    1.05
    """
    return DIRECT_SPREAD[case] * (link.rtt_s / 2 + transfer_seconds(byte_count, link, streams, case) / GOODPUT)


def direct_phase_seconds(phase: Phase, network: Network, streams: int = 1, case: int = 0) -> float:
    """Slowest transfer of a phase whose transfers start together, not faster than the busiest machine."""
    slowest = max((direct_seconds(t.bytes, network.link(t.src, t.dst), streams, case) for t in phase.transfers), default=0.0)
    return max(slowest, DIRECT_SPREAD[case] * load_seconds(phase, network, inside=True) / GOODPUT)


def arrival_seconds(starts: Sequence[float], alone: Sequence[float], shared: float) -> float:
    """When the last of several transfers into one machine is there.

    Parameters
    ----------
    starts
        When each begins; seconds.
    alone
        How long each takes with the machine to itself.
    shared
        How long each takes of the machine's own capacity.

    Notes
    -----
    No transfer is faster than alone, and those that start last still pass through the machine one
    after the other: the larger of the two bounds.

    Examples
    --------
    >>> arrival_seconds([0.0, 0.0, 9.0], [4.0, 4.0, 4.0], 1.0), arrival_seconds([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], 1.0)
    (13.0, 3.0)
    """
    slowest = max(start + own for start, own in zip(starts, alone, strict=True))
    queued = max(start + (len(starts) - i) * shared for i, start in enumerate(sorted(starts)))
    return max(slowest, queued)
