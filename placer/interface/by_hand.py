"""Placements given by hand, as the documents that ``--json`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, to_builtins

from placer.advice.recommendation.notes import notes_of
from placer.cost_model.estimate import Estimate, estimate, offer_of
from placer.cost_model.limits import violations
from placer.documents import result_parts as parts
from placer.documents.result_parts import request_document
from placer.errors import PlacerError
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.report.shown import Shown
from placer.solving.by_hand import every_exchange, place_by_hand
from placer.solving.result import Option
from placer.workload.island import Island

ESTIMATE_SCHEMA = "placer.estimate/v1"
COMPARISON_SCHEMA = "placer.comparison/v1"


class PlacementEstimate(Estimate, Shown, frozen=True, kw_only=True, eq=False):
    """An estimate with its placement and question, so that it has a document and a report.

    It equals an `Estimate` with the same figures.
    """

    placement: Placement
    problem: Problem

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Estimate) and _figures(self) == _figures(other)

    def __hash__(self) -> int:
        return hash(Estimate(**_figures(self)))

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.estimate/v1`` document, with the limits that the placement breaks:
        plain types, ready for JSON; within v1 keys are only added.
        """
        problem, placement = self.problem, self.placement
        return {
            "schema": ESTIMATE_SCHEMA,
            "request": request_document(problem),
            "data": parts.data_document(problem),
            "placement": parts.placement_document(placement, problem),
            "estimate": parts.estimate_document(self),
            "outlook": parts.outlook_document(placement, self, problem),
            "notes": to_builtins(list(notes_of(problem, placement, self))),
            "violations": to_builtins(list(violations(placement, problem))),
        }


def _figures(found: Estimate) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Estimate.__struct_fields__}


def estimate_by_hand(workers: str | Placement, problem: Problem) -> PlacementEstimate:
    """Time and price a placement given by hand, or whole; limits are not looked at.

    Raise `PlacerError` if the placement is not understood, or a figure that it needs is not known.
    """
    placement = workers if isinstance(workers, Placement) else place_by_hand(workers, problem)
    found = estimate(placement, problem)
    return PlacementEstimate(**_figures(found), placement=placement, problem=problem)


def check_every(exchange: str, *, every: bool) -> None:
    """Refuse one exchange beside a row for each.

    Raise `PlacerError` if both were asked for.
    """
    if every and exchange != "auto":
        raise PlacerError(
            f"--exchange {exchange} together with --every-exchange", "use one of them"
        )


def unlimited(problem: Problem) -> Problem:
    """Allow unlike machines in any number: who places by hand knows what there is."""
    wishes = replace(problem.requirements, uniform=False, supply=None)
    return replace(problem, requirements=wishes)


def side_by_side(
    problem: Problem, placements: Sequence[str | Placement], *, every: bool
) -> list[Option]:
    """Time and price placements given by hand, of machines that may be unlike.

    ``placements``: written as in ``placer estimate --workers``, or whole. ``every``: return one row
    for each exchange that can run. Raise `PlacerError` if a placement is not understood.
    """
    problem = unlimited(problem)
    options: list[Option] = []
    for given in placements:
        if every:
            rows = every_exchange(
                ",".join(group.spec for group in given.groups)
                if isinstance(given, Placement)
                else given,
                problem,
            )
        else:
            placed = given if isinstance(given, Placement) else place_by_hand(given, problem)
            rows = ((placed, problem),)
        for placement, asked in rows:
            options.append(
                Option(
                    placement=placement,
                    estimate=estimate(placement, problem),
                    label=str(len(options) + 1),
                    note="; ".join(v.message for v in violations(placement, asked)),
                )
            )
    return options


class Comparison(Struct, Shown, frozen=True, kw_only=True):
    """Placements of one question side by side, in the order in which they were given."""

    problem: Problem
    options: tuple[Option, ...]

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.comparison/v1`` document."""
        problem = self.problem
        return {
            "schema": COMPARISON_SCHEMA,
            "request": request_document(problem),
            "data": parts.data_document(problem),
            "placements": [
                {
                    "placement": parts.placement_document(o.placement, problem),
                    "estimate": parts.estimate_document(o.estimate),
                    "outlook": parts.outlook_document(o.placement, o.estimate, problem),
                    "violations": [v for v in [o.note] if v],
                    **_inside(o.placement, problem),
                }
                for o in self.options
            ],
        }


def _inside(placement: Placement, problem: Problem) -> dict[str, Any]:
    """Build the key of what a step of the slowest worker consists of; none without plans."""
    steps = [
        built.step
        for group in placement.groups
        if group.inner is not None
        for offer in (offer_of(group, problem),)
        for built in (problem.island(offer, group.machines, group.inner, placement.workers),)
        if isinstance(built, Island)
    ]
    slowest = max(steps, key=lambda step: step.seconds, default=None)
    return {} if slowest is None else {"inside_seconds": slowest.parts}
