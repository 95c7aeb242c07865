"""Model averaging between regional servers (MA of Cloudless-Training): every H steps, with a
barrier.

The server of a region runs beside its first worker; one of them, the hub, averages.
"""

from __future__ import annotations

from placer.problem.exchange.allreduce import broadcast, inside_regions
from placer.problem.exchange.phase import Phase, Transfer, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

TRAITS = Traits(
    transport="region-hub", hub="region", payload="checkpoints", local_steps=True, least_regions=2
)


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return H averages inside the regions, then S up to the hub and S down for each other region,
    and the broadcast.
    """
    hub = exchange.aggregator
    others = [place for place, _ in workers if place != hub]
    return (
        *inside_regions(workers, gradient_bytes, exchange.local_steps),
        Phase("up", tuple(Transfer(p, str(hub), gradient_bytes, zonal=True) for p in others)),
        Phase("down", tuple(Transfer(str(hub), p, gradient_bytes, zonal=True) for p in others)),
        *broadcast(workers, gradient_bytes),
    )
