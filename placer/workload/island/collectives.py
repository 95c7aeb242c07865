"""Seconds of all-reduces, gathers and scatters inside a zone."""

from __future__ import annotations

from placer.workload.island.hardware import BITS
from placer.workload.island.transports import MIB, Transport

HIDDEN_SHARE = 0.8
"""Part of an exchange that buckets hide behind backward, where backward lasts long enough."""
BACKWARD_TAIL = 0.25
"""Part of a step's calculation behind which an exchange can hide: the backward of its last
microbatch, as an average over accumulation counts; assumed.
"""


def attained_bytes_per_s(network_gbps: float, transport: Transport) -> float:
    """Return the bandwidth that a ring attains over machines. Slow links are used nearly whole,
    fast fabrics to `Transport.network_share`. Between both the larger is taken, so that a faster
    network is never slower.
    """
    slow = transport.slow_link_share * min(network_gbps, transport.slow_link_gbps)
    return max(slow, transport.network_share * network_gbps) * 1e9 / BITS


def node_seconds(payload_bytes: float, gpus: int, bytes_per_s: float, via: Transport) -> float:
    """Return the seconds of an all-reduce over devices of one machine."""
    if gpus == 1:
        return 0.0
    ring = 2 * (gpus - 1) / gpus * payload_bytes / (via.node_share * bytes_per_s)
    return float(ring + via.node_latency_s * (payload_bytes / MIB) ** 0.25)


def network_seconds(
    payload_bytes: float, machines: int, network_gbps: float, via: Transport
) -> float:
    """Return the seconds of an all-reduce over machines, whose devices send side by side."""
    if machines == 1:
        return 0.0
    bytes_per_s = attained_bytes_per_s(network_gbps, via)
    ring = 2 * (machines - 1) / machines * payload_bytes / bytes_per_s
    return ring + via.network_latency_s


def exposed_seconds(exchange_s: float, calculation_s: float) -> float:
    """Return the part of a gradient exchange that calculation does not hide."""
    return exchange_s - HIDDEN_SHARE * min(exchange_s, BACKWARD_TAIL * calculation_s)
