"""Rounds in linear form: for each transport the seconds of its parts, as largest items, and the
dollars of one exchange.

Every coefficient is asked of `placer.cost_model.timing`, `placer.cost_model.dollars.components` and
the exchange modules for one place, pair or count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf

from placer.cost_model.limits import TOLERANCE
from placer.cost_model.timing.averaging import wan_seconds
from placer.cost_model.timing.plain_streams import (
    direct_phase_seconds,
    direct_seconds,
    share_seconds,
)
from placer.cost_model.timing.step import overlap_window
from placer.problem.exchange.allreduce import broadcast, inside_regions
from placer.problem.exchange.phase import Phase, Transfer
from placer.workload.island.collectives import HIDDEN_SHARE

from .crew import Crew
from .goal import close
from .hub_rounds import regional_stores, server, store
from .linear import CONSTANT, Terms, plus, times
from .readings import averaging, calculation, egress, staying

PACES = 20
"""Tangents of the seconds of a round at the pace of its regions."""


def program(crew: Crew) -> None:
    """Add time, price and goal of the frame's transport to a crew."""
    ROUNDS[crew.frame.transport](crew)


def coarse_program(crew: Crew) -> None:
    """Bound every place of an exchange at once: machines, quotas and calculation, nothing that is
    sent.
    """
    least = 0.0
    if crew.frame.transport == "butterfly" and not crew.frame.exchange.overlap:
        hosts = {pool.host for pool in crew.pools}
        least = min((averaging(crew, host, crew.part.low) for host in hosts), default=0.0)
        if overlap_window(crew.frame.exchange):
            least *= 1 - HIDDEN_SHARE  # the rest may be hidden
    calculation_s = {
        crew.hyperbola("all", crew.problem.batch, crew.speed()): float(crew.frame.local_steps)
    }
    crew.exact = False
    close(crew, plus(calculation_s, {CONSTANT: least}), {}, 0.0)


def _overlap(crew: Crew, calculation: Terms, communication: Terms) -> dict[int, float]:
    """Return the seconds of a round: the sum, the longer of both where the exchange overlaps, or in
    between where gradients travel in buckets.
    """
    exchange, exact = crew.frame.exchange, crew.part.least_s > 0
    if exchange.overlap:
        return crew.model.largest([calculation, communication], exact=exact)
    window = overlap_window(exchange, free_share=crew.problem.free_share)
    if not window:
        return plus(calculation, communication)
    beside = plus(calculation, times(1 - HIDDEN_SHARE, communication))
    after = plus(times(1 - HIDDEN_SHARE * window, calculation), communication)
    return crew.model.largest([beside, after], exact=exact)


def _awaited(crew: Crew) -> Terms:
    """Return the seconds of calculation, or until hosts may average again where that is later; 0 of
    the wait where an exchange overlaps, which errs low.
    """
    own, hosts = times(crew.frame.local_steps, calculation(crew)), crew.problem.calibration.hosts
    waits: list[Terms] = [
        {flag: hosts[host].least_period_s}
        for host, flag in crew.host_flags.items()
        if host in hosts and hosts[host].least_period_s
    ]
    crew.exact = crew.exact and not (waits and crew.frame.exchange.overlap)
    if not waits or crew.frame.exchange.overlap:
        return own
    return crew.model.largest([own, *waits], exact=crew.part.least_s > 0)


def _spare_s(crew: Crew) -> float:
    """Return the seconds that the longest round of a part leaves to communication, at most."""
    exchange, fastest = crew.frame.exchange, crew.most_speed
    if crew.part.most_s == inf or exchange.overlap or not fastest:
        return crew.part.most_s
    beside = HIDDEN_SHARE * overlap_window(exchange)
    return crew.part.most_s - (1 - beside) * crew.frame.samples / fastest * (1 - TOLERANCE)


