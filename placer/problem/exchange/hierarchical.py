"""Hierarchical serverless aggregation (Phalak et al., 2024): a store and a function in each region,
then one global pair.
"""

from __future__ import annotations

from placer.problem.exchange.phase import Phase, Transfer, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

TRAITS = Traits(division="equal", transport="regional-stores", hub="function", least_regions=2)


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return what moves inside the regions, over to the global store, and back. Workers never leave
    their region: S each to its store and back. The region's function reads them, writes one sum to
    the global store, and later copies the mean from there to the region's store: 2 S per region
    over the WAN instead of 2 S per worker.
    """
    assert exchange.storage is not None
    assert exchange.aggregator is not None
    store, function = exchange.storage, exchange.aggregator
    size = gradient_bytes
    return (
        Phase("upload", tuple(Transfer(p, p, size, n, src_hosts=n) for p, n in workers)),
        Phase("fetch in regions", tuple(Transfer(p, p, size, n) for p, n in workers)),
        Phase("forward", tuple(Transfer(p, store, size) for p, _ in workers)),
        Phase("fetch", (Transfer(store, function, size, len(workers)),)),
        Phase("put", (Transfer(function, store, size),)),
        Phase("copy", tuple(Transfer(store, p, size) for p, _ in workers)),
        Phase("put in regions", tuple(Transfer(p, p, size) for p, _ in workers)),
        Phase("download", tuple(Transfer(p, p, size, n, dst_hosts=n) for p, n in workers)),
    )
