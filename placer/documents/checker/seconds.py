"""Seconds of one round, a second time, from the formulas of the papers: expected values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from msgspec import Struct

from placer.documents.checker.averages import (
    class_seconds,
    least_period,
    link_factor,
    straight_rounds,
    window,
)
from placer.documents.checker.case import Case, SiteGroup

BUCKET_BYTES, MOST_BUCKETS = 25 * 2**20, 8
"""Of DDP, as it is started."""
GOODPUT = 0.93
"""Share of a link that reaches the application: runs through emulated links."""
SUM_BYTES_PER_S = 500e6
FUNCTION_BYTES_PER_S = 75e6
STORE_STREAM_BYTES_PER_S = 90e6
STORE_START_S = 0.5
ROUND_TRIPS = 4
SUMMING_VCPUS = 8
SUM_WORK = {"fp16": 1.0, "none": 0.5, "int8": 1.7, "int4": 4.0, "sparse": 1.3}
"""Figures that nobody measured here, as ARCHITECTURE.md names them: assumed by the model, so
assumed again.
"""


class Bill(Struct, frozen=True):
    """Seconds of a round; (place, seconds) of functions; (place, objects, polls) of stores."""

    seconds: float
    functions: list[tuple[str, float]] = []
    stores: list[tuple[str, int, int]] = []


def round_of(case: Case) -> Bill:
    """Time one round, from exchange to exchange; `KeyError` for an unknown strategy."""
    return ROUNDS[case.strategy](case)


def _together(case: Case) -> float:
    """Return the calculation when fast workers do more: B / sum v; of placed data the slowest."""
    batch = case.batch * case.local_steps
    if not case.wish["datasets"]:
        return batch / sum(case.pace.values())
    return max(batch * share / case.pace[p] for p, share in case.shares.items())


def _apiece(case: Case) -> list[tuple[SiteGroup, float]]:
    """Return the calculation of each group when the workers of a place get equal parts."""
    part = case.shares
    return [
        (c, part[c.place] * case.batch / case.counts[c.place] / c.speed) for c in case.site_groups
    ]


def average(case: Case, hosts: set[str], workers: int) -> float:
    """Return the averaging inside a zone: what the slowest class takes."""
    if workers < 2:
        return 0.0
    return max(class_seconds(host, case.size, workers, case.problem) for host in hosts)


def _hosts(case: Case, place: str | None = None) -> set[str]:
    return {c.host for c in case.site_groups if place in (None, c.place)}


def _between(case: Case, counts: dict[str, int]) -> float:
    """Time reduce-scatter and all-gather: the slowest pair, or the machine that sends the most."""
    if len(counts) < 2:
        return 0.0
    total = sum(counts.values())
    shard = case.size / total
    slowest = max(
        link_factor(case.problem, a, b, road.rtt, total) * shard / road.rate(case.streams)
        for a in counts
        for b in counts
        if a != b
        for road in [case.road(a, b)]
    )
    busiest = max(shard * (total - n) / case.machine(p) for p, n in counts.items())
    return float(2 * max(slowest, busiest))


def _around(case: Case) -> float:
    """Time a ring: its slowest edge or sender sets the pace; twice half a round trip of each, for
    each bucket of a gradient.
    """
    edges = [(a, b, case.road(a, b)) for a, b in case.edges]
    rates = [
        min(
            road.rate(case.streams) / link_factor(case.problem, a, b, road.rtt, case.workers),
            case.machine(a),
            case.machine(b),
        )
        for a, b, road in edges
    ]
    buckets = 1
    if case.strategy == "all-reduce":
        buckets = min(MOST_BUCKETS, ceil(case.profile["gradient_bytes_fp32"] / BUCKET_BYTES))
    return case.edge_bytes / min(rates) + buckets * sum(road.rtt for _, _, road in edges)


def _among_all(case: Case) -> Bill:
    inside = average(case, _hosts(case), case.workers)
    between = _around(case) if case.in_ring else _between(case, case.counts)
    return Bill(_joined(case, inside + between))


def _joined(case: Case, communication: float) -> float:
    """Join two times: their sum, the longer one if they overlap, or in between with buckets."""
    calculation = _together(case)
    if case.workers > 1:
        # An average that runs beside the calculation begins a whole period after the last one.
        before = 0.0 if case.placement["overlap"] else calculation
        communication += max(0.0, least_period(_hosts(case), case.problem) - before)
    if case.placement["overlap"]:
        return max(calculation, communication)
    share = window(case.strategy, case.problem) * case.free_share
    return max(a * calculation + b for a, b in straight_rounds(communication, share))


def _leaders(case: Case) -> Bill:
    inside = max(average(case, _hosts(case, p), n) for p, n in case.counts.items())
    among = average(case, _hosts(case), len(case.counts)) + _between(
        case, dict.fromkeys(case.counts, 1)
    )
    return Bill(_joined(case, inside + among + _handing_out(case)))


def plain(case: Case, src: str, dst: str) -> float:
    """Time one gradient over plain streams: half a round trip, then its bytes at goodput."""
    road = case.road(src, dst)
    return road.rtt / 2 + case.size / road.rate(case.streams) / GOODPUT


def _handing_out(case: Case) -> float:
    """Time the leader of each place sending S to each of the others there."""
    several = {p: n for p, n in case.counts.items() if n > 1}
    slowest = [plain(case, p, p) for p in several]
    busiest = [(n - 1) * case.size / case.machine(p) / GOODPUT for p, n in several.items()]
    return max([0.0, *slowest, *busiest])


def _inside(case: Case) -> dict[str, float]:
    return {
        p: case.batch * case.shares[p] / case.pace[p] + average(case, _hosts(case, p), n)
        for p, n in case.counts.items()
    }


def _model_averaging(case: Case) -> Bill:
    hub = case.hub
    others = [p for p in case.counts if p != hub]
    own = [case.size / case.machine(p) for p in others]
    ends = max([len(others) * case.size / case.machine(hub), *own]) / GOODPUT
    up = max(ends, *(plain(case, p, hub) for p in others))
    down = max(ends, *(plain(case, hub, p) for p in others))
    return Bill(case.local_steps * max(_inside(case).values()) + up + down + _handing_out(case))


def _streaming(case: Case, src: str, dst: str) -> float:
    """Time a gradient from its first byte to its last, not faster than either machine."""
    rate = min(case.road(src, dst).rate(case.streams), case.machine(src), case.machine(dst))
    return case.size / rate / GOODPUT


def _gossip(case: Case) -> Bill:
    """Time every place at its own pace; it waits for a send that takes longer than its steps. What
    passes of its sends while it averages takes as much of its card.
    """
    part, periods = case.shares, {}
    for place, inside in _inside(case).items():
        sends = [
            case.road(place, q).rtt / 2 + _streaming(case, place, q)
            for q in case.counts
            if q != place
        ]
        averaging = average(case, _hosts(case, place), case.counts[place])
        send = sum(sends) / len(sends)
        steps = int(send / inside)
        beside = steps * averaging + max(0.0, send - steps * inside - (inside - averaging))
        own = case.local_steps * inside
        own += beside / send * case.size / case.machine(place) / GOODPUT
        periods[place] = sum(max(own, send) for send in sends) / len(sends)
    if case.wish["datasets"]:
        return Bill(max(_together(case), *periods.values()))
    return Bill(max(_together(case), 1 / sum(part[p] / periods[p] for p in periods)))


def _server(case: Case) -> Bill:
    hub, vcpus = case.hub, case.offer(case.placement["server"])["vcpus"]
    through = case.size / case.machine(hub) / GOODPUT
    push, pull = [], []
    for group, own in _apiece(case):
        there, back = case.road(group.place, hub), case.road(hub, group.place)
        push.append((own + there.rtt / 2, _streaming(case, group.place, hub), group.count))
        pull.append((back.rtt / 2, _streaming(case, hub, group.place), group.count))
    summing = server_sum(case.workers, case.size, vcpus, case.problem)
    return Bill(last_arrival(push, through) + summing + last_arrival(pull, through))


def last_arrival(jobs: Sequence[tuple[float, float, int]], through: float) -> float:
    """Return when the last of some transfers through one machine is there, followed from event to
    event: jobs are (start, seconds with the machine to itself, how many), each takes some seconds
    of its capacity. Max-min fair: the slowest are served first, each at most at its own rate; who
    cannot use an even part leaves the rest.

    >>> # halves by 1 s, thirds until 2.5 s, and half a transfer alone
    >>> last_arrival([(0.0, 2.0, 2), (1.0, 2.0, 1)], 1.0)
    3.5
    """
    done = [0.0] * len(jobs)
    finished = [False] * len(jobs)
    now = min(start for start, _, _ in jobs)
    last = now
    while not all(finished):
        under_way = [k for k in range(len(jobs)) if not finished[k] and jobs[k][0] <= now]
        rates = _rates(jobs, under_way, 1 / through)
        nexts = [(now + (1 - done[k]) / rate, k) for k, rate in rates.items()]
        starts = [jobs[k][0] for k in range(len(jobs)) if jobs[k][0] > now]
        then = min([at for at, _ in nexts] + starts)
        for at, k in nexts:
            done[k] += rates[k] * (then - now)
            if at <= then:
                finished[k], last = True, max(last, then)
        now = then
    return last


def _rates(
    jobs: Sequence[tuple[float, float, int]], under_way: list[int], capacity: float
) -> dict[int, float]:
    rates: dict[int, float] = {}
    heads = sum(jobs[k][2] for k in under_way)
    for k in sorted(under_way, key=lambda k: -jobs[k][1]):
        rates[k] = min(1 / jobs[k][1], capacity / heads)
        capacity -= rates[k] * jobs[k][2]
        heads -= jobs[k][2]
    return rates


def server_sum(gradients: int, size: float, vcpus: float, problem: Mapping[str, Any]) -> float:
    """Time a server that sums N gradients of S bytes by up to 8 vCPUs."""
    rate = problem["calibration"]["services"]["server_sum_bytes_per_s"]
    if rate is None:
        return gradients * size / SUM_BYTES_PER_S
    packed = problem["requirements"]["compression"] or problem["profile"]["compression"]
    work = problem["profile"]["gradient_bytes_fp32"] * SUM_WORK[packed]
    return float(gradients * work / (rate * min(vcpus, SUMMING_VCPUS)))


def _object(case: Case, src: str, dst: str, *, by_function: bool) -> float:
    """Time one object: handshakes, then bytes over the slower of client and link."""
    road = case.road(src, dst)
    if by_function:
        return ROUND_TRIPS * road.rtt + case.size / min(FUNCTION_BYTES_PER_S, road.rate(1))
    rate = min(STORE_STREAM_BYTES_PER_S * case.streams, road.rate(case.streams))
    return STORE_START_S + ROUND_TRIPS * road.rtt + case.size / rate


def _aggregate(case: Case, objects: int, source: tuple[str, str], result: tuple[str, str]) -> float:
    """Time n x (read of S), the sum and one write (Phalak et al., section 5)."""
    reads = objects * _object(case, *source, by_function=True)
    summing = objects * case.size / SUM_BYTES_PER_S
    return STORE_START_S + summing + reads + _object(case, *result, by_function=True)


def _central(case: Case) -> Bill:
    store, function = case.store, case.hub
    ways = {
        p: _object(case, store, p, by_function=False) + _object(case, p, store, by_function=False)
        for p in case.counts
    }
    ready = [own + ways[site_group.place] for site_group, own in _apiece(case)]
    waiting = max(ready) - min(ready)
    runs = _aggregate(case, case.workers, (store, function), (function, store))
    stores = [(store, case.workers, int(waiting))]
    return Bill(max(ready) + runs, [(function, waiting + runs)], stores)


def _hierarchical(case: Case) -> Bill:
    store, function, own = case.store, case.hub, _apiece(case)
    arrived, functions, stores = [], [], []
    for place, n in case.counts.items():
        mine = [seconds for site_group, seconds in own if site_group.place == place]
        waiting = max(mine) - min(mine)
        move = _object(case, place, place, by_function=False)
        forward = _aggregate(case, n, (place, place), (place, store))
        copy = (
            STORE_START_S
            + _object(case, store, place, by_function=True)
            + _object(case, place, place, by_function=True)
        )
        arrived.append(copy + move + max(mine) + move + forward)
        functions += [(place, waiting + forward), (place, copy)]
        stores.append((place, n, int(waiting)))
    waiting = max(arrived) - min(arrived)
    runs = _aggregate(case, len(case.counts), (store, function), (function, store))
    functions.append((function, waiting + runs))
    stores.append((store, len(case.counts), int(waiting)))
    return Bill(max(arrived) + runs, functions, stores)


ROUNDS = {
    "none": lambda case: Bill(_together(case)),
    "all-reduce": _among_all,
    "local-sgd": _among_all,
    "diloco": _among_all,
    "streaming-diloco": _among_all,
    "hierarchical-all-reduce": _leaders,
    "model-averaging": _model_averaging,
    "asgd-ga": _gossip,
    "parameter-server": _server,
    "central": _central,
    "hierarchical": _hierarchical,
}
"""Strategies that this implementation knows."""
