"""The same machines in other places: a placement of one place, wherever a book has its offers."""

from __future__ import annotations

from collections.abc import Iterator

from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace

MOST_PLACES = 24
"""Other places at most: the cheapest ones."""


def elsewhere(placement: Placement, problem: Problem) -> Iterator[Placement]:
    """Yield a placement of one place in other places that offer the same machines.

    Notes
    -----
    Many providers ask the same in all their places. A search names one of them, and jobs that share
    quotas need the others.
    """
    exchange = placement.exchange
    parts = exchange.server, exchange.aggregator, exchange.storage
    if len(placement.places) != 1 or any(part is not None for part in parts):
        return
    catalog, (home,) = problem.catalog, placement.places
    kinds = [group.offer_kind[1:] for group in placement.groups]
    found = []
    for place in catalog.regions:
        offers = [catalog.offer(place, *kind) for kind in kinds]
        if place != home and all(offer is not None for offer in offers):
            each = zip(offers, placement.groups, strict=True)
            usd = sum(o.usd_per_hour * g.machine_count for o, g in each if o is not None)
            found.append((usd, place))
    for _, place in sorted(found)[:MOST_PLACES]:
        groups = tuple(replace(group, place=place) for group in placement.groups)
        yield replace(placement, groups=groups)
