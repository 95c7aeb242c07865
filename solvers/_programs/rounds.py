"""Rounds in linear form: for each transport the seconds of its parts, as largest items, and the
dollars of one exchange.

Every coefficient is asked of `placer.cost_model.timing`, `placer.cost_model.dollars` and
the exchange modules for one place, pair or count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations
from math import inf

from placer.cost_model.limits import TOLERANCE
from placer.cost_model.timing.site_groups import overlap_window
from placer.cost_model.timing.transfers import (
    direct_phase_seconds,
    direct_seconds,
    share_seconds,
    wan_seconds,
)
from placer.problem.exchange import Phase, Transfer, broadcast, edge_bytes, inside_regions
from placer.workload.island.transports import HIDDEN_SHARE

from .goal import averaging, calculation, close, egress, staying
from .hub_rounds import regional_stores, server, store
from .linear import CONSTANT, Terms, plus, times
from .site_groups import SiteGroup


def program(site_group: SiteGroup) -> None:
    """Add time, price and goal of the frame's transport to a site group."""
    ROUNDS[site_group.frame.transport](site_group)


def coarse_program(site_group: SiteGroup) -> None:
    """Bound every place of an exchange at once, as if nothing were sent."""
    least = 0.0
    if site_group.frame.transport == "butterfly" and not site_group.frame.exchange.overlap:
        hosts = {pool.host for pool in site_group.pools}
        least = min(
            (averaging(site_group, host, site_group.part.low) for host in hosts), default=0.0
        )
        if overlap_window(site_group.frame.exchange):
            least *= 1 - HIDDEN_SHARE  # the rest may be hidden
    calculation_s = {
        site_group.hyperbola("all", site_group.problem.batch, site_group.speed()): float(
            site_group.frame.local_steps
        )
    }
    close(site_group, plus(calculation_s, {CONSTANT: least}), {}, 0.0)


def _round_s(site_group: SiteGroup, communication: Terms) -> dict[int, float]:
    """Return the seconds of a round: calculation and communication, the longer of the two, or their
    sum but for a hidden part; each with the wait until hosts may average again.
    """
    exchange = site_group.frame.exchange
    own = times(site_group.frame.local_steps, calculation(site_group))
    hosts = site_group.problem.calibration.hosts
    waits: list[Terms] = [
        {flag: hosts[host].least_period_s}
        for host, flag in site_group.host_flags.items()
        if host in hosts and hosts[host].least_period_s
    ]
    if exchange.overlap:  # the wait begins where the last average ends
        late = plus(site_group.model.largest(waits), communication)
        return site_group.model.largest([own, late])
    if waits:
        own = site_group.model.largest([own, *waits])
    window = overlap_window(exchange, free_share=site_group.problem.free_share)
    if not window:
        return plus(own, communication)
    beside = plus(own, times(1 - HIDDEN_SHARE, communication))
    after = plus(times(1 - HIDDEN_SHARE * window, own), communication)
    return site_group.model.largest([beside, after])


def _spare_s(site_group: SiteGroup) -> float:
    """Return the seconds that the longest round of a part leaves to communication, at most."""
    exchange, fastest = site_group.frame.exchange, site_group.most_speed
    if site_group.part.most_s == inf or exchange.overlap or not fastest:
        return site_group.part.most_s
    beside = HIDDEN_SHARE * overlap_window(exchange)
    return site_group.part.most_s - (1 - beside) * site_group.frame.samples / fastest * (
        1 - TOLERANCE
    )


def _butterfly(site_group: SiteGroup) -> None:
    problem, part = site_group.problem, site_group.part
    size = problem.gradient_bytes
    hosts: list[Terms] = [
        {flag: averaging(site_group, host, part.low)}
        for host, flag in site_group.host_flags.items()
    ]
    if site_group.frame.exchange.in_ring and len(site_group.places) > 1:
        _ring(site_group, site_group.model.largest(hosts))
        return
    shard = size / part.high
    wan = [*_slowest_pairs(site_group, shard, part.low), *_loads(site_group, shard)]
    communication = plus(site_group.model.largest(hosts), times(2.0, site_group.model.largest(wan)))
    round_s = _round_s(site_group, communication)

    def inside(place: str, k: int) -> float:
        return 2 * egress(
            site_group, (Phase("", (Transfer(place, place, shard, k * (k - 1), True),)),)
        )

    usd = plus(
        *site_group.by_counts(inside), *_crossing(site_group, 2 * shard), site_group.data_usd()
    )
    close(site_group, round_s, usd, 0.0)


