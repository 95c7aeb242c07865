"""Seconds, dollars and sources of a placement: the one model that serves all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import fsum
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from placer.cost_model import dollars as cost
from placer.cost_model.convergence import REPLICAS, Multiplier, multiplier_of, times_samples_of
from placer.cost_model.dollars import data_usd_per_sample, moves_of
from placer.cost_model.exchange_bases import exchange_bases
from placer.cost_model.timing.round_seconds import step_seconds
from placer.cost_model.timing.site_groups import (
    EXPECTED,
    FAST,
    SLOW,
    StepSeconds,
    samples_per_round,
    site_group_of,
    worker_rate,
)
from placer.errors import PlacerError
from placer.market.carbon import carbon_of
from placer.market.catalog import VmOffer
from placer.market.price_interval import PriceInterval, price_interval
from placer.problem.admitted_exchanges import server_offer
from placer.problem.datasets import Move
from placer.problem.exchange import Phase, Transfer, bytes_by_link, strategy, traits
from placer.problem.placement import Exchange, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.workers.islands import StepPart
from placer.problem.workers.pool import ChainPart, Pool
from placer.records import Amount, replace
from placer.units import SECONDS_PER_HOUR, Interval, format_speed, format_usd
from placer.workload.island import Island, Refusal
from placer.workload.island.chain import Chain
from placer.workload.island.memory import ELEMENT_BYTES


class LinkUse(Struct, frozen=True, kw_only=True, rename={"src": "from", "dst": "to"}):
    """What a directed pair of places carries: bytes per round, streams, and their USD/h."""

    src: str
    dst: str
    bytes_per_step: Amount
    streams: int
    usd_per_hour: Amount
    basis: str


class Outcome(Struct, frozen=True, kw_only=True):
    """What a placement does and costs on average, without intervals and sources: all that a solver
    compares. ``samples`` pass from exchange to exchange. ``samples_per_second`` counts samples at
    equal progress: those processed, divided by the samples-to-target multiplier.
    ``carbon_g_per_hour`` is worked out only where the request limits or minimises it.
    """

    step: StepSeconds
    usd: cost.UsdPerHour
    samples: int
    multiplier: float
    carbon_g_per_hour: float | None = None

    @property
    def processed_per_second(self) -> float:
        """Samples that pass through the workers each second."""
        return self.samples / self.step.total

    @property
    def samples_per_second(self) -> float:
        """Samples each second that count towards the target."""
        return self.processed_per_second / self.multiplier

    @property
    def usd_per_million_samples(self) -> float:
        """Price of a million samples that count."""
        return cost.usd_per_million_samples(self.usd.total, self.samples_per_second)


class DataPasses(Struct, frozen=True, kw_only=True):
    """How often a run reads the data of a store, which workers keep it on their disks after the
    first time, and the samples/s that pass through all of them then and later. All other figures
    are means over the passes.
    """

    passes: Annotated[float, Meta(ge=1)]
    kept_by: tuple[str, ...]
    first_samples_per_second: Amount
    later_samples_per_second: Amount


class Estimate(Struct, frozen=True, kw_only=True):
    """What a placement does and costs. ``samples_per_second`` is what passes through the workers
    and can be measured; ``effective_samples_per_second`` divides it by ``samples_to_target`` and is
    what strategies are compared by. ``step`` is the round from exchange to exchange,
    ``local_steps`` optimizer steps; ``slow_step`` the same at the slow end. ``moves`` happen once
    before the run. Where local disks keep the data of a store, ``data_passes`` has both speeds, and
    all other figures are means over the passes. ``tokens_per_sample`` is the sequence length of a
    language model; None: samples are no tokens.
    """

    samples_per_second: Interval
    effective_samples_per_second: Interval
    samples_to_target: Multiplier
    local_steps: int
    step: StepSeconds
    slow_step: StepSeconds
    usd_per_hour: cost.UsdPerHour
    usd_per_hour_interval: Interval
    usd_per_million_samples: float
    carbon_g_per_hour: Interval | None
    links: tuple[LinkUse, ...]
    shares: tuple[tuple[str, float], ...]
    moves: tuple[Move, ...]
    provenance: tuple[str, ...]
    tokens_per_sample: int | None = None
    data_passes: DataPasses | None = None

    def __repr__(self) -> str:
        return f"<Estimate {self.headline}>"

    @property
    def headline(self) -> str:
        """Speed and price in words, such as "370 samples/s, $0.82/h"."""
        speed = format_speed(self.effective_samples_per_second.value, self.tokens_per_sample)
        return f"{speed}, {format_usd(self.usd_per_hour.total)}/h"

    @property
    def tokens_per_second(self) -> Interval | None:
        """Tokens that pass through the workers each second; None for a model without tokens."""
        length = self.tokens_per_sample
        return None if length is None else _times(self.samples_per_second, length)

    @property
    def shown_speed(self) -> Interval:
        """Speed that counts towards the target, in tokens/s of a language model."""
        return _times(self.effective_samples_per_second, self.tokens_per_sample or 1)

    @property
    def token_figures(self) -> dict[str, float]:
        """Tokens that count each second and the price of a billion; empty without tokens."""
        length, price = self.tokens_per_sample, self.usd_per_billion_tokens
        if length is None or price is None:
            return {}
        return {
            "effective_tokens_per_second": length * self.effective_samples_per_second.value,
            "usd_per_billion_tokens": price,
        }

    @property
    def usd_per_billion_tokens(self) -> float | None:
        """Price of a billion tokens that count; None for a model without tokens."""
        length = self.tokens_per_sample
        return None if length is None else 1e3 * self.usd_per_million_samples / length

    @property
    def granularity(self) -> float | None:
        """Calculation time over communication time; None without an exchange."""
        return self.step.calculation / self.step.communication if self.step.communication else None


def _times(speed: Interval, factor: int) -> Interval:
    return Interval(value=speed.value * factor, low=speed.low * factor, high=speed.high * factor)


class _Setting(NamedTuple):
    """A placement with its workers and the transfers of one exchange."""

    machines: Sequence[tuple[Pool, int]]
    placement: Placement
    phases: tuple[Phase, ...]
    problem: Problem

    @property
    def sent(self) -> tuple[Phase, ...]:
        return (*self.phases, *activations(self.placement, self.problem))

    @property
    def offers(self) -> list[tuple[VmOffer, int]]:
        return offers_of(self.machines, self.placement, self.problem)

    @property
    def carbon(self) -> Interval | None:
        """Emissions in g CO2e per hour, where they are known."""
        return carbon_of(self.offers, self.problem.catalog)

    def shares(self) -> dict[str, float]:
        if self.placement.workers == 1:
            return {self.machines[0][0].offer.place: 1.0}
        return site_group_of(*self, EXPECTED).shares()

    def outcome(self, case: int = EXPECTED) -> Outcome:
        problem, exchange = self.problem, self.placement.exchange
        step, same_zone = step_seconds(*self, case), problem.requirements.same_zone
        rounds, samples = SECONDS_PER_HOUR / step.total, samples_per_round(exchange, problem)
        way = data_usd_per_sample(self.machines, self.placement, problem)
        carbon = self.carbon if problem.requirements.counts_carbon else None
        return Outcome(
            step=step,
            usd=cost.UsdPerHour(
                compute=cost.compute_usd_per_hour(self.offers),
                egress=cost.egress_usd(self.sent, problem.network, same_zone=same_zone) * rounds,
                storage=_storage_usd(step, problem) * rounds,
                functions=_functions_usd(exchange, step, problem) * rounds,
                data=way * samples * rounds,
            ),
            samples=samples,
            multiplier=multiplier_of(exchange, problem).value,
            carbon_g_per_hour=None if carbon is None else carbon.value,
        )


def _setting(placement: Placement, problem: Problem) -> _Setting:
    machines, phases = workers_of(placement, problem), exchange_phases(placement, problem)
    return _Setting(machines, placement, phases, problem)


def estimate(placement: Placement, problem: Problem) -> Estimate:
    """Time and price a placement. `PlacerError` if an offer, rate, link, price, function or store
    is not known.
    """
    asked, exchange = _setting(placement, problem), placement.exchange
    outcome, slow, fast = (asked.outcome(case) for case in (EXPECTED, SLOW, FAST))
    multiplier, architecture = multiplier_of(exchange, problem), problem.profile.architecture
    processed = Interval(
        value=outcome.processed_per_second,
        low=slow.processed_per_second,
        high=fast.processed_per_second,
    )
    part, prices = asked.shares(), [(price_interval(offer), n) for offer, n in asked.offers]
    return Estimate(
        samples_per_second=processed,
        effective_samples_per_second=Interval(
            value=outcome.samples_per_second,
            low=processed.low / multiplier.high,
            high=processed.high / multiplier.low,
        ),
        samples_to_target=multiplier,
        local_steps=exchange.local_steps,
        step=outcome.step,
        slow_step=slow.step,
        usd_per_hour=outcome.usd,
        usd_per_hour_interval=_usd_interval(prices, [case.usd for case in (outcome, slow, fast)]),
        usd_per_million_samples=outcome.usd_per_million_samples,
        carbon_g_per_hour=asked.carbon,
        links=_links(asked.sent, SECONDS_PER_HOUR / outcome.step.total, exchange, problem),
        shares=tuple(part.items()),
        moves=moves_of(part, problem),
        provenance=_provenance(asked, multiplier),
        tokens_per_sample=None if architecture is None else architecture.sequence_length,
        data_passes=_data_passes(asked),
    )


def _data_passes(asked: _Setting) -> DataPasses | None:
    """Return both speeds where some worker keeps the data, else None."""
    kept = {f"{pool.name} in {pool.place}" for pool, _ in asked.machines if pool.keeps_data}
    reads = asked.problem.data_reads
    if reads is None or not kept:
        return None
    first, later = (
        asked._replace(machines=[(pool.in_pass(number), n) for pool, n in asked.machines])
        .outcome()
        .processed_per_second
        for number in (1, 2)
    )
    return DataPasses(
        passes=reads[1],
        kept_by=tuple(sorted(kept)),
        first_samples_per_second=first,
        later_samples_per_second=later,
    )


def evaluate(placement: Placement, problem: Problem) -> Outcome:
    """Return the expected round and price of a placement, for solvers; see `estimate`."""
    return _setting(placement, problem).outcome()


def moves_before(placement: Placement, problem: Problem) -> tuple[Move, ...]:
    """Return the data that has to move before the run, as in `estimate` but without the rest."""
    return moves_of(_setting(placement, problem).shares(), problem)


def offers_of(
    machines: Sequence[tuple[Pool, int]], placement: Placement, problem: Problem
) -> list[tuple[VmOffer, int]]:
    """Return all machines that are paid by the hour: the workers, and any server."""
    server = placement.exchange.server
    return [
        *((part.offer, n * part.machines) for pool, n in machines for part in pool.parts),
        *([] if server is None else [(server_offer(server, problem), 1)]),
    ]


def _usd_interval(
    prices: Sequence[tuple[PriceInterval, int]], cases: Sequence[cost.UsdPerHour]
) -> Interval:
    """Return the USD/h of the cheapest and dearest case: of prices, and of use by speed."""
    low = high = 0.0
    for price, n in prices:
        low += n * (price.low - price.value)
        high += n * (price.high - price.value)
    totals = [usd.total for usd in cases]
    return Interval(value=totals[0], low=min(totals) + low, high=max(totals) + high)


def workers_of(placement: Placement, problem: Problem) -> list[tuple[Pool, int]]:
    """Find the offers and rates behind the groups of a placement, and how many workers each has."""
    return [(pool_of(g, problem, placement.workers), g.count) for g in placement.groups]


def with_plans(placement: Placement, problem: Problem) -> Placement:
    """Return a placement with the plan inside each worker, where there is one."""
    if problem.island_question is None:
        return placement
    pools = ((group, _pool(group, problem, placement.workers)) for group in placement.groups)
    groups = (group if pool is None else pool.group(group.count) for group, pool in pools)
    return replace(placement, groups=tuple(groups))


def replanned(placement: Placement, problem: Problem) -> Placement:
    """Return a placement with the best plan for its number of workers, which has changed."""
    groups = tuple(
        replace(g, inner=None, behind=tuple(replace(part, inner=None) for part in g.behind))
        for g in placement.groups
    )
    return with_plans(replace(placement, groups=groups), problem)


def by_each_plan(
    placement: Placement, problem: Problem, longest_s: float = math.inf
) -> Iterator[Placement]:
    """Yield equal workers by every plan of theirs that takes up to some seconds."""
    question, first = problem.island_question, placement.groups[0]
    if question is None or problem.mixes_workers:
        return
    offer, part = offer_of(first, problem), StepPart(problem.batch, placement.workers)
    for inner in question.plans_within(offer, first.machines, part, longest_s):
        groups = tuple(replace(group, inner=inner) for group in placement.groups)
        yield replace(placement, groups=groups)


def pool_of(group: WorkerGroup, problem: Problem, workers: int | None = None) -> Pool:
    """Find the offer and the rates behind a group. ``workers``: all workers that share a step, on
    which the rates of a worker with a plan depend, where the request leaves their number open;
    None: a speed that no plan exceeds. `PlacerError` if the catalog has no such offer, no rate is
    known for its device, or its machines cannot train the model by the plan of the group.
    """
    workers = problem.sharing(workers)
    kind = (*group.offer_kind, group.machines, group.inner, group.behind, workers)
    known = problem.pools_of_groups.get(kind)
    if known is not None:
        return known
    pool = _pool(group, problem, workers)
    if pool is not None:
        problem.pools_of_groups[kind] = pool
        return pool
    refused = plan_of(group, problem, workers)
    if isinstance(refused, Refusal):
        raise PlacerError(
            f"{group.worker_name} in {group.place}: {refused.reason}",
            "choose other machines, or another plan",
        )
    raise PlacerError(
        f"no rate of {problem.profile.name} on {group.device} is known",
        "measure it, or choose another device",
        exit_code=5,
    )


def _pool(group: WorkerGroup, problem: Problem, workers: int | None) -> Pool | None:
    first, *behind = parts_of_chain(group, problem)
    return problem.pool(*first, workers, tuple(behind))


def parts_of_chain(group: WorkerGroup, problem: Problem) -> tuple[ChainPart, ...]:
    """Find the offers behind the machines of a worker, in the order of their layers."""
    return tuple(ChainPart(offer_of(p, problem), p.machines, p.inner) for p in group.parts)


def plan_of(
    group: WorkerGroup, problem: Problem, workers: int | None = None
) -> Island | Chain | Refusal | None:
    """Return how a worker's machines share its model; None without an architecture."""
    if group.behind:
        return problem.chain(parts_of_chain(group, problem))
    return problem.island(offer_of(group, problem), group.machines, group.inner, workers)


