"""Stay in one region or leave it: the verdict, and from which budget on leaving pays."""

from __future__ import annotations

import math
from dataclasses import dataclass

from placer.advice.explanation.binding import BETTER
from placer.advice.explanation.side_questions import NOTHING, Asker, wanting
from placer.solving.result import Option, Result

MOST_USD_PER_HOUR = 500.0
"""Budgets are looked at up to here."""
MOST_STEPS = 40
"""Placements of the frontier of cost and speed that are looked at."""
LEAST_STEP = 0.01
"""From one placement of the frontier to the next the speed grows by this share at least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Staying:
    """Whether to stay in one region.

    Notes
    -----
    ``regions`` of the best placement. If it is one: ``leave`` is the first placement over several
    regions that beats all of one region at its own price, so its USD/h is the budget at which
    leaving pays; ``last`` the last placement of one region on the way; ``never`` if it is proved
    that leaving pays at no budget up to ``most_usd_per_hour`` (or at all, if ``unlimited``). If
    there are several: ``alone`` is the best placement in one region and ``loss`` what staying
    costs, as a share of the objective (None if the best is 0); ``proved`` whether that is exact.
    Steps are at least 1 % of speed: what leaves a region to gain less is not looked for.
    """

    regions: int
    alone: Option | None = None
    loss: float | None = None
    proved: bool = False
    leave: Option | None = None
    last: Option | None = None
    never: bool = False
    unlimited: bool = False
    most_usd_per_hour: float = MOST_USD_PER_HOUR


def stay_or_leave(
    result: Result, asker: Asker, most_usd_per_hour: float = MOST_USD_PER_HOUR
) -> Staying:
    """Compare staying in one region with leaving it, now and at larger budgets.

    Parameters
    ----------
    result
        The best answer.
    most_usd_per_hour
        Largest budget that is looked at, USD/h.
    """
    placement = result.placement
    assert placement is not None
    if len(placement.places) > 1:
        return _cost_of_staying(result, asker)
    if (
        result.problem.requirements.objective in ("cost-per-sample", "total", "carbon")
        or result.problem.requirements.max_regions == 1
    ):
        return Staying(
            regions=1, proved=str(result.status) == "optimal", most_usd_per_hour=most_usd_per_hour
        )
    return _frontier(result, asker, most_usd_per_hour)


def _cost_of_staying(result: Result, asker: Asker) -> Staying:
    """Return the best placement in one region beside one over several."""
    problem, placement = result.problem, result.placement
    assert placement is not None
    trial = asker.best(wanting(problem, min_regions=1, max_regions=1))
    share = None
    if trial.value is not None and result.value is not None:
        loss = result.objective.loss(trial.value, result.value)
        share = loss if math.isfinite(loss) else None
    return Staying(
        regions=len(placement.places), alone=trial.option(), loss=share, proved=trial.proved
    )


def _frontier(result: Result, asker: Asker, most_usd_per_hour: float) -> Staying:
    """Walk along the cheapest placements of growing speed until one leaves its region.

    Notes
    -----
    The cheapest placement that is faster than the best at a budget is what a growing budget buys
    next. So the first of them that lies in several regions marks the exact budget; no scan over
    budgets could miss it.
    """
    problem, estimate = result.problem, result.estimate
    assert estimate is not None
    wish = problem.requirements
    speed, trial, last = estimate.effective_samples_per_second.value, NOTHING, None
    for _ in range(MOST_STEPS):
        floor = max(
            speed * (1 + max(asker.options.gap + BETTER, LEAST_STEP)),
            wish.floor_samples_per_second or 0.0,
        )
        trial = asker.best(
            wanting(
                problem,
                objective="cost",
                budget_usd_per_hour=most_usd_per_hour,
                min_samples_per_second=floor,
            )
        )
        if trial.placement is None or trial.estimate is None:
            unlimited = (
                trial.proved
                and asker.best(
                    wanting(
                        problem,
                        objective="cost",
                        budget_usd_per_hour=None,
                        min_samples_per_second=floor,
                    )
                ).infeasible
            )
            return Staying(
                regions=1,
                proved=trial.proved,
                last=last,
                never=trial.proved,
                unlimited=unlimited,
                most_usd_per_hour=most_usd_per_hour,
            )
        if len(trial.placement.places) > 1:
            return Staying(
                regions=1,
                leave=trial.option(),
                last=last,
                proved=trial.proved,
                most_usd_per_hour=most_usd_per_hour,
            )
        speed, last = trial.estimate.effective_samples_per_second.value, trial.option()
    return Staying(regions=1, last=last, most_usd_per_hour=most_usd_per_hour)
