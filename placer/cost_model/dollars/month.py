"""Egress of a calendar month: volume tiers and free allowances, which no hour has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import fsum

from placer.errors import PlacerError
from placer.market.catalog import EgressPrice
from placer.market.network.egress_grid import first_paid
from placer.market.network.graph import Network
from placer.records import replace
from placer.units import GIB

Schedule = tuple[EgressPrice, ...]
"""Volume tiers of one price, lowest mark first."""


def tiered_usd(gib: float, tiers: Sequence[EgressPrice], *, already_gib: float = 0.0) -> float:
    """Price what one month sends, each GiB at the price of the tier that it falls into: from its
    mark up to and with the next one. USD; never less for more bytes.

    AWS counts the free 100 GB of a month in the first 10 TB: 10,140 GiB are paid, at 0.09 USD.

    >>> from placer.market.books.book_reader import load_catalog
    >>> from placer.market.network.graph import Network
    >>> aws = Network(load_catalog("default")).egress_tiers("aws/us-east-1", "gcp/us-central1")
    >>> [(tier.above_gib_per_month, tier.usd_per_gib) for tier in aws[:3]]
    [(0.0, 0.0), (100.0, 0.09), (10240.0, 0.085)]
    >>> round(tiered_usd(10_240, aws), 2), round(tiered_usd(10_240, without_allowance(aws)), 2)
    (912.6, 921.6)
    >>> round(tiered_usd(1, aws, already_gib=10_240), 3)
    0.085
    """
    _check_amount("gib", gib)
    _check_amount("already_gib", already_gib)
    marks = [tier.above_gib_per_month for tier in tiers]
    if not marks or marks[0] != 0 or any(high <= low for low, high in pairwise(marks)):
        raise PlacerError(
            f"volume tiers {marks} do not rise from 0",
            "give all tiers of one price, lowest mark first",
        )
    start, end = already_gib, already_gib + gib
    bands = zip(tiers, [*marks[1:], math.inf], strict=True)
    return fsum(
        tier.usd_per_gib * max(0.0, min(end, high) - max(start, tier.above_gib_per_month))
        for tier, high in bands
    )


def allowance_gib(tiers: Sequence[EgressPrice]) -> float:
    """Return the GiB of a month that are free before the first paid tier, else 0."""
    return first_paid(tiers).above_gib_per_month


def without_allowance(tiers: Sequence[EgressPrice]) -> Schedule:
    """Charge the free GiB of a schedule like its first paid tier; the other marks stay."""
    paid = first_paid(tiers)
    return (
        replace(paid, above_gib_per_month=0.0),
        *(tier for tier in tiers if tier.above_gib_per_month > paid.above_gib_per_month),
    )


def monthly_egress_usd(
    links: Mapping[tuple[str, str], float], network: Network, *, same_zone: bool = True
) -> float:
    """Price what one calendar month sends over all links, in bytes, with volume tiers and free
    allowances: USD, never less for more bytes on a link. Providers count a tier over one billing
    account and one price list, not over one link: the bytes of all links that one provider bills by
    the same schedule (the same marks and prices, to the internet or inside the provider) are summed
    before the tiers apply. A free allowance holds once for an account however many schedules it
    uses (AWS: all regions and services together), so each provider grants its largest one once; it
    is taken off the cheapest schedule first, which is never too low. All machines are taken to be
    in one account that sends nothing else.
    """
    pooled: dict[
        tuple[str, bool, tuple[tuple[float, float], ...]], tuple[Schedule, list[float]]
    ] = {}
    for (src, dst), sent in links.items():
        _check_amount(f"bytes from {src} to {dst}", sent)
        tiers = network.egress_tiers(src, dst, same_zone=same_zone)
        marks = tuple((tier.above_gib_per_month, tier.usd_per_gib) for tier in tiers)
        key = (tiers[0].provider, tiers[0].dst == "internet", marks)
        pooled.setdefault(key, (tiers, []))[1].append(sent / GIB)
    providers = {provider for provider, _, _ in pooled}
    return fsum(
        _account_usd([pool for key, pool in pooled.items() if key[0] == provider])
        for provider in sorted(providers)
    )


def _account_usd(pools: Iterable[tuple[Schedule, list[float]]]) -> float:
    """Price the month of one account: its schedules, cheapest first, share one free allowance."""
    ordered = sorted(pools, key=lambda pool: first_paid(pool[0]).usd_per_gib)
    allowance = max(allowance_gib(tiers) for tiers, _ in ordered)
    total = []
    for tiers, amounts in ordered:
        gib = fsum(amounts)
        free = min(gib, allowance, allowance_gib(tiers))
        allowance -= free
        total.append(tiered_usd(gib - free, without_allowance(tiers), already_gib=free))
    return fsum(total)


def _check_amount(name: str, amount: float) -> None:
    if not (math.isfinite(amount) and amount >= 0):
        raise PlacerError(
            f"{name} '{amount}' is not an amount of data", "give a finite number from 0"
        )
