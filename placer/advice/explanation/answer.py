"""What `explain` answers, as a type and as a document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from placer.advice.explanation.binding import Binding
from placer.advice.explanation.conflict import Conflict
from placer.advice.explanation.explanation_parts import (
    binding_part,
    conflict_part,
    option_part,
    staying_part,
    why_not_part,
    worth_part,
)
from placer.advice.explanation.marginal_values import Worth
from placer.advice.explanation.stay_or_leave import Staying
from placer.advice.explanation.why_not import WhyNot
from placer.documents.request import request_document
from placer.documents.result_parts import data_document
from placer.problem.problem import Problem
from placer.report.shown import Shown
from placer.solving.answer import Status
from placer.solving.result import Option, Result, objective_document

SCHEMA = "placer.explanation/v1"


@dataclass(frozen=True, kw_only=True)
class Explanation(Shown):
    """What can be said about an answer, or about having none.

    Notes
    -----
    With a placement in ``result``: ``binding``, ``why_not``, ``worth`` and ``staying``. Without:
    ``conflict``, unless the search was stopped before it was proved that nothing fits. ``complete``
    is False if the time limit was reached before every question was asked; what could not be
    asked is None or missing, what was not proved says so itself.
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
        """Build the ``placer.explanation/v1`` document: plain types, ready for JSON; within v1 keys
        are only added.
        """
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
            "best": option_part(best, problem),
            "binding": None if self.binding is None else binding_part(self.binding, problem),
            "why_not": [why_not_part(row, problem) for row in self.why_not],
            "worth": [worth_part(row, problem) for row in self.worth],
            "staying": None if self.staying is None else staying_part(self.staying, problem),
            "conflict": None if self.conflict is None else conflict_part(self.conflict, problem),
            "complete": self.complete,
            "seconds": round(self.seconds, 3),
        }
