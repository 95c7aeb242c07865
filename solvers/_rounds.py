"""Rounds in linear form: for each transport the seconds of its parts, as largest items, and the dollars of one exchange.

Every coefficient is asked of `placer.timing`, `placer.cost` and the exchange modules for one place, pair or count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import truediv

from placer import cost
from placer.elastic import needs_place
from placer.exchange import strategy
from placer.exchange.allreduce import broadcast, inside_regions
from placer.exchange.phase import Phase, Transfer
from placer.timing import store as stores
from placer.timing.averaging import averaging_seconds, wan_seconds
from placer.timing.direct import direct_phase_seconds, direct_seconds, share_seconds
from placer.timing.transfer import sum_seconds, transfer_seconds

from ._crew import Crew, close
from ._linear import CONSTANT, Terms, plus, times


def program(crew: Crew) -> None:
    """Add time, price and goal of the frame's transport to a crew."""
    ROUNDS[crew.frame.transport](crew)


def _averaging(crew: Crew, host: str, workers: int) -> float:
    problem = crew.problem
    spread = problem.calibration.spread({host}, 0)
    crew.exact = crew.exact and not problem.calibration.spreads
    return spread * averaging_seconds({host}, problem.gradient_bytes, workers, problem.profile.tensors, problem.calibration)


def _egress(crew: Crew, phases: Sequence[Phase]) -> float:
    return cost.egress_usd(phases, crew.problem.network, same_zone=crew.problem.requirements.same_zone)


def _calculation(crew: Crew) -> dict[int, float]:
    """Seconds of calculation of the batch where fast workers do more: B / V, or as the data lies."""
    problem, batch, model = crew.problem, crew.problem.batch, crew.model
    datasets = problem.requirements.datasets
    total = float(sum(data.samples for data in datasets))
    items: list[Terms] = []
    if not datasets or problem.requirements.data_moves:
        items.append({crew.hyperbola("all", batch, crew.speed()): 1.0})
    own = {p: batch * _staying(crew, p) / total for p in needs_place(datasets) if p in crew.places}
    items += [{crew.hyperbola(p, amount, crew.speed(p)): 1.0} for p, amount in own.items()]
    crew.exact = crew.exact and not problem.requirements.data_moves
    return dict(items[0]) if len(items) == 1 else model.largest(items, exact=crew.part.least_s > 0)


def _staying(crew: Crew, place: str) -> float:
    return float(sum(d.samples for d in crew.problem.requirements.datasets if d.place == place and not d.may_move))


def _overlap(crew: Crew, calculation: Terms, communication: Terms) -> dict[int, float]:
    """Seconds of a round: the sum, or the longer of both where the exchange overlaps."""
    if not crew.frame.exchange.overlap:
        return plus(calculation, communication)
    return crew.model.largest([calculation, communication], exact=crew.part.least_s > 0)


def _butterfly(crew: Crew) -> None:
    problem, part = crew.problem, crew.part
    size, exact = problem.gradient_bytes, part.least_s > 0
    crew.exact = crew.exact and crew.fixed_workers
    hosts: list[Terms] = [{flag: _averaging(crew, host, part.low)} for host, flag in crew.host_flags.items()]
    shard = size / part.high
    wan = [*_slowest_pairs(crew, shard), *_loads(crew, shard)]
    communication = plus(crew.model.largest(hosts, exact=exact), times(2.0, crew.model.largest(wan, exact=exact)))
    round_s = _overlap(crew, times(crew.frame.local_steps, _calculation(crew)), communication)

    def inside(place: str, k: int) -> float:
        return 2 * _egress(crew, (Phase("", (Transfer(place, place, shard, k * (k - 1), True),)),))

    usd = plus(*crew.by_counts(inside), *_crossing(crew, 2 * shard), crew.data_usd())
    close(crew, round_s, usd, 0.0)


def _slowest_pairs(crew: Crew, shard: float) -> Iterable[Terms]:
    """Seconds of one transfer between two places that are both used."""
    problem = crew.problem
    for a, b in _pairs(crew):
        both = Phase("", (Transfer(a, b, shard), Transfer(b, a, shard)))
        seconds = wan_seconds((both,), problem.network, problem.calibration, crew.frame.exchange.streams)
        yield {crew.used(a): seconds, crew.used(b): seconds, CONSTANT: -seconds}


