"""The ``placer.result/v1`` document and its tables: plain types with units in every name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placer.cost_model.convergence import Multiplier
from placer.cost_model.dollars.components import UsdPerHour
from placer.cost_model.estimate import Estimate, pool_of
from placer.cost_model.outlook.outlook import month_outlook, spot_outlook
from placer.cost_model.outlook.totals import totals_of
from placer.cost_model.timing.step import StepSeconds
from placer.problem.admitted_exchanges import server_offer
from placer.problem.placement import Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.solving.mode_proof import ModeProof
from placer.solving.result import Option, Result
from placer.units import Interval

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "placer.result/v1"
ESTIMATE_SCHEMA = "placer.estimate/v1"


def result_document(result: Result) -> dict[str, Any]:
    """Build the document of a result; within v1 keys are only added."""
    problem, placement, estimate = result.problem, result.placement, result.estimate
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "request": request_document(problem),
        "data": data_document(problem),
        "status": str(result.status),
        "objective": {
            "name": problem.requirements.objective,
            "value": result.value,
            "bound": result.bound,
            "gap": result.gap,
        },
        "solver": {
            "name": result.solver,
            "seconds": round(result.seconds, 6),
            "candidates": result.candidates,
            "nodes": result.nodes,
        },
        "proof": [proof_document(proof) for proof in result.proof],
        "placement": None if placement is None else placement_document(placement, problem),
        "estimate": None if estimate is None else estimate_document(estimate),
        "totals": None if estimate is None else totals_document(estimate, problem),
        "outlook": None
        if placement is None or estimate is None
        else outlook_document(placement, estimate, problem),
        "batches": [
            {
                "target_batch_size": row.target_batch_size,
                "value": row.value,
                "bound": row.bound,
                "status": str(row.status),
            }
            for row in result.batches
        ],
        "alternatives": [_option(o, "considered", problem) for o in result.options],
        "baselines": [_option(o, o.label, problem) for o in result.baselines],
        "near_misses": [_option(o, o.label, problem) for o in result.near_misses],
        "nearest": [_option(o, o.label, problem) for o in result.nearest],
        "verdict": list(result.verdict),
        "notes": [{"code": note.code, "message": note.message} for note in result.notes],
        "warnings": [{"code": w.code, "message": w.message} for w in result.warnings],
    }
    found = result.verification
    if found is not None:
        document["verification"] = {
            "solver": found.solver,
            "verdict": found.verdict,
            "status": str(found.status),
            "value": found.value,
            "bound": found.bound,
            "seconds": round(found.seconds, 6),
        }
    return document


def proof_document(proof: ModeProof) -> dict[str, Any]:
    """What was proved about one strategy with its local steps."""
    return {
        "strategy": proof.strategy,
        "local_steps": proof.local_steps,
        "method": proof.method,
        "bound": proof.bound,
        "root_bound": proof.root_bound,
        "nodes": proof.nodes,
        "priced": proof.priced,
    }


def request_document(problem: Problem) -> dict[str, Any]:
    """The request as it was read, in SI units."""
    wish: Requirements = problem.requirements
    return {
        "model": problem.profile.name,
        "objective": wish.objective,
        "budget_usd_per_hour": wish.budget_usd_per_hour,
        "min_samples_per_second": wish.min_samples_per_second,
        "samples": wish.samples,
        "deadline_seconds": wish.deadline_s,
        "budget_usd": wish.budget_usd,
        "max_carbon_g_per_hour": wish.max_carbon_g_per_hour,
        "target_batch_size": problem.batch,
        "batch_range": None if wish.batch_range is None else list(wish.batch_range),
        "critical_batch": wish.critical_batch,
        "compression": problem.compression,
        "gradient_bytes": problem.gradient_bytes,
        "gpus": list(wish.gpus),
        "places_in": list(wish.places_in),
        "places_not_in": list(wish.places_not_in),
        "use": [rule.spec for rule in wish.used],
        "market": wish.market,
        "min_workers": wish.min_workers,
        "max_workers": wish.max_workers,
        "min_regions": wish.min_regions,
        "max_regions": wish.max_regions,
        "exchange": wish.exchange,
        "aggregator": wish.aggregator_words,
        "storage": wish.storage,
        "local_steps": None
        if wish.max_local_steps is None
        else [wish.min_local_steps, wish.max_local_steps],
        "streams": wish.streams,
        "overlap": wish.overlap,
        "samples_to_target": dict(wish.samples_to_target),
        "data_store": wish.data_store,
        "datasets": [
            {"place": d.place, "samples": d.samples, "may_move": d.may_move} for d in wish.datasets
        ],
        "passes": wish.passes,
        "keep": [{"kind": rule.kind, "area": rule.area} for rule in wish.kept],
        "interruption": wish.interruption,
        "unavailable": wish.unavailable,
        "calibration": problem.calibration.name,
        "quotas": [
            {"place": q.place, "gpu": q.gpu, "market": q.market, "gpus": q.gpus, "scope": q.scope}
            for q in wish.quotas
        ],
        "same_zone": wish.same_zone,
        "require_measured": wish.require_measured,
    }


def data_document(problem: Problem) -> dict[str, Any]:
    """Which price book the answer rests on, and the dates of its prices of machines and of egress."""
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
    }


def placement_document(placement: Placement, problem: Problem) -> dict[str, Any]:
    """Workers, exchange, aggregator and storage of a placement."""
    exchange = placement.exchange
    return {
        "workers": [
            _group(group, pool_of(group, problem).offer.usd_per_hour) for group in placement.groups
        ],
        "worker_count": placement.workers,
        "exchange": exchange.strategy,
        "compression": exchange.compression,
        "local_steps": exchange.local_steps,
        "streams": exchange.streams,
        "overlap": exchange.overlap,
        "server": None
        if exchange.server is None
        else _group(exchange.server, server_offer(exchange.server, problem).usd_per_hour),
        "aggregator": None
        if exchange.aggregator is None
        else {"place": exchange.aggregator, "memory_gib": exchange.aggregator_memory_gib},
        "storage": None if exchange.storage is None else {"place": exchange.storage},
    }


def _group(group: WorkerGroup, usd_per_hour: float) -> dict[str, Any]:
    return {
        "offer": group.instance_type,
        "place": group.place,
        "gpu": group.gpu,
        "gpu_count": group.gpu_count,
        "market": group.market,
        "count": group.count,
        "usd_per_hour": usd_per_hour,
    }


def estimate_document(estimate: Estimate) -> dict[str, Any]:
    """Seconds, dollars, links and provenance of an estimate."""
    return {
        "samples_per_second": _interval(estimate.samples_per_second),
        "effective_samples_per_second": _interval(estimate.effective_samples_per_second),
        "samples_to_target": {
            **_interval(estimate.samples_to_target),
            "basis": estimate.samples_to_target.basis,
            "source": estimate.samples_to_target.source,
        },
        "local_steps": estimate.local_steps,
        "step_seconds": _step(estimate.step),
        "granularity": estimate.granularity,
        "usd_per_hour": _usd(estimate.usd_per_hour),
        "usd_per_hour_interval": _interval(estimate.usd_per_hour_interval),
        "usd_per_million_samples": estimate.usd_per_million_samples,
        "carbon_g_per_hour": None
        if estimate.carbon_g_per_hour is None
        else _interval(estimate.carbon_g_per_hour),
        "shares": dict(estimate.shares),
        "moves": [
            {
                "from": m.src,
                "to": m.dst,
                "samples": m.samples,
                "bytes": m.bytes,
                "usd": m.usd,
                "seconds": m.seconds,
            }
            for m in estimate.moves
        ],
        "links": [
            {
                "from": use.src,
                "to": use.dst,
                "bytes_per_step": use.bytes_per_step,
                "streams": use.streams,
                "usd_per_hour": use.usd_per_hour,
                "basis": use.basis,
            }
            for use in estimate.links
        ],
        "provenance": list(estimate.provenance),
    }


def totals_document(estimate: Estimate, problem: Problem) -> dict[str, Any] | None:
    """Time and money for all samples; None where nobody says how many."""
    samples = problem.requirements.samples
    if samples is None:
        return None
    totals = totals_of(estimate, samples)
    return {"samples": samples, "seconds": _interval(totals.seconds), "usd": _interval(totals.usd)}


def outlook_document(placement: Placement, estimate: Estimate, problem: Problem) -> dict[str, Any]:
    """What spot machines and a whole month do to a placement."""
    spot, month = (
        spot_outlook(placement, estimate, problem),
        month_outlook(placement, estimate, problem),
    )
    return {
        "spot": None
        if spot is None
        else {
            "expected_samples_per_second": _interval(spot.expected_samples_per_second),
            "share": _interval(spot.share),
            "floor_samples_per_second": spot.floor_samples_per_second,
            "any_lost": spot.any_lost,
            "all_lost": spot.all_lost,
            "chance_per_month": spot.chance_per_month,
            "chance_basis": spot.basis,
            "unavailable": spot.unavailable,
        },
        "month": {
            "egress_usd_at_rate": month.egress_usd_at_rate,
            "egress_usd_with_tiers": month.egress_usd_with_tiers,
        },
    }


def result_frame(result: Result) -> pd.DataFrame:
    """Build one row for each considered placement, the chosen one first."""
    import pandas as pd

    rows = []
    for option in result.options:
        usd = option.estimate.usd_per_hour
        rows.append(
            {
                "chosen": option.placement == result.placement,
                "workers": " + ".join(group.spec for group in option.placement.groups),
                "exchange": option.placement.exchange.strategy,
                "local_steps": option.placement.exchange.local_steps,
                "samples_per_second": option.estimate.samples_per_second.value,
                "effective_samples_per_second": option.estimate.effective_samples_per_second.value,
                "step_seconds": option.estimate.step.total,
                "usd_per_hour": usd.total,
                "egress_usd_per_hour": usd.egress,
                "usd_per_million_samples": option.estimate.usd_per_million_samples,
            }
        )
    return pd.DataFrame(rows)


def _option(option: Option, label: str, problem: Problem) -> dict[str, Any]:
    return {
        "label": label,
        "note": option.note,
        "placement": placement_document(option.placement, problem),
        "estimate": estimate_document(option.estimate),
    }


def _interval(interval: Interval | Multiplier) -> dict[str, float]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def _step(step: StepSeconds) -> dict[str, float]:
    parts = {name.replace(" ", "_"): seconds for name, seconds in step.parts}
    return {
        "calculation": step.calculation,
        "communication": step.communication,
        "hidden": step.hidden,
        "total": step.total,
        **parts,
    }


def _usd(usd: UsdPerHour) -> dict[str, float]:
    return {
        "compute": usd.compute,
        "egress": usd.egress,
        "storage": usd.storage,
        "functions": usd.functions,
        "data": usd.data,
        "total": usd.total,
    }
