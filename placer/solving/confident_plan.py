"""Plans with fallbacks that hold in a share of scenarios, and what becomes of a wrong price."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from placer.cost_model.estimate import Estimate
from placer.cost_model.limits import TOLERANCE
from placer.cost_model.objective import gap_between
from placer.documents.result_parts import written
from placer.documents.schemas import proofs
from placer.market.catalog import VmOffer
from placer.problem.placement import Placement
from placer.problem.problem import Problem

DOUBT_Z = 1.96
"""Standard errors between what is promised and what a share of scenarios shows: of 40 ladders that
hold in the checked scenarios one has a share below what is asked.
"""
Rank: TypeAlias = proofs.Rank[Placement, Estimate]


def assured(share: float, count: int) -> float:
    """Return the share that at least so many scenarios in the long run reach, where some of a
    number of them do. The lower end of the score interval (Wilson, 1927) at `DOUBT_Z` standard
    errors.

    95.7 % of 4,096 scenarios are enough for 95 %.

    >>> round(assured(0.957, 4096), 3)
    0.95
    """
    doubt = DOUBT_Z**2 / count
    middle = share + doubt / 2
    width = math.sqrt(doubt * (share * (1 - share) + doubt / 4))
    return (middle - width) / (1 + doubt)


class ConfidentPlan(proofs.LadderOutcome[Placement, Estimate], frozen=True, kw_only=True):
    """What a plan reaches, and what follows from it."""

    @property
    def holds(self) -> bool:
        """Whether the plan reaches what was asked for."""
        return self.reached >= self.asked

    @property
    def assured(self) -> float:
        """Share of the scenarios that the plan reaches in the long run, with a margin."""
        return assured(self.reached, self.scenarios)

    @property
    def usd_per_finished(self) -> float | None:
        """Cost of all runs over those that finish, so that failing is no saving."""
        return None if self.usd is None or not self.reached else self.usd / self.reached

    def status(self, budget_usd: float | None) -> str:
        """Say how a plan ends: ``holds``, ``not-assured`` (it holds here, which may be chance),
        ``over-budget`` (its dearest runs cost more than the budget) or ``not-reached``.
        """
        if not self.holds:
            return "not-reached"
        if budget_usd is not None and (self.tail_usd or 0.0) > budget_usd * (1 + TOLERANCE):
            return "over-budget"
        # Nothing is assured beyond what scenarios that are all done show.
        most = assured(1.0, self.scenarios)
        return "holds" if self.assured >= min(self.asked, most) else "not-assured"


def confident_document(plan: ConfidentPlan | None, problem: Problem) -> dict[str, Any] | None:
    """Build the part ``confidence`` of a result; None where nobody asked."""
    if plan is None:
        return None
    finished, least = plan.usd_per_finished, plan.least_usd
    return {
        **written(plan, problem),
        "status": plan.status(problem.requirements.budget_usd),
        "assured": plan.assured,
        "holds": plan.holds,
        "usd_per_finished_run": finished,
        "gap": None if finished is None or least is None else gap_between(finished, least),
    }


PriceCase: TypeAlias = proofs.PriceCase[Placement, Estimate]
PriceRisk: TypeAlias = proofs.PriceRisk[VmOffer, Placement, Estimate]
HIGH, USUAL, WITHOUT = proofs.PRICE_CASES
