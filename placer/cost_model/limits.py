"""Limits and wishes that a placement breaks: the check that every answer passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from placer.cost_model.estimate import (
    Outcome,
    activations,
    evaluate,
    exchange_phases,
    moves_before,
    offer_of,
    plan_of,
    pool_of,
)
from placer.problem.admitted_exchanges import needs_quota, server_bytes, server_offer
from placer.problem.datasets import Move, needs_place
from placer.problem.exchange import Phase, overlaps, traits
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements, missing
from placer.problem.shares import Part, broken_caps, broken_shares
from placer.units import (
    GIB,
    SECONDS_PER_HOUR,
    format_bytes,
    format_duration,
    format_number,
    format_usd,
)
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import Refusal

LIMIT_CODES = frozenset({"budget", "total-budget", "deadline", "carbon", "throughput"})
"""Codes of `broken_limits`: what other prices, speeds or links may heal."""
TOLERANCE = 1e-9
"""Relative slack when a figure is compared with the user's limit."""


class Violation(Struct, frozen=True, kw_only=True):
    """A wish or a limit that a placement breaks."""

    code: str
    message: str


def violations(placement: Placement, problem: Problem) -> tuple[Violation, ...]:
    """List every limit and wish that a placement breaks; empty if it may be recommended."""
    return evaluated(placement, problem)[1]


def evaluated(
    placement: Placement, problem: Problem
) -> tuple[Outcome | None, tuple[Violation, ...]]:
    """Return what a placement does and costs, if anything, with its `violations`."""
    broken = violations_without_price(placement, problem)
    if any(v.code in ("function", "exchange", "data", "batch") for v in broken):
        return None, broken
    outcome, others = priced(placement, problem)
    return outcome, (*broken, *others)


def priced(placement: Placement, problem: Problem) -> tuple[Outcome, tuple[Violation, ...]]:
    """Return what a placement does and costs, with the `violations` that only this shows."""
    wish, outcome = problem.requirements, evaluate(placement, problem)
    # only a rule of residency reads them
    moves = moves_before(placement, problem) if wish.datasets and wish.kept else ()
    return outcome, (
        *_function_time(outcome, problem),
        *_data_violations(placement, moves, problem),
        *broken_limits(outcome, wish),
    )


def violations_without_price(placement: Placement, problem: Problem) -> tuple[Violation, ...]:
    """List those `violations` that show before anything is timed or priced."""
    broken = [
        *_group_violations(placement, problem),
        *_kind_violations(placement, problem),
        *_island_violations(placement, problem),
        *_plan_refusals(placement, problem),
        *_quota_violations(placement, problem),
        *_exchange_violations(placement, problem),
    ]
    wish = problem.requirements
    if not wish.min_workers <= placement.workers <= wish.max_workers:
        broken.append(
            Violation(
                code="workers",
                message=f"{placement.workers} workers are not within "
                f"{wish.min_workers}..{wish.max_workers}",
            )
        )
    if wish.max_machines is not None and placement.machines > wish.max_machines:
        broken.append(
            Violation(
                code="machines",
                message=f"{placement.machines} machines are above {wish.max_machines}",
            )
        )
    if not wish.min_regions <= len(placement.places) <= wish.max_regions:
        broken.append(
            Violation(
                code="regions",
                message=f"{len(placement.places)} regions are not within "
                f"{wish.min_regions}..{wish.max_regions}",
            )
        )
    if placement.workers > problem.batch:
        broken.append(
            Violation(
                code="batch",
                message=f"a step of {problem.batch} samples cannot be shared by "
                f"{placement.workers} workers",
            )
        )
    broken += [*_unplaced_data(placement, problem), *_unused(placement, problem)]
    return (*broken, *_share_violations(placement, problem))


def broken_limits(outcome: Outcome, wish: Requirements) -> tuple[Violation, ...]:
    """List the limits on money, speed, time and emissions that an evaluated placement breaks. In
    the order budget, budget in total, deadline, carbon, throughput; empty if all are kept.
    ``outcome``: of `placer.cost_model.estimate.evaluate`, with emissions if the wishes count them.
    """
    usd, speed = outcome.usd.total, outcome.samples_per_second
    return (
        *_budget_violations(usd, wish),
        *_total_violations(outcome, wish),
        *_carbon_violations(outcome, wish),
        *_speed_violations(speed, wish),
    )