def offer_of(group: WorkerGroup, problem: Problem) -> VmOffer:
    """Find the offer behind a group. `PlacerError` if the catalog has none."""
    offer = problem.catalog.offer(*group.offer_kind)
    if offer is None:
        raise PlacerError(
            f"catalog {problem.catalog.name} has no {group.device} {group.market} "
            f"({group.instance_type}) in {group.place}",
            "see placer offers",
        )
    return offer


def exchange_phases(placement: Placement, problem: Problem) -> tuple[Phase, ...]:
    """Return the transfers of one exchange of a placement."""
    workers = list(placement.workers_by_place.items())
    return strategy(placement.exchange.strategy).phases(
        workers, problem.gradient_bytes, placement.exchange
    )


def activations(placement: Placement, problem: Problem) -> Iterator[Phase]:
    """Yield what stages in several places pass on from one exchange to the next. A sample passes
    ``sequence length x width`` activations on, and as many gradients come back. What it costs is
    thus a price of each sample, however long a step takes.
    """
    shape = problem.profile.architecture
    for group in placement.groups:
        ways = [(a.place, b.place) for a, b in pairwise(group.parts) if a.place != b.place]
        if ways and shape is not None and group.inner is not None:
            each = ELEMENT_BYTES[group.inner.precision] * shape.width * shape.sequence_length
            size = each * samples_per_round(placement.exchange, problem)
            both = [way for a, b in ways for way in ((a, b), (b, a))]
            passed = tuple(Transfer(*way, bytes=size, zonal=True) for way in both)
            yield Phase(name="activations", transfers=passed)


