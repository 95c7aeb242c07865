"""Stay in one region or leave it: the verdict, and from which budget on leaving pays."""

from __future__ import annotations

import math
from dataclasses import dataclass

from placer.advice.explanation.binding import BETTER, cheapest_from
from placer.advice.explanation.side_questions import Asker
from placer.records import replace
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
    """Compare staying in one region with leaving it, now and at larger budgets."""
    problem, placement = result.problem, result.placement
    assert placement is not None
    wish = problem.requirements
    if len(placement.places) > 1:
        trial = asker.wanting(problem, min_regions=1, max_regions=1)
        loss = math.inf
        if trial.value is not None and result.value is not None:
            loss = result.objective.loss(trial.value, result.value)
        return Staying(
            regions=len(placement.places),
            alone=trial.option(),
            loss=loss if math.isfinite(loss) else None,
            proved=trial.proved,
        )
    plain = Staying(regions=1, most_usd_per_hour=most_usd_per_hour)
    if wish.objective in ("cost-per-sample", "total", "carbon") or wish.max_regions == 1:
        return replace(plain, proved=str(result.status) == "optimal")
    return _frontier(plain, result, asker)


def _frontier(plain: Staying, result: Result, asker: Asker) -> Staying:
    """Walk along the cheapest placements of growing speed until one leaves its region.

    The cheapest placement that is faster than the best at a budget is what a growing budget buys
    next. So the first of them in several regions marks the exact budget.
    """
    problem, estimate, last = result.problem, result.estimate, None
    assert estimate is not None
    for _ in range(MOST_STEPS):
        step = 1 + max(asker.options.gap + BETTER, LEAST_STEP)
        floor = estimate.effective_samples_per_second.value * step
        trial = cheapest_from(floor, problem, asker, plain.most_usd_per_hour)
        found = replace(plain, last=last, proved=trial.proved)
        if trial.placement is None or trial.estimate is None:
            endless = trial.proved and cheapest_from(floor, problem, asker).infeasible
            return replace(found, never=trial.proved, unlimited=endless)
        if len(trial.placement.places) > 1:
            return replace(found, leave=trial.option())
        estimate, last = trial.estimate, trial.option()
    return replace(plain, last=last)