def _budget_violations(usd_per_hour: float, wish: Requirements) -> Iterator[Violation]:
    """Yield the violation of a budget per hour."""
    budget = wish.budget_usd_per_hour
    if budget is not None and usd_per_hour > budget * (1 + TOLERANCE):
        text = f"{format_usd(usd_per_hour)}/h is above the budget of {format_usd(budget)}/h"
        yield Violation(code="budget", message=text)


def _speed_violations(samples_per_second: float, wish: Requirements) -> Iterator[Violation]:
    """Yield the samples/s below the floor."""
    floor = wish.min_samples_per_second
    if floor is not None and samples_per_second < floor * (1 - TOLERANCE):
        text = f"{format_number(samples_per_second)} samples/s is below the floor"
        yield Violation(code="throughput", message=f"{text} of {format_number(floor)} samples/s")


def _carbon_violations(got: Outcome, wish: Requirements) -> Iterator[Violation]:
    """Yield the emissions above their limit, or not known where they are limited."""
    limit, emitted = wish.max_carbon_g_per_hour, got.carbon_g_per_hour
    if wish.counts_carbon and emitted is None:
        yield Violation(
            code="carbon", message="nobody knows what a machine of this placement emits"
        )
    if limit is not None and emitted is not None and emitted > limit * (1 + TOLERANCE):
        text = (
            f"{format_number(emitted)} g CO2e/h are above the limit of {format_number(limit)} g "
            f"CO2e/h"
        )
        yield Violation(code="carbon", message=text)


def _total_violations(got: Outcome, wish: Requirements) -> Iterator[Violation]:
    """Yield what is wrong with time and money for all samples, of which start-up is a part."""
    each, limit = got.usd_per_million_samples, wish.most_usd_per_million_samples
    if wish.samples is not None and wish.budget_usd is not None:
        usd = each * wish.samples / 1e6 + got.usd.compute * wish.startup_s / SECONDS_PER_HOUR
        if usd > wish.budget_usd * (1 + TOLERANCE):
            text = f"{format_usd(usd)} for {wish.samples:,} samples are above the budget of "
            text += f"{format_usd(wish.budget_usd)} in total"
            yield Violation(code="total-budget", message=text)
    if limit is not None and each > limit * (1 + TOLERANCE):
        text = f"{format_usd(each)} per million samples are above the limit of {format_usd(limit)}"
        yield Violation(code="total-budget", message=text)
    if wish.deadline_s is not None and wish.samples is not None:
        seconds = wish.samples / got.samples_per_second + wish.lead_s
        if wish.deadline_s < seconds * (1 - TOLERANCE):
            took = f"{wish.samples:,} samples take {format_duration(seconds)}"
            yield Violation(
                code="deadline",
                message=f"{took}, longer than the deadline of {format_duration(wish.deadline_s)}",
            )


def _unplaced_data(placement: Placement, problem: Problem) -> list[Violation]:
    """Return the data that must stay where no worker is, and workers that would have no data."""
    datasets, used = problem.requirements.datasets, placement.places
    stay = needs_place(datasets)
    broken = [
        Violation(code="data", message=f"data must stay in {place}, where there is no worker")
        for place in stay
        if place not in used
    ]
    if datasets and not problem.requirements.data_moves:
        broken += [
            Violation(code="data", message=f"workers in {place} have no data")
            for place in used
            if place not in stay
        ]
    return broken


def _unused(placement: Placement, problem: Problem) -> list[Violation]:
    """Return the machines that must be used and are not."""
    short = [(rule, missing(rule, placement.groups)) for rule in problem.requirements.used]
    return [
        Violation(code="use", message=f"--use {rule.spec}: {lacking} too few")
        for rule, lacking in short
        if lacking
    ]


def _group_violations(placement: Placement, problem: Problem) -> list[Violation]:
    broken = []
    for group in placement.parts:
        offer = offer_of(group, problem)
        broken += [
            Violation(code=code, message=message) for code, message in problem.offer_problems(offer)
        ]
        where = problem.place_problem(group.place)
        if where:
            broken.append(Violation(code="place", message=where))
        # Islands of several sizes may be of one offer.
        machines = sum(g.machine_count for g in placement.parts if g.offer_kind == group.offer_kind)
        if offer.available is not None and machines > offer.available:
            broken.append(
                Violation(
                    code="quota",
                    message=f"{group.spec}: only {offer.available} of {offer.instance_type} exist",
                )
            )
        supply = problem.supply(offer)
        if supply is not None and machines > supply:
            text = (
                f"{machines} spot machines {offer.instance_type} in {group.place}: no more than "
                f"{supply} are known to launch together"
            )
            broken.append(Violation(code="supply", message=f"{text}; --supply any allows them"))
    return broken


