"""Bytes over links: one pair's streams, and what a machine can send and receive in all."""

from __future__ import annotations

from placer.cost_model.timing.lanes import Links
from placer.market.network.graph import Link
from placer.problem.exchange import Phase
from placer.workload.constants import ServiceConstants


def sum_seconds(gradient_bytes: float, gradients: int, services: ServiceConstants) -> float:
    """Time in which one cloud function sums some gradients."""
    return gradients * gradient_bytes / services.sum_bytes_per_s


def transfer_seconds(byte_count: float, link: Link, streams: int = 1, case: int = 0) -> float:
    """Time of streams over one link; ``case`` 1 is its low bandwidth, 2 its high one."""
    return byte_count / link.speed(streams, case)


def load_seconds(phase: Phase, network: Links, *, inside: bool) -> float:
    """Time that the busiest machine needs to send or receive its share of a phase. A machine sends
    and receives at most what one stream reaches inside its region. ``inside``: whether transfers
    inside a region count as well.
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
