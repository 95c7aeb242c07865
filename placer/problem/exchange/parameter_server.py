"""Synchronous parameter server: every worker pushes its gradient to one machine and pulls the
result.
"""

from __future__ import annotations

from placer.problem.exchange.phase import Phase, Transfer, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

TRAITS = Traits(division="equal", transport="server", hub="server")


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return push and pull: S from each worker to the server and S back."""
    assert exchange.aggregator is not None
    hub = exchange.aggregator
    return (
        Phase(
            "push",
            tuple(Transfer(p, hub, gradient_bytes, n, zonal=True, src_hosts=n) for p, n in workers),
        ),
        Phase(
            "pull",
            tuple(Transfer(hub, p, gradient_bytes, n, zonal=True, dst_hosts=n) for p, n in workers),
        ),
    )
