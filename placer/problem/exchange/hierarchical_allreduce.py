"""Hierarchical all-reduce: inside each region, between one leader of each region, inside each
region again.
"""

from __future__ import annotations

from placer.problem.exchange.allreduce import broadcast, butterfly, inside_regions
from placer.problem.exchange.phase import Phase, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

TRAITS = Traits(transport="leaders", least_regions=2, may_overlap=True)


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return the averages inside the regions, the leaders' butterfly over R regions, and the
    broadcast.

    >>> from placer.problem.exchange.phase import bytes_by_link
    >>> exchange = Exchange(strategy="hierarchical-all-reduce", compression="fp16")
    >>> sent = bytes_by_link(phases([("a", 4), ("b", 4)], 100.0, exchange))
    >>> # 2 S / R between leaders; 4 x 3 pairs of 2 S / 4, then 3 x S
    >>> sent["a", "b"], sent["a", "a"]
    (100.0, 900.0)
    """
    leaders = butterfly([(place, 1) for place, _ in workers], gradient_bytes, " between leaders")
    return (*inside_regions(workers, gradient_bytes), *leaders, *broadcast(workers, gradient_bytes))
