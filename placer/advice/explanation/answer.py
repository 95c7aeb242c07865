"""What `explain` answers, as a type and as a document."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from placer.advice.explanation.binding import Binding, Joint, Limit
from placer.advice.explanation.break_even import BreakEven
from placer.advice.explanation.conflict import Conflict, Remedy
from placer.advice.explanation.marginal_values import Worth
from placer.advice.explanation.stay_or_leave import Staying
from placer.advice.explanation.why_not import WhyNot
from placer.advice.explanation.wishes import Wish
from placer.documents.request import request_document
from placer.documents.result_parts import data_document, placement_document
from placer.problem.problem import Problem
from placer.report.shown import Shown
from placer.solving.answer import Status
from placer.solving.result import Option, Result, objective_document

SCHEMA = "placer.explanation/v1"


@dataclass(frozen=True, kw_only=True)
class Explanation(Shown):
    """What can be said about an answer, or about having none.

    With a placement in ``result``: ``binding``, ``why_not``, ``worth`` and ``staying``. Without:
    ``conflict``, if it is proved that nothing fits. ``complete`` is False if the time limit came
    before every question was asked: what could not be asked is None or missing.
    """

    problem: Problem = field(repr=False)
    result: Result = field(repr=False)
    binding: Binding | None = None
    why_not: tuple[WhyNot, ...] = ()
    worth: tuple[Worth, ...] = ()
    staying: Staying | None = None
    conflict: Conflict | None = None
    complete: bool = True
    seconds: float = 0.0

    def __repr__(self) -> str:
        return f"<Explanation of {self.result.headline}>"

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.explanation/v1`` document."""
        problem, result = self.problem, self.result
        best = None
        if result.placement is not None and result.estimate is not None:
            best = Option(
                placement=result.placement,
                estimate=result.estimate,
                proved=result.status is Status.OPTIMAL,
            )
        return {
            "schema": SCHEMA,
            "request": request_document(problem),
            "data": data_document(problem),
            "status": str(result.status),
            "objective": objective_document(result),
            "best": part(best, problem),
            **{
                name: part(getattr(self, name), problem)
                for name in ("binding", "why_not", "worth", "staying", "conflict")
            },
            "complete": self.complete,
            "seconds": round(self.seconds, 3),
        }


NAMES: dict[type, dict[str, str]] = {
    Limit: {"better": "without"},
    Joint: {"better": "without"},
    WhyNot: {"option": "best_with_it", "about": ""},
    Worth: {"words": "", "option": "best", "least_option": "least_best"},
    Staying: {"alone": "best_in_one_region", "last": "last_in_one_region"},
    Wish: {"change": "", "fields": "", "values": ""},
}
"""Fields that have another name in a document, or (empty) none."""


def part(value: Any, problem: Problem) -> Any:
    """Build a part of an explanation as plain types, with units in every name."""
    if isinstance(value, Option):
        return option_part(value, problem)
    if isinstance(value, tuple):
        return [part(each, problem) for each in value]
    if isinstance(value, BreakEven):
        endless = value.factor is not None and math.isinf(value.factor)
        return {
            "what": value.what,
            "factor": None if endless else value.factor,
            "at_any_price": endless,
            "proved": value.proved,
            "placement": part(value.option, problem),
        }
    if isinstance(value, Remedy):
        return {
            "code": value.wish.code,
            "change": "" if value.option is None else value.option.note,
            "best": part(value.option, problem),
            "proved": value.proved,
        }
    if not is_dataclass(value):
        return value
    names = NAMES.get(type(value), {})
    named = [(names.get(field.name, field.name), field.name) for field in fields(value)]
    return {name: part(getattr(value, own), problem) for name, own in named if name}


def option_part(option: Option, problem: Problem) -> dict[str, Any]:
    """Build a placement with the figures that matter beside others."""
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
