"""The certificate of a saved result: what the answer rests on, by digest, and what its bounds are
checked with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from placer.cost_model.convergence import batch_factor, multiplier_of
from placer.cost_model.estimate import exchange_phases, pool_of
from placer.documents.checker.market import machines_of
from placer.documents.checker.strategies import Relaxed
from placer.documents.manifest.manifest_reader import document_digest
from placer.documents.result_parts import island_document
from placer.market.network.graph import Link
from placer.market.words.own_places import SITES
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Problem
from placer.problem.question import PARTS
from placer.problem.workers.pool import Pool
from placer.records import Json
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import never_tried

SCHEMA = "placer.certificate/v1"
MULTIPLIERS = 24
"""Lagrange multipliers between the worst and the best speed for a dollar of the market."""


def searched_document(problem: Problem) -> dict[str, Any]:
    """Build which workers with a plan a proof is about: how many, of how many machines of each
    kind; of each the fastest of all plans and of all microbatches up to a rank's share, but those
    that are never tried.
    """
    architecture = problem.profile.architecture
    wish = problem.requirements
    machines: dict[tuple[Any, ...], list[int]] = {}
    for kind in problem.worker_kinds:
        first = kind.offers[0]
        key = first.gpu, first.gpu_count, first.network_gbps or 0.0, first.fabric
        least, most = machines.get(key, [kind.least, kind.most])
        machines[key] = [min(least, kind.least), max(most, kind.most)]
    names = ("gpu", "gpu_count", "network_gbps", "fabric")
    return {
        "workers": [wish.min_workers, min(wish.max_workers, problem.batch)],
        "islands": [
            {**dict(zip(names, key, strict=True)), "machines": machines[key]}
            for key in sorted(machines)
        ],
        **({} if architecture is None else {"never_tried": never_tried(architecture)}),
    }


def holds_market(certificate: Json) -> bool:
    """Return whether a saved file has the whole market; old ones say it by their relaxation."""
    return bool(certificate.get("whole", certificate["relaxation"] is not None))


def input_digests(problem: Json) -> dict[str, str]:
    """Return the SHA-256 of the canonical JSON of each part of a problem document."""
    return {name: document_digest(problem[name]) for name in PARTS}


def figures(placement: Placement, problem: Problem) -> dict[str, Any]:
    """Build the speeds of the machines and links of a placement, as the model has them. The second
    implementation takes those as given that nobody measured.
    """
    exchange, network = placement.exchange, problem.network
    places = {*placement.places, *filter(None, (exchange.aggregator, exchange.storage))}
    pairs = {
        (t.src, t.dst)
        for phase in exchange_phases(placement, problem)
        for t in phase.transfers
        if t.src != t.dst
    }
    pairs |= {(place, place) for place in places} | {(dst, src) for src, dst in pairs}
    if problem.data_store is not None:
        pairs |= {(problem.data_store.place, place) for place in placement.places}
    if problem.data_copy is not None:
        pairs.add((problem.data_copy.source.place, problem.data_copy.store.place))
    return {
        "machines": [
            {
                "place": group.place,
                "offer": group.instance_type,
                "market": group.market,
                **_speeds(pool, group.machines, group.inner),
                **({} if pool.free_share == 1 else {"free_share": pool.free_share}),
            }
            for group in placement.groups
            for pool in [pool_of(group, problem, placement.workers)]
        ],
        "links": [_link_document(network.link(src, dst)) for src, dst in sorted(pairs)],
    }


def _speeds(pool: Pool, machines: int, inner: InnerPlan | None) -> dict[str, Any]:
    return {
        "gpu": pool.offer.gpu,
        "gpu_count": pool.offer.gpu_count,
        "alone": pool.alone.value,
        "in_group": pool.shared.value,
        "basis": pool.alone.basis,
        **island_document(machines, inner),
    }


def store_links(problem: Problem) -> list[dict[str, Any]]:
    """Build the links from the dataset's store to all admitted machines, and the lines of sites."""
    store, places = problem.data_store, {pool.place for pool in problem.pools}
    if store is None:
        return []
    pairs = {(store.place, place) for place in places}
    pairs |= {(place, place) for place in places if place.startswith(SITES)}
    return [_link_document(problem.network.link(src, dst)) for src, dst in sorted(pairs)]


def _link_document(link: Link) -> dict[str, Any]:
    return {
        "from": link.src,
        "to": link.dst,
        "bytes_per_second": link.bytes_per_second,
        "cap": link.cap,
        "rtt_s": link.rtt_s,
        "basis": link.basis,
    }


def relaxation_document(
    saved: Json, problem: Problem, modes: Iterable[tuple[str, int]]
) -> dict[str, Any]:
    """Build what the bounds of whole strategies are checked with: speeds by device, multipliers,
    and the bound of each strategy with its local steps.
    """
    speeds = device_speeds(problem)
    machines = machines_of(saved, speeds)
    ratios = [machine.speed / max(machine.usd, 1e-6) for machine in machines]
    low, high = min(ratios) / 20, max(ratios) * 5
    multipliers = [low * (high / low) ** (k / (MULTIPLIERS - 1)) for k in range(MULTIPLIERS)]
    factors = [mode_factor(strategy, local_steps, problem) for strategy, local_steps in modes]
    return {
        "speeds": speeds,
        "multipliers": multipliers,
        "modes": relaxed_modes(saved, speeds, multipliers, factors),
    }


def relaxed_modes(
    problem: Json, speeds: Sequence[Json], multipliers: Sequence[float], modes: Sequence[Json]
) -> list[dict[str, Any]]:
    """Bound each mode by weak duality: once to be written, again by ``placer validate``."""
    relaxed = Relaxed(problem, machines_of(problem, speeds), multipliers)
    return [
        {
            **mode,
            "bound": relaxed.best(mode["strategy"], mode["local_steps"], mode["samples_to_target"]),
        }
        for mode in modes
    ]


def mode_factor(strategy: str, local_steps: int, problem: Problem) -> dict[str, Any]:
    """Build one mode with its samples-to-target factor."""
    exchange = exchange_for(strategy, 1, problem, local_steps=local_steps)
    factor = (
        batch_factor(problem) if strategy == NO_EXCHANGE else multiplier_of(exchange, problem).value
    )
    return {"strategy": strategy, "local_steps": local_steps, "samples_to_target": factor}


def device_speeds(problem: Problem) -> list[dict[str, Any]]:
    """List samples/s of each admitted device, alone and in a group."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    islands = problem.island_question is not None
    for pool in problem.pools:
        offer = pool.offer
        # The plan inside a worker depends on its network, a machine without a plan does not.
        network = (offer.network_gbps or 0.0, offer.fabric) if islands else ()
        row = _speeds(pool, pool.machines, pool.inner)
        if islands:
            row |= {"network_gbps": offer.network_gbps, "fabric": offer.fabric}
        kind = (offer.gpu, offer.gpu_count, pool.machines, *network)
        # Of machines that read their samples at different speeds the fastest bounds them all.
        kept = rows.setdefault(kind, row)
        for speed in ("alone", "in_group"):
            kept[speed] = max(kept[speed], row[speed])
    return [rows[kind] for kind in sorted(rows)]
