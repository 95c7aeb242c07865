"""Time of what sums gradients: functions beside a store (Phalak et al., 2024), and servers."""

from __future__ import annotations

from typing import Any

from placer.cost_model.timing.transfers import sum_seconds
from placer.market.catalog import VmOffer
from placer.market.network.graph import Link
from placer.problem.problem import Problem
from placer.workload.constants import ServiceConstants

POLL_SECONDS = 1.0
"""How often the aggregator lists the store while it waits: assumed."""
STORE_SPREAD = (1.0, 1.5, 0.7)
"""The store's figures are assumed: intervals take these multiples of its delays, and its speeds by
as much less.
"""


def worker_transfer_seconds(
    gradient_bytes: float, link: Link, services: ServiceConstants, streams: int = 1, case: int = 0
) -> float:
    """Time in which a worker puts its gradient into a store, or gets the mean from it: affine in
    its bytes, never bytes over bandwidth alone.
    """
    most = services.stream_bytes_per_s * streams / STORE_SPREAD[case]
    begun_s = services.start_s + services.round_trips * link.rtt_s
    return STORE_SPREAD[case] * begun_s + gradient_bytes / min(most, link.speed(streams, case))


def function_transfer_seconds(
    gradient_bytes: float, link: Link, services: ServiceConstants, case: int = 0
) -> float:
    """Time in which a running function reads or writes one object; affine as well."""
    most = services.function_bytes_per_s / STORE_SPREAD[case]
    begun_s = services.round_trips * link.rtt_s
    return STORE_SPREAD[case] * begun_s + gradient_bytes / min(most, link.speed(1, case))


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


SUMMING_VCPUS = 8
"""More vCPUs than these are taken to sum no faster, as they wait for memory: assumed. Two were
measured; from there to eight the speed is taken to grow with their number.
"""
SUM_WORK = {"fp16": 1.0, "none": 0.5, "int8": 1.7, "int4": 4.0, "sparse": 1.3}
"""Time to decode and add a value over that of one that came in FP16: measured where the constant
was. FP32 took 0.2, but at that pace eight vCPUs would move 130 GB/s through memory, which machines
of this size do not have: 0.5 is assumed.
"""
SUM_SPREAD = (1.0, 2.0, 0.6)
"""Processors of other makes, and vCPUs that are half a core: assumed. Expected, slow, fast."""


def summing_vcpus(server: VmOffer | None) -> float:
    """Return the vCPUs that sum; of an unknown server the most, so that bounds err low."""
    return SUMMING_VCPUS if server is None else min(server.vcpus, SUMMING_VCPUS)


def server_sum_seconds(gradients: Any, vcpus: Any, problem: Problem) -> Any:
    """Return the seconds of decoding, adding and packing gradients; numbers or arrays."""
    services, profile = problem.calibration.services, problem.profile
    if services.server_sum_bytes_per_s is None:
        return sum_seconds(problem.gradient_bytes, gradients, services)
    byte_count = gradients * profile.gradient_bytes_fp32 * SUM_WORK[problem.compression]
    return byte_count / (vcpus * services.server_sum_bytes_per_s)


def sum_spread(services: ServiceConstants, case: int) -> float:
    """Return the multiple of a server's sum; ``case`` 0 is expected, 1 slow, 2 fast."""
    former = services.server_sum_bytes_per_s is None
    return (STORE_SPREAD if former else SUM_SPREAD)[case]
