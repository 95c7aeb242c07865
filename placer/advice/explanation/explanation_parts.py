"""The parts of an explanation as plain types, with units in every name."""

from __future__ import annotations

import math
from typing import Any

from placer.advice.explanation.binding import Binding, Limit
from placer.advice.explanation.break_even import BreakEven
from placer.advice.explanation.conflict import Conflict, Remedy
from placer.advice.explanation.marginal_values import Worth
from placer.advice.explanation.stay_or_leave import Staying
from placer.advice.explanation.why_not import WhyNot
from placer.advice.explanation.wishes import Wish
from placer.documents.result_parts import placement_document
from placer.problem.problem import Problem
from placer.solving.result import Option


def option_part(option: Option | None, problem: Problem) -> dict[str, Any] | None:
    """Build a placement with the figures that matter beside others; None if there is none."""
    if option is None:
        return None
    estimate = option.estimate
    return {
        "placement": placement_document(option.placement, problem),
        "samples_per_second": estimate.effective_samples_per_second.value,
        "usd_per_hour": estimate.usd_per_hour.total,
        "compute_usd_per_hour": estimate.usd_per_hour.compute,
        "egress_usd_per_hour": estimate.usd_per_hour.egress,
        "usd_per_million_samples": estimate.usd_per_million_samples,
        **estimate.token_figures,
        "step_seconds": estimate.step.total,
        "communication_seconds": estimate.step.communication,
        "waiting_seconds": estimate.step.waiting,
        "proved": option.proved,
    }


def binding_part(binding: Binding, problem: Problem) -> dict[str, Any]:
    """Build what binds, and what one machine more would bring."""
    return {
        "limits": [_limit(row, problem) for row in binding.limits],
        "joint": None
        if binding.joint is None
        else [
            {
                "codes": list(row.codes),
                "words": list(row.words),
                "gain": row.gain,
                "without": option_part(row.better, problem),
            }
            for row in binding.joint
        ],
        "one_more": option_part(binding.one_more, problem),
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
        "without": option_part(limit.better, problem),
        "nearest": option_part(limit.nearest, problem),
    }


def why_not_part(row: WhyNot, problem: Problem) -> dict[str, Any]:
    """Build why one subject was not chosen."""
    return {
        "subject": row.subject,
        "kind": row.kind,
        "status": row.status,
        "best_with_it": option_part(row.option, problem),
        "difference": row.difference,
        "regret": row.regret,
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
        "placement": option_part(found.option, problem),
    }


def worth_part(row: Worth, problem: Problem) -> dict[str, Any]:
    """Build what one more of something is worth."""
    return {
        "code": row.code,
        "unit": row.unit,
        "limit": row.limit,
        "step": row.step,
        "difference": row.difference,
        "gain": row.gain,
        "best": option_part(row.option, problem),
        "least": row.least,
        "least_gain": row.least_gain,
        "least_best": option_part(row.least_option, problem),
    }


def staying_part(row: Staying, problem: Problem) -> dict[str, Any]:
    """Build the verdict on one region against several."""
    return {
        "regions": row.regions,
        "best_in_one_region": option_part(row.alone, problem),
        "loss": row.loss,
        "proved": row.proved,
        "leave": option_part(row.leave, problem),
        "last_in_one_region": option_part(row.last, problem),
        "never": row.never,
        "unlimited": row.unlimited,
        "most_usd_per_hour": row.most_usd_per_hour,
    }


def conflict_part(conflict: Conflict, problem: Problem) -> dict[str, Any]:
    """Build why nothing fits."""
    return {
        "wishes": [_wish(wish) for wish in conflict.wishes],
        "others": [_wish(wish) for wish in conflict.others],
        "minimal": conflict.minimal,
        "remedies": [_remedy(r, problem) for r in conflict.remedies],
        "together": option_part(conflict.together, problem),
        "further": None if conflict.further is None else conflict_part(conflict.further, problem),
    }


def _wish(wish: Wish) -> dict[str, Any]:
    return {"code": wish.code, "words": wish.words, "given": wish.given}


def _remedy(row: Remedy, problem: Problem) -> dict[str, Any]:
    note = "" if row.option is None else row.option.note
    return {
        "code": row.wish.code,
        "change": note,
        "best": option_part(row.option, problem),
        "proved": row.proved,
    }