def _butterfly(crew: Crew) -> None:
    problem, part = crew.problem, crew.part
    size, exact = problem.gradient_bytes, part.least_s > 0
    crew.exact = crew.exact and crew.fixed_workers
    hosts: list[Terms] = [
        {flag: averaging(crew, host, part.low)} for host, flag in crew.host_flags.items()
    ]
    shard = size / part.high
    wan = [*_slowest_pairs(crew, shard, part.low), *_loads(crew, shard)]
    communication = plus(
        crew.model.largest(hosts, exact=exact), times(2.0, crew.model.largest(wan, exact=exact))
    )
    round_s = _overlap(crew, _awaited(crew), communication)

    def inside(place: str, k: int) -> float:
        return 2 * egress(crew, (Phase("", (Transfer(place, place, shard, k * (k - 1), True),)),))

    usd = plus(*crew.by_counts(inside), *_crossing(crew, 2 * shard), crew.data_usd())
    close(crew, round_s, usd, 0.0)


def _slowest_pairs(crew: Crew, shard: float, peers: int) -> Iterable[Terms]:
    """Yield seconds of one transfer between two places that are both used, where so many workers
    exchange at least; two places that take too long for any round of the part exclude each other.
    """
    problem, spare_s = crew.problem, _spare_s(crew)
    for a, b in _pairs(crew):
        both = Phase("", (Transfer(a, b, shard), Transfer(b, a, shard)))
        seconds = wan_seconds(
            (both,),
            crew.network,
            problem.calibration,
            crew.frame.exchange.streams,
            peers=peers,
            software=problem.transport,
        )
        if 2 * seconds > spare_s * (1 + TOLERANCE):  # there and back
            crew.model.at_most({crew.used(a): 1.0, crew.used(b): 1.0}, 1.0)
        else:
            yield {crew.used(a): seconds, crew.used(b): seconds, CONSTANT: -seconds}


def _loads(crew: Crew, shard: float) -> Iterable[Terms]:
    """Yield seconds in which the machine of a place sends a shard to every worker elsewhere."""
    for place in crew.places:
        each = shard / crew.network.machine_bytes_per_s(place)
        away = plus(crew.total, times(-1.0, crew.workers_at(place)))
        if crew.fixed_workers:
            yield times(
                each, plus({crew.used(place): crew.part.low}, times(-1.0, crew.workers_at(place)))
            )
        else:
            yield times(
                each, plus(away, {crew.used(place): crew.part.high, CONSTANT: -crew.part.high})
            )


def _pairs(crew: Crew) -> list[tuple[str, str]]:
    return [(a, b) for i, a in enumerate(crew.places) for b in crew.places[i + 1 :]]


def _crossing(crew: Crew, size: float) -> Iterable[Terms]:
    """Yield dollars of the pairs of workers in two places: products of counts, exact by the unary
    steps of one of them.
    """
    usd = {
        (a, b): egress(
            crew, (Phase("", (Transfer(a, b, size, 1, True), Transfer(b, a, size, 1, True))),)
        )
        for a, b in _pairs(crew)
    }
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
    """Yield dollars of one transfer each way between every two places that are used."""
    for a, b in _pairs(crew):
        usd = egress(
            crew, (Phase("", (Transfer(a, b, size, 1, True), Transfer(b, a, size, 1, True))),)
        )
        if usd:
            both = crew.model.variable(0, 1)
            crew.model.at_least({both: 1.0, crew.used(a): -1.0, crew.used(b): -1.0}, -1.0)
            yield {both: usd}


def _inside(crew: Crew, place: str, host: str) -> dict[int, float]:
    """Return the seconds of one average inside a place, if it has such hosts; at most that if it
    has not.
    """
    terms = crew.by_count(place, lambda k: averaging(crew, host, k))
    most = crew.model.reach(terms)[1]
    return plus(terms, {crew.hosts_at[place, host]: most, CONSTANT: -most})


def _broadcasts(crew: Crew) -> dict[int, float]:
    """Return the seconds of the longest broadcast inside a region."""
    problem = crew.problem

    def seconds(place: str, k: int) -> float:
        phases = broadcast([(place, k)], problem.gradient_bytes)
        return sum(
            direct_phase_seconds(phase, crew.network, crew.frame.exchange.streams)
            for phase in phases
        )

    return crew.model.largest(list(crew.by_counts(seconds)), exact=crew.part.least_s > 0)


