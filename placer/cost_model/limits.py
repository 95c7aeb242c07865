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
from placer.problem.admitted_exchanges import SERVER_MARKET, needs_quota, server_bytes, server_offer
from placer.problem.datasets import Move, needs_place
from placer.problem.exchange import Phase, overlaps, traits
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements, missing
from placer.problem.shares import Part, broken_caps, broken_shares
from placer.problem.words.wishes import INSIDE
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


class Violation(Struct, frozen=True):
    """A wish or a limit that a placement breaks."""

    code: str
    message: str


Violations = Iterator[tuple[str, str]]
"""Codes and messages."""


def _all(*broken: Violations) -> tuple[Violation, ...]:
    return tuple(Violation(*pair) for each in broken for pair in each)


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
    phases = (*exchange_phases(placement, problem), *activations(placement, problem))
    leaking = (("residency", text) for text in leaks(placement, phases, moves, problem))
    seen = _all(_function_time(outcome, problem), leaking)
    return outcome, (*seen, *broken_limits(outcome, wish))


def violations_without_price(placement: Placement, problem: Problem) -> tuple[Violation, ...]:
    """List those `violations` that show before anything is timed or priced."""
    return _all(
        _group_violations(placement, problem),
        _kind_violations(placement, problem),
        _island_violations(placement, problem),
        _plan_refusals(placement, problem),
        _quota_violations(placement, problem),
        _exchange_violations(placement, problem),
        _count_violations(placement, problem),
        _unplaced_data(placement, problem),
        _unused(placement, problem),
        _share_violations(placement, problem),
    )


def broken_limits(outcome: Outcome, wish: Requirements) -> tuple[Violation, ...]:
    """List the limits on money, speed, time and emissions that an evaluated placement breaks.

    In the order budget, budget in total, deadline, carbon, throughput; ``outcome`` has emissions if
    the wishes count them.
    """
    return _all(
        _budget_violations(outcome.usd.total, wish),
        _total_violations(outcome, wish),
        _carbon_violations(outcome, wish),
        _speed_violations(outcome.samples_per_second, wish),
    )


def _budget_violations(usd_per_hour: float, wish: Requirements) -> Violations:
    budget = wish.budget_usd_per_hour
    if budget is not None and usd_per_hour > budget * (1 + TOLERANCE):
        text = f"{format_usd(usd_per_hour)}/h is above the budget of {format_usd(budget)}/h"
        yield "budget", text


def _speed_violations(samples_per_second: float, wish: Requirements) -> Violations:
    floor = wish.min_samples_per_second
    if floor is not None and samples_per_second < floor * (1 - TOLERANCE):
        text = f"{format_number(samples_per_second)} samples/s is below the floor"
        yield "throughput", f"{text} of {format_number(floor)} samples/s"


def _carbon_violations(got: Outcome, wish: Requirements) -> Violations:
    """Yield emissions above their limit, or not known where they count."""
    limit, emitted = wish.max_carbon_g_per_hour, got.carbon_g_per_hour
    if wish.counts_carbon and emitted is None:
        yield "carbon", "nobody knows what a machine of this placement emits"
    if limit is not None and emitted is not None and emitted > limit * (1 + TOLERANCE):
        text = f"{format_number(emitted)} g CO2e/h are above the limit of {format_number(limit)} g"
        yield "carbon", f"{text} CO2e/h"


def _total_violations(got: Outcome, wish: Requirements) -> Violations:
    """Yield what is wrong with time and money for all samples, of which start-up is a part."""
    each, limit = got.usd_per_million_samples, wish.most_usd_per_million_samples
    if wish.samples is not None and wish.budget_usd is not None:
        usd = each * wish.samples / 1e6 + got.usd.compute * wish.startup_s / SECONDS_PER_HOUR
        if usd > wish.budget_usd * (1 + TOLERANCE):
            text = f"{format_usd(usd)} for {wish.samples:,} samples are above the budget of "
            yield "total-budget", f"{text}{format_usd(wish.budget_usd)} in total"
    if limit is not None and each > limit * (1 + TOLERANCE):
        text = f"{format_usd(each)} per million samples are above the limit of {format_usd(limit)}"
        yield "total-budget", text
    if wish.deadline_s is not None and wish.samples is not None:
        seconds = wish.samples / got.samples_per_second + wish.lead_s
        if wish.deadline_s < seconds * (1 - TOLERANCE):
            text = f"{wish.samples:,} samples take {format_duration(seconds)}, longer than"
            text += f" the deadline of {format_duration(wish.deadline_s)}"
            yield "deadline", text


