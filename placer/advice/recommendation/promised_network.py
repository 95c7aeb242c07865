"""Whether the network that a provider promises its machines is enough for the exchange.

The timing model knows what one stream and a path carry, not what each instance type is promised for
long: small machines burst to much more. So this is a warning about a placement and no part of its
time.
"""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.estimate import Estimate, exchange_phases, pool_of
from placer.cost_model.timing.transfers import machine_loads
from placer.market.catalog import VmOffer
from placer.market.network.link_grid import GBPS
from placer.problem.admitted_exchanges import server_offer
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.answer import Warn
from placer.units import format_seconds


def network_warnings(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Name machines whose promised network takes longer than the exchange takes by the model."""
    named = set()
    for offer, moved in _moved_bytes(problem, placement):
        if offer.network_gbps is None or offer.instance_type in named:
            continue
        least_s = moved / (offer.network_gbps * GBPS)
        if least_s > got.step.communication:
            named.add(offer.instance_type)
            text = (
                f"{offer.instance_type} is promised {offer.network_gbps:g} Gb/s for long: "
                f"{format_seconds(least_s)} an exchange"
            )
            end = f"the {format_seconds(got.step.communication)} of the model need its bursts"
            yield Warn(code="promised-network", message=f"{text}; {end}")


def _moved_bytes(problem: Problem, placement: Placement) -> Iterator[tuple[VmOffer, float]]:
    """Yield the machines of a placement with what each sends or receives in all of an exchange."""
    pools = [pool_of(group, problem) for group in placement.groups]
    if (
        traits(placement.exchange.strategy).transport == "server"
        and placement.exchange.server is not None
    ):
        yield (
            server_offer(placement.exchange.server, problem),
            2 * placement.workers * problem.gradient_bytes,
        )
        # The machines of an island send their parts side by side.
        yield from ((p.offer, 2 * problem.gradient_bytes / p.machines) for p in pools)
        return
    loads: dict[str, float] = {}
    for phase in exchange_phases(placement, problem):
        for place, size in machine_loads(phase, inside=True).items():
            loads[place] = loads.get(place, 0.0) + size
    yield from ((p.offer, loads.get(p.place, 0.0) / p.machines) for p in pools)
