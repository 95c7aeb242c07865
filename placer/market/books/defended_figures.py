"""A price book at figures that can be defended: spot prices between what was read and what is
usual, and networks that are documented or assumed with caution.

The best of thousands of offers is the one whose figures are most wrong in its own favour (Smith and
Winkler 2006, The Optimizer's Curse, Management Science 52(3)). A price counts as much as it still
says of today's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from statistics import median
from types import MappingProxyType

import msgspec
from msgspec import Struct

from placer.market.catalog import FREE, OLD_TRANSPORT, Catalog, VmOffer
from placer.market.price_interval import GUESSED
from placer.market.scaled_market import scaled, with_offers
from placer.records import replace

HALF_LIFE_DAYS = 75.0
"""Days after which a spot price says half as much: fitted by
``tests/benchmarks/later_prices.py`` to 23 prices of Google Cloud that were read twice, 112 to 284
days apart.
"""
USUAL_SHARES = {"spot": 0.5, "community": 0.72}
"""Share of the on-demand price where nothing is known. Spot: the same fit; community: the median of
ten devices on RunPod's price page in autumn 2026.
"""
UNPROMISED_GBPS = 1.0
"""Network of a machine whose provider promises none: assumed."""
UNPROMISED_SPREAD = 10.0
"""Such a network may be so many times slower or faster: 0.1 to 10 Gb/s, assumed."""
DOCUMENTED_GBPS = {"runpod": 0.1}
"""Network between machines of providers that state one for all of them. RunPod: 100 Mb/s between
pods (https://docs.runpod.io/pods/networking, read in November 2026).
"""
FRESH_DAYS = 30
"""Days for which a price says all: intervals of prices hold for so long."""
PLANNED = "planned: "
"""Begins the source of a price that is not the one that was read."""
SAME = 0.005
"""Relative difference up to which a price is left as it was read."""


class Share(Struct, frozen=True, kw_only=True):
    """A spot price as the logarithm of its share of the on-demand price of the same machine, and
    what it still says of today's: 1 all, 0 nothing.
    """

    log: float
    weight: float


def defended(
    catalog: Catalog,
    half_life_days: float = HALF_LIFE_DAYS,
    usual_shares: Mapping[str, float] = MappingProxyType(USUAL_SHARES),
) -> Catalog:
    """Return a book with figures that can be defended in place of those that were read.

    Parameters
    ----------
    half_life_days
        Days after which a price that moves says half as much.
    usual_shares
        Share of the on-demand price where nothing is known, by market.

    Notes
    -----
    A spot price p of a machine with the on-demand price d becomes d exp(w log(p / d) + (1 - w) u)
    with the weight w = 2^(-age / 75 days), 1 for a month and 0 for guesses. What is usual, u, is
    the median of the provider and device, weighted alike against `USUAL_SHARES`. Ages count from
    the newest price of the book, so that a question has the same answer tomorrow. No price becomes
    lower: that would be a guess in favour of an answer. Prices by contract, of own machines and on
    demand stay, and so do those without an on-demand price. A book in which nothing changes is
    returned itself.
    """
    on_demand = {
        (offer.place, offer.instance_type, offer.gpu, offer.gpu_count): offer.usd_per_hour
        for offer in catalog.offers
        if offer.market == "on_demand" and offer.price_basis not in FREE
    }
    newest = date.fromisoformat(catalog.as_of[1]) if catalog.offers else date.min
    shares = {
        id(offer): share
        for offer in catalog.offers
        for share in (_share(offer, on_demand, newest, half_life_days),)
        if share is not None
    }
    usual = _usual(catalog.offers, shares, usual_shares)

    def changed_price(offer: VmOffer) -> VmOffer:
        share = shares.get(id(offer))
        if share is None:
            return offer
        unknown = math.log(usual_shares[offer.market])
        target = usual.get((offer.provider, offer.gpu, offer.market), unknown)
        return _planned(offer, share, target)

    planned = (changed_price(offer) for offer in catalog.offers)
    # Under hivemind a worker is of a class of hosts that was measured.
    measured = catalog.transport == OLD_TRANSPORT
    offers = tuple(offer if measured else _networked(offer) for offer in planned)
    if all(new is old for new, old in zip(offers, catalog.offers, strict=True)):
        return catalog
    # Links follow from the networks of machines, so that other ones have other links.
    return with_offers(catalog, offers) if measured else replace(catalog, offers=offers)


def _share(
    offer: VmOffer,
    on_demand: Mapping[tuple[str, str, str, int], float],
    newest: date,
    half_life_days: float,
) -> Share | None:
    """Return how a price that moves compares with on demand; None where nothing says."""
    whole = on_demand.get((offer.place, offer.instance_type, offer.gpu, offer.gpu_count), 0.0)
    known = offer.price_basis in ("list", "published", "estimated") and offer.usd_per_hour > 0
    if not offer.moves or not known or whole <= 0:
        return None
    days = (newest - date.fromisoformat(offer.as_of)).days
    aged = 1.0 if days <= FRESH_DAYS else 2 ** (-days / half_life_days)
    weight = 0.0 if GUESSED in offer.source else aged
    return Share(log=math.log(offer.usd_per_hour / whole), weight=weight)


def _usual(
    offers: Iterable[VmOffer], shares: Mapping[int, Share], unknown: Mapping[str, float]
) -> dict[tuple[str, str, str], float]:
    """Return the logarithm of the usual share by provider, device and market."""
    rows: dict[tuple[str, str, str], list[Share]] = defaultdict(list)
    for offer in offers:
        share = shares.get(id(offer))
        if share is not None and share.weight > 0:
            rows[offer.provider, offer.gpu, offer.market].append(share)
    usual = {}
    for key, known in rows.items():
        weight = median(share.weight for share in known)
        middle = median(share.log for share in known)
        usual[key] = weight * middle + (1 - weight) * math.log(unknown[key[2]])
    return usual


def _planned(offer: VmOffer, share: Share, target: float) -> VmOffer:
    """Return an offer at a price between its own share and the logarithm of the usual one; a new
    price stays as it is.
    """
    factor = math.exp((1 - share.weight) * (target - share.log))
    if factor <= 1 + SAME:
        return offer
    why = f"{PLANNED}{share.weight:.0%} of a price of {offer.usd_per_hour:.4g} USD/h, the rest the "
    planned = scaled(offer, factor, f"{why}usual share of on-demand")
    return msgspec.structs.replace(planned, price_basis="estimated")


def _networked(offer: VmOffer) -> VmOffer:
    """Return an offer with a network, if its book has none."""
    if offer.network_gbps is not None or offer.price_basis == "owned":
        return offer
    gbps = DOCUMENTED_GBPS.get(offer.provider, UNPROMISED_GBPS)
    return msgspec.structs.replace(offer, network_gbps=gbps)
