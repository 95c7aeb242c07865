"""Rounds around a server, a store and function, or stores of regions, in linear form: workers of a
region get equal parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from math import inf
from operator import truediv

from placer.cost_model.dollars import components as cost
from placer.cost_model.timing import store as stores
from placer.cost_model.timing.plain_streams import share_seconds
from placer.cost_model.timing.server_sum import server_sum_seconds, summing_vcpus
from placer.cost_model.timing.transfer import transfer_seconds
from placer.problem.exchange import strategy
from placer.problem.exchange.central import memory_gib
from placer.problem.exchange.phase import Phase, Transfer
from placer.problem.placement import Exchange

from .crew import Crew
from .goal import close
from .linear import CONSTANT, Terms, plus, times
from .readings import calculation, egress, staying

LOCAL = ("upload", "fetch in regions", "put in regions", "download")
"""Phases of a hierarchical exchange inside one region, for each of its workers or once."""
GLOBAL = ("forward", "fetch", "copy")
"""Phases between a region and the global store and function, once for each region."""


def _equal_shares(
    crew: Crew, extra: Callable[[str], float], per_count: Callable[[str, int], float] | None = None
) -> list[Terms]:
    """Return the seconds of each pool that is used: its equal part of the batch, what follows it at
    its place, and by its place's count.
    """
    wish, batch = crew.problem.requirements, crew.problem.batch
    total = float(sum(data.samples for data in wish.datasets))
    items: list[Terms] = []
    for flag, pool, rate in zip(crew.pool_flags, crew.pools, crew.rates, strict=True):
        place = pool.place
        more = extra(place)
        added = crew.by_count(place, partial(per_count, place)) if per_count else {}
        if wish.datasets:
            part = batch * staying(crew, place) / total / rate
            own = crew.by_count(place, partial(truediv, part))
            items.append(plus(own, added, {flag: part + more, CONSTANT: -part}))
        else:
            items.append(plus({flag: batch / crew.part.high / rate + more}, added))
    if wish.data_moves:
        items.append(calculation(crew))
    crew.exact = crew.exact and crew.fixed_workers and not wish.datasets
    return items


def server(crew: Crew) -> None:
    """Bound the last push by what each machine needs alone and by what the server can take after
    any start; then the pulls in the same way.
    """
    problem, part, network = crew.problem, crew.part, crew.problem.network
    singles, size = crew.frame.singles, problem.gradient_bytes
    hubs, streams = [str(s.aggregator) for s in singles], singles[0].exchange.streams
    shared = min(share_seconds(size, network.machine_bytes_per_s(hub)) for hub in hubs)

    def direct(src: str, dst: str) -> float:
        machines = min(network.machine_bytes_per_s(src), network.machine_bytes_per_s(dst))
        moved = max(transfer_seconds(size, network.link(src, dst), streams), size / machines)
        return network.link(src, dst).rtt_s / 2 + share_seconds(moved, 1.0)

    pushed = _equal_shares(crew, lambda p: min(direct(p, hub) for hub in hubs))
    pulled: list[Terms] = [{crew.used(p): min(direct(hub, p) for hub in hubs)} for p in crew.places]
    if not problem.requirements.datasets:
        starts = [
            problem.batch / part.high / r
            + min(network.link(p.place, hub).rtt_s for hub in hubs) / 2
            for p, r in zip(crew.pools, crew.rates, strict=True)
        ]
        for start, flag in zip(starts, crew.pool_flags, strict=True):
            late = {n: shared for n, s in zip(crew.counts, starts, strict=True) if s >= start}
            pushed.append(plus(late, {flag: start}))
    pulled.append(times(shared, crew.total))
    crew.exact = False
    round_s = plus(
        crew.model.largest(pushed, exact=False),
        {CONSTANT: _least_sum_s(crew)},
        crew.model.largest(pulled, exact=False),
    )
    exchanges, server_phases = [s.exchange for s in singles], strategy("parameter-server").phases
    usd = [
        times(
            min(egress(crew, server_phases([(p, 1)], size, own)) for own in exchanges),
            crew.workers_at(p),
        )
        for p in crew.places
    ]
    close(crew, round_s, plus(*usd, crew.data_usd()), 0.0)


def _least_sum_s(crew: Crew) -> float:
    """Return the seconds in which a server sums the fewest gradients of the part, with the most
    vCPUs that the server of any number of workers has.
    """
    vcpus = max(map(summing_vcpus, crew.servers), default=summing_vcpus(None))
    seconds: float = server_sum_seconds(crew.part.low, vcpus, crew.problem)
    return seconds


def _function_usd(crew: Crew, place: str, gradients: int) -> tuple[float, float]:
    """Return the dollars of a function for each second and for no time at all, from below."""
    function, memory = (
        crew.problem.function(place),
        memory_gib(crew.problem.gradient_bytes, gradients),
    )
    least = cost.function_usd(function, memory, 0.0)
    return (
        cost.function_usd(function, memory, 1e6) - least
    ) / 1e6, function.usd_per_million_requests / 1e6


def store(crew: Crew) -> None:
    """Bound a round through one store and one function, or through the best of several for each of
    its parts.
    """
    problem, part, network = crew.problem, crew.part, crew.problem.network
    singles, services = crew.frame.singles, problem.calibration.services
    hubs = [(str(single.aggregator), str(single.storage)) for single in singles]
    size, exact = problem.gradient_bytes, part.least_s > 0
    streams = singles[0].exchange.streams

    def moved(src: str, dst: str) -> float:
        return stores.worker_transfer_seconds(size, network.link(src, dst), services, streams)

    ways = {p: min(moved(store, p) + moved(p, store) for _, store in hubs) for p in crew.places}
    ready = _equal_shares(crew, lambda p: ways[p])
    last = crew.model.largest(ready, exact=exact and crew.exact)
    aggregates = [
        stores.aggregate_seconds(
            size, part.low, network.link(store, function), network.link(function, store), services
        )
        for function, store in hubs
    ]
    aggregate = min(aggregates)
    round_s = plus(last, {CONSTANT: aggregate})
    runs = [_function_usd(crew, function, part.low) for function, _ in hubs]
    per_second, per_run = min(each for each, _ in runs), min(each for _, each in runs)
    waiting: dict[int, float] = {}
    if not crew.frame.hubs:  # of several, a place may wait less at one hub and more at another
        waiting = _waiting(crew, ready, last)
        crew.model.at_most(waiting, problem.function(hubs[0][0]).max_seconds - aggregate)
    usd = [times(per_second, waiting), {CONSTANT: per_second * aggregate + per_run}]
    put, each = _store_egress(crew, [single.exchange for single in singles])
    usd += [times(each[p], crew.workers_at(p)) for p in crew.places]
    offers = [problem.catalog.store(store) for _, store in hubs]
    least = [cost.storage_usd(offer, size, part.low, 0.0, 0) for offer in offers]
    usd.append({CONSTANT: put + min(least)})
    kept = [cost.storage_usd(offer, size, part.low, 3600.0, 0) for offer in offers]
    hourly = min(whole - start for whole, start in zip(kept, least, strict=True))
    close(crew, round_s, plus(*usd, crew.data_usd()), hourly)


def _store_egress(crew: Crew, exchanges: list[Exchange]) -> tuple[float, dict[str, float]]:
    """Return the dollars of putting the mean into the store, and of each worker of a place beside
    it; the least of several exchanges.
    """
    size, phases = crew.problem.gradient_bytes, strategy("central").phases
    puts, each = [], dict.fromkeys(crew.places, inf)
    for exchange in exchanges:
        put = 0.0
        for place in crew.places:
            own = phases([(place, 1)], size, exchange)
            put = egress(crew, [phase for phase in own if phase.name == "put"])
            each[place] = min(each[place], egress(crew, own) - put)
        puts.append(put)
    return min(puts), each


def _waiting(crew: Crew, ready: list[Terms], last: Terms) -> dict[int, float]:
    """Return the seconds from the first gradient that is ready to the last: a variable from below.

    Notes
    -----
    Nothing is known of it where the number of workers is not: with fewer, each calculates longer,
    and a slow near worker may come no sooner than a fast far one any more.
    """
    model = crew.model
    if not model.reach(last)[1] or crew.problem.requirements.datasets or not crew.fixed_workers:
        return {}
    top = model.reach(last)[1]
    first, this = model.variable(0.0, top), model.variable(0.0, top)
    for item, flag in zip(ready, crew.pool_flags, strict=False):
        model.at_most(plus({first: 1.0, flag: top}, times(-1.0, item)), top)
    model.at_least(plus({this: 1.0, first: 1.0}, times(-1.0, last)))
    return {this: 1.0}


def regional_stores(crew: Crew) -> None:
    """Bound a round through a store and a function in each region and a global pair, or the best of
    several for each of its parts.
    """
    problem, network = crew.problem, crew.problem.network
    singles, regions = crew.frame.singles, crew.frame.regions or 2
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
        for p in crew.places
    }
    arrived = crew.model.largest(
        _equal_shares(crew, lambda p: copies[p] + 2 * moved(p), forward), exact=False
    )
    aggregates = [
        stores.aggregate_seconds(
            size, regions, network.link(store, function), network.link(function, store), services
        )
        for function, store in hubs
    ]
    crew.exact = False
    round_s = plus(arrived, {CONSTANT: min(aggregates)})
    runs = [
        _run_usd(crew, function, aggregate)
        for (function, _), aggregate in zip(hubs, aggregates, strict=True)
    ]
    kept = [
        cost.storage_usd(problem.catalog.store(store), size, regions, 0.0, 0)
        for store in global_stores
    ]
    usd = [{CONSTANT: min(runs) + min(kept)}]
    exchanges = [single.exchange for single in singles]
    for p in crew.places:
        there = min(_region_egress(crew, p, 1, exchange, GLOBAL) for exchange in exchanges)

        def region(k: int, p: str = p, there: float = there) -> float:
            runs = _run_usd(crew, p, forward(p, k)) + _run_usd(crew, p, copies[p])
            sent = there + _region_egress(crew, p, k, exchanges[0], LOCAL)
            return sent + runs + cost.storage_usd(problem.catalog.store(p), size, k, 0.0, 0)

        usd.append(crew.by_count(p, region))
    puts = [egress(crew, (Phase("put", (Transfer(*hub, size),)),)) for hub in hubs]
    close(crew, round_s, plus(*usd, {CONSTANT: min(puts)}, crew.data_usd()), 0.0)


def _region_egress(
    crew: Crew, place: str, count: int, exchange: Exchange, names: Collection[str]
) -> float:
    """Return the dollars of some phases of a region of some workers."""
    sent = strategy("hierarchical").phases([(place, count)], crew.problem.gradient_bytes, exchange)
    return egress(crew, [phase for phase in sent if phase.name in names])


def _run_usd(crew: Crew, place: str, seconds: float) -> float:
    """Return the dollars of one run of a function, from below: with the least memory that sums two
    gradients at most.
    """
    per_second, per_run = _function_usd(crew, place, 1)
    return per_second * seconds + per_run
