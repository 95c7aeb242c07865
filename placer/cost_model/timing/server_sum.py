"""Time in which a parameter server sums gradients: its processor and its memory, by vCPUs."""

from __future__ import annotations

from typing import Any

from placer.cost_model.timing.store import STORE_SPREAD
from placer.cost_model.timing.transfer import sum_seconds
from placer.market.catalog import VmOffer
from placer.problem.problem import Problem
from placer.workload.constants import ServiceConstants

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