def _count_violations(placement: Placement, problem: Problem) -> Violations:
    wish, workers, regions = problem.requirements, placement.workers, len(placement.places)
    if not wish.min_workers <= workers <= wish.max_workers:
        yield "workers", f"{workers} workers are not within {wish.min_workers}..{wish.max_workers}"
    if wish.max_machines is not None and placement.machines > wish.max_machines:
        yield "machines", f"{placement.machines} machines are above {wish.max_machines}"
    if not wish.min_regions <= regions <= wish.max_regions:
        yield "regions", f"{regions} regions are not within {wish.min_regions}..{wish.max_regions}"
    if workers > problem.batch:
        yield "batch", f"a step of {problem.batch} samples cannot be shared by {workers} workers"


def _unplaced_data(placement: Placement, problem: Problem) -> Violations:
    """Yield the data that must stay where no worker is, and workers that would have no data."""
    wish, used = problem.requirements, placement.places
    stay = needs_place(wish.datasets)
    for place in (place for place in stay if place not in used):
        yield "data", f"data must stay in {place}, where there is no worker"
    if wish.datasets and not wish.data_moves:
        for place in (place for place in used if place not in stay):
            yield "data", f"workers in {place} have no data"


def _unused(placement: Placement, problem: Problem) -> Violations:
    for rule in problem.requirements.used:
        lacking = missing(rule, placement.groups)
        if lacking:
            yield "use", f"--use {rule.spec}: {lacking} too few"


def _group_violations(placement: Placement, problem: Problem) -> Violations:
    for group in placement.parts:
        offer = offer_of(group, problem)
        yield from problem.offer_problems(offer)
        where = problem.place_problem(group.place)
        if where:
            yield "place", where
        # Islands of several sizes may be of one offer.
        machines = sum(g.machine_count for g in placement.parts if g.offer_kind == group.offer_kind)
        if offer.available is not None and machines > offer.available:
            yield "quota", f"{group.spec}: only {offer.available} of {offer.instance_type} exist"
        supply = problem.supply(offer)
        if supply is not None and machines > supply:
            text = f"{machines} spot machines {offer.instance_type} in {group.place}: no more than "
            text += f"{supply} are known to launch together; --supply any allows them"
            yield "supply", text


def _kind_violations(placement: Placement, problem: Problem) -> Violations:
    if problem.uniform and len(placement.kinds) > 1:
        names = ", ".join(sorted({group.worker_name for group in placement.groups}))
        text = f"{names} are unlike, and {problem.transport} divides a step equally: --mixed"
        yield "kinds", text


def _island_violations(placement: Placement, problem: Problem) -> Violations:
    """Yield the workers that are islands of a size, or work by a plan, that was not asked for."""
    wish = problem.requirements
    for group in placement.parts:
        least, most = wish.min_island_machines or 1, wish.max_island_machines or group.machines
        if not least <= group.machines <= most:
            text = f"{group.spec}: {group.machines} machines to an island are not within "
            yield "island", f"{text}{least}..{most}"
        limit = offer_of(group, problem).max_island_machines
        if limit is not None and group.machines > limit:
            text = f"{group.spec}: at most {limit} of {group.instance_type} are in one network"
            yield "island", text
        if group.machines > 1 and not wish.same_zone:
            text = f"{group.spec}: an island is in one zone, and --zones spread asks for several"
            yield "island", text
        if group.inner is not None:
            yield from _plan_violations(group.inner, wish)


def _plan_refusals(placement: Placement, problem: Problem) -> Violations:
    for group in placement.groups if problem.island_question is not None else ():
        refused = plan_of(group, problem, placement.workers)
        if isinstance(refused, Refusal):
            yield "batch", f"{group.spec}: {refused.reason}"


def _plan_violations(inner: InnerPlan, wish: Requirements) -> Violations:
    """Yield the parts of a plan inside a worker that differ from those asked for."""
    for flag, field in INSIDE.items():
        wanted = getattr(wish, field)
        if field == "microbatch":
            # A small share of the batch makes a microbatch smaller than the one asked for.
            if wanted is not None and inner.microbatch > wanted:
                text = f"the plan {inner.spec[1:]} takes more than --microbatch {wanted} at once"
                yield "plan", text
        elif wanted is not None and getattr(inner, field) != wanted:
            yield "plan", f"the plan {inner.spec[1:]} does not follow --{flag} {wanted}"


def _quota_violations(placement: Placement, problem: Problem) -> Violations:
    offers = [offer_of(group, problem) for group in placement.parts]
    for row in problem.requirements.joint_quotas:
        taken = joint_use(row, placement, problem)
        if taken > row.most:
            unknown = [o.instance_type for o in offers if row.lacks_vcpus(o)]
            text = f"{taken} {row.unit} exceed the joint quota of {row.most} {row.words}"
            if unknown:
                text = f"the quota of {row.words} counts {unknown[0]}, whose vCPUs nobody knows"
            yield "quota", text
    for bucket, gpus in sorted(quota_use(placement, problem).items()):
        most, (place, gpu, market) = problem.quota(*bucket), bucket
        if gpus > most:
            yield "quota", f"{gpus} x {gpu} {market} in {place} exceed the quota of {most} GPUs"


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


