"""Rounds around a server, a store and function, or stores of regions, in linear form: workers of a
region get equal parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from math import inf
from operator import truediv

from placer.cost_model import dollars as cost
from placer.cost_model.timing import services as stores
from placer.cost_model.timing.services import server_sum_seconds, summing_vcpus
from placer.cost_model.timing.transfers import share_seconds, transfer_seconds
from placer.problem.exchange import Phase, Transfer, memory_gib, strategy
from placer.problem.placement import Exchange

from .goal import calculation, close, egress, staying
from .linear import CONSTANT, Terms, plus, times
from .site_groups import SiteGroup

LOCAL = ("upload", "fetch in regions", "put in regions", "download")
"""Phases of a hierarchical exchange inside one region, for each of its workers or once."""
GLOBAL = ("forward", "fetch", "copy")
"""Phases between a region and the global store and function, once for each region."""


def _equal_shares(
    site_group: SiteGroup,
    extra: Callable[[str], float],
    per_count: Callable[[str, int], float] | None = None,
) -> list[Terms]:
    """Return the seconds of each used pool: its equal part, and what follows it."""
    wish, batch = site_group.problem.requirements, site_group.problem.batch
    total = float(sum(data.samples for data in wish.datasets))
    items: list[Terms] = []
    for flag, pool, rate in zip(
        site_group.pool_flags, site_group.pools, site_group.rates, strict=True
    ):
        place = pool.place
        more = extra(place)
        added = site_group.by_count(place, partial(per_count, place)) if per_count else {}
        if wish.datasets:
            part = batch * staying(site_group, place) / total / rate
            own = site_group.by_count(place, partial(truediv, part))
            items.append(plus(own, added, {flag: part + more, CONSTANT: -part}))
        else:
            items.append(plus({flag: batch / site_group.part.high / rate + more}, added))
    if wish.data_moves:
        items.append(calculation(site_group))
    return items


def server(site_group: SiteGroup) -> None:
    """Bound the last push, by each machine and by the server; then the pulls."""
    problem, part, network = site_group.problem, site_group.part, site_group.problem.network
    singles, size = site_group.frame.singles, problem.gradient_bytes
    hubs, streams = [str(s.aggregator) for s in singles], singles[0].exchange.streams
    shared = min(share_seconds(size, network.machine_bytes_per_s(hub)) for hub in hubs)

    def direct(src: str, dst: str) -> float:
        machines = min(network.machine_bytes_per_s(src), network.machine_bytes_per_s(dst))
        moved = max(transfer_seconds(size, network.link(src, dst), streams), size / machines)
        return network.link(src, dst).rtt_s / 2 + share_seconds(moved, 1.0)

    pushed = _equal_shares(site_group, lambda p: min(direct(p, hub) for hub in hubs))
    pulled: list[Terms] = [
        {site_group.used(p): min(direct(hub, p) for hub in hubs)} for p in site_group.places
    ]
    if not problem.requirements.datasets:
        starts = [
            problem.batch / part.high / r
            + min(network.link(p.place, hub).rtt_s for hub in hubs) / 2
            for p, r in zip(site_group.pools, site_group.rates, strict=True)
        ]
        for start, flag in zip(starts, site_group.pool_flags, strict=True):
            late = {n: shared for n, s in zip(site_group.counts, starts, strict=True) if s >= start}
            pushed.append(plus(late, {flag: start}))
    pulled.append(times(shared, site_group.total))
    round_s = plus(
        site_group.model.largest(pushed),
        {CONSTANT: _least_sum_s(site_group)},
        site_group.model.largest(pulled),
    )
    exchanges, server_phases = [s.exchange for s in singles], strategy("parameter-server").phases
    usd = [
        times(
            min(egress(site_group, server_phases([(p, 1)], size, own)) for own in exchanges),
            site_group.workers_at(p),
        )
        for p in site_group.places
    ]
    close(site_group, round_s, plus(*usd, site_group.data_usd()), 0.0)


def _least_sum_s(site_group: SiteGroup) -> float:
    """Return the seconds of summing the fewest gradients with the most vCPUs."""
    vcpus = max(map(summing_vcpus, site_group.servers), default=summing_vcpus(None))
    return server_sum_seconds(site_group.part.low, vcpus, site_group.problem)


def _function_usd(site_group: SiteGroup, place: str, gradients: int) -> tuple[float, float]:
    """Return the dollars of a function for each second and for no time at all, from below."""
    function = site_group.problem.function(place)
    memory = memory_gib(site_group.problem.gradient_bytes, gradients)
    least = cost.function_usd(function, memory, 0.0)
    return (
        cost.function_usd(function, memory, 1e6) - least
    ) / 1e6, function.usd_per_million_requests / 1e6


def store(site_group: SiteGroup) -> None:
    """Bound a round through one store and function, or the best of several."""
    problem, part, network = site_group.problem, site_group.part, site_group.problem.network
    singles, services = site_group.frame.singles, problem.calibration.services
    hubs = [(str(single.aggregator), str(single.storage)) for single in singles]
    size = problem.gradient_bytes
    streams = singles[0].exchange.streams

    def moved(src: str, dst: str) -> float:
        return stores.worker_transfer_seconds(size, network.link(src, dst), services, streams)

    ways = {
        p: min(moved(store, p) + moved(p, store) for _, store in hubs) for p in site_group.places
    }
    last = site_group.model.largest(_equal_shares(site_group, lambda p: ways[p]))
    aggregates = [
        stores.aggregate_seconds(
            size, part.low, network.link(store, function), network.link(function, store), services
        )
        for function, store in hubs
    ]
    aggregate = min(aggregates)
    round_s = plus(last, {CONSTANT: aggregate})
    runs = [_function_usd(site_group, function, part.low) for function, _ in hubs]
    per_second, per_run = min(each for each, _ in runs), min(each for _, each in runs)
    # The function also waits from the first gradient to the last: that is left out.
    usd: list[Terms] = [{CONSTANT: per_second * aggregate + per_run}]
    put, each = _store_egress(site_group, [single.exchange for single in singles])
    usd += [times(each[p], site_group.workers_at(p)) for p in site_group.places]
    offers = [problem.catalog.store(store) for _, store in hubs]
    least = [cost.storage_usd(offer, size, part.low, 0.0, 0) for offer in offers]
    usd.append({CONSTANT: put + min(least)})
    kept = [cost.storage_usd(offer, size, part.low, 3600.0, 0) for offer in offers]
    hourly = min(whole - start for whole, start in zip(kept, least, strict=True))
    close(site_group, round_s, plus(*usd, site_group.data_usd()), hourly)


def _store_egress(
    site_group: SiteGroup, exchanges: list[Exchange]
) -> tuple[float, dict[str, float]]:
    """Return the dollars of putting the mean, and of each worker; the least of all."""
    size, phases = site_group.problem.gradient_bytes, strategy("central").phases
    puts, each = [], dict.fromkeys(site_group.places, inf)
    for exchange in exchanges:
        put = 0.0
        for place in site_group.places:
            own = phases([(place, 1)], size, exchange)
            put = egress(site_group, [phase for phase in own if phase.name == "put"])
            each[place] = min(each[place], egress(site_group, own) - put)
        puts.append(put)
    return min(puts), each


def regional_stores(site_group: SiteGroup) -> None:
    """Bound a round through stores of regions and a global pair, or the best."""
    problem, network = site_group.problem, site_group.problem.network
    singles, regions = site_group.frame.singles, site_group.frame.regions or 2
    hubs = [(str(single.aggregator), str(single.storage)) for single in singles]
    global_stores = sorted({store for _, store in hubs})
    size, services = problem.gradient_bytes, problem.calibration.services
    streams = singles[0].exchange.streams

    def moved(p: str) -> float:
        return stores.worker_transfer_seconds(size, network.link(p, p), services, streams)

    def forward(p: str, k: int) -> float:
        home = network.link(p, p)
        return min(
            stores.aggregate_seconds(size, k, home, network.link(p, store), services)
            for store in global_stores
        )

    copies = {
        p: min(
            stores.copy_seconds(size, network.link(store, p), network.link(p, p), services)
            for store in global_stores
        )
        for p in site_group.places
    }
    arrived = site_group.model.largest(
        _equal_shares(site_group, lambda p: copies[p] + 2 * moved(p), forward)
    )
    aggregates = [
        stores.aggregate_seconds(
            size, regions, network.link(store, function), network.link(function, store), services
        )
        for function, store in hubs
    ]
    round_s = plus(arrived, {CONSTANT: min(aggregates)})
    runs = [
        _run_usd(site_group, function, aggregate)
        for (function, _), aggregate in zip(hubs, aggregates, strict=True)
    ]
    kept = [
        cost.storage_usd(problem.catalog.store(store), size, regions, 0.0, 0)
        for store in global_stores
    ]
    usd = [{CONSTANT: min(runs) + min(kept)}]
    exchanges = [single.exchange for single in singles]
    for p in site_group.places:
        there = min(_region_egress(site_group, p, 1, exchange, GLOBAL) for exchange in exchanges)

        def region(k: int, p: str = p, there: float = there) -> float:
            runs = _run_usd(site_group, p, forward(p, k)) + _run_usd(site_group, p, copies[p])
            sent = there + _region_egress(site_group, p, k, exchanges[0], LOCAL)
            return sent + runs + cost.storage_usd(problem.catalog.store(p), size, k, 0.0, 0)

        usd.append(site_group.by_count(p, region))
    puts = [egress(site_group, (Phase("put", (Transfer(*hub, size),)),)) for hub in hubs]
    close(site_group, round_s, plus(*usd, {CONSTANT: min(puts)}, site_group.data_usd()), 0.0)


def _region_egress(
    site_group: SiteGroup, place: str, count: int, exchange: Exchange, names: Collection[str]
) -> float:
    """Return the dollars of some phases of a region of some workers."""
    sent = strategy("hierarchical").phases(
        [(place, count)], site_group.problem.gradient_bytes, exchange
    )
    return egress(site_group, [phase for phase in sent if phase.name in names])


def _run_usd(site_group: SiteGroup, place: str, seconds: float) -> float:
    """Return the dollars of a run, from below: with the least memory."""
    per_second, per_run = _function_usd(site_group, place, 1)
    return per_second * seconds + per_run