def _regional_usd(crew: Crew, *, broadcasts: bool = True) -> Iterable[Terms]:
    """Return the dollars of the averages inside the regions, and of the broadcasts."""
    size, steps = crew.problem.gradient_bytes, crew.frame.local_steps

    def usd(place: str, k: int) -> float:
        own = [(place, k)]
        return egress(
            crew, (*inside_regions(own, size, steps), *(broadcast(own, size) if broadcasts else ()))
        )

    return crew.by_counts(usd)


def _leaders(crew: Crew) -> None:
    size, exact, regions = (
        crew.problem.gradient_bytes,
        crew.part.least_s > 0,
        crew.frame.regions or 2,
    )
    inside = crew.model.largest([_inside(crew, *key) for key in crew.hosts_at], exact=exact)
    hosts: list[Terms] = [
        {flag: averaging(crew, host, regions)} for host, flag in crew.host_flags.items()
    ]
    shard = size / regions
    loads = [
        {crew.used(p): (regions - 1) * shard / crew.network.machine_bytes_per_s(p)}
        for p in crew.places
    ]
    wan = crew.model.largest([*_slowest_pairs(crew, shard, regions), *loads], exact=exact)
    communication = plus(
        inside, crew.model.largest(hosts, exact=exact), times(2.0, wan), _broadcasts(crew)
    )
    usd = plus(*_regional_usd(crew), *_meeting(crew, 2 * shard), crew.data_usd())
    close(crew, _overlap(crew, _awaited(crew), communication), usd, 0.0)


def _steps_inside(crew: Crew) -> dict[int, float]:
    """Return the seconds until the last region has done its H steps, averages inside included."""
    model, exact, steps = crew.model, crew.part.least_s > 0, crew.frame.local_steps
    wish = crew.problem.requirements
    if wish.datasets and not wish.data_moves:
        total = float(sum(data.samples for data in wish.datasets))
        own = {
            p: crew.hyperbola(p, crew.problem.batch * staying(crew, p) / total, crew.speed(p))
            for p in crew.places
        }
        return times(
            steps,
            model.largest(
                [plus(_inside(crew, *key), {own[key[0]]: 1.0}) for key in crew.hosts_at],
                exact=exact,
            ),
        )
    if wish.datasets:
        return times(steps, calculation(crew))
    inside = model.largest([_inside(crew, *key) for key in crew.hosts_at], exact=exact)
    return times(steps, plus(calculation(crew), inside))


def _region_hub(crew: Crew) -> None:
    size, network, streams = (
        crew.problem.gradient_bytes,
        crew.network,
        crew.frame.exchange.streams,
    )
    hub, others = str(crew.frame.aggregator), [p for p in crew.places if p != crew.frame.aggregator]
    load = share_seconds(((crew.frame.regions or 2) - 1) * size, network.machine_bytes_per_s(hub))
    round_s, usd = [_steps_inside(crew), _broadcasts(crew)], [*_regional_usd(crew)]
    for ways in ([(p, hub) for p in others], [(hub, p) for p in others]):
        phases = {
            p: Phase("", (Transfer(*way, size, 1, True),))
            for p, way in zip(others, ways, strict=True)
        }
        items: list[Terms] = [
            {crew.used(p): direct_phase_seconds(phase, network, streams)}
            for p, phase in phases.items()
        ]
        round_s.append(crew.model.largest([*items, {CONSTANT: load}], exact=crew.part.least_s > 0))
        usd += [{crew.used(p): egress(crew, (phase,))} for p, phase in phases.items()]
    close(crew, plus(*round_s), plus(*usd, crew.data_usd()), 0.0)


