"""The round of a placement in seconds: one function for each transport that a strategy names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum

from placer.cost_model.timing import services as stores
from placer.cost_model.timing.services import server_sum_seconds, sum_spread, summing_vcpus
from placer.cost_model.timing.site_groups import (
    FunctionRun,
    Round,
    StepSeconds,
    StoreUse,
    bucketed,
    overlap_window,
    overlapped,
    samples_per_round,
    site_group_of,
)
from placer.cost_model.timing.transfers import (
    arrival_seconds,
    direct_phase_seconds,
    share_beside_averages,
    share_seconds,
)
from placer.problem.admitted_exchanges import server_offer
from placer.problem.exchange import Phase, traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.workers.pool import Pool


def step_seconds(
    machines: Sequence[tuple[Pool, int]],
    placement: Placement,
    phases: tuple[Phase, ...],
    problem: Problem,
    case: int,
) -> StepSeconds:
    """Time one round of a placement; ``case`` 0 is expected, 1 slow, 2 fast."""
    step = TRANSPORTS[traits(placement.exchange.strategy).transport](
        site_group_of(machines, placement, phases, problem, case)
    )
    if placement.exchange.overlap:
        return overlapped(step)
    searched = problem.requirements.narrowed is not None
    shares = (pool.free_share for pool, _ in machines)
    # A search takes what most workers leave, which no mix of them exceeds.
    free_share = problem.free_share if searched else min(shares)
    return bucketed(step, overlap_window(placement.exchange, case, free_share))


def _adaptive(this: Round) -> float:
    """Return the calculation when fast workers do more: B max(share / speed)."""
    batch = samples_per_round(this.exchange, this.problem)
    if not this.problem.requirements.datasets:
        return batch / sum(count * rate for _, count, rate in this.site_group)
    speeds = this.speeds()
    return batch * max(share / speeds[place] for place, share in this.shares().items())


def _equal(this: Round) -> list[float]:
    """Return the calculation of a machine of each group when all parts are equal."""
    batch, counts = this.problem.batch, this.at_places()
    if not this.problem.requirements.datasets:
        return [batch / this.workers / rate for _, _, rate in this.site_group]
    part = this.shares()
    return [part[place] * batch / counts[place] / rate for place, _, rate in this.site_group]


def _alone(this: Round) -> StepSeconds:
    return StepSeconds(calculation=_adaptive(this), communication=0.0)


def _butterfly(this: Round) -> StepSeconds:
    """Time a butterfly: B / sum r, then averaging among all, then the slowest pair of the WAN."""
    averaging, wan = this.averaging(this.workers), this.wan(this.phases, this.workers)
    return _averaged(this, (("averaging", averaging), ("between regions", wan)))


def _averaged(this: Round, parts: tuple[tuple[str, float], ...]) -> StepSeconds:
    """Time calculation, the wait for a group where there is one, and the parts of an average."""
    calculation = _adaptive(this)
    forming = this.forming(calculation)
    if forming:
        parts = (("group forming", forming), *parts)
    seconds = sum(part for _, part in parts)
    return StepSeconds(calculation=calculation, communication=seconds, parts=parts)


def _leaders(this: Round) -> StepSeconds:
    """Time averages inside regions and among leaders, and a broadcast: measured parts."""
    counts = this.at_places()
    between = this.averaging(len(counts)) + this.wan(
        this.named("reduce-scatter between", "all-gather between"), len(counts)
    )
    inside = max(this.averaging(count, place) for place, count in counts.items())  # side by side
    parts = (("inside regions", inside), ("between regions", between))
    return _averaged(this, (*parts, ("broadcast", _direct(this, "broadcast"))))


def _direct(this: Round, name: str) -> float:
    return sum(
        direct_phase_seconds(phase, this.network, this.exchange.streams, this.case)
        for phase in this.named(name)
    )


def _region_hub(this: Round) -> StepSeconds:
    """Time H steps inside regions, then all models up to the hub and its mean down."""
    calculation, inside = _inside_regions(this)
    up, down, spread = (_direct(this, name) for name in ("up", "down", "broadcast"))
    parts = (("inside regions", inside), ("up", up), ("down", down), ("broadcast", spread))
    return StepSeconds(
        calculation=calculation, communication=inside + up + down + spread, parts=parts
    )


def _inside_regions(this: Round) -> tuple[float, float]:
    """Time the calculation, and what averages add to it until the last region has done its H steps;
    regions do not wait for each other.
    """
    steps, speeds, counts = this.exchange.local_steps, this.speeds(), this.at_places()
    own = {
        place: this.problem.batch * share / speeds[place] for place, share in this.shares().items()
    }
    last = max(seconds + this.averaging(counts[place], place) for place, seconds in own.items())
    return steps * max(own.values()), steps * (last - max(own.values()))


def _region_gossip(this: Round) -> StepSeconds:
    """Time H steps of each region at its own pace; a send to a partner hides behind them unless it
    takes longer. A region whose send is not through waits with the next one. While it sends, its
    averages wait for the network card. That errs low where smaller regions send more than once to a
    region in one of its rounds. All regions together do sum(share H B / period) samples/s, and the
    round is H B over that; where data has its place, the last region ends it.
    """
    steps, batch, counts = this.exchange.local_steps, this.problem.batch, this.at_places()
    speeds, part = this.speeds(), this.shares()
    pace, sent, last = 0.0, 0.0, 0.0
    for place, speed in speeds.items():
        own, averaging = batch * part[place] / speed, this.averaging(counts[place], place)
        sends = [this.direct(place, other) for other in speeds if other != place]
        beside = share_beside_averages(fsum(sends) / len(sends), own, averaging)
        card = share_seconds(this.size, this.network.machine_bytes_per_s(place), this.case)
        own = steps * (own + averaging) + float(beside) * card
        period = fsum(max(own, send) for send in sends) / len(sends)
        pace += part[place] / period
        sent, last = max(sent, fsum(sends) / len(sends)), max(last, period)
    total, calculation = (last if this.problem.requirements.datasets else 1 / pace), _adaptive(this)
    inside = max(0.0, total - calculation)
    parts = (("inside regions and waiting", inside), ("sending beside the calculation", sent))
    return StepSeconds(
        calculation=calculation, communication=inside + sent, parts=parts, hidden=sent
    )


def _server(this: Round) -> StepSeconds:
    """Time the last push, the sum and the last pull over the shared line of the server."""
    hub, network = this.exchange.aggregator or "", this.network
    shared = share_seconds(this.size, network.machine_bytes_per_s(hub), this.case)
    starts, pushes, waits, pulls = [], [], [], []
    calculation = _equal(this)
    for (place, count, _), own in zip(this.site_group, calculation, strict=True):
        starts += [own + this.latency(place, hub)] * count
        pushes += [this.streaming(place, hub)] * count
        waits += [this.latency(hub, place)] * count
        pulls += [this.streaming(hub, place)] * count
    slowest, pull = max(calculation), arrival_seconds(waits, pulls, shared)
    push = arrival_seconds(starts, pushes, shared) - slowest
    server = this.exchange.server
    vcpus = summing_vcpus(None if server is None else server_offer(server, this.problem))
    summing = sum_spread(this.services, this.case) * server_sum_seconds(
        this.workers, vcpus, this.problem
    )
    parts = (("push", push), ("sum", summing), ("pull", pull))
    return StepSeconds(
        calculation=slowest,
        communication=push + summing + pull,
        parts=parts,
        waiting=slowest - min(calculation),
    )


def _moved(this: Round, src: str, dst: str) -> float:
    """Return the seconds in which a worker puts or gets a gradient through a store."""
    link = this.network.link(src, dst)
    return stores.worker_transfer_seconds(
        this.size, link, this.services, this.exchange.streams, this.case
    )


def _aggregated(this: Round, gradients: int, src: str, at: str, dst: str) -> float:
    """Return the seconds in which a function sums gradients of a store, and puts the sum."""
    fetch, put = this.network.link(src, at), this.network.link(at, dst)
    return stores.aggregate_seconds(this.size, gradients, fetch, put, this.services, this.case)


def _use(place: str, gradients: int, waiting: float) -> StoreUse:
    polls = int(waiting / stores.POLL_SECONDS)
    return StoreUse(place=place, gradients=gradients, failed_polls=polls)


def _store(this: Round) -> StepSeconds:
    """Time max(download + calculation + upload) + aggregate, through one store and one function.

    A round goes from mean to mean: who has fetched it begins, and does not wait for others that
    still fetch it. A near worker is therefore earlier by the differences of both ways, and the
    function waits that much longer for the last gradient.
    """
    function, store = this.exchange.aggregator or "", this.exchange.storage or ""
    places, calculation = [place for place, _, _ in this.site_group], _equal(this)
    downloads = [_moved(this, store, place) for place in places]
    uploads = [_moved(this, place, store) for place in places]
    aggregate = _aggregated(this, this.workers, store, function, store)
    arrived = [sum(seconds) for seconds in zip(downloads, calculation, uploads, strict=True)]
    last, waiting = arrived.index(max(arrived)), max(arrived) - min(arrived)
    return StepSeconds(
        calculation=max(calculation),
        communication=uploads[last] + aggregate + downloads[last],
        parts=(("upload", uploads[last]), ("aggregate", aggregate), ("download", downloads[last])),
        hidden=max(calculation) - calculation[last],
        waiting=waiting,
        functions=(FunctionRun(place=function, seconds=waiting + aggregate),),
        stores=(_use(store, this.workers, waiting),),
    )


def _regional_stores(this: Round) -> StepSeconds:
    """Time a store and a function in each region, then a global pair; the mean comes back through
    those, and a region begins when it has it.
    """
    function, store = this.exchange.aggregator or "", this.exchange.storage or ""
    link, counts, calculation = this.network.link, this.at_places(), _equal(this)
    slowest, gathered, spread, runs, uses = {}, {}, {}, [], []
    for place, count in counts.items():
        home, move = link(place, place), _moved(this, place, place)
        own = [c for (p, _, _), c in zip(this.site_group, calculation, strict=True) if p == place]
        waiting = max(own) - min(own)
        forward = _aggregated(this, count, place, place, store)
        copy = stores.copy_seconds(this.size, link(store, place), home, this.services, this.case)
        slowest[place], gathered[place], spread[place] = max(own), move + forward, copy + move
        runs += [FunctionRun(place=place, seconds=each) for each in (waiting + forward, copy)]
        uses.append(_use(place, count, waiting))
    aggregate = _aggregated(this, len(counts), store, function, store)
    arrived = {place: spread[place] + slowest[place] + gathered[place] for place in counts}
    last, first = max(arrived, key=arrived.__getitem__), min(arrived.values())
    gather, back, waiting = gathered[last], spread[last], arrived[last] - first
    return StepSeconds(
        calculation=max(calculation),
        communication=gather + aggregate + back,
        parts=(("regions", gather), ("aggregate", aggregate), ("back to regions", back)),
        hidden=max(calculation) - slowest[last],
        waiting=waiting,
        functions=(*runs, FunctionRun(place=function, seconds=waiting + aggregate)),
        stores=(*uses, _use(store, len(counts), waiting)),
    )


TRANSPORTS: dict[str, Callable[[Round], StepSeconds]] = {
    "none": _alone,
    "butterfly": _butterfly,
    "leaders": _leaders,
    "region-hub": _region_hub,
    "region-gossip": _region_gossip,
    "server": _server,
    "store": _store,
    "regional-stores": _regional_stores,
}
"""Transport of a strategy's traits and the timing of its round."""
