"""Objects through a store and cloud functions that sum them (Phalak et al., 2024, section 5)."""

from __future__ import annotations

from placer.cost_model.timing.transfer import sum_seconds
from placer.market.network.graph import Link
from placer.workload.constants import ServiceConstants

POLL_SECONDS = 1.0
"""How often the aggregator lists the store while it waits: assumed."""
STORE_SPREAD = (1.0, 1.5, 0.7)
"""The store's figures are assumed: intervals take these multiples of its delays, and its speeds by
as much less.
"""


def store_transfer_seconds(
    byte_count: float,
    link: Link,
    services: ServiceConstants,
    *,
    start: bool,
    cap: float,
    streams: int = 1,
    case: int = 0,
) -> float:
    """Time to put or get one object: affine in its bytes, never bytes over bandwidth alone."""
    speed = min(cap * streams / STORE_SPREAD[case], link.speed(streams, case))
    begun = services.start_s if start else 0.0
    return STORE_SPREAD[case] * (begun + services.round_trips * link.rtt_s) + byte_count / speed


def worker_transfer_seconds(
    gradient_bytes: float, link: Link, services: ServiceConstants, streams: int = 1, case: int = 0
) -> float:
    """Time in which a worker puts its gradient into a store, or gets the mean from it."""
    return store_transfer_seconds(
        gradient_bytes,
        link,
        services,
        start=True,
        cap=services.stream_bytes_per_s,
        streams=streams,
        case=case,
    )


def function_transfer_seconds(
    gradient_bytes: float, link: Link, services: ServiceConstants, case: int = 0
) -> float:
    """Time in which a running function reads or writes one object."""
    return store_transfer_seconds(
        gradient_bytes, link, services, start=False, cap=services.function_bytes_per_s, case=case
    )


def aggregate_seconds(
    gradient_bytes: float,
    gradients: int,
    fetch: Link,
    put: Link,
    services: ServiceConstants,
    case: int = 0,
) -> float:
    """Time of the function once all gradients are there: N reads, the sum, one write. Phalak et al.
    (2024), section 5: aggregate = N x (read of S) + sum + (write of S).
    """
    reads = gradients * function_transfer_seconds(gradient_bytes, fetch, services, case)
    summing = sum_seconds(gradient_bytes, gradients, services)
    return (
        STORE_SPREAD[case] * (services.start_s + summing)
        + reads
        + function_transfer_seconds(gradient_bytes, put, services, case)
    )


def copy_seconds(
    gradient_bytes: float, fetch: Link, put: Link, services: ServiceConstants, case: int = 0
) -> float:
    """Time of a function that takes one object from a store to another."""
    read = function_transfer_seconds(gradient_bytes, fetch, services, case)
    written = function_transfer_seconds(gradient_bytes, put, services, case)
    return STORE_SPREAD[case] * services.start_s + read + written
