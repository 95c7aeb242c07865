"""Objects through a store and cloud functions that sum them (Phalak et al., 2024, section 5)."""

from __future__ import annotations

from placer.network import Link
from placer.timing.transfer import sum_seconds

STORE_START_S = 0.5
"""First byte of an object store for a client that connects anew, in region (public S3 measurements)."""
STORE_ROUND_TRIPS = 4
"""TCP and TLS handshakes and the request itself."""
STORE_STREAM_BYTES_PER_S = 90e6
"""One connection to an object store: assumed, as S3's guidance of 85 to 90 MB/s per request."""
FUNCTION_BYTES_PER_S = 75e6
"""Network of a cloud function, about 600 Mb/s: assumed."""
POLL_SECONDS = 1.0
"""How often the aggregator lists the store while it waits: assumed."""
STORE_SPREAD = (1.0, 1.5, 0.7)
"""The store's figures are assumed: intervals take these multiples of its delays, and its speeds by as much less."""


def store_transfer_seconds(byte_count: float, link: Link, *, start: bool, cap: float, streams: int = 1, case: int = 0) -> float:
    """Time to put or get one object: affine in its bytes, never bytes over bandwidth alone."""
    speed = min(cap * streams / STORE_SPREAD[case], link.speed(streams, case))
    return STORE_SPREAD[case] * ((STORE_START_S if start else 0.0) + STORE_ROUND_TRIPS * link.rtt_s) + byte_count / speed


def worker_transfer_seconds(gradient_bytes: float, link: Link, streams: int = 1, case: int = 0) -> float:
    """Time in which a worker puts its gradient into a store, or gets the mean from it."""
    return store_transfer_seconds(gradient_bytes, link, start=True, cap=STORE_STREAM_BYTES_PER_S, streams=streams, case=case)


def function_transfer_seconds(gradient_bytes: float, link: Link, case: int = 0) -> float:
    """Time in which a running function reads or writes one object."""
    return store_transfer_seconds(gradient_bytes, link, start=False, cap=FUNCTION_BYTES_PER_S, case=case)


def aggregate_seconds(gradient_bytes: float, gradients: int, fetch: Link, put: Link, case: int = 0) -> float:
    """Time of the function once all gradients are there: N reads, the sum, one write.

    Notes
    -----
    Phalak et al. (2024), section 5: aggregate = N x (read of S) + sum + (write of S).
    """
    reads = gradients * function_transfer_seconds(gradient_bytes, fetch, case)
    summing = sum_seconds(gradient_bytes, gradients)
    return STORE_SPREAD[case] * (STORE_START_S + summing) + reads + function_transfer_seconds(gradient_bytes, put, case)


def copy_seconds(gradient_bytes: float, fetch: Link, put: Link, case: int = 0) -> float:
    """Time of a function that takes one object from a store to another."""
    moved = function_transfer_seconds(gradient_bytes, fetch, case) + function_transfer_seconds(gradient_bytes, put, case)
    return STORE_SPREAD[case] * STORE_START_S + moved
