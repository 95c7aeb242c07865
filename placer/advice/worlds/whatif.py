"""A question in a changed world, beside the same question as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from placer.advice.recommendation.preferred import preferred
from placer.advice.worlds.changed_question import apply
from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.documents.result_parts import data_document, estimate_document, request_document
from placer.errors import PlacerError
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import Change, change_document
from placer.records import replace
from placer.report.shown import Shown
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result, answer_document
from placer.solving.solve import require_pools, solve

SCHEMA = "placer.whatif/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A choice in another world: its estimate there, and what stands against it.

    ``estimate`` is None where it cannot run at all: ``broken`` then says why. ``value`` is that of
    the objective.
    """

    placement: Placement
    estimate: Estimate | None = None
    value: float | None = None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WhatIf(Shown):
    """Two answers side by side, and what the first would do in the world of the second."""

    changes: tuple[Change, ...]
    before: Result
    after: Result
    kept: Kept | None = field(default=None)

    def __repr__(self) -> str:
        changes = " ".join(change.text for change in self.changes)
        return f"<WhatIf {changes}: {self.before.headline} -> {self.after.headline}>"

    @property
    def same(self) -> bool:
        """Whether both worlds have the same best placement."""
        one, other = self.before.placement, self.after.placement
        return (one and one.canonical()) == (other and other.canonical())

    @property
    def regret(self) -> float | None:
        """Share of the changed world's best value that keeping the old choice gives up."""
        kept = None if self.kept is None or self.kept.broken else self.kept.value
        best = self.after.value
        return None if kept is None or best is None else self.after.objective.regret(kept, best)

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.whatif/v1`` document."""
        kept, world, question = self.kept, self.after.problem, self.before.problem
        return {
            "schema": SCHEMA,
            "request": request_document(question),
            "data": data_document(question),
            "changes": [change_document(change) for change in self.changes],
            "before": {"request": request_document(question), **answer_document(self.before)},
            "after": {"request": request_document(world), **answer_document(self.after)},
            "difference": self._difference(),
            "same_placement": self.same,
            "kept": kept
            and {
                "estimate": kept.estimate and estimate_document(kept.estimate),
                "objective": {"name": world.requirements.objective, "value": kept.value},
                "violations": list(kept.broken),
                "relative_regret": self.regret,
            },
        }

    def _difference(self) -> dict[str, float] | None:
        one, other = self.before.estimate, self.after.estimate
        if one is None or other is None:
            return None
        before, after = figures_of(one), figures_of(other)
        return {name: after[name] - before[name] for name in before}


def figures_of(estimate: Estimate) -> dict[str, float]:
    """Return the figures that are put side by side; samples and tokens are those that count."""
    return {
        "samples_per_second": estimate.effective_samples_per_second.value,
        "usd_per_hour": estimate.usd_per_hour.total,
        "egress_usd_per_hour": estimate.usd_per_hour.egress,
        "usd_per_million_samples": estimate.usd_per_million_samples,
        **estimate.token_figures,
    }


def keep(placement: Placement, world: Problem) -> Kept:
    """Put a choice into another world: price it, and list what it breaks there."""
    try:
        priced = estimate(placement, world)
        broken = tuple(violation.message for violation in violations(placement, world))
    except PlacerError as error:  # its machines, its function or its store are gone
        return Kept(placement=placement, broken=(error.message,))
    value = objective_of(world.requirements).value(priced)
    known = value if math.isfinite(value) else None  # emissions that nobody knows
    return Kept(placement=placement, estimate=priced, value=known, broken=broken)


def _at_least(kept: Kept | None, after: Result) -> Result:
    """Return the old choice where a search that proves nothing found nothing as good."""
    if kept is None or kept.broken or kept.value is None:
        return after
    worse = after.value is None or after.objective.better(kept.value, after.value)
    if not worse or after.status.settled:
        return after
    status = Status.FEASIBLE if after.status is Status.UNKNOWN else after.status
    return replace(after, placement=kept.placement, estimate=kept.estimate, status=status)


def what_if(
    problem: Problem,
    changes: Sequence[Change],
    solver: str = "exact",
    options: SolveOptions | None = None,
) -> WhatIf:
    """Solve a question as it is and as changed at least once.

    Raises PlacerError if nothing is changed, a pattern matches nothing, or no machine is admitted.
    """
    if not changes:
        raise PlacerError(
            "nothing is changed",
            "give --set WHAT=CHANGE or --drop PLACE, such as --set 'price:gcp/*:T4=x0.5'",
        )
    changed = apply(problem, changes)
    for world in (problem, changed):
        require_pools(world)
    options = options or SolveOptions()
    # One Ctrl-C ends both searches.
    with allowance.opened(memory_limit_bytes=options.memory_limit_bytes, cancel=options.cancel):
        before = preferred(solve(problem, solver, options), solver, options)
        # The changed world is asked at newer prices too, and its data lies where it was copied to.
        if before.older is not None or before.problem.data_copy is not None:
            changed = apply(before.problem, changes)
        kept = None if before.placement is None else keep(before.placement, changed)
        start = None if kept is None or kept.broken else kept.placement
        after = _at_least(kept, solve(changed, solver, replace(options, start=start)))
    return WhatIf(changes=tuple(changes), before=before, after=after, kept=kept)