def _functions_usd(exchange: Exchange, step: StepSeconds, problem: Problem) -> float:
    memory = exchange.aggregator_memory_gib or 0.0
    return fsum(
        cost.function_usd(problem.function(run.place), memory, run.seconds)
        for run in step.functions
    )


def _storage_usd(step: StepSeconds, problem: Problem) -> float:
    size, catalog = problem.gradient_bytes, problem.catalog
    return fsum(
        cost.storage_usd(
            catalog.store(use.place), size, use.gradients, step.total, use.failed_polls
        )
        for use in step.stores
    )


def _links(
    phases: tuple[Phase, ...], rounds_per_hour: float, exchange: Exchange, problem: Problem
) -> tuple[LinkUse, ...]:
    usd = cost.egress_usd_by_link(phases, problem.network, same_zone=problem.requirements.same_zone)
    pairs: dict[tuple[str, str], int] = {}
    for phase in phases:
        for t in phase.transfers:
            pairs[t.src, t.dst] = max(t.count, pairs.get((t.src, t.dst), 0))
    return tuple(
        LinkUse(
            src=src,
            dst=dst,
            bytes_per_step=total,
            streams=pairs[src, dst] * exchange.streams,
            usd_per_hour=usd[src, dst] * rounds_per_hour,
            basis=problem.network.link(src, dst).basis,
        )
        for (src, dst), total in sorted(bytes_by_link(phases).items())
    )


