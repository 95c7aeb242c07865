"""Spot prices far from what their device usually costs against on-demand: an answer that rests on
one says so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from msgspec import Struct

from placer.market.books.defended_figures import PLANNED
from placer.market.catalog import FREE, Catalog, VmOffer
from placer.market.price_interval import GUESSED

FAR = 3.5
"""Modified z-score beyond which a value is an outlier: Iglewicz and Hoaglin (1993), How to Detect
and Handle Outliers, ASQC Basic References in Quality Control 16.
"""
NORMAL = 0.6745
"""Median absolute deviation of a standard normal law: the same source."""
LEAST_DEVIATION = 0.05
"""Least median absolute deviation of log(spot/on-demand) that is taken: where all regions but one
have the same share, any other share would be infinitely far off.
"""
LEAST_REGIONS = 5
"""Regions below which nobody can say what is usual."""


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

    Notes
    -----
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
    if other.price_basis in FREE or offer.price_basis in FREE:
        return None
    return offer.usd_per_hour / other.usd_per_hour


def outlier_of(offer: VmOffer, catalog: Catalog) -> Outlier | None:
    """Return how far a spot price is off; None where it is not, or nobody can say.

    Notes
    -----
    The modified z-score of log(spot/on-demand) among the regions of the provider that rent the
    device is beyond `FAR`.
    """
    share = share_of_on_demand(offer, catalog) if offer.market == "spot" else None
    if share is None or GUESSED in offer.source or offer.source.startswith(PLANNED):
        return None
    usual = usual_share(offer.provider, offer.gpu, catalog)
    if usual is None:
        return None
    score = NORMAL * math.log(share / usual.share) / max(usual.deviation, LEAST_DEVIATION)
    return Outlier(share=share, usual=usual, score=score) if abs(score) > FAR else None


def outliers(catalog: Catalog) -> Iterator[tuple[VmOffer, Outlier]]:
    """Yield the offers whose spot price is far off, in the order of the book."""
    for offer in catalog.offers:
        found = outlier_of(offer, catalog)
        if found is not None:
            yield offer, found