def _ring(site_group: SiteGroup, averaging_s: Terms) -> None:
    """Bound a ring: each place that is used has an edge to and an edge from another one, no nearer
    and no cheaper than its nearest and cheapest.
    """
    edge = edge_bytes(site_group.problem.gradient_bytes, site_group.part.low)
    ways = [*permutations(site_group.places, 2)]
    seconds = {way: _edge_s(site_group, way, edge) for way in ways}
    usd = {way: egress(site_group, (Phase("", (Transfer(*way, edge, 1, True),)),)) for way in ways}
    wan: list[Terms] = []
    crossing: list[Terms] = []
    for a, b in _pairs(site_group):
        ends = [[way for way in ways if way[at] == place] for place in (a, b) for at in (0, 1)]
        least_s = max(min(seconds[way] for way in mine) for mine in ends)
        least_usd = sum(min(usd[way] for way in mine) for mine in ends) / 2
        if least_s > _spare_s(site_group) * (1 + TOLERANCE):  # for any round of the part
            site_group.model.at_most({site_group.used(a): 1.0, site_group.used(b): 1.0}, 1.0)
            continue
        both = {site_group.used(a): 1.0, site_group.used(b): 1.0, CONSTANT: -1.0}
        wan.append(times(least_s, both))
        crossing.append(times(least_usd, both))

    def inside(place: str, k: int) -> float:
        return egress(site_group, (Phase("", (Transfer(place, place, edge, k - 1, True),)),))

    communication = plus(averaging_s, site_group.model.largest(wan))
    round_s = _round_s(site_group, communication)
    # In units of the dearest way: solvers round values near a millionth.
    unit = max(usd.values()) or 1.0
    shares: list[Terms] = [times(1 / unit, terms) for terms in crossing]
    between_usd = times(unit, site_group.model.largest(shares))
    usd_of_round = plus(*site_group.by_counts(inside), between_usd, site_group.data_usd())
    close(site_group, round_s, usd_of_round, 0.0)


def _edge_s(site_group: SiteGroup, way: tuple[str, str], size: float) -> float:
    """Return the seconds of an edge of a ring."""
    return wan_seconds(
        (Phase("", (Transfer(*way, size),)),),
        site_group.network,
        site_group.problem.calibration,
        site_group.frame.exchange.streams,
        software=site_group.problem.transport,
    )


def _slowest_pairs(site_group: SiteGroup, shard: float, peers: int) -> Iterable[Terms]:
    """Yield seconds of one transfer between two places that are both used, where so many workers
    exchange at least; two places that take too long for any round of the part exclude each other.
    """
    problem, spare_s = site_group.problem, _spare_s(site_group)
    for a, b in _pairs(site_group):
        both = Phase("", (Transfer(a, b, shard), Transfer(b, a, shard)))
        seconds = wan_seconds(
            (both,),
            site_group.network,
            problem.calibration,
            site_group.frame.exchange.streams,
            peers=peers,
            software=problem.transport,
        )
        if 2 * seconds > spare_s * (1 + TOLERANCE):  # there and back
            site_group.model.at_most({site_group.used(a): 1.0, site_group.used(b): 1.0}, 1.0)
        else:
            yield {site_group.used(a): seconds, site_group.used(b): seconds, CONSTANT: -seconds}


def _loads(site_group: SiteGroup, shard: float) -> Iterable[Terms]:
    """Yield seconds in which the machine of a place sends a shard to every worker elsewhere."""
    for place in site_group.places:
        each = shard / site_group.network.machine_bytes_per_s(place)
        away = plus(site_group.total, times(-1.0, site_group.workers_at(place)))
        most = site_group.part.high
        yield times(each, plus(away, {site_group.used(place): most, CONSTANT: -most}))