def _loads(crew: Crew, shard: float) -> Iterable[Terms]:
    """Seconds in which the machine of a place sends a shard to every worker elsewhere."""
    for place in crew.places:
        each = shard / crew.problem.network.machine_bytes_per_s(place)
        away = plus(crew.total, times(-1.0, crew.workers_at(place)))
        if crew.fixed_workers:
            yield times(each, plus({crew.used(place): crew.part.low}, times(-1.0, crew.workers_at(place))))
        else:
            yield times(each, plus(away, {crew.used(place): crew.part.high, CONSTANT: -crew.part.high}))


def _pairs(crew: Crew) -> list[tuple[str, str]]:
    return [(a, b) for i, a in enumerate(crew.places) for b in crew.places[i + 1 :]]


def _crossing(crew: Crew, size: float) -> Iterable[Terms]:
    """Dollars of the pairs of workers in two places: products of counts, exact by the unary steps of one of them."""
    usd = {(a, b): _egress(crew, (Phase("", (Transfer(a, b, size, 1, True), Transfer(b, a, size, 1, True))),)) for a, b in _pairs(crew)}
    if not any(usd.values()):
        return
    model, products = crew.model, {}
    for a, b in usd:
        one, other = sorted((a, b), key=lambda p: len(crew.steps[p]))
        parts, most = {}, len(crew.steps[other])
        for z in crew.steps[one]:
            part = model.variable(0.0, most)
            model.at_least(plus({part: 1.0, z: -most}, times(-1.0, crew.workers_at(other))), -most)
            model.at_most(plus({part: 1.0}, times(-1.0, crew.workers_at(other))))
            model.at_most({part: 1.0, z: -most})
            parts[part] = 1.0
        products[a, b] = parts
    if crew.fixed_workers:  # each worker of a place has N - 1 others: sum_b n_a n_b + n_a^2 = N n_a
        for place in crew.places:
            squares = crew.by_count(place, lambda k: k * k)
            pairs = (parts for ends, parts in products.items() if place in ends)
            model.equal(plus(*pairs, squares, times(-crew.part.low, crew.workers_at(place))))
    yield from (times(price, products[ends]) for ends, price in usd.items())


def _meeting(crew: Crew, size: float) -> Iterable[Terms]:
    """Dollars of one transfer each way between every two places that are used."""
    for a, b in _pairs(crew):
        usd = _egress(crew, (Phase("", (Transfer(a, b, size, 1, True), Transfer(b, a, size, 1, True))),))
        if usd:
            both = crew.model.variable(0, 1)
            crew.model.at_least({both: 1.0, crew.used(a): -1.0, crew.used(b): -1.0}, -1.0)
            yield {both: usd}


def _inside(crew: Crew, place: str, host: str) -> dict[int, float]:
    """Seconds of one average inside a place, if it has such hosts; at most that if it has not."""
    terms = crew.by_count(place, lambda k: _averaging(crew, host, k))
    most = crew.model.reach(terms)[1]
    return plus(terms, {crew.hosts_at[place, host]: most, CONSTANT: -most})


def _broadcasts(crew: Crew) -> dict[int, float]:
    """Seconds of the longest broadcast inside a region."""
    problem = crew.problem

    def seconds(place: str, k: int) -> float:
        found = broadcast([(place, k)], problem.gradient_bytes)
        return sum(direct_phase_seconds(phase, problem.network, crew.frame.exchange.streams) for phase in found)

    return crew.model.largest(list(crew.by_counts(seconds)), exact=crew.part.least_s > 0)


def _regional_usd(crew: Crew, *, broadcasts: bool = True) -> Iterable[Terms]:
    """Dollars of the averages inside the regions, and of the broadcasts."""
    size, steps = crew.problem.gradient_bytes, crew.frame.local_steps

    def usd(place: str, k: int) -> float:
        own = [(place, k)]
        return _egress(crew, (*inside_regions(own, size, steps), *(broadcast(own, size) if broadcasts else ())))

    return crew.by_counts(usd)


