"""Transfers over plain streams: to a parameter server, or among servers of regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from placer.cost_model.timing.lanes import Links
from placer.cost_model.timing.transfer import load_seconds, transfer_seconds
from placer.market.network.graph import Link
from placer.problem.exchange import Phase

GOODPUT = 0.93
"""Share of a link's rate that reaches the application: runs through emulated links."""
DIRECT_SPREAD = (1.0, 1.05, 0.95)
"""Runs through emulated links lie within 2 to 5 % of the form."""


def share_seconds(byte_count: float, machine_bytes_per_s: float, case: int = 0) -> float:
    """Time in which bytes pass through a machine that others use as well."""
    return DIRECT_SPREAD[case] * byte_count / machine_bytes_per_s / GOODPUT


def direct_seconds(byte_count: float, link: Link, streams: int = 1, case: int = 0) -> float:
    """Time of one transfer: half a round trip and its bytes at goodput.

    >>> from placer.market.network.graph import Link
    >>> link = Link(
    ...     src="a", dst="b", bytes_per_second=1e8, low=1e8, high=1e8, cap=1e8, rtt_s=0.1,
    ...     basis="measured", source="")
    >>> round(direct_seconds(93e6, link), 3)  # 93 MB at 93 MB/s, and 0.05 s
    1.05
    """
    seconds: float = seconds_over(
        link.rtt_s, transfer_seconds(byte_count, link, streams, case), case
    )
    return seconds


def seconds_over(rtt_s: Any, transfer_s: Any, case: int = 0) -> Any:
    """Time of transfers whose bytes take so long without overhead; numbers or arrays."""
    return DIRECT_SPREAD[case] * (rtt_s / 2 + transfer_s / GOODPUT)


def direct_phase_seconds(phase: Phase, network: Links, streams: int = 1, case: int = 0) -> float:
    """Return the slowest transfer of a phase, not faster than the busiest machine."""
    slowest = max(
        (
            direct_seconds(t.bytes, network.link(t.src, t.dst), streams, case)
            for t in phase.transfers
        ),
        default=0.0,
    )
    return max(slowest, DIRECT_SPREAD[case] * load_seconds(phase, network, inside=True) / GOODPUT)


def arrival_seconds(starts: Sequence[float], alone: Sequence[float], shared: float) -> float:
    """Return when the last of several equal transfers into, or out of, one machine is there.
    Transfers under way share the machine evenly, none is faster than alone: followed from one start
    or end to the next. The same as max(start + alone) as long as the machine could serve all at
    full speed. ``starts``: when each begins; seconds. ``alone``: how long each takes with the
    machine to itself. ``shared``: how long each takes of the machine's own capacity.

    >>> late = arrival_seconds([0.0, 0.0, 9.0], [4.0, 4.0, 4.0], 1.0)
    >>> late, arrival_seconds([0.0, 0.0, 0.0], [1.0, 1.0, 1.0], 1.0)
    (13.0, 3.0)
    >>> # halves by 1 s, thirds until 2.5 s, and half a transfer alone
    >>> arrival_seconds([0.0, 0.0, 1.0], [2.0, 2.0, 2.0], 1.0)
    3.5
    """
    kinds = Counter(zip(starts, alone, strict=True))
    if sum(count / own for (_, own), count in kinds.items()) * shared <= 1:
        return max(start + own for start, own in kinds)
    if len(kinds) == 1:  # all begin and end together
        (((start, own), count),) = kinds.items()
        return start + 1 / min(1 / own, 1 / shared / count)
    coming, now = sorted((start, own, count) for (start, own), count in kinds.items()), 0.0
    moving: list[tuple[float, float, int]] = []
    while coming or moving:
        rates = _even_rates([(1 / own, count) for _, own, count in moving], 1 / shared)
        ends = [left / rate for (left, _, _), rate in zip(moving, rates, strict=True)]
        pause = min([*ends, *(start - now for start, _, _ in coming[:1])])
        left_over = [
            (left - rate * pause, own, count)
            for (left, own, count), rate in zip(moving, rates, strict=True)
        ]
        moving = [row for row, end in zip(left_over, ends, strict=True) if end > pause]
        now += pause
        while coming and coming[0][0] <= now:
            moving.append((1.0, *coming.pop(0)[1:]))
    return now


def _even_rates(caps: Sequence[tuple[float, int]], capacity: float) -> list[float]:
    """Share a capacity evenly among (cap, count): what one cannot use is left to others."""
    rates, left = [0.0] * len(caps), sum(count for _, count in caps)
    for k in sorted(range(len(caps)), key=lambda k: caps[k][0]):
        cap, count = caps[k]
        rates[k] = min(cap, capacity / left)
        capacity, left = capacity - rates[k] * count, left - count
    return rates
