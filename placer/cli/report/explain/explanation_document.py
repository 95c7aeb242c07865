"""The ``placer.explanation/v1`` document: plain types with units in every name."""

from __future__ import annotations

import math
from typing import Any

from placer.advice.explanation.binding import Binding, Limit
from placer.advice.explanation.break_even import BreakEven
from placer.advice.explanation.conflict import Conflict, Remedy
from placer.advice.explanation.explain import Explanation
from placer.advice.explanation.marginal_values import Worth
from placer.advice.explanation.stay_or_leave import Staying
from placer.advice.explanation.why_not import WhyNot
from placer.advice.explanation.wishes import Wish
from placer.documents.parts import data_document, placement_document
from placer.documents.request import request_document
from placer.problem.problem import Problem
from placer.solving.result import Option

SCHEMA = "placer.explanation/v1"


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """Build the document of an explanation; within v1 keys are only added."""
    problem, result = explanation.problem, explanation.result
    best = None
    if result.placement is not None and result.estimate is not None:
        best = Option(
            placement=result.placement,
            estimate=result.estimate,
            proved=str(result.status) == "optimal",
        )
    return {
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
        "best": _option(best, problem),
        "binding": None if explanation.binding is None else _binding(explanation.binding, problem),
        "why_not": [_why_not(row, problem) for row in explanation.why_not],
        "worth": [_worth(row, problem) for row in explanation.worth],
        "staying": None if explanation.staying is None else _staying(explanation.staying, problem),
        "conflict": None
        if explanation.conflict is None
        else _conflict(explanation.conflict, problem),
        "complete": explanation.complete,
        "seconds": round(explanation.seconds, 3),
    }


def _option(option: Option | None, problem: Problem) -> dict[str, Any] | None:
    if option is None:
        return None
    got = option.estimate
    return {
        "placement": placement_document(option.placement, problem),
        "samples_per_second": got.effective_samples_per_second.value,
        "usd_per_hour": got.usd_per_hour.total,
        "compute_usd_per_hour": got.usd_per_hour.compute,
        "egress_usd_per_hour": got.usd_per_hour.egress,
        "usd_per_million_samples": got.usd_per_million_samples,
        "step_seconds": got.step.total,
        "communication_seconds": got.step.communication,
        "waiting_seconds": got.step.waiting,
        "proved": option.proved,
    }


def _binding(binding: Binding, problem: Problem) -> dict[str, Any]:
    return {
        "limits": [_limit(row, problem) for row in binding.limits],
        "one_more": _option(binding.one_more, problem),
    }


def _limit(limit: Limit, problem: Problem) -> dict[str, Any]:
    return {
        "code": limit.code,
        "words": limit.words,
        "unit": limit.unit,
        "used": limit.used,
        "limit": limit.limit,
        "binds": limit.binds,
        "gain": limit.gain,
        "without": _option(limit.better, problem),
        "nearest": _option(limit.nearest, problem),
    }


def _why_not(row: WhyNot, problem: Problem) -> dict[str, Any]:
    return {
        "subject": row.subject,
        "kind": row.kind,
        "status": row.status,
        "best_with_it": _option(row.option, problem),
        "difference": row.difference,
        "regret": None if row.regret is None or math.isinf(row.regret) else row.regret,
        "proved": row.proved,
        "excluded": list(row.excluded),
        "remedies": [_remedy(r, problem) for r in row.remedies],
        "break_evens": [_break_even(b, problem) for b in row.break_evens],
        "never_by_network": row.never_by_network,
    }


def _break_even(found: BreakEven, problem: Problem) -> dict[str, Any]:
    endless = found.factor is not None and math.isinf(found.factor)
    return {
        "what": found.what,
        "factor": None if endless else found.factor,
        "at_any_price": endless,
        "proved": found.proved,
        "placement": _option(found.option, problem),
    }


def _worth(row: Worth, problem: Problem) -> dict[str, Any]:
    return {
        "code": row.code,
        "unit": row.unit,
        "limit": row.limit,
        "step": row.step,
        "difference": row.difference,
        "gain": row.gain,
        "best": _option(row.option, problem),
        "least": row.least,
        "least_gain": row.least_gain,
        "least_best": _option(row.least_option, problem),
    }


def _staying(row: Staying, problem: Problem) -> dict[str, Any]:
    return {
        "regions": row.regions,
        "best_in_one_region": _option(row.alone, problem),
        "loss": row.loss,
        "proved": row.proved,
        "leave": _option(row.leave, problem),
        "last_in_one_region": _option(row.last, problem),
        "never": row.never,
        "unlimited": row.unlimited,
        "most_usd_per_hour": row.most_usd_per_hour,
    }


def _conflict(conflict: Conflict, problem: Problem) -> dict[str, Any]:
    return {
        "wishes": [_wish(wish) for wish in conflict.wishes],
        "others": [_wish(wish) for wish in conflict.others],
        "minimal": conflict.minimal,
        "remedies": [_remedy(r, problem) for r in conflict.remedies],
        "together": _option(conflict.together, problem),
        "further": None if conflict.further is None else _conflict(conflict.further, problem),
    }


def _wish(wish: Wish) -> dict[str, Any]:
    return {"code": wish.code, "words": wish.words, "given": wish.given}


def _remedy(row: Remedy, problem: Problem) -> dict[str, Any]:
    note = "" if row.option is None else row.option.note
    return {
        "code": row.wish.code,
        "change": note,
        "best": _option(row.option, problem),
        "proved": row.proved,
    }