def _leaders(crew: Crew) -> None:
    size, exact, regions = crew.problem.gradient_bytes, crew.part.least_s > 0, crew.frame.regions or 2
    inside = crew.model.largest([_inside(crew, *key) for key in crew.hosts_at], exact=exact)
    hosts: list[Terms] = [{flag: _averaging(crew, host, regions)} for host, flag in crew.host_flags.items()]
    shard = size / regions
    loads = [{crew.used(p): (regions - 1) * shard / crew.problem.network.machine_bytes_per_s(p)} for p in crew.places]
    wan = crew.model.largest([*_slowest_pairs(crew, shard), *loads], exact=exact)
    communication = plus(inside, crew.model.largest(hosts, exact=exact), times(2.0, wan), _broadcasts(crew))
    usd = plus(*_regional_usd(crew), *_meeting(crew, 2 * shard), crew.data_usd())
    close(crew, _overlap(crew, _calculation(crew), communication), usd, 0.0)


def _steps_inside(crew: Crew) -> dict[int, float]:
    """Seconds until the last region has done its H steps, averages inside included."""
    model, exact, steps = crew.model, crew.part.least_s > 0, crew.frame.local_steps
    wish = crew.problem.requirements
    if wish.datasets and not wish.data_moves:
        total = float(sum(data.samples for data in wish.datasets))
        own = {p: crew.hyperbola(p, crew.problem.batch * _staying(crew, p) / total, crew.speed(p)) for p in crew.places}
        return times(steps, model.largest([plus(_inside(crew, *key), {own[key[0]]: 1.0}) for key in crew.hosts_at], exact=exact))
    if wish.datasets:
        return times(steps, _calculation(crew))
    inside = model.largest([_inside(crew, *key) for key in crew.hosts_at], exact=exact)
    return times(steps, plus(_calculation(crew), inside))


def _region_hub(crew: Crew) -> None:
    size, network, streams = crew.problem.gradient_bytes, crew.problem.network, crew.frame.exchange.streams
    hub, others = str(crew.frame.aggregator), [p for p in crew.places if p != crew.frame.aggregator]
    load = share_seconds(((crew.frame.regions or 2) - 1) * size, network.machine_bytes_per_s(hub))
    round_s, usd = [_steps_inside(crew), _broadcasts(crew)], [*_regional_usd(crew)]
    for ways in ([(p, hub) for p in others], [(hub, p) for p in others]):
        phases = {p: Phase("", (Transfer(*way, size, 1, True),)) for p, way in zip(others, ways, strict=True)}
        items: list[Terms] = [{crew.used(p): direct_phase_seconds(phase, network, streams)} for p, phase in phases.items()]
        round_s.append(crew.model.largest([*items, {CONSTANT: load}], exact=crew.part.least_s > 0))
        usd += [{crew.used(p): _egress(crew, (phase,))} for p, phase in phases.items()]
    close(crew, plus(*round_s), plus(*usd, crew.data_usd()), 0.0)


def _region_gossip(crew: Crew) -> None:
    """From below: a round takes as long as the calculation, and as the mean send of the region that waits least."""
    size, network, streams = crew.problem.gradient_bytes, crew.problem.network, crew.frame.exchange.streams
    regions, steps, model = crew.frame.regions or 2, crew.frame.local_steps, crew.model
    sends = {(a, b): direct_seconds(size, network.link(a, b), streams) for a in crew.places for b in crew.places if a != b}
    means = [sum(sorted(s for (a, _), s in sends.items() if a == p)[: regions - 1]) / (regions - 1) for p in crew.places]
    crew.exact = False
    this = model.variable(min(means, default=0.0), float("inf") if crew.part.most_s == float("inf") else crew.part.most_s)
    model.high[this] = min(model.high[this], 1e9)
    model.at_least(plus({this: 1.0}, times(-steps, _calculation(crew))))
    usd = plus(*_regional_usd(crew, broadcasts=False), *_meeting(crew, size / (regions - 1)), crew.data_usd())
    close(crew, {this: 1.0}, usd, 0.0)