def _pairs(site_group: SiteGroup) -> list[tuple[str, str]]:
    return [(a, b) for i, a in enumerate(site_group.places) for b in site_group.places[i + 1 :]]


def _crossing(site_group: SiteGroup, size: float) -> Iterable[Terms]:
    """Yield dollars of workers in two places: products of counts, by unary steps."""
    usd = {
        (a, b): egress(
            site_group, (Phase("", (Transfer(a, b, size, 1, True), Transfer(b, a, size, 1, True))),)
        )
        for a, b in _pairs(site_group)
    }
    if not any(usd.values()):
        return
    model, products = site_group.model, {}
    for a, b in usd:
        one, other = sorted((a, b), key=lambda p: len(site_group.steps[p]))
        parts, most = {}, len(site_group.steps[other])
        for z in site_group.steps[one]:
            part = model.variable(0.0, most)
            model.at_least(
                plus({part: 1.0, z: -most}, times(-1.0, site_group.workers_at(other))), -most
            )
            model.at_most(plus({part: 1.0}, times(-1.0, site_group.workers_at(other))))
            model.at_most({part: 1.0, z: -most})
            parts[part] = 1.0
        products[a, b] = parts
    if (
        site_group.fixed_workers
    ):  # each worker of a place has N - 1 others: sum_b n_a n_b + n_a^2 = N n_a
        for place in site_group.places:
            squares = site_group.by_count(place, lambda k: k * k)
            pairs = (parts for ends, parts in products.items() if place in ends)
            model.equal(
                plus(*pairs, squares, times(-site_group.part.low, site_group.workers_at(place)))
            )
    yield from (times(price, products[ends]) for ends, price in usd.items())


def _exchange_pattern(site_group: SiteGroup, size: float) -> Iterable[Terms]:
    """Yield dollars of one transfer each way between every two places that are used."""
    for a, b in _pairs(site_group):
        usd = egress(
            site_group, (Phase("", (Transfer(a, b, size, 1, True), Transfer(b, a, size, 1, True))),)
        )
        if usd:
            both = site_group.model.variable(0, 1)
            site_group.model.at_least(
                {both: 1.0, site_group.used(a): -1.0, site_group.used(b): -1.0}, -1.0
            )
            yield {both: usd}


def _inside(site_group: SiteGroup, place: str, host: str) -> dict[int, float]:
    """Return the seconds of one average inside a place that has such hosts."""
    terms = site_group.by_count(place, lambda k: averaging(site_group, host, k))
    most = site_group.model.reach(terms)[1]
    return plus(terms, {site_group.hosts_at[place, host]: most, CONSTANT: -most})


def _broadcasts(site_group: SiteGroup) -> dict[int, float]:
    """Return the seconds of the longest broadcast inside a region."""
    problem = site_group.problem

    def seconds(place: str, k: int) -> float:
        phases = broadcast([(place, k)], problem.gradient_bytes)
        return sum(
            direct_phase_seconds(phase, site_group.network, site_group.frame.exchange.streams)
            for phase in phases
        )

    return site_group.model.largest(list(site_group.by_counts(seconds)))


def _regional_usd(site_group: SiteGroup, *, broadcasts: bool = True) -> Iterable[Terms]:
    """Return the dollars of the averages inside the regions, and of the broadcasts."""
    size, steps = site_group.problem.gradient_bytes, site_group.frame.local_steps

    def usd(place: str, k: int) -> float:
        own = [(place, k)]
        return egress(
            site_group,
            (*inside_regions(own, size, steps), *(broadcast(own, size) if broadcasts else ())),
        )

    return site_group.by_counts(usd)


