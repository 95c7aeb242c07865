"""A plan with its fallbacks that is done in time in a share of the scenarios of capacity."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from placer.cost_model.estimate import Estimate
from placer.documents.result_parts import estimate_document, placement_document
from placer.problem.placement import Placement
from placer.problem.problem import Problem

USUAL_TAIL = 0.05
"""Share of the dearest runs that are looked at where no confidence is asked for."""


def tail_share(asked: float) -> float:
    """Return the share of the dearest runs whose mean cost counts: those beyond a confidence."""
    return 1 - asked if asked else USUAL_TAIL


class Rank(Struct, frozen=True, kw_only=True):
    """One placement of a plan: the first, or a fallback where those before it are not available.

    Notes
    -----
    ``alone`` is the chance that this placement alone would do; ``hours`` are what the plan spends
    on it on average. ``certain``: all of it is on demand, which is assumed to be there.
    """

    placement: Placement
    estimate: Estimate
    alone: float
    hours: float
    certain: bool


class ConfidentPlan(Struct, frozen=True, kw_only=True):
    """What a plan reaches in the scenarios that it was chosen in, and in fresh ones.

    Notes
    -----
    ``reached`` is the share of the ``scenarios`` in which the run is done by ``deadline_h``, or
    reaches the floor where there is no deadline; ``fresh`` that of as many others. ``asked`` is 0
    where the mean is the objective. ``usd`` is the mean cost of a run, done or not, ``tail_usd``
    that of the dearest 1 - ``asked`` of them, or 5 % (CVaR), and ``least_usd`` what no run that is
    done can cost less than, whatever the capacity; None without a number of samples. ``hours`` and
    ``starts`` are means over the scenarios that are done. ``samples_per_second`` is the mean over
    the scenarios, 0 where nothing is there; None with a deadline. ``carbon_g`` are emitted in the
    mean; None without a deadline, or where nobody knows. ``tried`` ladders were run.
    """

    asked: float
    reached: float
    fresh: float
    scenarios: int
    seed: int
    ranks: tuple[Rank, ...]
    tried: int
    deadline_h: float | None = None
    hours: float | None = None
    starts: float | None = None
    usd: float | None = None
    tail_usd: float | None = None
    least_usd: float | None = None
    carbon_g: float | None = None
    samples_per_second: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the plan reaches what was asked for."""
        return self.reached >= self.asked


def confident_document(plan: ConfidentPlan | None, problem: Problem) -> dict[str, Any] | None:
    """Build the part ``confidence`` of a result; None where nobody asked."""
    if plan is None:
        return None
    return {
        "asked": plan.asked,
        "reached": plan.reached,
        "reached_in_fresh_scenarios": plan.fresh,
        "holds": plan.holds,
        "scenarios": plan.scenarios,
        "seed": plan.seed,
        "ladders_tried": plan.tried,
        "deadline_hours": plan.deadline_h,
        "mean_hours": plan.hours,
        "mean_starts": plan.starts,
        "usd": plan.usd,
        "tail_usd": plan.tail_usd,
        "least_usd": plan.least_usd,
        "carbon_g": plan.carbon_g,
        "mean_samples_per_second": plan.samples_per_second,
        "ranks": [
            {
                "placement": placement_document(rank.placement, problem),
                "estimate": estimate_document(rank.estimate),
                "chance_alone": rank.alone,
                "mean_hours": rank.hours,
                "certain": rank.certain,
            }
            for rank in plan.ranks
        ],
    }
