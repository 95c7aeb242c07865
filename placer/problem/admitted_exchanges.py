"""Every exchange that a request admits for some workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import eq
from typing import Any

from placer.errors import PlacerError
from placer.market.catalog import VmOffer
from placer.problem.exchange import gradients_held, memory_gib, overlaps, traits
from placer.problem.kept_answers import Recent
from placer.problem.placement import NO_EXCHANGE, Exchange, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.requirements import Quota
from placer.units import GIB

KEPT_SERVERS = 8
"""Quotas whose servers a catalog keeps for further questions."""
KEPT_COMPARED = 64
"""Pairs of these whose servers were compared."""
SERVER_MARKET = "on_demand"
"""Market of a server that placer chooses."""
SERVER_VCPUS = 8
"""As many as the usual workers with one GPU have: a provider's network share grows with them."""


def exchanges(problem: Problem, counts: Mapping[str, int]) -> Iterator[Exchange]:
    """Yield every exchange that the request admits. ``counts``: workers by place."""
    workers = sum(counts.values())
    if workers == 1:
        yield exchange_for(NO_EXCHANGE, 1, problem)
        return
    for name, local_steps in problem.modes:
        if len(counts) >= traits(name).least_regions:
            yield from exchanges_of(name, local_steps, problem, counts)


def exchange_for(
    strategy_name: str,
    gradients: int,
    problem: Problem,
    aggregator: str | None = None,
    storage: str | None = None,
    *,
    local_steps: int = 1,
    server: WorkerGroup | None = None,
) -> Exchange:
    """Fill in what a strategy needs; one function or server sums at most so many ``gradients``."""
    chosen, wish = traits(strategy_name), problem.requirements
    return Exchange(
        strategy=strategy_name,
        compression=problem.compression,
        local_steps=local_steps,
        streams=wish.streams if chosen.transport != "none" else 1,
        overlap=overlaps(strategy_name, wanted=wish.overlap),
        aggregator=aggregator if chosen.hub else None,
        aggregator_memory_gib=memory_gib(problem.gradient_bytes, gradients)
        if chosen.hub == "function"
        else None,
        server=server,
        storage=storage if chosen.hub == "function" else None,
        transport=problem.transport,
    )


def exchanges_of(
    name: str,
    local_steps: int,
    problem: Problem,
    counts: Mapping[str, int],
    hubs: Sequence[tuple[str | None, str | None]] | None = None,
) -> Iterator[Exchange]:
    """Yield one strategy with every place that its aggregator and store may have.

    ``hubs``: places of aggregators and stores that are asked about; None: all.
    """
    workers, hub, wanted = sum(counts.values()), traits(name).hub, problem.requirements.aggregator
    if hub == "function":
        regional = traits(name).transport == "regional-stores"
        if not regional or all(place in problem.serverless_places for place in counts):
            most = gradients_held(counts.values(), regional=regional)
            for function, store in problem.aggregator_places if hubs is None else hubs:
                yield exchange_for(name, most, problem, function, store)
    elif hub == "server":
        for place in sorted(counts) if wanted is None else [wanted]:
            asked = hubs is None or (place, None) in hubs
            offer = server_at(place, workers, problem) if asked else None
            if offer is not None:
                yield exchange_for(name, workers, problem, place, server=WorkerGroup.of(offer, 1))
    elif hub == "region":
        for place in sorted(counts):
            if wanted in (None, place):
                yield exchange_for(name, len(counts), problem, place, local_steps=local_steps)
    else:
        yield exchange_for(name, workers, problem, local_steps=local_steps)


def server_offer(server: WorkerGroup, problem: Problem) -> VmOffer:
    """Find the offer of one machine, such as a parameter server; `PlacerError` if there is none."""
    offer = problem.catalog.offer(*server.offer_kind)
    if offer is not None and WorkerGroup.of(offer, 1) == server:
        return offer
    raise PlacerError(
        f"catalog {problem.catalog.name} has no {server.instance_type} {server.market} in "
        f"{server.place}",
        "see placer offers",
    )


