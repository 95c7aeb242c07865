"""``placer.manifest/v1``, of islands ``v2``: groups, ranks, exchange, aggregator, storage,
time-outs and expected figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from msgspec import convert, json, to_builtins

from placer.cost_model.estimate import Estimate, pool_of
from placer.cost_model.reduced_problem import used_problem
from placer.cost_model.timing.site_groups import worker_rate
from placer.documents.manifest.manifest_reader import (
    SCHEMA,
    bucket_name,
    completed,
    document_digest,
    plain_name,
)
from placer.documents.manifest.types import ISLANDS_SCHEMA, Offer, Server
from placer.documents.result_parts import data_document, estimate_document
from placer.errors import PlacerError
from placer.problem.exchange import ring_step, traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.workload.profile import profile_document

EXPECTED = (
    "samples_per_second",
    "effective_samples_per_second",
    "samples_to_target",
    "step_seconds",
    "usd_per_hour",
    "usd_per_hour_interval",
    "usd_per_million_samples",
    "links",
)
"""What the manifest keeps of an estimate."""
GROUP_FORMING_S = 15.0
"""hivemind's default time for forming groups; it runs beside the calculation."""
LEAST_GROUP_FORMING_S = 5.0
"""With less, hivemind's rounds become erratic: Erben et al. (2024)."""
TIMEOUT_FACTOR = 3.0
"""Time-outs are this multiple of the slow end of the predicted time."""
DRIFT = 0.25
"""A run that is slower or dearer than its interval by this share should raise an alarm."""
GRACE_S = 60.0
"""Seconds for which a quorum waits for the others where nobody says: assumed; torchft waits as long
for its quorum.
"""