def _kind_violations(placement: Placement, problem: Problem) -> Iterator[Violation]:
    """Yield that workers are unlike where all have to be alike."""
    if problem.uniform and len(placement.kinds) > 1:
        names = ", ".join(sorted({group.worker_name for group in placement.groups}))
        text = f"{names} are unlike, and {problem.transport} divides a step equally: --mixed"
        yield Violation(code="kinds", message=text)


def _island_violations(placement: Placement, problem: Problem) -> Iterator[Violation]:
    """Yield the workers that are islands of a size, or work by a plan, that was not asked for."""
    wish = problem.requirements
    for group in placement.parts:
        least = wish.min_island_machines or 1
        most = wish.max_island_machines or group.machines
        if not least <= group.machines <= most:
            yield Violation(
                code="island",
                message=f"{group.spec}: {group.machines} machines to an island are not within "
                f"{least}..{most}",
            )
        limit = offer_of(group, problem).max_island_machines
        if limit is not None and group.machines > limit:
            text = f"{group.spec}: at most {limit} of {group.instance_type} are in one network"
            yield Violation(code="island", message=text)
        if group.machines > 1 and not wish.same_zone:
            text = f"{group.spec}: an island is in one zone, and --zones spread asks for several"
            yield Violation(code="island", message=text)
        if group.inner is not None:
            yield from _plan_violations(group.inner, wish)


def _plan_refusals(placement: Placement, problem: Problem) -> Iterator[Violation]:
    """Yield the workers that no plan lets do an equal part of a step."""
    for group in placement.groups if problem.island_question is not None else ():
        refused = plan_of(group, problem, placement.workers)
        if isinstance(refused, Refusal):
            yield Violation(code="batch", message=f"{group.spec}: {refused.reason}")


def _plan_violations(inner: InnerPlan, wish: Requirements) -> Iterator[Violation]:
    """Yield the parts of a plan inside a worker that differ from those asked for."""
    for flag, wanted, has in (
        ("sharding", wish.sharding, inner.sharding),
        ("tp", wish.tensor_parallel, inner.tensor_parallel),
        ("checkpointing", wish.checkpointing, inner.checkpointing),
        ("precision", wish.precision, inner.precision),
        ("software", wish.software, inner.software),
    ):
        if wanted is not None and has != wanted:
            text = f"the plan {inner.spec[1:]} does not follow --{flag} {wanted}"
            yield Violation(code="plan", message=text)
    # A small share of the batch makes a microbatch smaller than the one asked for.
    if wish.microbatch is not None and inner.microbatch > wish.microbatch:
        text = f"the plan {inner.spec[1:]} takes more than --microbatch {wish.microbatch} at once"
        yield Violation(code="plan", message=text)


def _quota_violations(placement: Placement, problem: Problem) -> list[Violation]:
    used = quota_use(placement, problem)
    return [
        *_joint_violations(placement, problem),
        *(
            Violation(
                code="quota",
                message=f"{gpus} x {gpu} {market} in {place} exceed the quota of "
                f"{problem.quota(place, gpu, market)} GPUs",
            )
            for (place, gpu, market), gpus in sorted(used.items())
            if gpus > problem.quota(place, gpu, market)
        ),
    ]


def _joint_violations(placement: Placement, problem: Problem) -> Iterator[Violation]:
    offers = [offer_of(group, problem) for group in placement.parts]
    for row in problem.requirements.joint_quotas:
        taken = joint_use(row, placement, problem)
        if taken > row.most:
            unknown = [o.instance_type for o in offers if row.lacks_vcpus(o)]
            message = f"{taken} {row.unit} exceed the joint quota of {row.most} {row.words}"
            if unknown:
                message = f"the quota of {row.words} counts {unknown[0]}, whose vCPUs nobody knows"
            yield Violation(code="quota", message=message)


def quota_use(placement: Placement, problem: Problem) -> dict[tuple[str, str, str], int]:
    """Return the GPUs of a placement and its server by place, GPU and market."""
    used: dict[tuple[str, str, str], int] = {}
    for group in placement.parts:
        key = (group.place, group.gpu, group.market)
        used[key] = used.get(key, 0) + group.gpus
    server = placement.exchange.server
    if server is not None and needs_quota(server_offer(server, problem), problem):
        key = (server.place, server.gpu, server.market)
        used[key] = used.get(key, 0) + server.gpu_count
    return used


