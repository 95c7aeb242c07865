"""A price book at figures that can be defended: spot prices between what was read and what is
usual, networks that are documented or assumed with caution; and spot prices far from usual.

The best of thousands of offers is the one whose figures are most wrong in its own favour (Smith and
Winkler 2006, The Optimizer's Curse, Management Science 52(3)). A price counts as much as it still
says of today's.
"""

from __future__ import annotations

import math
from datetime import date

import msgspec
import numpy as np
from msgspec import Struct

from placer.market.catalog import FREE, OLD_TRANSPORT, Catalog, VmOffer
from placer.market.network.link_model import Array
from placer.market.price_interval import GUESSED
from placer.market.scaled_market import scaled, with_offers
from placer.market.table import Column, Table, grouped, medians
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
ON_DEMAND = "on-demand"  # Key under which a catalog keeps what its machines cost on demand
SAME = 0.005  # Relative difference up to which a price is left as it was read


def defended(catalog: Catalog) -> Catalog:
    """Return a book with figures that can be defended in place of those that were read.

    A spot price p of a machine with the on-demand price d becomes d exp(w log(p / d) + (1 - w) u)
    with the weight w = 2^(-age / 75 days), 1 for a month and 0 for guesses. What is usual, u, is
    the median of the provider and device, weighted alike against `USUAL_SHARES`. Ages count from
    the newest price of the book, so that a question has the same answer tomorrow. No price becomes
    lower: that would be a guess in favour of an answer. Prices by contract, of own machines and on
    demand stay, and so do those without an on-demand price. A book in which nothing changes is
    returned itself.
    """
    table, usd = catalog.table, catalog.table.column("usd_per_hour")
    rows, weights, logs = _shares(catalog)
    targets = _usual(table, rows, weights, logs)
    factors = np.exp((1 - weights) * (targets - logs))
    dearer = factors > 1 + SAME
    rows, weights, factors = rows[dearer], weights[dearer], factors[dearer]
    changes: dict[str, Column | None] = {}
    if len(rows):
        # The column of sources stays as read: records say that and the rest, and are many.
        changes = dict.fromkeys(("usd_per_hour_low", "usd_per_hour_high"))
        changes["usd_per_hour"] = usd.changed(rows, (usd.numbers[rows] * factors).tolist())
        changes["price_basis"] = table.column("price_basis").changed(rows, ["estimated"])
    # Under hivemind a worker is of a class of hosts that was measured.
    measured = catalog.transport == OLD_TRANSPORT
    network = None if measured else _networks(table)
    if network is not None:
        changes["network_gbps"] = network
    if not changes:
        return catalog
    pairs = zip(weights.tolist(), factors.tolist(), strict=True)
    planned = dict(zip(rows.tolist(), pairs, strict=True))

    def changed(at: int, offer: VmOffer) -> VmOffer:
        offer = _planned(offer, *planned[at]) if at in planned else offer
        gbps = offer.network_gbps if network is None else network.values[network.codes[at]]
        same = gbps == offer.network_gbps
        return offer if same else msgspec.structs.replace(offer, network_gbps=gbps)

    offers = table.changed(changes, changed)
    # Links follow from the networks of machines, so that other ones have other links.
    return with_offers(catalog, offers) if measured else replace(catalog, offers=offers)


def _shares(catalog: Catalog) -> tuple[Array, Array, Array]:
    """Return the rows whose price moves and can be compared with on demand, what each price still
    says of today's (1 all, 0 nothing), and the logarithm of its share of the on-demand price.
    """
    table, whole = catalog.table, _on_demand_usd(catalog)
    usd = table.column("usd_per_hour").numbers
    known = table.column("price_basis").where(("list", "published", "estimated").__contains__)
    moves = table.column("market").where(lambda market: market != "on_demand")
    rows = (known & moves & (usd > 0) & (whole > 0)).nonzero()[0]
    dates = table.column("as_of")
    newest = max(map(date.fromisoformat, dates.values), default=date.min)
    days = [(newest - date.fromisoformat(day)).days for day in dates.values]
    aged = [1.0 if age <= FRESH_DAYS else 2 ** (-age / HALF_LIFE_DAYS) for age in days]
    guessed = table.column("source").where(lambda source: GUESSED in source)
    weights = np.where(guessed[rows], 0.0, np.array(aged)[dates.array[rows]])
    return rows, weights, np.log(usd[rows] / whole[rows])


def _on_demand_usd(catalog: Catalog) -> Array:
    """Return the price on demand of the machine of each row, 0 where nobody sells it; (rows,)."""
    if ON_DEMAND not in catalog.memo:
        table = catalog.table
        alike, first = table.groups(("instance_type", "gpu", "gpu_count", "provider", "region"))
        paid = table.column("price_basis").where(lambda basis: basis not in FREE)
        sold = table.matching(market="on_demand")
        sold, usd = sold[paid[sold]], np.zeros(len(first))
        usd[alike[sold]] = table.column("usd_per_hour").numbers[sold]
        catalog.memo[ON_DEMAND] = usd[alike]
    known: Array = catalog.memo[ON_DEMAND]
    return known


def _usual(table: Table[VmOffer], rows: Array, weights: Array, logs: Array) -> Array:
    """Return the logarithm of the usual share of each row, by provider, device and market."""
    alike, first = table.groups(("provider", "gpu", "market"), rows)
    usual = np.array([math.log(USUAL_SHARES[table[row].market]) for row in rows[first].tolist()])
    says = weights > 0
    known, one = grouped(alike[says], len(first))
    weight, middle = (medians(known, each[says], len(one)) for each in (weights, logs))
    groups = alike[says][one]
    usual[groups] = weight * middle + (1 - weight) * usual[groups]
    built: Array = usual[alike]
    return built


def _planned(offer: VmOffer, weight: float, factor: float) -> VmOffer:
    """Return an offer at a multiple of its price, of which the read one is a part."""
    why = f"{PLANNED}{weight:.0%} of a price of {offer.usd_per_hour:.4g} USD/h, the rest the "
    planned = scaled(offer, factor, f"{why}usual share of on-demand")
    return msgspec.structs.replace(planned, price_basis="estimated")


def _networks(table: Table[VmOffer]) -> Column | None:
    """Return the networks of all machines, documented or assumed; None where the book has all."""
    network, basis = table.column("network_gbps"), table.column("price_basis")
    silent = network.where(lambda gbps: gbps is None) & basis.where(lambda each: each != "owned")
    rows, providers = silent.nonzero()[0], table.column("provider")
    gbps = [DOCUMENTED_GBPS.get(name, UNPROMISED_GBPS) for name in providers.values]
    return network.changed(rows, [gbps[at] for at in providers.array[rows]]) if len(rows) else None


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
        table, whole = catalog.table, _on_demand_usd(catalog)
        rows, usd = (
            table.matching(provider=provider, gpu=gpu, market="spot"),
            table.column("usd_per_hour").numbers,
        )
        says = table.column("price_basis").where(lambda basis: basis not in FREE)
        says &= table.column("source").where(lambda source: GUESSED not in source)
        rows = rows[says[rows] & (usd[rows] > 0) & (whole[rows] > 0)]
        alike, first = table.groups(("region",), rows)
        logs = medians(alike, np.log(usd[rows] / whole[rows]), len(first))
        memo[key] = None
        if len(logs) >= LEAST_REGIONS:
            middle = float(np.median(logs))
            spread = float(np.median(np.abs(logs - middle)))
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