def _equal_shares(crew: Crew, extra: Callable[[str], float], per_count: Callable[[str, int], float] | None = None) -> list[Terms]:
    """Seconds of each pool that is used: its equal part of the batch, what follows it at its place, and by its place's count."""
    wish, batch = crew.problem.requirements, crew.problem.batch
    total = float(sum(data.samples for data in wish.datasets))
    items: list[Terms] = []
    for flag, pool, rate in zip(crew.pool_flags, crew.pools, crew.rates, strict=True):
        place = pool.offer.place
        more = extra(place)
        added = crew.by_count(place, partial(per_count, place)) if per_count else {}
        if wish.datasets:
            part = batch * _staying(crew, place) / total / rate
            own = crew.by_count(place, partial(truediv, part))
            items.append(plus(own, added, {flag: part + more, CONSTANT: -part}))
        else:
            items.append(plus({flag: batch / crew.part.high / rate + more}, added))
    if wish.data_moves:
        items.append(_calculation(crew))
    crew.exact = crew.exact and crew.fixed_workers and not wish.datasets
    return items


def _server(crew: Crew) -> None:
    """Last push by what each machine needs alone and by what the server can take after any start; then the same for pulls."""
    problem, part, network = crew.problem, crew.part, crew.problem.network
    hub, size, streams = str(crew.frame.aggregator), problem.gradient_bytes, crew.frame.exchange.streams
    shared = share_seconds(size, network.machine_bytes_per_s(hub))

    def direct(src: str, dst: str) -> float:
        machines = min(network.machine_bytes_per_s(src), network.machine_bytes_per_s(dst))
        moved = max(transfer_seconds(size, network.link(src, dst), streams), size / machines)
        return network.link(src, dst).rtt_s / 2 + share_seconds(moved, 1.0)

    pushed = _equal_shares(crew, lambda p: direct(p, hub))
    pulled: list[Terms] = [{crew.used(p): direct(hub, p)} for p in crew.places]
    if not problem.requirements.datasets:
        starts = [
            problem.batch / part.high / r + network.link(p.offer.place, hub).rtt_s / 2 for p, r in zip(crew.pools, crew.rates, strict=True)
        ]
        for start, flag in zip(starts, crew.pool_flags, strict=True):
            late = {n: shared for n, s in zip(crew.counts, starts, strict=True) if s >= start}
            pushed.append(plus(late, {flag: start}))
    pulled.append(times(shared, crew.total))
    crew.exact = False
    round_s = plus(
        crew.model.largest(pushed, exact=False), {CONSTANT: sum_seconds(size, part.low)}, crew.model.largest(pulled, exact=False)
    )
    each = [strategy("parameter-server").phases([(p, 1)], size, crew.frame.exchange) for p in crew.places]
    usd = [times(_egress(crew, phases), crew.workers_at(p)) for p, phases in zip(crew.places, each, strict=True)]
    close(crew, round_s, plus(*usd, crew.data_usd()), 0.0)


def _function_usd(crew: Crew, place: str, gradients: int) -> tuple[float, float]:
    """Dollars of a function for each second and for no time at all, from below."""
    from placer.exchange.central import memory_gib

    function, memory = crew.problem.function(place), memory_gib(crew.problem.gradient_bytes, gradients)
    least = cost.function_usd(function, memory, 0.0)
    return (cost.function_usd(function, memory, 1e6) - least) / 1e6, function.usd_per_million_requests / 1e6


def _store(crew: Crew) -> None:
    problem, part, network = crew.problem, crew.part, crew.problem.network
    function, store = str(crew.frame.aggregator), str(crew.frame.storage)
    size, streams, exact = problem.gradient_bytes, crew.frame.exchange.streams, part.least_s > 0
    uploads = {p: stores.worker_transfer_seconds(size, network.link(p, store), streams) for p in crew.places}
    ready = _equal_shares(crew, lambda p: uploads[p])
    last = crew.model.largest(ready, exact=exact and crew.exact)
    down: list[Terms] = [{crew.used(p): stores.worker_transfer_seconds(size, network.link(store, p), streams)} for p in crew.places]
    aggregate = stores.aggregate_seconds(size, part.low, network.link(store, function), network.link(function, store))
    round_s = plus(last, {CONSTANT: aggregate}, crew.model.largest(down, exact=exact))
    per_second, per_run = _function_usd(crew, function, part.low)
    waiting = _waiting(crew, ready, last)
    crew.model.at_most(waiting, problem.function(function).max_seconds - aggregate)
    usd = [times(per_second, waiting), {CONSTANT: per_second * aggregate + per_run}]
    phases = {p: strategy("central").phases([(p, 1)], size, crew.frame.exchange) for p in crew.places}
    put = _egress(crew, [phase for phase in next(iter(phases.values()), ()) if phase.name == "put"])
    usd += [times(_egress(crew, found) - put, crew.workers_at(p)) for p, found in phases.items()]
    offer = problem.catalog.store(store)
    usd.append({CONSTANT: put + cost.storage_usd(offer, size, part.low, 0.0, 0)})
    kept = cost.storage_usd(offer, size, part.low, 3600.0, 0) - cost.storage_usd(offer, size, part.low, 0.0, 0)
    close(crew, round_s, plus(*usd, crew.data_usd()), kept)