def joint_use(row: Quota, placement: Placement, problem: Problem) -> int:
    """Return the GPUs or vCPUs of a joint quota that machines and server take."""
    machines = [(offer_of(group, problem), group.machine_count) for group in placement.parts]
    server = placement.exchange.server
    if server is not None:
        offer = server_offer(server, problem)
        if row.vcpus is not None or needs_quota(offer, problem):
            machines.append((offer, server.machine_count))
    return sum(row.taken(offer, count) for offer, count in machines)


def parts_of(placement: Placement, problem: Problem) -> tuple[Part, ...]:
    """Return the workers of a placement with their speeds, each by itself: what shares count."""
    return tuple(
        Part(
            place=group.place,
            market=group.market,
            speed=group.count * pool_of(group, problem, placement.workers).speed_units,
        )
        for group in placement.groups
    )


def _share_violations(placement: Placement, problem: Problem) -> list[Violation]:
    """Return the shares of the speed that are broken, and the caps of a search over them."""
    wish = problem.requirements
    if not (wish.has_shares or wish.speed_caps or wish.least_speed):
        return []
    parts = parts_of(placement, problem)
    shares = broken_shares(wish.max_shares, wish.on_demand_floor, parts)
    caps = broken_caps(wish.speed_caps, wish.least_speed, parts)
    return [Violation(code=code, message=message) for code, message in shares] + [
        Violation(code="speed", message=message) for message in caps
    ]


def _exchange_violations(placement: Placement, problem: Problem) -> list[Violation]:
    exchange, wish = placement.exchange, problem.requirements
    chosen, several = traits(exchange.strategy), exchange.strategy != NO_EXCHANGE
    broken = []
    if (placement.workers == 1) == several:
        broken.append(
            Violation(
                code="exchange",
                message=f"{placement.workers} workers with the exchange '{exchange.strategy}'",
            )
        )
    elif several and (exchange.strategy, exchange.local_steps) not in problem.modes:
        mode = (
            f"{exchange.strategy} with {exchange.local_steps} local steps"
            if exchange.local_steps > 1
            else exchange.strategy
        )
        broken.append(
            Violation(
                code="exchange", message=f"the exchange {mode} is not what {wish.exchange} admits"
            )
        )
    if len(placement.places) < chosen.least_regions:
        text = f"the exchange {exchange.strategy} needs workers in {chosen.least_regions} regions"
        broken.append(Violation(code="exchange", message=text))
    if exchange.compression != problem.compression:
        broken.append(
            Violation(
                code="compression",
                message=f"compression {exchange.compression} is not {problem.compression}",
            )
        )
    if several and exchange.transport != problem.transport:
        text = f"the transport {exchange.transport} is not {problem.transport}"
        broken.append(Violation(code="exchange", message=text))
    if several and (exchange.streams, exchange.overlap) != (
        wish.streams,
        overlaps(exchange.strategy, wanted=wish.overlap),
    ):
        asked = f"{exchange.streams} streams, overlap {exchange.overlap} are not what was asked for"
        broken.append(Violation(code="exchange", message=asked))
    return broken + _hub_violations(placement, problem)


def _hub_violations(placement: Placement, problem: Problem) -> list[Violation]:
    """Return what is wrong with the places where gradients or models meet."""
    exchange, wish = placement.exchange, problem.requirements
    chosen, several = traits(exchange.strategy), exchange.strategy != NO_EXCHANGE
    broken = []
    for name, wanted, got in (
        ("aggregator", wish.aggregator, exchange.aggregator),
        ("storage", wish.storage, exchange.storage),
    ):
        if wanted not in (None, got) and several:
            broken.append(Violation(code=name, message=f"the {name} is in {got}, not in {wanted}"))
    if chosen.hub == "function":
        broken += _function_violations(placement, problem)
    if chosen.hub == "server":
        broken += _server_violations(placement, problem)
    if chosen.hub == "region" and exchange.aggregator not in placement.places:
        broken.append(
            Violation(
                code="exchange",
                message=f"the hub {exchange.aggregator} is not among the regions with workers",
            )
        )
    return broken


