"""Placements in words: machines, the plan inside a worker, where gradients meet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from placer.cost_model.estimate import pool_of
from placer.market.catalog import VmOffer
from placer.problem.placement import Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.workload.constants import peer_of
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import TRANSPORTS, Island

OWN = "own machine"
"""Name of the type of machines of one's own, which are of no market."""
BRIEF_GROUPS = 3
"""More groups are counted, not listed, inside a sentence."""
SHARDINGS = {
    "none": "plain data parallelism",
    "zero-1": "ZeRO-1",
    "zero-2": "ZeRO-2",
    "zero-3": "ZeRO-3 / FSDP",
    "hybrid": "FSDP inside a machine, replicas over machines",
}


def headline(placement: Placement, *, types: bool = True) -> str:
    """Name the machines of a placement in one line, and where a central exchange runs; ``types``:
    with the provider's names for them.
    """
    parts = []
    for (market, place), machines in groupby(placement.groups, lambda g: (g.market, g.place)):
        groups = list(machines)
        each = " + ".join(f"{g.count} x {_worker(g)}" for g in groups)
        named = f" ({', '.join(g.instance_type for g in groups)})" if types else ""
        kind = "" if all(g.instance_type == OWN for g in groups) else f" {market.replace('_', '-')}"
        parts.append(f"{each}{kind} in {place}{named}")
    return " + ".join(parts) + _hub(placement)


def _worker(group: WorkerGroup) -> str:
    """Return one worker of a group: ``T4``, ``(8 x H200)`` or ``(4 machines of 8 x H100)``."""
    if group.machines > 1:
        return f"({group.machines} machines of {group.gpu_count} x {group.gpu})"
    return group.gpu if group.gpu_count == 1 else f"({group.gpu_count} x {group.gpu})"


def _hub(placement: Placement) -> str:
    """Say where gradients or models meet, behind the machines; empty for an all-reduce."""
    exchange = placement.exchange
    if exchange.aggregator is None:
        return ""
    if exchange.storage is not None:
        return f", aggregator in {exchange.aggregator}, store in {exchange.storage}"
    if exchange.server is None:
        return f", hub in {exchange.aggregator}"
    market = exchange.server.market.replace("_", "-")
    return f", server {exchange.server.instance_type} {market} in {exchange.aggregator}"


def machines_words(placement: Placement) -> str:
    """Name the machines alone, such as ``19 x (4 x H100)``; of many groups their number."""
    if len(placement.groups) > BRIEF_GROUPS:
        return f"{placement.workers} workers of {len(placement.groups)} kinds"
    return " + ".join(f"{group.count} x {_worker(group)}" for group in placement.groups)


def brief(placement: Placement, *, types: bool = False) -> str:
    """Return the headline, or with many groups only how many machines where."""
    if len(placement.groups) <= BRIEF_GROUPS:
        return headline(placement, types=types)
    places = placement.places
    where = places[0] if len(places) == 1 else f"{len(places)} regions"
    return f"{machines_words(placement)} in {where}"


def market_words(placement: Placement) -> str:
    """Name the markets whose machines may be taken away."""
    kinds = sorted({group.market for group in placement.groups} - {"on_demand"}, reverse=True)
    return " and ".join(kinds) or "spot"


def rented(placement: Placement, problem: Problem) -> Iterator[VmOffer]:
    """Yield the offers of the workers of a placement."""
    for group in placement.groups:
        row = group.place, group.instance_type, group.gpu, group.gpu_count, group.market
        offer = problem.catalog.offer(*row)
        if offer is not None:
            yield offer


def inner_words(placement: Placement, problem: Problem) -> str:
    """Describe the plan inside the workers, with the memory that it takes of each GPU; empty
    without one, and where they have several.
    """
    kinds = {(group.worker_name, group.inner): group for group in reversed(placement.groups)}
    planned = [group for (_, inner), group in kinds.items() if inner is not None]
    if len(planned) != 1:
        return ""
    (group,) = planned
    assert group.inner is not None
    offer = pool_of(group, problem).offer
    built = problem.island(offer, group.machines, group.inner, placement.workers)
    text = _plan(group.inner)
    if isinstance(built, Island):
        text += f"; {built.memory.of_room(problem.catalog.gpu(group.gpu).memory_gib)}"
    return f"{group.worker_name}: {text}" if len(kinds) > 1 else text


def _plan(inner: InnerPlan) -> str:
    """Describe the plan inside a worker by the names of its parts."""
    pieces = f" in {inner.virtual_stages} pieces each" if inner.virtual_stages > 1 else ""
    degrees = (
        (inner.tensor_parallel, f"tensor parallel {inner.tensor_parallel}"),
        (inner.pipeline, f"{inner.pipeline} stages{pieces}"),
        (inner.expert_parallel, f"experts over {inner.expert_parallel} GPUs"),
        (inner.context_parallel, f"sequences over {inner.context_parallel} GPUs"),
    )
    parts = [SHARDINGS[inner.sharding], *(words for degree, words in degrees if degree > 1)]
    if inner.checkpointing != "none":
        parts.append(f"{inner.checkpointing} checkpointing")
    parts += [f"microbatch {inner.microbatch}", inner.precision.upper()]
    return ", ".join([*parts, *([inner.software] if inner.software else [])])


def software_words(placement: Placement, problem: Problem) -> str:
    """Name the software that averages inside a zone."""
    peers = [peer_of(pool_of(group, problem).host) for group in placement.groups]
    names = {peer.transport for peer in peers if peer is not None} or {"hivemind"}
    return " and ".join(sorted(TRANSPORTS[name].title for name in names))
