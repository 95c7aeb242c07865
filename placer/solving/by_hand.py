"""Placements written by a user: groups of workers, their offers, the exchange of the request."""

from __future__ import annotations

from placer.cost_model.estimate import evaluate
from placer.errors import BadInputError, PlacerError
from placer.market.catalog import VmOffer, device_name
from placer.problem.admitted_exchanges import exchanges
from placer.problem.exchange import traits
from placer.problem.placement import Exchange, Placement, WorkerGroup, WorkerSpec, parse_workers
from placer.problem.problem import Problem
from placer.problem.requirements import LOCAL, SYNCHRONOUS
from placer.problem.workers.pool import ChainPart
from placer.records import replace
from placer.workload.island import Island, Refusal
from placer.workload.island.wishes import PIPELINES

PLAIN = "all-reduce"
"""Exchange of a hand-made placement where the request leaves the choice."""


def place_by_hand(workers: str, problem: Problem) -> Placement:
    """Find the cheapest offer behind each group that a user wrote, and the exchange of the request.
    ``auto`` is an all-reduce, unless more than one local step is asked for. What the request leaves
    open is chosen for the most samples/s that count. A plan that is not written is one that an
    engine executes, where there is one.
    """
    placed = _placed(workers, problem)
    if not placed.unexecuted:
        return placed
    from placer.solving.parts.search import questions  # few plans need it

    for asked in questions(problem):
        try:
            other = _placed(workers, asked)
        except PlacerError:  # by plans of this engine the model does not fit
            continue
        if asked.compression == problem.compression and not other.unexecuted:
            return other
    return placed


def _placed(workers: str, problem: Problem) -> Placement:
    """Place workers with the fastest plan that their groups do not write, and an exchange."""
    if problem.requirements.open_batches:
        low, high = problem.requirements.open_batches[0], problem.requirements.open_batches[-1]
        raise PlacerError(
            f"tbs {low:,}..{high:,} is a range; a placement by hand needs one batch",
            "give --tbs N, or use placer recommend",
        )
    specs = parse_workers(workers)
    total = sum(spec.count for spec in specs)
    if total > 1 and any(spec.behind for spec in specs):
        raise PlacerError(
            f"{total} workers, of which one has machines behind a ~",
            "give one: its parts hold as many replicas as their GPUs make",
        )
    groups = tuple(_find_group(spec, problem, total) for spec in specs)
    counts = Placement(
        groups=groups, exchange=Exchange(strategy=PLAIN, compression=problem.compression)
    ).workers_by_place
    open_ = [Placement(groups=groups, exchange=exchange) for exchange in exchanges(problem, counts)]
    plain = [placement for placement in open_ if placement.exchange.strategy == PLAIN]
    if problem.requirements.exchange == "auto" and plain:
        return plain[0]
    if not open_:
        raise impossible(problem, counts)
    return max(open_, key=lambda placement: evaluate(placement, problem).samples_per_second)


def every_exchange(workers: str, problem: Problem) -> tuple[tuple[Placement, Problem], ...]:
    """Place the same workers with each strategy that can run, each at its best, with the question
    that asks for it; the most samples/s that count first. Strategies that cannot do what the
    request asks for (overlap, the place of an aggregator or store) are left out.
    """
    placed: dict[Placement, Problem] = {}
    for name in (*SYNCHRONOUS, *LOCAL):
        wish = replace(problem.requirements, exchange=name)
        asked = replace(
            problem,
            requirements=wish
            if name in LOCAL
            else replace(wish, min_local_steps=None, max_local_steps=None),
        )
        hub = traits(name).hub
        if not asked.modes or (wish.aggregator and not hub) or (wish.storage and hub != "function"):
            continue
        try:
            placed.setdefault(place_by_hand(workers, asked), asked)
        except ImpossibleError:
            continue
    return tuple(
        sorted(placed.items(), key=lambda pair: -evaluate(pair[0], problem).samples_per_second)
    )


class ImpossibleError(BadInputError):
    """An exchange that cannot run with some workers."""