def _region_gossip(crew: Crew) -> None:
    """Add a round that takes as long as the calculation, as the mean send of the region that waits
    least, and as all samples take at the pace of the regions; all are lower bounds.
    """
    size, network, streams = (
        crew.problem.gradient_bytes,
        crew.network,
        crew.frame.exchange.streams,
    )
    regions, steps, model = crew.frame.regions or 2, crew.frame.local_steps, crew.model
    sends = {
        place: sorted(
            direct_seconds(size, network.link(place, other), streams)
            for other in crew.places
            if other != place
        )[: regions - 1]
        for place in crew.places
    }
    means = [sum(each) / (regions - 1) for each in sends.values()]
    crew.exact = False
    this = model.variable(
        min(means, default=0.0),
        float("inf") if crew.part.most_s == float("inf") else crew.part.most_s,
    )
    model.high[this] = min(model.high[this], 1e9)
    model.at_least(plus({this: 1.0}, times(-steps, calculation(crew))))
    _keep_pace(crew, this, sends)
    usd = plus(
        *_regional_usd(crew, broadcasts=False),
        *_meeting(crew, size / (regions - 1)),
        crew.data_usd(),
    )
    close(crew, {this: 1.0}, usd, 0.0)


def _keep_pace(crew: Crew, round_s: int, sends: Mapping[str, Sequence[float]]) -> None:
    """Keep the samples of a round of gossip within what the regions do in it, each at its own pace.

    Parameters
    ----------
    round_s
        The variable of the round.
    sends
        Seconds of the sends of each place to its nearest partners.

    Notes
    -----
    A region of v samples/s counts v x / (mean over its partners of max(x + H a, send)), where x =
    H B / V are the seconds of the calculation and a those of an average of its workers. This share
    grows with x, and x is at most the longest round of the part: what it is there errs high. It is
    taken of the slowest workers that the region may have, of whom no region has less.
    """
    part, steps, samples = crew.part, crew.frame.local_steps, crew.frame.samples
    if part.most_s == inf or crew.problem.requirements.datasets:
        return
    longest = part.most_s * (1 + TOLERANCE)
    lost: list[Terms] = []
    for place in crew.places:
        flags = {host: flag for (at, host), flag in crew.hosts_at.items() if at == place}
        here = zip(crew.pools, crew.rates, strict=True)
        slowest = min((rate for pool, rate in here if pool.place == place), default=0.0)

        def loss(host: str, k: int, place: str = place, v: float = slowest) -> float:
            own = longest + steps * averaging(crew, host, k)
            period = sum(max(own, send) for send in sends[place]) / len(sends[place])
            return (1 - longest / period) * k * v

        if flags and sends[place]:
            lost.append(times(-1.0, _by_hosts(crew, place, flags, loss)))
    effective = plus(crew.speed(), *lost)
    least, most = samples / longest, crew.most_speed
    if most <= least:
        return
    for i in range(PACES + 1):
        at = least + (most - least) * (i / PACES) ** 2  # close where an improvement is just enough
        crew.model.at_least(  # samples / E >= samples (2 / at - E / at^2)
            plus({round_s: 1.0}, times(samples / at**2, effective)), 2 * samples / at
        )


def _by_hosts(
    crew: Crew, place: str, flags: Mapping[str, int], value: Callable[[str, int], float]
) -> Terms:
    """Write what depends on the workers of a place and on its class of hosts, at least: that of the
    class with the least, and of each class that is there.
    """
    least = crew.by_count(place, lambda k: min(value(host, k) for host in flags))
    if len(flags) == 1:
        return least
    items: list[Terms] = [least]
    for host, flag in flags.items():
        terms = crew.by_count(place, partial(value, host))
        most = crew.model.reach(terms)[1]
        items.append(plus(terms, {flag: most, CONSTANT: -most}))
    return crew.model.largest(items, exact=False)


ROUNDS: dict[str, Callable[[Crew], None]] = {
    "butterfly": _butterfly,
    "leaders": _leaders,
    "region-hub": _region_hub,
    "region-gossip": _region_gossip,
    "server": server,
    "store": store,
    "regional-stores": regional_stores,
}
"""Transport and the program of its round."""