def _leaders(site_group: SiteGroup) -> None:
    size = site_group.problem.gradient_bytes
    regions = site_group.frame.regions or 2
    inside = site_group.model.largest([_inside(site_group, *key) for key in site_group.hosts_at])
    hosts: list[Terms] = [
        {flag: averaging(site_group, host, regions)} for host, flag in site_group.host_flags.items()
    ]
    shard = size / regions
    loads = [
        {site_group.used(p): (regions - 1) * shard / site_group.network.machine_bytes_per_s(p)}
        for p in site_group.places
    ]
    wan = site_group.model.largest([*_slowest_pairs(site_group, shard, regions), *loads])
    communication = plus(
        inside, site_group.model.largest(hosts), times(2.0, wan), _broadcasts(site_group)
    )
    usd = plus(
        *_regional_usd(site_group), *_exchange_pattern(site_group, 2 * shard), site_group.data_usd()
    )
    close(site_group, _round_s(site_group, communication), usd, 0.0)


def _steps_inside(site_group: SiteGroup) -> dict[int, float]:
    """Return the seconds until the last region has done its H steps, averages inside included."""
    model = site_group.model
    steps = site_group.frame.local_steps
    wish = site_group.problem.requirements
    if wish.datasets and not wish.data_moves:
        total = float(sum(data.samples for data in wish.datasets))
        own = {
            p: site_group.hyperbola(
                p, site_group.problem.batch * staying(site_group, p) / total, site_group.speed(p)
            )
            for p in site_group.places
        }
        return times(
            steps,
            model.largest(
                [plus(_inside(site_group, *key), {own[key[0]]: 1.0}) for key in site_group.hosts_at]
            ),
        )
    if wish.datasets:
        return times(steps, calculation(site_group))
    inside = model.largest([_inside(site_group, *key) for key in site_group.hosts_at])
    return times(steps, plus(calculation(site_group), inside))


def _region_hub(site_group: SiteGroup) -> None:
    size = site_group.problem.gradient_bytes
    network = site_group.network
    streams = site_group.frame.exchange.streams
    hub = str(site_group.frame.aggregator)
    others = [p for p in site_group.places if p != site_group.frame.aggregator]
    load = share_seconds(
        ((site_group.frame.regions or 2) - 1) * size, network.machine_bytes_per_s(hub)
    )
    round_s = [_steps_inside(site_group), _broadcasts(site_group)]
    usd = [*_regional_usd(site_group)]
    for ways in ([(p, hub) for p in others], [(hub, p) for p in others]):
        phases = {
            p: Phase("", (Transfer(*way, size, 1, True),))
            for p, way in zip(others, ways, strict=True)
        }
        items: list[Terms] = [
            {site_group.used(p): direct_phase_seconds(phase, network, streams)}
            for p, phase in phases.items()
        ]
        round_s.append(site_group.model.largest([*items, {CONSTANT: load}]))
        usd += [{site_group.used(p): egress(site_group, (phase,))} for p, phase in phases.items()]
    close(site_group, plus(*round_s), plus(*usd, site_group.data_usd()), 0.0)


def _region_gossip(site_group: SiteGroup) -> None:
    """Add a round that takes as long as the calculation, and as the mean send of the region that
    waits least; both are lower bounds.
    """
    size = site_group.problem.gradient_bytes
    network = site_group.network
    streams = site_group.frame.exchange.streams
    regions = site_group.frame.regions or 2
    steps = site_group.frame.local_steps
    model = site_group.model
    sends = {
        place: sorted(
            direct_seconds(size, network.link(place, other), streams)
            for other in site_group.places
            if other != place
        )[: regions - 1]
        for place in site_group.places
    }
    means = [sum(each) / (regions - 1) for each in sends.values()]
    this = model.variable(
        min(means, default=0.0),
        float("inf") if site_group.part.most_s == float("inf") else site_group.part.most_s,
    )
    model.high[this] = min(model.high[this], 1e9)
    model.at_least(plus({this: 1.0}, times(-steps, calculation(site_group))))
    usd = plus(
        *_regional_usd(site_group, broadcasts=False),
        *_exchange_pattern(site_group, size / (regions - 1)),
        site_group.data_usd(),
    )
    close(site_group, {this: 1.0}, usd, 0.0)


ROUNDS: dict[str, Callable[[SiteGroup], None]] = {
    "butterfly": _butterfly,
    "leaders": _leaders,
    "region-hub": _region_hub,
    "region-gossip": _region_gossip,
    "server": server,
    "store": store,
    "regional-stores": regional_stores,
}
"""Transport and the program of its round."""