def impossible(problem: Problem, counts: dict[str, int]) -> ImpossibleError:
    """Say why no exchange of the request can run with some workers."""
    wish = problem.requirements
    wanted = wish.exchange
    chosen = traits(PLAIN if wanted == "auto" else wanted)
    if len(counts) < chosen.least_regions:
        return ImpossibleError(
            f"the exchange {wanted} needs workers in {chosen.least_regions} regions",
            "use --exchange all-reduce here",
        )
    if wish.aggregator not in (None, *counts) and chosen.hub == "region":
        return ImpossibleError(
            f"no worker is in {wish.aggregator}", "the hub is one of the regions with workers"
        )
    lacking = sorted(place for place in counts if place not in problem.serverless_places)
    if wanted == "hierarchical" and lacking:
        return ImpossibleError(
            f"{lacking[0]} has no function and store",
            "each region of a hierarchical exchange needs both",
        )
    return ImpossibleError(
        f"no {wanted} exchange can run with these workers",
        "name its --aggregator and --storage, or take another exchange",
    )


def _find_group(spec: WorkerSpec, problem: Problem, workers: int) -> WorkerGroup:
    """Find the group of a spec with the plan that is written, else the fastest that fits: of all,
    or of those with the parts that are written.
    """
    offer, inner = _find_offer(spec, problem), spec.inner
    built: Island | Refusal | None = None
    if spec.written and "microbatch" not in spec.written and not spec.behind:
        built = problem.completed(offer, spec.machines, spec.written, workers)
        inner = built.plan if isinstance(built, Island) else inner
    own = spec.machines, inner
    behind = tuple(ChainPart(_find_offer(p, problem), p.machines, p.inner) for p in spec.behind)
    pool = None if isinstance(built, Refusal) else problem.pool(offer, *own, workers, behind)
    if pool is not None:
        return pool.group(spec.count)
    refused: object = built or problem.island(offer, *own, workers)
    if behind:
        refused = problem.chain((ChainPart(offer, *own), *behind))
    why = f"no speed of {problem.profile.name} is known"
    tip = "choose other machines, or another plan"
    if refused is None and (spec.machines > 1 or spec.inner):
        why = f"{problem.profile.name} has no architecture from which a plan would follow"
    elif isinstance(refused, Refusal):
        why = refused.reason
        if refused.code in ("memory", "batch") and not behind:
            tip = _fitting_plan(spec, offer, problem, workers) or tip
    raise PlacerError(f"{spec.machines} x {offer.device} in {offer.place}: {why}", tip)


def _fitting_plan(spec: WorkerSpec, offer: VmOffer, problem: Problem, workers: int) -> str:
    """Name a plan near to the one that was asked for that fits its machines; empty if none does."""
    kept = {k: v for k, v in spec.written.items() if k not in ("checkpointing", "microbatch")}
    stages = ({"pipeline": count} for count in PIPELINES if "pipeline" not in kept)
    for more in ({}, *stages):
        built = problem.completed(offer, spec.machines, {**kept, **more}, workers)
        if isinstance(built, Island):
            return f"write {built.plan.spec}, which fits, or choose other machines"
    return ""


def _find_offer(spec: WorkerSpec, problem: Problem) -> VmOffer:
    problem.catalog.region(spec.place)
    gpu = next(
        (name for name in problem.catalog.gpus if name.upper() == spec.gpu.upper()), spec.gpu
    )
    problem.catalog.gpu(gpu)
    offers, wanted = problem.catalog.offers_at(spec.place), (gpu, spec.gpu_count)
    alike = [offer for offer in offers if (offer.gpu, offer.gpu_count) == wanted]
    matches = [offer for offer in alike if spec.market in (None, offer.market)]
    if not matches:
        device = device_name(gpu, spec.gpu_count)
        there = sorted({f"{o.device}:{o.market.replace('_', '-')}" for o in offers})
        market = f" {spec.market.replace('_', '-')}" if spec.market else ""
        raise PlacerError(
            f"catalog '{problem.catalog.name}' has no {device}{market} in {spec.place}",
            f"it has {', '.join(there) or 'no machines there'}",
        )
    fitting = [
        o for o in matches if not any("memory" in code for code, _ in problem.offer_problems(o))
    ] or matches
    return min(fitting, key=lambda o: (o.usd_per_hour, o.instance_type))