def _share_violations(placement: Placement, problem: Problem) -> Violations:
    wish = problem.requirements
    if wish.has_shares or wish.speed_caps or wish.least_speed:
        parts = parts_of(placement, problem)
        yield from broken_shares(wish.max_shares, wish.on_demand_floor, parts)
        for text in broken_caps(wish.speed_caps, wish.least_speed, parts):
            yield "speed", text


def _exchange_violations(placement: Placement, problem: Problem) -> Violations:
    exchange, wish = placement.exchange, problem.requirements
    chosen, several = traits(exchange.strategy), exchange.strategy != NO_EXCHANGE
    if (placement.workers == 1) == several:
        yield "exchange", f"{placement.workers} workers with the exchange '{exchange.strategy}'"
    elif several and (exchange.strategy, exchange.local_steps) not in problem.modes:
        steps = f" with {exchange.local_steps} local steps" if exchange.local_steps > 1 else ""
        mode = f"{exchange.strategy}{steps}"
        yield "exchange", f"the exchange {mode} is not what {wish.exchange} admits"
    if len(placement.places) < chosen.least_regions:
        text = f"the exchange {exchange.strategy} needs workers in {chosen.least_regions} regions"
        yield "exchange", text
    if exchange.compression != problem.compression:
        yield "compression", f"compression {exchange.compression} is not {problem.compression}"
    if several and exchange.transport != problem.transport:
        yield "exchange", f"the transport {exchange.transport} is not {problem.transport}"
    overlap = overlaps(exchange.strategy, wanted=wish.overlap)
    if several and (exchange.streams, exchange.overlap) != (wish.streams, overlap):
        text = f"{exchange.streams} streams, overlap {exchange.overlap} are not what was asked for"
        yield "exchange", text
    yield from _hub_violations(placement, problem)


def _hub_violations(placement: Placement, problem: Problem) -> Violations:
    exchange, wish = placement.exchange, problem.requirements
    for name in ("aggregator", "storage"):
        wanted, got = getattr(wish, name), getattr(exchange, name)
        if wanted not in (None, got) and exchange.strategy != NO_EXCHANGE:
            yield name, f"the {name} is in {got}, not in {wanted}"
    hub = traits(exchange.strategy).hub
    if hub == "function":
        yield from _function_violations(placement, problem)
    if hub == "server":
        yield from _server_violations(placement, problem)
    if hub == "region" and exchange.aggregator not in placement.places:
        yield "exchange", f"the hub {exchange.aggregator} is not among the regions with workers"


def _server_violations(placement: Placement, problem: Problem) -> Violations:
    server, market = placement.exchange.server, problem.requirements.market
    if server is None or server.place != placement.exchange.aggregator:
        yield "exchange", "a parameter server needs a machine at its place"
        return
    offer, needed = server_offer(server, problem), server_bytes(placement.workers, problem)
    if offer.memory_gib * GIB < needed:
        text = f"{placement.workers} gradients and the model need {format_bytes(needed)} on the "
        text += f"server; {offer.instance_type} has {offer.memory_gib:g} GiB"
        yield "host-memory", text
    if market not in ("any", offer.market) and offer.market != SERVER_MARKET:
        yield "market", f"the server is {offer.market}, not {market}"


def _function_violations(placement: Placement, problem: Problem) -> Violations:
    """Yield the functions that an exchange lacks, else the first that lacks memory."""
    exchange, counts = placement.exchange, placement.workers_by_place
    hub, memory = exchange.aggregator, exchange.aggregator_memory_gib
    if hub is None or exchange.storage is None or memory is None:
        yield "function", f"a {exchange.strategy} exchange needs an aggregator and a store"
        return
    sums = {hub: placement.workers}
    if traits(exchange.strategy).transport == "regional-stores":
        lacking = [place for place in counts if place not in problem.serverless_places]
        for place in lacking:
            yield "function", f"{place} has no function and store of its own"
        if lacking:
            return
        sums = {**counts, hub: max(len(counts), counts.get(hub, 0))}
    for place, gradients in sums.items():
        function, needed = problem.function(place), gradients * problem.gradient_bytes
        if memory > function.max_memory_gib or needed > memory * GIB:
            text = f"{gradients} gradients ({format_bytes(needed)}) need {memory:g} GiB"
            if needed > memory * GIB:
                text = f"{format_bytes(needed)} of gradients do not fit {memory:g} GiB"
            most = f"a function in {function.place} has at most {function.max_memory_gib:g} GiB"
            yield "function", f"{text}; {most}"
            return


def _function_time(got: Outcome, problem: Problem) -> Violations:
    for run in got.step.functions:
        most = problem.function(run.place).max_seconds
        if run.seconds > most:
            text = f"the function in {run.place} runs {run.seconds:.0f} s; its provider allows "
            yield "function", f"{text}{most:g} s"


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
