"""Central serverless aggregation (Phalak et al., 2024): workers, an object store and one cloud
function.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from placer.problem.exchange.phase import Phase, Transfer, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange
from placer.units import GIB

# Nobody published what a worker loses beside a serverless aggregator: assumed as in an average
# under the software of the question.
TRAITS = Traits(division="equal", transport="store", hub="function")


def memory_gib(gradient_bytes: float, gradients: int) -> float:
    """Return the smallest function memory in whole GiB, at least one, that holds the gradients it
    sums.

    >>> memory_gib(17e6, 4), memory_gib(1.12e9, 8)
    (1.0, 9.0)
    """
    return float(max(1, math.ceil(gradients * gradient_bytes / GIB)))


def gradients_held(counts: Collection[int], *, regional: bool) -> int:
    """Return the gradients that one function holds at most: those of all workers, or with a
    function in each region those of the largest one. ``counts``: workers of each region.

    Three regions: the global function sums three, the largest regional one two.

    >>> gradients_held([2, 1, 1], regional=False), gradients_held([2, 1, 1], regional=True)
    (4, 3)
    """
    return max(*counts, len(counts)) if regional else sum(counts)


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return upload, fetch, put and download. Phalak et al. (2024), eq. 7-9: S from each worker to
    the store, N x S from the store to the function, S back, S from the store to each worker.
    """
    assert exchange.storage is not None
    assert exchange.aggregator is not None
    store, function = exchange.storage, exchange.aggregator
    total = sum(count for _, count in workers)
    return (
        Phase(
            "upload",
            tuple(Transfer(place, store, gradient_bytes, n, src_hosts=n) for place, n in workers),
        ),
        Phase("fetch", (Transfer(store, function, gradient_bytes, total),)),
        Phase("put", (Transfer(function, store, gradient_bytes),)),
        Phase(
            "download",
            tuple(Transfer(store, place, gradient_bytes, n, dst_hosts=n) for place, n in workers),
        ),
    )
