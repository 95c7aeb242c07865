"""Asynchronous SGD with gradient accumulation between regional servers (ASGD-GA of
Cloudless-Training).

Every H steps the server of a region sends what it accumulated to one other server and goes on
without waiting. Cloudless-Training publishes no topology for more than two clouds: partners rotate
(as in GossipGraD, Daily et al., 2018), so that S leaves a region in each exchange and every pair
takes its turn.
"""

from __future__ import annotations

from placer.problem.exchange.allreduce import inside_regions
from placer.problem.exchange.phase import Phase, Transfer, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

TRAITS = Traits(transport="region-gossip", local_steps=True, least_regions=2, staleness=1)


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return H averages inside the regions and one send of S for each region, spread over its
    partners on average.
    """
    share = gradient_bytes / max(1, len(workers) - 1)
    pairs = [(a, b) for a, _ in workers for b, _ in workers if a != b]
    return (
        *inside_regions(workers, gradient_bytes, exchange.local_steps),
        Phase("send", tuple(Transfer(a, b, share, zonal=True) for a, b in pairs)),
    )