def _waiting(crew: Crew, ready: list[Terms], last: Terms) -> dict[int, float]:
    """Seconds from the first gradient that is ready to the last: a variable from below."""
    model = crew.model
    if not model.reach(last)[1] or crew.problem.requirements.datasets:
        return {}
    top = model.reach(last)[1]
    first, this = model.variable(0.0, top), model.variable(0.0, top)
    for item, flag in zip(ready, crew.pool_flags, strict=False):
        model.at_most(plus({first: 1.0, flag: top}, times(-1.0, item)), top)
    model.at_least(plus({this: 1.0, first: 1.0}, times(-1.0, last)))
    return {this: 1.0}


def _regional_stores(crew: Crew) -> None:
    problem, network = crew.problem, crew.problem.network
    function, store, regions = str(crew.frame.aggregator), str(crew.frame.storage), crew.frame.regions or 2
    size, streams = problem.gradient_bytes, crew.frame.exchange.streams

    def moved(p: str) -> float:
        return stores.worker_transfer_seconds(size, network.link(p, p), streams)

    def forward(p: str, k: int) -> float:
        return stores.aggregate_seconds(size, k, network.link(p, p), network.link(p, store))

    copies = {p: stores.copy_seconds(size, network.link(store, p), network.link(p, p)) for p in crew.places}
    arrived = crew.model.largest(_equal_shares(crew, moved, forward), exact=False)
    back = crew.model.largest([{crew.used(p): copies[p] + moved(p)} for p in crew.places], exact=False)
    aggregate = stores.aggregate_seconds(size, regions, network.link(store, function), network.link(function, store))
    crew.exact = False
    round_s = plus(arrived, {CONSTANT: aggregate}, back)
    usd = [{CONSTANT: _run_usd(crew, function, aggregate) + cost.storage_usd(problem.catalog.store(store), size, regions, 0.0, 0)}]
    for p in crew.places:
        phases = strategy("hierarchical").phases([(p, 1)], size, crew.frame.exchange)
        common = _egress(crew, [phase for phase in phases if phase.name == "put"])

        def region(k: int, p: str = p, common: float = common) -> float:
            sent = strategy("hierarchical").phases([(p, k)], size, crew.frame.exchange)
            runs = _run_usd(crew, p, forward(p, k)) + _run_usd(crew, p, copies[p])
            return _egress(crew, sent) - common + runs + cost.storage_usd(problem.catalog.store(p), size, k, 0.0, 0)

        usd.append(crew.by_count(p, region))
    put = _egress(crew, (Phase("put", (Transfer(function, store, size),)),))
    close(crew, round_s, plus(*usd, {CONSTANT: put}, crew.data_usd()), 0.0)


def _run_usd(crew: Crew, place: str, seconds: float) -> float:
    """Dollars of one run of a function, from below: with the least memory that sums two gradients at most."""
    per_second, per_run = _function_usd(crew, place, 1)
    return per_second * seconds + per_run


ROUNDS: dict[str, Callable[[Crew], None]] = {
    "butterfly": _butterfly,
    "leaders": _leaders,
    "region-hub": _region_hub,
    "region-gossip": _region_gossip,
    "server": _server,
    "store": _store,
    "regional-stores": _regional_stores,
}
"""Transport and the program of its round."""