def _disk_basis(pool: Pool) -> list[str]:
    if not pool.keeps_data:
        return []
    known = pool.offer.local_disk_gb
    size = "of unknown size, as asked" if known is None else f"of {known:,.0f} GB"
    return [
        f"data of later passes: from the local disks of {pool.name}, {size}; a disk reads as "
        "Google's local SSDs do, and each worker keeps all of the data: assumed"
    ]


def _provenance(asked: _Setting, multiplier: Multiplier) -> tuple[str, ...]:
    machines, placement, _, problem = asked
    chosen = traits(placement.exchange.strategy)
    sentences = []
    for pool, _ in machines:
        rate = worker_rate(pool, chosen.framework)
        sentences.append(f"speed on {pool.offer.device}: {rate.basis}: {rate.source}")
        sentences += _disk_basis(pool)
    for offer, _ in asked.offers:
        sentences.append(
            f"price of {offer.device} {offer.market} in {offer.place}: {offer.price_basis}, "
            f"{offer.as_of}: {offer.source}"
        )
    between = {(t.src, t.dst) for phase in asked.sent for t in phase.transfers if t.src != t.dst}
    for src, dst in sorted(between):
        link = problem.network.link(src, dst)
        sentences.append(f"link {src} to {dst}: {link.basis}: {link.source}")
    sentences += exchange_bases([pool.host for pool, _ in machines], placement, problem)
    if (multiplier.low, multiplier.high) != (1, 1):
        sentences.append(f"samples to target: {multiplier.basis}: {multiplier.source}")
    if chosen.outer and multiplier.basis != "given":
        workers, steps = placement.workers, placement.exchange.local_steps
        times = times_samples_of(problem.profile.parameters, workers, steps)
        beyond = f", {REPLICAS[-1]} at most were trained" if workers > REPLICAS[-1] else ""
        sentences.append(
            f"samples to target with {workers} workers: {times:.2f} x by the same losses{beyond}"
        )
    return tuple(dict.fromkeys(filter(None, sentences)))
