"""Dollars by component (Phalak et al., 2024; Erben et al., 2024), and egress of a month."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import fsum

from msgspec import Struct

from placer.cost_model.timing.site_groups import EXPECTED, site_group_of
from placer.errors import PlacerError
from placer.market.catalog import EgressPrice, FunctionOffer, StoreOffer, VmOffer
from placer.market.network.graph import Network
from placer.market.network.tables import first_paid
from placer.problem.datasets import Move, moves
from placer.problem.exchange import Phase
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.workers.pool import Pool
from placer.records import replace
from placer.units import GIB, HOURS_PER_MONTH, SECONDS_PER_HOUR


class UsdPerHour(Struct, frozen=True, kw_only=True):
    """Dollars per hour by component."""

    compute: float
    egress: float
    storage: float
    functions: float
    data: float

    @property
    def total(self) -> float:
        """Sum of the components."""
        return fsum((self.compute, self.egress, self.storage, self.functions, self.data))


def compute_usd_per_hour(machines: Iterable[tuple[VmOffer, int]]) -> float:
    """Price of the workers, billed while they wait as well (Phalak et al., eq. 3). Four workers of
    figure 6 of Phalak et al. in Oregon, 0.0960 USD/h each, are 0.384 USD/h.

    >>> from placer.market.books.book_reader import load_catalog
    >>> offer = load_catalog("phalak-2023").offers_at("aws/us-west-2")[0]
    >>> offer.usd_per_hour, round(compute_usd_per_hour([(offer, 4)]), 3)
    (0.096, 0.384)
    """
    return fsum(offer.usd_per_hour * count for offer, count in machines)


def egress_usd(phases: Sequence[Phase], network: Network, *, same_zone: bool = True) -> float:
    """Price what one exchange sends, in USD per step. Phalak et al. (2024), eq. 7-9, summed over
    the transfers; the provider of the source bills.

    One worker in each of four cities on AWS, S3 and Lambda in Oregon, gradients of 1 GiB: up from
    London, Mumbai and Sydney 0.02 + 0.086 + 0.098, down to them 3 x 0.02; what stays in Oregon is
    free: 0.264 USD.

    >>> from placer.market.books.book_reader import load_catalog
    >>> from placer.problem.exchange import strategy
    >>> from placer.problem.placement import Exchange
    >>> hub = "aws/us-west-2"
    >>> oregon = Exchange(strategy="central", compression="none", aggregator=hub, storage=hub)
    >>> regions = ("us-west-2", "eu-west-2", "ap-south-1", "ap-southeast-2")
    >>> cities = [(f"aws/{region}", 1) for region in regions]
    >>> network = Network(load_catalog("phalak-2023"))
    >>> round(egress_usd(strategy("central").phases(cities, float(GIB), oregon), network), 6)
    0.264
    """
    return fsum(egress_usd_by_link(phases, network, same_zone=same_zone).values())


def egress_usd_by_link(
    phases: Sequence[Phase], network: Network, *, same_zone: bool = True
) -> dict[tuple[str, str], float]:
    """Price one exchange in USD for each directed pair of places; see `egress_usd`."""
    total: dict[tuple[str, str], float] = {}
    for phase in phases:
        for t in phase.transfers:
            price = network.usd_per_byte(t.src, t.dst, same_zone=same_zone or not t.zonal)
            total[t.src, t.dst] = total.get((t.src, t.dst), 0.0) + t.bytes * t.count * price
    return total


def function_usd(offer: FunctionOffer, memory_gib: float, seconds: float) -> float:
    """Price of one run of a cloud function in USD (Phalak et al., eq. 4).

    >>> from placer.market.catalog import FunctionOffer
    >>> f = FunctionOffer(
    ...     provider="aws", region="r", function="lambda", usd_per_gib_second=1.66667e-05,
    ...     usd_per_million_requests=0.2, max_memory_gib=10, max_seconds=900,
    ...     billing_step_ms=1, source="", as_of="")
    >>> round(function_usd(f, 1.0, 3.0), 9)  # 3 s x 1 GiB x 1.66667e-5 + 0.2e-6
    5.02e-05

    CPU that is billed apart, 1 vCPU for each 2 GiB: 3 s x (1 GiB x 2.5e-6 + 0.5 vCPU x 2.4e-5) =
    4.35e-5, and 2e-7 for the request.

    >>> from msgspec.structs import replace
    >>> run = replace(
    ...     f, usd_per_gib_second=2.5e-6, usd_per_vcpu_second=2.4e-5, gib_per_vcpu=2.0,
    ...     min_billed_ms=100)
    >>> # 10 ms are billed as 100
    >>> round(function_usd(run, 1.0, 3.0), 9), round(function_usd(run, 1.0, 0.01), 9)
    (4.37e-05, 1.65e-06)
    >>> slow = replace(f, usd_per_gib_second=1.0, usd_per_million_requests=0.0, billing_step_ms=100)
    >>> # begun steps are billed: 2.401 s as 2.5
    >>> round(function_usd(slow, 1.0, 2.401), 6), round(function_usd(slow, 1.0, 2.4), 6)
    (2.5, 2.4)
    """
    step_s = offer.billing_step_ms / 1e3
    billed = max(offer.min_billed_ms / 1e3, math.ceil(seconds / step_s - 1e-9) * step_s)
    vcpus = 0.0 if offer.gib_per_vcpu is None else memory_gib / offer.gib_per_vcpu
    per_second = memory_gib * offer.usd_per_gib_second + vcpus * offer.usd_per_vcpu_second
    return billed * per_second + offer.usd_per_million_requests / 1e6


def storage_usd(
    offer: StoreOffer, gradient_bytes: float, workers: int, step_s: float, failed_polls: int
) -> float:
    """Price of the store for one step in USD: space, requests and what is read; deletes are free.
    Phalak et al. (2024), eq. 5: S R_st + (2n + l) R_read + (n + 1) R_write + n R_list, with l reads
    that found nothing. Where the provider also bills bytes that are read, 2 n S of them: the
    function fetches n gradients, each worker the mean.

    n = 4, l = 1, S = 1 GiB kept for an hour at 0.023 USD a month: 0.023 / 730 = 3.151e-5; 9 reads
    at 0.0004 and 5 writes and 4 lists at 0.005 per 1000: 3.6e-6 + 2.5e-5 + 2.0e-5; together
    8.0107e-5.

    >>> from placer.market.catalog import StoreOffer
    >>> s3 = StoreOffer(
    ...     provider="aws", region="r", store="s3", usd_per_gib_month=0.023,
    ...     usd_per_thousand_writes=0.005,
    ...     usd_per_thousand_reads=0.0004, usd_per_thousand_lists=0.005, source="", as_of="")
    >>> round(storage_usd(s3, GIB, 4, 3600.0, 1), 9)
    8.0107e-05
    >>> from msgspec.structs import replace
    >>> cold = replace(s3, usd_per_gib_retrieved=0.01)  # 8 GiB are read: 0.08 USD more
    >>> round(storage_usd(cold, GIB, 4, 3600.0, 1), 6)
    0.08008
    """
    month_s = HOURS_PER_MONTH * SECONDS_PER_HOUR
    space = gradient_bytes / GIB * offer.usd_per_gib_month * step_s / month_s
    asked = store_requests(workers)
    reads = (asked["read"] + failed_polls) * offer.usd_per_thousand_reads / 1e3
    writes = asked["write"] * offer.usd_per_thousand_writes / 1e3
    retrieved = asked["read"] * gradient_bytes / GIB * offer.usd_per_gib_retrieved
    return space + reads + writes + asked["list"] * offer.usd_per_thousand_lists / 1e3 + retrieved


def store_requests(workers: int) -> dict[str, int]:
    """Return the requests to one store in one step, without polls that found nothing: n + 1 writes,
    2 n reads, n lists. Phalak et al. (2024), eq. 5: each worker writes its gradient and reads the
    mean, the function lists after each upload, reads n gradients and writes the mean.
    """
    return {"write": workers + 1, "read": 2 * workers, "list": workers}


def usd_per_million_samples(usd_per_hour: float, samples_per_second: float) -> float:
    """Price of a million samples: USD/h / 3600 / throughput x 1e6.

    >>> round(usd_per_million_samples(3.6, 1000.0), 6)
    1.0
    """
    return usd_per_hour / SECONDS_PER_HOUR / samples_per_second * 1e6


def data_usd_per_sample(
    machines: Sequence[tuple[Pool, int]], placement: Placement, problem: Problem
) -> float:
    """Price the way of one sample to its worker: what a local disk keeps is paid once."""
    if problem.requirements.datasets:
        part = site_group_of(machines, placement, (), problem, EXPECTED).shares()
        total = problem.requirements.passes * fsum(
            data.samples for data in problem.requirements.datasets
        )
        return fsum(move.usd for move in moves_of(part, problem)) / total
    if problem.data_store is None and not problem.data_copies:
        return 0.0
    site_group = site_group_of(machines, placement, (), problem, EXPECTED)
    return fsum(
        share * worker_sample_usd(pool, problem)
        for (pool, _), share in zip(machines, site_group.group_shares(), strict=True)
    )


def worker_sample_usd(pool: Pool, problem: Problem) -> float:
    """Price the way of one sample to a kind of worker, with its share of a copy."""
    if problem.data_store is None and problem.data_copies:
        return problem.least_copy(pool.place)[0]
    copied = 0.0 if problem.data_copy is None else problem.data_copy.usd_per_sample
    return pool.streamed * sample_usd(pool.place, problem) + copied


def sample_usd(place: str, problem: Problem) -> float:
    """Price of reading one sample from the dataset's store at a place; 0 without a store."""
    if problem.data_store is None:
        return 0.0
    way = problem.network.usd_per_byte(problem.data_store.place, place)
    return _bytes_per_sample(problem) * way


def moves_of(part: Mapping[str, float], problem: Problem) -> tuple[Move, ...]:
    """Return the data that has to move before the run."""
    datasets = problem.requirements.datasets
    if not problem.requirements.data_moves:
        return ()
    return moves(datasets, part, _bytes_per_sample(problem), problem.network)


def _bytes_per_sample(problem: Problem) -> int:
    if problem.profile.bytes_per_sample is None:
        raise PlacerError(
            f"profile {problem.profile.name} does not say how many bytes a sample has",
            "leave --data out, or add bytes_per_sample",
            exit_code=5,
        )
    return problem.profile.bytes_per_sample


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
