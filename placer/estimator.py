"""Seconds, dollars and limits of a placement: the one model that serves solvers, reports and manifests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from placer import cost, timing
from placer.errors import PlacerError
from placer.exchange import strategy
from placer.exchange.central import memory_gib
from placer.exchange.phase import Phase, bytes_by_link
from placer.placement import Exchange, Placement, WorkerGroup
from placer.problem import Pool, Problem
from placer.profile import Rate
from placer.timing import StepSeconds
from placer.units import SECONDS_PER_HOUR

EXPECTED, SLOW, FAST = 0, 1, 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A value with a low and a high."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkUse:
    """What one directed pair of places carries: bytes per step, streams side by side and their price in USD/h."""

    src: str
    dst: str
    bytes_per_step: float
    streams: int
    usd_per_hour: float
    basis: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What a placement does and costs."""

    samples_per_second: Interval
    step: StepSeconds
    usd_per_hour: cost.UsdPerHour
    usd_per_million_samples: float
    links: tuple[LinkUse, ...]
    provenance: tuple[str, ...]

    @property
    def granularity(self) -> float | None:
        """Calculation time over communication time, both by the wall clock; None without an exchange."""
        return self.step.calculation / self.step.communication if self.step.communication else None


def estimate(placement: Placement, problem: Problem) -> Estimate:
    """Time and price a placement.

    Raises
    ------
    PlacerError
        If an offer, rate, link, price, function or store is not known.
    """
    machines = [(pool_of(group, problem), group.count) for group in placement.groups]
    phases = exchange_phases(placement, problem)
    step, usd_per_hour = _expected(machines, placement, phases, problem)
    slow, fast = (_step(machines, placement, phases, problem, case).total for case in (SLOW, FAST))
    samples_per_second, steps_per_hour = problem.batch / step.total, SECONDS_PER_HOUR / step.total
    return Estimate(
        samples_per_second=Interval(value=samples_per_second, low=problem.batch / slow, high=problem.batch / fast),
        step=step,
        usd_per_hour=usd_per_hour,
        usd_per_million_samples=cost.usd_per_million_samples(usd_per_hour.total, samples_per_second),
        links=_links(phases, steps_per_hour, problem),
        provenance=_provenance(machines, placement, phases, problem),
    )


def evaluate(placement: Placement, problem: Problem) -> tuple[StepSeconds, cost.UsdPerHour]:
    """Expected step and price of a placement, as in `estimate` but without intervals and sources (for solvers)."""
    machines = [(pool_of(group, problem), group.count) for group in placement.groups]
    return _expected(machines, placement, exchange_phases(placement, problem), problem)


def _expected(
    machines: Sequence[tuple[Pool, int]], placement: Placement, phases: tuple[Phase, ...], problem: Problem
) -> tuple[StepSeconds, cost.UsdPerHour]:
    step = _step(machines, placement, phases, problem, EXPECTED)
    steps_per_hour = SECONDS_PER_HOUR / step.total
    functions, storage = _central_usd(placement, step, problem)
    usd_per_hour = cost.UsdPerHour(
        compute=cost.compute_usd_per_hour((pool.offer, n) for pool, n in machines),
        egress=cost.egress_usd(phases, problem.network, same_zone=problem.requirements.same_zone) * steps_per_hour,
        storage=storage * steps_per_hour,
        functions=functions * steps_per_hour,
        data=_data_usd_per_sample(machines, placement, problem) * problem.batch * steps_per_hour,
    )
    return step, usd_per_hour


def pool_of(group: WorkerGroup, problem: Problem) -> Pool:
    """Find the offer and the rates behind a group.

    Raises
    ------
    PlacerError
        If the catalog has no such offer, or no rate is known for its device.
    """
    for offer in problem.catalog.offers_at(group.place):
        if (offer.instance_type, offer.gpu, offer.gpu_count, offer.market) == (
            group.instance_type,
            group.gpu,
            group.gpu_count,
            group.market,
        ):
            pool = problem.pool(offer)
            if pool is None:
                raise PlacerError(
                    f"no rate of {problem.profile.name} on {group.device} is known", "measure it, or choose another device", exit_code=5
                )
            return pool
    raise PlacerError(
        f"catalog {problem.catalog.name} has no {group.device} {group.market} ({group.instance_type}) in {group.place}", "see placer offers"
    )


def worker_rate(pool: Pool, framework: str) -> Rate:
    """Speed of one worker while it computes under a framework."""
    return pool.alone if framework == "none" else pool.shared


def exchange_phases(placement: Placement, problem: Problem) -> tuple[Phase, ...]:
    """Transfers of one exchange of a placement."""
    counts: dict[str, int] = {}
    for group in placement.groups:
        counts[group.place] = counts.get(group.place, 0) + group.count
    return strategy(placement.exchange.strategy).phases(list(counts.items()), problem.gradient_bytes, placement.exchange)


def exchange_for(strategy_name: str, workers: int, problem: Problem, aggregator: str | None = None, storage: str | None = None) -> Exchange:
    """Fill in what a strategy needs: the compression, and for central the function's memory."""
    memory = memory_gib(problem.gradient_bytes, workers) if strategy_name == "central" else None
    return Exchange(
        strategy=strategy_name, compression=problem.compression, aggregator=aggregator, aggregator_memory_gib=memory, storage=storage
    )


