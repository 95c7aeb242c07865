"""Rounds around a server, a store and function, or stores of regions, in linear form: workers of a
region get equal parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import truediv

from placer.cost_model.dollars import components as cost
from placer.cost_model.timing import store as stores
from placer.cost_model.timing.plain_streams import share_seconds
from placer.cost_model.timing.server_sum import server_sum_seconds, summing_vcpus
from placer.cost_model.timing.transfer import transfer_seconds
from placer.problem.exchange import strategy
from placer.problem.exchange.central import memory_gib
from placer.problem.exchange.phase import Phase, Transfer

from .crew import Crew, close
from .linear import CONSTANT, Terms, plus, times
from .readings import calculation, egress, staying


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
    hub, size, streams = (
        str(crew.frame.aggregator),
        problem.gradient_bytes,
        crew.frame.exchange.streams,
    )
    shared = share_seconds(size, network.machine_bytes_per_s(hub))

    def direct(src: str, dst: str) -> float:
        machines = min(network.machine_bytes_per_s(src), network.machine_bytes_per_s(dst))
        moved = max(transfer_seconds(size, network.link(src, dst), streams), size / machines)
        return network.link(src, dst).rtt_s / 2 + share_seconds(moved, 1.0)

    pushed = _equal_shares(crew, lambda p: direct(p, hub))
    pulled: list[Terms] = [{crew.used(p): direct(hub, p)} for p in crew.places]
    if not problem.requirements.datasets:
        starts = [
            problem.batch / part.high / r + network.link(p.place, hub).rtt_s / 2
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
    each = [
        strategy("parameter-server").phases([(p, 1)], size, crew.frame.exchange)
        for p in crew.places
    ]
    usd = [
        times(egress(crew, phases), crew.workers_at(p))
        for p, phases in zip(crew.places, each, strict=True)
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
    problem, part, network = crew.problem, crew.part, crew.problem.network
    function, store = str(crew.frame.aggregator), str(crew.frame.storage)
    services = problem.calibration.services
    size, streams, exact = problem.gradient_bytes, crew.frame.exchange.streams, part.least_s > 0

    def moved(src: str, dst: str) -> float:
        return stores.worker_transfer_seconds(size, network.link(src, dst), services, streams)

    ways = {p: moved(store, p) + moved(p, store) for p in crew.places}
    ready = _equal_shares(crew, lambda p: ways[p])
    last = crew.model.largest(ready, exact=exact and crew.exact)
    aggregate = stores.aggregate_seconds(
        size, part.low, network.link(store, function), network.link(function, store), services
    )
    round_s = plus(last, {CONSTANT: aggregate})
    per_second, per_run = _function_usd(crew, function, part.low)
    waiting = _waiting(crew, ready, last)
    crew.model.at_most(waiting, problem.function(function).max_seconds - aggregate)
    usd = [times(per_second, waiting), {CONSTANT: per_second * aggregate + per_run}]
    phases = {
        p: strategy("central").phases([(p, 1)], size, crew.frame.exchange) for p in crew.places
    }
    put = egress(crew, [phase for phase in next(iter(phases.values()), ()) if phase.name == "put"])
    usd += [times(egress(crew, own) - put, crew.workers_at(p)) for p, own in phases.items()]
    offer = problem.catalog.store(store)
    usd.append({CONSTANT: put + cost.storage_usd(offer, size, part.low, 0.0, 0)})
    kept = cost.storage_usd(offer, size, part.low, 3600.0, 0) - cost.storage_usd(
        offer, size, part.low, 0.0, 0
    )
    close(crew, round_s, plus(*usd, crew.data_usd()), kept)


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
    problem, network = crew.problem, crew.problem.network
    function, store, regions = (
        str(crew.frame.aggregator),
        str(crew.frame.storage),
        crew.frame.regions or 2,
    )
    size, streams, services = (
        problem.gradient_bytes,
        crew.frame.exchange.streams,
        problem.calibration.services,
    )

    def moved(p: str) -> float:
        return stores.worker_transfer_seconds(size, network.link(p, p), services, streams)

    def forward(p: str, k: int) -> float:
        return stores.aggregate_seconds(
            size, k, network.link(p, p), network.link(p, store), services
        )

    copies = {
        p: stores.copy_seconds(size, network.link(store, p), network.link(p, p), services)
        for p in crew.places
    }
    arrived = crew.model.largest(
        _equal_shares(crew, lambda p: copies[p] + 2 * moved(p), forward), exact=False
    )
    aggregate = stores.aggregate_seconds(
        size, regions, network.link(store, function), network.link(function, store), services
    )
    crew.exact = False
    round_s = plus(arrived, {CONSTANT: aggregate})
    usd = [
        {
            CONSTANT: _run_usd(crew, function, aggregate)
            + cost.storage_usd(problem.catalog.store(store), size, regions, 0.0, 0)
        }
    ]
    for p in crew.places:
        phases = strategy("hierarchical").phases([(p, 1)], size, crew.frame.exchange)
        common = egress(crew, [phase for phase in phases if phase.name == "put"])

        def region(k: int, p: str = p, common: float = common) -> float:
            sent = strategy("hierarchical").phases([(p, k)], size, crew.frame.exchange)
            runs = _run_usd(crew, p, forward(p, k)) + _run_usd(crew, p, copies[p])
            return (
                egress(crew, sent)
                - common
                + runs
                + cost.storage_usd(problem.catalog.store(p), size, k, 0.0, 0)
            )

        usd.append(crew.by_count(p, region))
    put = egress(crew, (Phase("put", (Transfer(function, store, size),)),))
    close(crew, round_s, plus(*usd, {CONSTANT: put}, crew.data_usd()), 0.0)


def _run_usd(crew: Crew, place: str, seconds: float) -> float:
    """Return the dollars of one run of a function, from below: with the least memory that sums two
    gradients at most.
    """
    per_second, per_run = _function_usd(crew, place, 1)
    return per_second * seconds + per_run