def build_manifest(
    problem: Problem,
    placement: Placement,
    estimate: Estimate,
    status: str,
    gap: float | None,
    data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the manifest of a placement, proved as status and gap say.

    data: Names and dates of the price book, where the problem holds only a part of it; None: those
        of the problem.
    """
    if any(group.behind for group in placement.groups):
        raise PlacerError(
            "stages of several devices have no manifest: nothing that placer writes starts them",
            "leave the manifest out, or give workers of one device",
        )
    words = (
        problem.profile.name,
        "one" if placement.workers == 1 else placement.exchange.strategy,
        str(placement.workers),
    )
    islands = any(group.machines > 1 or group.inner is not None for group in placement.groups)
    priced, profile = estimate_document(estimate), problem.profile
    document: dict[str, Any] = {
        "schema": ISLANDS_SCHEMA if islands else SCHEMA,
        "name": plain_name("-".join(words)),
        "model": {
            "name": profile.name,
            "parameters": profile.parameters,
            "gradient_bytes": problem.gradient_bytes,
        },
        "world_size": placement.machines,
        "groups": _groups(placement, problem, islands=islands),
        "exchange": _exchange(placement, estimate, problem),
        "aggregator": _aggregator(placement, problem),
        "storage": None,  # its bucket is named after the rest
        "data": _data(estimate.shares, priced["moves"], problem),
        "expected": {**{key: priced[key] for key in EXPECTED}, "status": status, "gap": gap},
        "drift": {
            "min_samples_per_second": estimate.samples_per_second.low * (1 - DRIFT),
            "max_usd_per_hour": estimate.usd_per_hour_interval.high * (1 + DRIFT),
            "max_round_seconds": estimate.slow_step.total * (1 + DRIFT),
        },
        "inputs": {
            **(data or data_document(problem)),
            "profile_digest": document_digest(profile_document(profile, measurements=False)),
        },
        # As a file has it: lists, where the problem has tuples.
        "question": json.decode(json.encode(used_problem(problem, placement).to_dict())),
    }
    document["storage"] = _storage(placement, problem, document)
    document = completed(document)
    return {**document, "digest": document_digest(document)}


def _groups(placement: Placement, problem: Problem, *, islands: bool) -> list[dict[str, Any]]:
    built: list[dict[str, Any]] = []
    offset, framework = 0, traits(placement.exchange.strategy).framework
    groups = placement.groups
    if placement.exchange.in_ring and len(placement.places) > 2:  # it is priced in this order
        on_cpu = any(problem.catalog.gpu(group.gpu).kind == "cpu" for group in groups)
        # With a machine without a GPU, gloo passes the ranks backwards whatever was priced.
        turned = on_cpu and ring_step(placement.exchange.transport) > 0
        groups = tuple(sorted(groups, key=lambda group: group.place, reverse=turned))
    for number, group in enumerate(groups):
        pool = pool_of(group, problem, placement.workers)
        offer = pool.offer
        built.append(
            {
                "name": f"workers-{number}",
                "place": group.place,
                "provider": offer.provider,
                "region": offer.region,
                "offer": to_builtins(convert(offer, Offer, from_attributes=True)),
                "count": group.count,
                "rank_offset": offset,
                "samples_per_second": worker_rate(pool, framework).value,
            }
        )
        if islands:
            built[-1] |= {"machines": group.machines, "inner": to_builtins(group.inner)}
        offset += group.machine_count
    return built


def _exchange(placement: Placement, estimate: Estimate, problem: Problem) -> dict[str, Any]:
    slow, half_s = estimate.slow_step, round(estimate.step.calculation / 2, 1)
    return {
        "strategy": placement.exchange.strategy,
        "target_batch_size": problem.batch,
        "microbatch": problem.profile.microbatch,
        "compression": placement.exchange.compression,
        "streams": placement.exchange.streams,
        "overlap": placement.exchange.overlap,
        "local_steps": placement.exchange.local_steps,
        "timeouts": {
            # Half of the calculation between two exchanges: hivemind always waits for it.
            "matchmaking_s": min(GROUP_FORMING_S, max(LEAST_GROUP_FORMING_S, half_s)),
            "averaging_s": float(math.ceil(max(60.0, TIMEOUT_FACTOR * slow.communication))),
            "step_s": float(math.ceil(TIMEOUT_FACTOR * slow.total / estimate.local_steps)),
            "round_s": float(math.ceil(TIMEOUT_FACTOR * slow.total)),
        },
        **_quorum(placement, problem),
    }


def _quorum(placement: Placement, problem: Problem) -> dict[str, Any]:
    """Return how many workers an exchange waits for, and how long for others; empty: for all."""
    wish, workers = problem.requirements, placement.workers
    if wish.quorum is None or (workers == 1 == wish.quorum):
        return {}
    if wish.quorum > workers:
        raise PlacerError(
            f"quorum {wish.quorum} of {workers} workers", "give more workers, or a lower --quorum"
        )
    return {"quorum": wish.quorum, "grace_s": wish.grace_s or GRACE_S}


def _aggregator(placement: Placement, problem: Problem) -> dict[str, Any] | None:
    """Name where gradients or models meet: a function, a server machine, or one of the regions."""
    exchange = placement.exchange
    if exchange.aggregator is None:
        return None
    kind = traits(exchange.strategy).hub
    if kind == "function":
        offer = problem.function(exchange.aggregator)
        limits = {"memory_gib": exchange.aggregator_memory_gib, "max_seconds": offer.max_seconds}
        return {"kind": kind, "place": offer.place, "function": offer.function, **limits}
    machine = exchange.server and convert(exchange.server, Server, from_attributes=True)
    return {"kind": kind, "place": exchange.aggregator, "server": to_builtins(machine)}


def _storage(
    placement: Placement, problem: Problem, document: dict[str, Any]
) -> dict[str, Any] | None:
    if placement.exchange.storage is None:
        return None
    offer = problem.catalog.store(placement.exchange.storage)
    bucket = bucket_name(document, offer.region)
    return {"place": offer.place, "store": offer.store, "bucket": bucket}


def _data(
    shares: Iterable[tuple[str, float]], moves: list[Any], problem: Problem
) -> dict[str, Any]:
    wish = problem.requirements
    placed = {"shares": dict(shares), "moves": moves} if wish.datasets else {}
    return {
        "store": wish.data_store,
        "assumption": None if wish.data_store or wish.datasets else "with the workers",
        **({"copied_from": wish.data_source} if wish.copies_data else {}),
        **placed,
    }