def server_at(place: str, workers: int, problem: Problem) -> VmOffer | None:
    """Find the cheapest machine at a place that can hold N gradients and the sum, if any."""
    return next(
        (offer for offer in servers_at(place, problem) if holds(offer, workers, problem)), None
    )


def servers_at(place: str, problem: Problem) -> tuple[VmOffer, ...]:
    """Return the machines at a place that may be the parameter server of some number of workers;
    the first one that holds the gradients is taken. On demand, whatever the market of the workers:
    without its server nothing goes on, and a wish for spot workers must not admit what no wider one
    does. Machines of limited number are left to the workers. A server with GPUs counts against
    their quota. Small machines get a small share of the network, so one with `SERVER_VCPUS` is
    taken where there is one.
    """
    kept: Recent[dict[str, tuple[VmOffer, ...]]] = problem.catalog.memo.setdefault(
        "servers", Recent(KEPT_SERVERS)
    )
    places = kept.get(servers_key(problem), dict)
    if place not in places:
        places[place] = tuple(_servers(place, problem))
    return places[place]


def _servers(place: str, problem: Problem) -> Iterator[VmOffer]:
    """Yield the machines of which each has more memory than all that come before it: no other one
    is the first that holds some gradients.
    """
    catalog, most = problem.catalog, 0.0
    table, rows = catalog.table, catalog.rows_by_place.get(place)
    if rows is None:
        return
    rows = rows[table.column("market").at(rows).where(partial(eq, SERVER_MARKET))]
    vcpus, usd, gib = (
        table.column(name).numbers[rows] for name in ("vcpus", "usd_per_hour", "memory_gib")
    )
    types = table.column("instance_type")
    names = map(types.values.__getitem__, types.array[rows].tolist())
    small = (vcpus < SERVER_VCPUS).tolist()
    for *_, memory, row in sorted(
        zip(small, usd.tolist(), names, gib.tolist(), rows.tolist(), strict=True)
    ):
        if memory > most:
            offer = catalog.offers[row]
            if offer.available is None and _within_quota(offer, problem):
                most = memory
                yield offer


def servers_key(problem: Problem) -> tuple[tuple[Quota, ...], int | None]:
    """Return all of the wishes that decide which machines may be a parameter server: quotas."""
    return problem.requirements.quotas, problem.requirements.quota_gpus


def same_servers(problem: Problem, other: Problem) -> bool:
    """Return whether two questions about one catalog choose the same server at every place, for any
    number of workers.
    """
    keys, places = (servers_key(problem), servers_key(other)), problem.catalog.regions
    if keys[0] == keys[1]:
        return True
    kept: Recent[bool] = problem.catalog.memo.setdefault("same-servers", Recent(KEPT_COMPARED))
    same = (servers_at(place, problem) == servers_at(place, other) for place in places)
    return kept.get(keys, lambda: all(same))


def holds(offer: VmOffer, workers: Any, problem: Problem) -> Any:
    """Return whether a machine can hold N gradients and the sum; numbers or arrays."""
    return offer.memory_gib * GIB >= server_bytes(workers, problem)


def needs_quota(offer: VmOffer, problem: Problem) -> bool:
    """Return whether a machine has GPUs, which quotas count."""
    return problem.catalog.gpu(offer.gpu).kind != "cpu"


def _within_quota(offer: VmOffer, problem: Problem) -> bool:
    quotas = problem.requirements.quotas
    return all(row.taken(offer) <= row.most for row in quotas if row.vcpus is not None) and (
        not needs_quota(offer, problem)
        or problem.quota(offer.place, offer.gpu, offer.market) >= offer.gpu_count
    )


def server_bytes(workers: Any, problem: Problem) -> Any:
    """Return the memory of a server: model and sum in FP32, and N gradients as they arrive."""
    return 2 * problem.profile.gradient_bytes_fp32 + workers * problem.gradient_bytes
