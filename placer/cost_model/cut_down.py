"""A question cut down to what one placement of it uses: what saved results and manifests carry
along.
"""

from __future__ import annotations

from dataclasses import replace

from placer.cost_model.estimate import pool_of
from placer.market.catalog import Catalog
from placer.market.network.graph import largest_cards
from placer.problem.admitted_exchanges import server_offer
from placer.problem.placement import Placement
from placer.problem.problem import Problem

KINDS = ("intra_zone", "inter_zone", "internet")
"""Destinations of egress prices that are no places."""


def used_problem(problem: Problem, placement: Placement) -> Problem:
    """Cut the catalog down to the regions, offers, prices and links that a placement uses."""
    exchange, book = placement.exchange, problem.catalog
    wish = problem.requirements
    places = {
        *placement.places,
        *filter(None, (exchange.aggregator, exchange.storage, wish.data_store)),
        *(d.place for d in wish.datasets),
    }
    server = [] if exchange.server is None else [server_offer(exchange.server, problem)]
    used = [book.region(place) for place in places]
    ends = {
        "*",
        *KINDS,
        *places,
        *(region.region for region in used),
        *(region.egress_zone for region in used),
    }
    providers = {region.provider for region in used}
    catalog: Catalog = replace(
        book,
        regions={place: region for place, region in book.regions.items() if place in places},
        offers=tuple(
            dict.fromkeys(
                [
                    *(pool_of(group, problem).offer for group in placement.groups),
                    *server,
                    *largest_cards(book, sorted(places)),
                ]
            )
        ),
        functions=tuple(f for f in book.functions if f.place in places),
        stores=tuple(s for s in book.stores if s.place in places),
        egress=tuple(
            price
            for price in book.egress
            if price.provider in providers and price.src in ends and price.dst in ends
        ),
        links=tuple(link for link in book.links if link.src in places and link.dst in places),
    )
    return replace(problem, catalog=catalog)
