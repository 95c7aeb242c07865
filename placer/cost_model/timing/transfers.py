"""Bytes over links and through machines: streams, lanes of islands, averages among peers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from placer.market.network.graph import Link, Network
from placer.problem.exchange import Phase
from placer.workload.constants import HIVEMIND, Calibration, ServiceConstants, peer_of


class Lanes(Struct, frozen=True):
    """A network in which the workers of some places are several machines each. Between two places
    as many pairs of machines send side by side as the smaller island has machines, each with a cap
    of its own.
    """

    network: Network
    machines: Mapping[str, int]

    def link(self, src: str, dst: str) -> Link:
        """Find the link from one place to another."""
        pairs = min(self.machines.get(src, 1), self.machines.get(dst, 1))
        return self.network.link(src, dst).of_machines(pairs)

    def machine_bytes_per_s(self, place: str) -> float:
        """Return what one worker sends or receives in all."""
        return self.network.machine_bytes_per_s(place, self.machines.get(place, 1))


Links = Network | Lanes
"""What the timing of transfers asks."""
DIRECT = frozenset({"butterfly", "leaders", "region-hub", "region-gossip"})
"""Transports in which workers send to each other; to a store or a server one machine sends."""


def lanes(network: Network, machines: Mapping[str, int]) -> Links:
    """Return the network as workers of so many machines use it."""
    return Lanes(network, machines) if max(machines.values(), default=1) > 1 else network


def sum_seconds(gradient_bytes: float, gradients: int, services: ServiceConstants) -> float:
    """Time in which one cloud function sums some gradients."""
    return gradients * gradient_bytes / services.sum_bytes_per_s


def transfer_seconds(byte_count: float, link: Link, streams: int = 1, case: int = 0) -> float:
    """Time of streams over one link; ``case`` 1 is its low bandwidth, 2 its high one."""
    return byte_count / link.speed(streams, case)


def load_seconds(phase: Phase, network: Links, *, inside: bool) -> float:
    """Time that the busiest machine needs to send or receive its share of a phase: at most what one
    stream reaches inside its region. Transfers ``inside`` a region may count as well.
    """
    loads = machine_loads(phase, inside=inside)
    return max(
        (size / network.machine_bytes_per_s(place) for place, size in loads.items()), default=0.0
    )


def machine_loads(phase: Phase, *, inside: bool) -> dict[str, float]:
    """Return the bytes that the busiest machine of each place sends or receives."""
    out: dict[str, float] = {}
    into: dict[str, float] = {}
    for t in phase.transfers:
        if inside or t.src != t.dst:
            out[t.src] = out.get(t.src, 0.0) + t.bytes * t.count / t.src_hosts
            into[t.dst] = into.get(t.dst, 0.0) + t.bytes * t.count / t.dst_hosts
    return {place: max(out.get(place, 0.0), into.get(place, 0.0)) for place in out | into}


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
    links = ((t.bytes, network.link(t.src, t.dst)) for t in phase.transfers)
    each = (direct_seconds(size, link, streams, case) for size, link in links)
    slowest = max(each, default=0.0)
    return max(slowest, DIRECT_SPREAD[case] * load_seconds(phase, network, inside=True) / GOODPUT)


def share_beside_averages(send_s: Any, calculation_s: Any, averaging_s: Any) -> Any:
    """Return how much of a send passes beside averages, where it begins with one of many steps that
    calculate and then average; numbers or arrays.

    >>> round(float(share_beside_averages(8.0, 2.0, 3.0)), 3)  # 2 to 5 s, and 7 to 8 s
    0.5
    """
    whole, rest = np.divmod(send_s, calculation_s + averaging_s)
    return (whole * averaging_s + np.maximum(0.0, rest - calculation_s)) / send_s


def arrival_seconds(starts: Sequence[float], alone: Sequence[float], shared: float) -> float:
    """Return when the last of several equal transfers into, or out of, one machine is there: each
    with its start, its seconds ``alone`` and those of the machine's capacity that all share.
    Transfers under way share it evenly, none is faster than alone: followed from one start or end
    to the next. The same as max(start + alone) while the machine could serve all at full speed.

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


GB = 1e9
ASSUMED_TENSORS = 300
"""Tensor count of a model whose profile does not say."""


def averaging_seconds(
    hosts: Iterable[str],
    gradient_bytes: float,
    workers: int,
    tensors: int | None,
    calibration: Calibration,
) -> float:
    """Return the seconds of an average among N workers inside one zone, by the slowest class: of
    ``calibration.hosts``, whose seconds to serialise, average and deserialise S bytes of T tensors
    are l0 + l1 S + l2 N + l3 T + l4 2 (N - 1) / N S, or of `Peer`, rings over a network.

    >>> from placer.workload.constants import PUBLISHED
    >>> # 4.96 x 1.75 x 1.12 + 0.279 x 8 + 0.0064 x 394
    >>> round(averaging_seconds(["a10"], 1.12e9, 8, 394, PUBLISHED), 2)
    14.48
    """
    if workers < 2:
        return 0.0
    seconds = (class_seconds(each, gradient_bytes, workers, tensors, calibration) for each in hosts)
    slowest_s: float = max(seconds)
    return slowest_s


def class_seconds(
    name: str, gradient_bytes: float, workers: Any, tensors: int | None, calibration: Calibration
) -> Any:
    """Return the seconds of an average among workers of one class; of two or more, a number or an
    array.
    """
    peer, host = peer_of(name), calibration.hosts.get(name)
    if peer is not None and host is None:  # what a user's own runs say wins
        return peer.seconds(gradient_bytes, workers)
    host = calibration.hosts[name]
    return (
        host.base_s
        + (host.s_per_gb + host.s_per_gb_sent * 2 * (workers - 1) / workers) * gradient_bytes / GB
        + host.s_per_peer * workers
        + host.s_per_tensor * (ASSUMED_TENSORS if tensors is None else tensors)
    )


def wan_seconds(
    phases: Sequence[Phase],
    network: Links,
    calibration: Calibration,
    streams: int = 1,
    case: int = 0,
    *,
    peers: int = 2,
    software: str = HIVEMIND,
) -> float:
    """Return the slowest pair between regions, phase after phase, times its factor (hivemind's is
    its own); not faster than the busiest machine can send. Two ``peers`` bound the seconds from
    below.

    The slowest edge sets the pace of a ring. Of N - 1 parts that pass it in a phase, the first and
    the last are on their way over other edges too, which takes half a round trip for each of them:
    at most once around, for no part passes an edge twice. Each message of several waits so.
    """
    total = 0.0
    for phase in phases:
        links = [(t, network.link(t.src, t.dst)) for t in phase.transfers if t.src != t.dst]
        if not links:
            continue
        between = [
            calibration.line_factor(
                software, t.src, t.dst, rtt_s=link.rtt_s, peers=peers, case=case
            )
            * transfer_seconds(t.bytes, link, streams, case)
            for t, link in links
        ]
        total += max(*between, load_seconds(phase, network, inside=False))
        total += phase.ring_messages * sum(link.rtt_s for _, link in links) / 2
    return total
