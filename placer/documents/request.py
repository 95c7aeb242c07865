"""The request in a document: the user's wishes as they were read."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from placer.problem.problem import Problem


def request_document(problem: Problem) -> dict[str, Any]:
    """Build the part ``request``: the wishes as they were read, in SI units."""
    wish = problem.requirements
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
        "datasets": [to_builtins(dataset) for dataset in wish.datasets],
        "passes": wish.passes,
        "keep": [{"kind": rule.kind, "area": rule.area} for rule in wish.kept],
        "interruption": wish.interruption,
        "unavailable": wish.unavailable,
        "calibration": problem.calibration.name,
        "quotas": [to_builtins(quota) for quota in wish.quotas],
        "same_zone": wish.same_zone,
        "require_measured": wish.require_measured,
    }
