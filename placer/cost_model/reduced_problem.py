"""A question cut down to what a placement uses: saved results and manifests carry it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from placer.cost_model.estimate import offer_of
from placer.market.capacity_table import rows_about
from placer.market.catalog import Catalog, VmOffer
from placer.market.network.graph import largest_cards
from placer.problem.admitted_exchanges import server_offer
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace

KINDS = ("intra_zone", "inter_zone", "internet")
"""Destinations of egress prices that are no places."""


def used_problem(problem: Problem, placement: Placement, *, links_fixed: bool = False) -> Problem:
    """Cut the price book down to what a placement uses, perhaps with all links fixed."""
    small = used_by_all(problem, [placement])
    if not links_fixed:
        return small
    links = tuple(
        problem.network.link(a, b).row(problem.catalog.as_of[1])
        for a in small.catalog.regions
        for b in small.catalog.regions
    )
    return replace(small, catalog=replace(small.catalog, links=links))


def used_by_all(problem: Problem, placements: Iterable[Placement]) -> Problem:
    """Cut the price book down to what some placements use; their figures stay the same."""
    places, offers = _data_places(problem), []
    for placement in placements:
        exchange = placement.exchange
        places |= {*placement.places, *filter(None, (exchange.aggregator, exchange.storage))}
        offers += [offer_of(part, problem) for part in placement.parts]
        if exchange.server is not None:
            offers.append(server_offer(exchange.server, problem))
    return cut_down(problem, places, [*offers, *largest_cards(problem.catalog, sorted(places))])


def question_alone(problem: Problem) -> Problem:
    """Cut the price book down to the places that wishes name, for results where nothing fits."""
    wish = problem.requirements
    return cut_down(
        problem, {*filter(None, (wish.aggregator, wish.storage)), *_data_places(problem)}
    )


def cut_down(problem: Problem, places: Collection[str], offers: Iterable[VmOffer] = ()) -> Problem:
    """Cut the price book down to some places, what lies there, and some offers."""
    book = problem.catalog
    regions = {place: region for place, region in book.regions.items() if place in places}
    ends = {"*", *KINDS, *places}
    for region in regions.values():
        ends |= {region.region, region.egress_zone}
    providers = {region.provider for region in regions.values()}
    kept = tuple(dict.fromkeys(offers))
    catalog: Catalog = replace(
        book,
        regions=regions,
        offers=kept,
        capacity=rows_about(book.capacity, ((o.provider, o.region, o.gpu, o.market) for o in kept)),
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


def _data_places(problem: Problem) -> set[str]:
    wish = problem.requirements
    copied = wish.data_source if wish.copies_data else None
    return {*filter(None, (wish.data_store, copied)), *(d.place for d in wish.datasets)}