def _step(
    machines: Sequence[tuple[Pool, int]], placement: Placement, phases: tuple[Phase, ...], problem: Problem, case: int
) -> StepSeconds:
    chosen, network, size = strategy(placement.exchange.strategy), problem.network, problem.gradient_bytes
    rates = [(rate.value, rate.low, rate.high)[case] for pool, n in machines for rate in [worker_rate(pool, chosen.FRAMEWORK)] * n]
    if chosen.TRANSPORT == "none":
        return StepSeconds(calculation=problem.batch / rates[0], communication=0.0)
    if chosen.TRANSPORT == "butterfly":
        hosts = {problem.catalog.gpu(pool.offer.gpu).host for pool, _ in machines}
        return timing.butterfly_step(
            batch=problem.batch,
            rates=rates,
            hosts=hosts,
            phases=phases,
            gradient_bytes=size,
            tensors=problem.profile.tensors,
            network=network,
            case=case,
        )
    store, function = placement.exchange.storage or "", placement.exchange.aggregator or ""
    places = [pool.offer.place for pool, n in machines for _ in range(n)]
    return timing.store_step(
        calculation=[problem.batch / len(rates) / rate for rate in rates],
        uplinks=[network.link(place, store) for place in places],
        downlinks=[network.link(store, place) for place in places],
        fetch=network.link(store, function),
        put=network.link(function, store),
        gradient_bytes=size,
        case=case,
    )


def _central_usd(placement: Placement, step: StepSeconds, problem: Problem) -> tuple[float, float]:
    """Function and storage in USD per step; (0, 0) where nothing of the kind is used."""
    exchange = placement.exchange
    if exchange.aggregator is None or exchange.storage is None or exchange.aggregator_memory_gib is None:
        return 0.0, 0.0
    function = cost.function_usd(problem.catalog.function(exchange.aggregator), exchange.aggregator_memory_gib, step.function)
    polls = int(step.waiting / timing.POLL_SECONDS)
    return function, cost.storage_usd(problem.catalog.store(exchange.storage), problem.gradient_bytes, placement.workers, step.total, polls)


def _data_usd_per_sample(machines: Sequence[tuple[Pool, int]], placement: Placement, problem: Problem) -> float:
    """Price of reading one sample, averaged over the workers by the samples they do."""
    store = problem.data_store
    if store is None:
        return 0.0
    per_place = {pool.offer.place: sample_usd(pool.offer.place, problem) for pool, _ in machines}
    chosen = strategy(placement.exchange.strategy)
    equal = chosen.DIVISION == "equal"
    shares = [(pool.offer.place, n * (1.0 if equal else worker_rate(pool, chosen.FRAMEWORK).value)) for pool, n in machines]
    return fsum(per_place[place] * share for place, share in shares) / fsum(share for _, share in shares)


def sample_usd(place: str, problem: Problem) -> float:
    """Price of reading one sample from the dataset's store at a place; 0 if no store is named.

    Raises
    ------
    PlacerError
        If nobody measured how many bytes a sample has.
    """
    if problem.data_store is None:
        return 0.0
    if problem.profile.bytes_per_sample is None:
        raise PlacerError(
            f"profile {problem.profile.name} does not say how many bytes a sample has",
            "leave --data out, or add bytes_per_sample",
            exit_code=5,
        )
    return cost.data_usd_per_sample(problem.profile.bytes_per_sample, problem.data_store.place, place, problem.network)


def _links(phases: tuple[Phase, ...], steps_per_hour: float, problem: Problem) -> tuple[LinkUse, ...]:
    usd = cost.egress_usd_by_link(phases, problem.network, same_zone=problem.requirements.same_zone)
    streams: dict[tuple[str, str], int] = {}
    for phase in phases:
        for t in phase.transfers:
            streams[t.src, t.dst] = max(t.count, streams.get((t.src, t.dst), 0))
    return tuple(
        LinkUse(
            src=src,
            dst=dst,
            bytes_per_step=total,
            streams=streams[src, dst],
            usd_per_hour=usd[src, dst] * steps_per_hour,
            basis=problem.network.link(src, dst).basis,
        )
        for (src, dst), total in sorted(bytes_by_link(phases).items())
    )


def _provenance(machines: Sequence[tuple[Pool, int]], placement: Placement, phases: tuple[Phase, ...], problem: Problem) -> tuple[str, ...]:
    framework = strategy(placement.exchange.strategy).FRAMEWORK
    said = []
    for pool, _ in machines:
        rate, offer = worker_rate(pool, framework), pool.offer
        said.append(f"speed on {offer.device}: {rate.basis}: {rate.source}")
        said.append(f"price of {offer.device} {offer.market} in {offer.place}: {offer.price_basis}, {offer.as_of}: {offer.source}")
    between = {(t.src, t.dst) for phase in phases for t in phase.transfers if t.src != t.dst}
    for src, dst in sorted(between):
        link = problem.network.link(src, dst)
        said.append(f"link {src} to {dst}: {link.basis}: {link.source}")
    if placement.exchange.strategy == "all-reduce":
        said.append("averaging time: measured: runs of Erben et al. (2024) inside one zone; hosts of unmeasured devices: assumed alike")
    if placement.exchange.strategy == "central":
        said.append("store and function times: assumed")
    return tuple(dict.fromkeys(said))
