"""The parts that several documents share, as plain types with units in every name: the request, the
placement, its estimate and outlook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, to_builtins

from placer.cost_model.estimate import Estimate, offer_of
from placer.cost_model.outlook.outlook import SpotOutlook, month_outlook, spot_outlook
from placer.cost_model.outlook.totals import totals_of
from placer.market.catalog import OLD_TRANSPORT, VmOffer
from placer.problem.admitted_exchanges import server_offer
from placer.problem.placement import Placement, WorkerGroup
from placer.problem.problem import FORMER_QUOTA_GPUS, Problem
from placer.problem.words.wishes import WISHES
from placer.workload.inner_plan import InnerPlan

GROUP = ("place", "gpu", "gpu_count", "market", "count")
"""Fields of a group of workers that its row has under the same names."""
EXCHANGE = ("compression", "local_steps", "streams", "overlap")
"""The same of an exchange."""
OLDER = "older"
"""Label of the proved best among the near misses, where the answer has newer prices."""


def data_document(problem: Problem) -> dict[str, Any]:
    """Build the part ``data``: the price book, the dates of its machine and egress prices, and what
    a question about another world changed in it.
    """
    book = problem.catalog
    oldest, newest = book.as_of
    egress = (
        {}
        if book.egress_as_of is None
        else {"egress_as_of": book.egress_as_of[1], "egress_oldest": book.egress_as_of[0]}
    )
    return {
        "catalog": book.name,
        "digest": book.digest,
        "as_of": newest,
        "oldest": oldest,
        **egress,
        **({"changes": list(book.changes)} if book.changes else {}),
    }


def request_document(problem: Problem) -> dict[str, Any]:
    """Build the part ``request``: the wishes as they were read, in SI units, by the keys of their
    table. Batch, compression and constants are shown as they hold, whether they were asked for or
    come from the profile.

    Without the key ``quota_gpus`` the quota is 8, as in documents that are older than the key.
    """
    wish, shape = problem.requirements, problem.profile.architecture
    left_out = set() if wish.data_source is not None else {"data_source"}
    if wish.quota_gpus == FORMER_QUOTA_GPUS:
        left_out.add("quota_gpus")
    keys = [key for row in WISHES.values() for key in row.keys if key not in left_out]
    return {
        "model": problem.profile.name,
        "sample": problem.profile.sample_size,
        **{key: _WRITTEN.get(key, _field(key))(problem) for key in keys},
        "gradient_bytes": problem.gradient_bytes,
        "batch_assumed": problem.batch_assumed,
        # With adapters fewer than all.
        "trainable_parameters": None if shape is None else shape.trainable_parameters,
        **({"copy_seconds": wish.copy_s} if wish.copies_data else {}),
    }


def _field(name: str) -> Callable[[Problem], Any]:
    """Write a field of `Requirements` as it is."""

    def written(problem: Problem) -> Any:
        value = to_builtins(getattr(problem.requirements, name))
        return list(value) if isinstance(value, tuple) else value

    return written


def _range(low: int | None, high: int | None) -> list[int | None] | None:
    return None if high is None else [low, high]


_WRITTEN: Mapping[str, Callable[[Problem], Any]] = {
    "aggregator": _field("aggregator_words"),
    "calibration": lambda problem: problem.calibration.name,
    "compression": lambda problem: problem.compression,
    "deadline_seconds": _field("deadline_s"),
    "grace_seconds": _field("grace_s"),
    "keep": lambda problem: [
        {"kind": rule.kind, "area": rule.area} for rule in problem.requirements.kept
    ],
    "local_steps": lambda problem: _range(
        problem.requirements.min_local_steps, problem.requirements.max_local_steps
    ),
    "startup_seconds": _field("startup_s"),
    "machines_per_island": lambda problem: _range(
        problem.requirements.min_island_machines or 1, problem.requirements.max_island_machines
    ),
    "max_share": lambda problem: [limit.spec for limit in problem.requirements.max_shares],
    "samples_to_target": lambda problem: dict(problem.requirements.samples_to_target),
    "transport": lambda problem: problem.transport,
    "target_batch_size": lambda problem: problem.batch,
    "use": lambda problem: [rule.spec for rule in problem.requirements.used],
}
"""Keys that are no field of `Requirements`, or are written in another way."""


def placement_document(placement: Placement, problem: Problem) -> dict[str, Any]:
    """Build the part ``placement``: workers, exchange, aggregator and storage."""
    exchange = placement.exchange
    return {
        "workers": [
            _group(
                group,
                offer_of(group, problem).usd_per_hour,
                [_group(part, offer_of(part, problem).usd_per_hour) for part in group.behind],
            )
            for group in placement.groups
        ],
        "worker_count": placement.workers,
        "exchange": exchange.strategy,
        **{name: getattr(exchange, name) for name in EXCHANGE},
        **({} if exchange.transport == OLD_TRANSPORT else {"transport": exchange.transport}),
        "server": None
        if exchange.server is None
        else _group(exchange.server, server_offer(exchange.server, problem).usd_per_hour),
        "aggregator": None
        if exchange.aggregator is None
        else {"place": exchange.aggregator, "memory_gib": exchange.aggregator_memory_gib},
        "storage": None if exchange.storage is None else {"place": exchange.storage},
    }


def _group(
    group: WorkerGroup, usd_per_hour: float, behind: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    return {
        "offer": group.instance_type,
        **{name: getattr(group, name) for name in GROUP},
        "usd_per_hour": usd_per_hour,
        **island_document(group.machines, group.inner),
        **({"behind": list(behind)} if behind else {}),
    }


def island_document(machines: int, inner: InnerPlan | None) -> dict[str, Any]:
    """Build what an island adds to a row: nothing of one machine without a plan."""
    return {
        **({} if machines == 1 else {"machines": machines}),
        **({} if inner is None else {"inner": to_builtins(inner)}),
    }


def estimate_document(estimate: Estimate) -> dict[str, Any]:
    """Build the part ``estimate``: seconds, dollars, links and provenance; of a model with tokens
    their speed and price too, and passes over the data where they differ from the first.
    """
    step, again = estimate.step, estimate.data_passes
    speed, tokens = estimate.tokens_per_second, dict[str, Any]()
    if speed is not None:
        price = estimate.usd_per_billion_tokens
        tokens = {"tokens_per_second": to_builtins(speed), "usd_per_billion_tokens": price}
    return {
        "samples_per_second": to_builtins(estimate.samples_per_second),
        "effective_samples_per_second": to_builtins(estimate.effective_samples_per_second),
        "samples_to_target": to_builtins(estimate.samples_to_target),
        "local_steps": estimate.local_steps,
        "step_seconds": {
            "calculation": step.calculation,
            "communication": step.communication,
            "hidden": step.hidden,
            "total": step.total,
            **{name.replace(" ", "_"): seconds for name, seconds in step.parts},
        },
        "granularity": estimate.granularity,
        "usd_per_hour": {
            **to_builtins(estimate.usd_per_hour),
            "total": estimate.usd_per_hour.total,
        },
        "usd_per_hour_interval": to_builtins(estimate.usd_per_hour_interval),
        "usd_per_million_samples": estimate.usd_per_million_samples,
        "carbon_g_per_hour": to_builtins(estimate.carbon_g_per_hour),
        "shares": dict(estimate.shares),
        "moves": to_builtins(list(estimate.moves)),
        "links": to_builtins(list(estimate.links)),
        "provenance": list(estimate.provenance),
        **tokens,
        **(
            {}
            if again is None
            else {"data_passes": {**to_builtins(again), "kept_by": list(again.kept_by)}}
        ),
    }


def written(value: Any, problem: Problem) -> Any:
    """Write a part of an answer as documents have it: each record with all its fields."""
    if isinstance(value, Placement):
        return placement_document(value, problem)
    if isinstance(value, Estimate):
        return estimate_document(value)
    if isinstance(value, VmOffer):
        names = ("place", "gpu", "gpu_count", "market", "price_basis", "source", "as_of")
        return {"offer": value.instance_type, **{name: getattr(value, name) for name in names}}
    if isinstance(value, tuple):
        return [written(each, problem) for each in value]
    if isinstance(value, Struct):
        return {name: written(getattr(value, name), problem) for name in value.__struct_fields__}
    return value


def totals_document(estimate: Estimate, problem: Problem) -> dict[str, Any] | None:
    """Build the part ``totals``: seconds and USD of all samples; None if nobody says how many."""
    samples, length = problem.requirements.samples, estimate.tokens_per_sample
    if samples is None:
        return None
    tokens = {} if length is None else {"tokens": samples * length}
    return {**to_builtins(totals_of(estimate, problem.requirements)), **tokens}


def outlook_document(placement: Placement, estimate: Estimate, problem: Problem) -> dict[str, Any]:
    """Build the part ``outlook``: interruptions of spot machines, and the egress of a month."""
    spot = spot_outlook(placement, estimate, problem)
    return {
        "spot": None if spot is None else spot_document(spot),
        "month": to_builtins(month_outlook(placement, estimate, problem)),
    }


def spot_document(spot: SpotOutlook) -> dict[str, Any]:
    """Build the part ``spot``; without ``risk`` where a question was saved before there was any."""
    # Tuples would differ from the lists of a file.
    built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spot))
    return built if spot.risk is not None else {k: v for k, v in built.items() if k != "risk"}
