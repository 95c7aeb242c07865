"""A price book at figures that can be defended: spot prices between what was read and what is
usual, networks that are documented or assumed with caution; and spot prices far from usual.

The best of thousands of offers is the one whose figures are most wrong in its own favour (Smith and
Winkler 2006, The Optimizer's Curse, Management Science 52(3)). A price counts as much as it still
says of today's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
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
"""Days after which a spot price says half as much: fitted to 23 prices of Google Cloud that were
read twice, 112 to 284 days apart (``docs/decisions/spot-prices.md``).
"""
USUAL_SHARES = {"spot": 0.5, "community": 0.72}
"""Share of the on-demand price where nothing is known. Spot: the same fit; community: the median of
ten devices on RunPod's price page in autumn 2026.
"""
UNPROMISED_GBPS = 1.0  # Network of a machine whose provider promises none: assumed
UNPROMISED_SPREAD = 10.0
"""Such a network may be so many times slower or faster: 0.1 to 10 Gb/s, assumed."""
DOCUMENTED_GBPS = {"runpod": 0.1}
"""Network between machines of providers that state one for all of them. RunPod: 100 Mb/s between
pods (https://docs.runpod.io/pods/networking, read in November 2026).
"""
FRESH_DAYS = 30  # Days for which a price says all: intervals of prices hold for so long
PLANNED = "planned: "  # Begins the source of a price that is not the one that was read
SAME = 0.005  # Relative difference up to which a price is left as it was read


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
        if (share := _share(offer, on_demand, newest, half_life_days)) is not None
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
    """Return an offer between its own share and the logarithm of the usual one."""
    factor = math.exp((1 - share.weight) * (target - share.log))
    if factor <= 1 + SAME:
        return offer
    why = f"{PLANNED}{share.weight:.0%} of a price of {offer.usd_per_hour:.4g} USD/h, the rest the "
    planned = scaled(offer, factor, f"{why}usual share of on-demand")
    return msgspec.structs.replace(planned, price_basis="estimated")


def _networked(offer: VmOffer) -> VmOffer:
    if offer.network_gbps is not None or offer.price_basis == "owned":
        return offer
    gbps = DOCUMENTED_GBPS.get(offer.provider, UNPROMISED_GBPS)
    return msgspec.structs.replace(offer, network_gbps=gbps)


FAR = 3.5
"""Modified z-score beyond which a value is an outlier: Iglewicz and Hoaglin (1993), How to Detect
and Handle Outliers, ASQC Basic References in Quality Control 16.
"""
NORMAL = 0.6745  # Median absolute deviation of a standard normal law: the same source
LEAST_DEVIATION = 0.05
"""Least median absolute deviation of logarithms that is taken: where all regions but one have the
same share, any other share would be infinitely far off.
"""


def z_score(log: float, middle: float, deviation: float) -> float:
    """Return the modified z-score of the logarithm of a value."""
    return NORMAL * (log - middle) / max(deviation, LEAST_DEVIATION)


LEAST_REGIONS = 5  # Regions below which nobody can say what is usual


class Usual(Struct, frozen=True, kw_only=True):
    """What a device costs on spot against on-demand over the regions of a provider: the median
    share, and the median absolute deviation of its logarithm.
    """

    share: float
    deviation: float
    regions: int


class Outlier(Struct, frozen=True, kw_only=True):
    """A spot price far from what is usual: its share of on-demand, the usual one over so many
    regions, and the modified z-score (negative: too cheap).
    """

    share: float
    usual: Usual
    score: float


def usual_share(provider: str, gpu: str, catalog: Catalog) -> Usual | None:
    """Return what is usual for a device of a provider; None where too few regions say.

    Each region counts once, with the median of its machines. Prices that were guessed as a share of
    on-demand say nothing.
    """
    memo: dict[tuple[str, str], Usual | None] = catalog.memo.setdefault("usual-spot", {})
    key = provider, gpu
    if key not in memo:
        each: dict[str, list[float]] = defaultdict(list)
        for offer in catalog.offers:
            if (offer.provider, offer.gpu, offer.market) != (provider, gpu, "spot"):
                continue
            share = share_of_on_demand(offer, catalog)
            if share is not None and GUESSED not in offer.source:
                each[offer.region].append(math.log(share))
        logs = [median(values) for values in each.values()]
        memo[key] = None
        if len(logs) >= LEAST_REGIONS:
            middle = median(logs)
            spread = median(abs(value - middle) for value in logs)
            memo[key] = Usual(share=math.exp(middle), deviation=spread, regions=len(logs))
    return memo[key]


def share_of_on_demand(offer: VmOffer, catalog: Catalog) -> float | None:
    """Return a price over that of the same machine on demand; None where either is not known."""
    other = catalog.offer(offer.place, offer.instance_type, offer.gpu, offer.gpu_count, "on_demand")
    if other is None or not other.usd_per_hour or not offer.usd_per_hour:
        return None
    paid = other.price_basis not in FREE and offer.price_basis not in FREE
    return offer.usd_per_hour / other.usd_per_hour if paid else None


def outlier_of(offer: VmOffer, catalog: Catalog) -> Outlier | None:
    """Return how far a spot price is off; None where it is not, or nobody can say.

    The modified z-score of log(spot/on-demand) among the regions of the provider that rent the
    device is beyond `FAR`.
    """
    share = share_of_on_demand(offer, catalog) if offer.market == "spot" else None
    if share is None or GUESSED in offer.source or offer.source.startswith(PLANNED):
        return None
    usual = usual_share(offer.provider, offer.gpu, catalog)
    if usual is None:
        return None
    score = z_score(math.log(share), math.log(usual.share), usual.deviation)
    return Outlier(share=share, usual=usual, score=score) if abs(score) > FAR else None


def outliers(catalog: Catalog) -> Iterator[tuple[VmOffer, Outlier]]:
    """Yield the offers whose spot price is far off, in the order of the book."""
    for offer in catalog.offers:
        if (found := outlier_of(offer, catalog)) is not None:
            yield offer, found