def _server_violations(placement: Placement, problem: Problem) -> list[Violation]:
    """Return what a parameter server lacks."""
    server = placement.exchange.server
    if server is None or server.place != placement.exchange.aggregator:
        return [
            Violation(code="exchange", message="a parameter server needs a machine at its place")
        ]
    offer, needed = server_offer(server, problem), server_bytes(placement.workers, problem)
    broken = []
    if offer.memory_gib * GIB < needed:
        text = (
            f"{placement.workers} gradients and the model need {format_bytes(needed)} on the "
            f"server; {offer.instance_type} has"
        )
        broken.append(Violation(code="host-memory", message=f"{text} {offer.memory_gib:g} GiB"))
    if problem.requirements.market not in ("any", offer.market):
        broken.append(
            Violation(
                code="market",
                message=f"the server is {offer.market}, not {problem.requirements.market}",
            )
        )
    return broken


def _function_violations(placement: Placement, problem: Problem) -> list[Violation]:
    """Return the memory and time that the cloud functions of an exchange lack."""
    exchange, counts = placement.exchange, placement.workers_by_place
    if (
        exchange.aggregator is None
        or exchange.storage is None
        or exchange.aggregator_memory_gib is None
    ):
        return [
            Violation(
                code="function",
                message=f"a {exchange.strategy} exchange needs an aggregator and a store",
            )
        ]
    regional = traits(exchange.strategy).transport == "regional-stores"
    lacking = (
        [place for place in counts if place not in problem.serverless_places] if regional else []
    )
    if lacking:
        return [
            Violation(code="function", message=f"{place} has no function and store of its own")
            for place in lacking
        ]
    sums = (
        {**counts, exchange.aggregator: max(len(counts), counts.get(exchange.aggregator, 0))}
        if regional
        else {}
    )
    for place, gradients in (sums or {exchange.aggregator: placement.workers}).items():
        function, needed = problem.function(place), gradients * problem.gradient_bytes
        if (
            exchange.aggregator_memory_gib > function.max_memory_gib
            or needed > exchange.aggregator_memory_gib * GIB
        ):
            text = (
                f"{gradients} gradients ({format_bytes(needed)}) need "
                f"{exchange.aggregator_memory_gib:g} GiB"
            )
            if needed > exchange.aggregator_memory_gib * GIB:
                text = (
                    f"{format_bytes(needed)} of gradients do not fit "
                    f"{exchange.aggregator_memory_gib:g} GiB"
                )
            most = f"a function in {function.place} has at most {function.max_memory_gib:g} GiB"
            return [Violation(code="function", message=f"{text}; {most}")]
    return []


def _function_time(got: Outcome, problem: Problem) -> list[Violation]:
    """Return the functions that would run longer than their provider allows."""
    late = [
        run for run in got.step.functions if run.seconds > problem.function(run.place).max_seconds
    ]
    return [
        Violation(
            code="function",
            message=f"the function in {run.place} runs {run.seconds:.0f} s; its provider allows "
            f"{problem.function(run.place).max_seconds:g} s",
        )
        for run in late
    ]


def _data_violations(
    placement: Placement, moves: tuple[Move, ...], problem: Problem
) -> list[Violation]:
    """Return what residency forbids."""
    phases = (*exchange_phases(placement, problem), *activations(placement, problem))
    return [
        Violation(code="residency", message=text)
        for text in leaks(placement, phases, moves, problem)
    ]


def leaks(
    placement: Placement, phases: Sequence[Phase], moved: Sequence[Move], problem: Problem
) -> Iterator[str]:
    """Yield one sentence for each rule and first way in which a placement breaks it. Gradients
    leave with the transfers of strategies that send them, checkpoints with those that send the
    model, raw data with moves and with reads from the dataset's store.
    """
    sends = [(t.src, t.dst) for phase in phases for t in phase.transfers if t.src != t.dst]
    store = problem.data_store
    reads = [] if store is None else [(store.place, place) for place in placement.places]
    if problem.data_copy is not None and store is not None:
        reads.append((problem.data_copy.source.place, store.place))
    payload = traits(placement.exchange.strategy).payload
    ways = {"raw-data": [*((move.src, move.dst) for move in moved), *reads], payload: sends}
    for rule in problem.requirements.kept:
        for src, dst in ways.get(rule.kind, ()):
            if src in rule.places and dst not in rule.places:
                yield f"{rule.kind} would leave {rule.area}: from {src} to {dst}"
                break
