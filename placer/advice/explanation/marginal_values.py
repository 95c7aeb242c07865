"""What one more is worth: a dollar, a GPU of quota, bandwidth, a worker; and a second region."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from placer.advice.explanation.binding import BETTER, cheapest_from, gain_of, improves, with_bucket
from placer.advice.explanation.subject import Asker, Trial
from placer.advice.recommendation.other_answers import wanting
from placer.cost_model.estimate import LinkUse
from placer.cost_model.limits import quota_use
from placer.documents.schemas.explanation import Binding, Staying, Worth
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.result import Option, Result
from placer.workload.overlay import LinkSpeed, with_link_speeds

DOLLAR = 1.0
"""Step of the budget in USD/h."""
MEGABITS = 100.0
"""Step of the bandwidth of one stream in Mb/s."""
MOST_FACTOR = 2.0
"""The least increase that changes anything is looked for up to this multiple."""
BYTES_PER_MEGABIT = 1e6 / 8
MOST_USD_PER_HOUR = 500.0
"""Budgets are looked at up to here."""
MOST_STEPS = 40
"""Placements of the frontier of cost and speed that are looked at."""
MOST_LEAP = 4.0
"""Multiple of a price within which several regions are first asked to beat one."""
LEAST_STEP = 0.01
"""From one placement of the frontier to the next the speed grows by this share at least."""


class Asked(NamedTuple):
    """A limit of which more is asked for."""

    code: str
    unit: Literal["usd_per_hour", "gpus", "workers", "megabits_per_second"]
    limit: float
    step: float = 1


def worth_of_more(
    result: Result, binding: Binding[Option], asker: Asker
) -> Iterator[Worth[Option]]:
    """Ask what one more of each limit would bring; what binds is known."""
    (placement, got), problem = result.found, result.problem
    wish, most = problem.requirements, problem.requirements.max_workers
    if wish.budget_usd_per_hour is not None:
        yield _dollar(result, wish.budget_usd_per_hour, binding, asker)
    bucket, gpus = max(
        quota_use(placement, problem).items(), key=lambda item: item[1] / problem.quota(*item[0])
    )
    quota = problem.quota(*bucket)
    if gpus >= quota:
        asked = Asked("quota", "gpus", quota)
        yield _counted(asked, lambda n: with_bucket(problem, bucket, quota + n), result, asker)
    if placement.workers >= most:
        asked = Asked("workers", "workers", most)
        yield _counted(asked, lambda n: wanting(problem, max_workers=most + n), result, asker)
    links = {
        use.bytes_per_step / problem.network.link(use.src, use.dst).bytes_per_second: use
        for use in reversed(got.links)
        if use.src != use.dst
    }
    if links:
        yield _bandwidth(links[max(links)], result, asker)


def _dollar(result: Result, budget: float, binding: Binding[Option], asker: Asker) -> Worth[Option]:
    """Value one more dollar an hour, and the cheapest placement that is better."""
    trial = asker.wanting(result.problem, result.placement, budget_usd_per_hour=budget + DOLLAR)
    asked, least = Asked("budget", "usd_per_hour", budget, DOLLAR), None
    for limit in binding.limits:
        if limit.code == "budget" and limit.nearest is not None:
            beyond = limit.nearest.estimate.usd_per_hour.total - budget
            least = (beyond, limit.nearest) if 0 < beyond <= (MOST_FACTOR - 1) * budget else None
    return _valued(asked, trial, least, result, asker)


def _counted(
    asked: Asked, more: Callable[[int], Problem], result: Result, asker: Asker
) -> Worth[Option]:
    """Value one more, and bisect for the fewest that change anything: more never gets worse."""
    tried: dict[int, Trial] = {}

    def better(count: int) -> bool:
        tried[count] = asker.best(more(count), start=result.placement)
        return bool(improves(tried[count], result, asker.options.gap))

    low = least = 1
    if not better(1):
        least = max(2, round((MOST_FACTOR - 1) * asked.limit))
        if not better(least):
            return _valued(asked, tried[1], None, result, asker)
        while least - low > 1:
            middle = (low + least) // 2
            low, least = (low, middle) if better(middle) else (middle, least)
    option = tried[least].option()
    found = None if option is None else (least, option)
    return _valued(asked, tried[1], found, result, asker)


def _bandwidth(use: LinkUse, result: Result, asker: Asker) -> Worth[Option]:
    """Value more bandwidth on one link, both ways."""
    problem = result.problem
    now = problem.network.link(use.src, use.dst).bytes_per_second / BYTES_PER_MEGABIT
    gbps, today = (now + MEGABITS) / 1e3, problem.catalog.as_of[1]
    ends = dict.fromkeys(("gbps_one_stream", "gbps_low", "gbps_high"), gbps)
    rows = [
        LinkSpeed(src=a, dst=b, source="what if", as_of=today, **ends)
        for a, b in ((use.src, use.dst), (use.dst, use.src))
    ]
    faster = replace(problem, catalog=with_link_speeds(problem.catalog, rows))
    trial = asker.best(faster, start=result.placement)
    asked = Asked("bandwidth", "megabits_per_second", now, MEGABITS)
    return _valued(asked, trial, None, result, asker)


def _valued(
    asked: Asked, trial: Trial, least: tuple[float, Option] | None, result: Result, asker: Asker
) -> Worth[Option]:
    """Say what one more brings, and the least that changes anything."""
    better = improves(trial, result, asker.options.gap)
    difference, gain = (0.0, 0.0) if better is False else (None, None)
    if better and trial.value is not None and result.value is not None:
        difference, gain = trial.value - result.value, gain_of(trial, result)
    increase, least_best = least or (None, None)
    return Worth(
        **asked._asdict(),
        best=trial.option() if better else None,
        difference=difference,
        gain=gain,
        least=increase,
        least_best=least_best,
        least_gain=None if least_best is None else gain_of(least_best, result),
    )


def stay_or_leave(result: Result, asker: Asker) -> Staying[Option]:
    """Compare staying in one region with leaving it, now and at larger budgets."""
    (placement, _), wish = result.found, result.problem.requirements
    if len(placement.places) > 1:
        trial = asker.wanting(result.problem, min_regions=1, max_regions=1)
        loss = math.inf
        if trial.value is not None and result.value is not None:
            loss = result.objective.loss(trial.value, result.value)
        return _staying(
            regions=len(placement.places),
            best_in_one_region=trial.option(),
            loss=loss if math.isfinite(loss) else None,
            proved=trial.proved,
        )
    if wish.objective in ("cost-per-sample", "total", "carbon") or wish.max_regions == 1:
        return _staying(proved=str(result.status) == "optimal")
    return _frontier(result, asker)


def _staying(**known: Any) -> Staying[Option]:
    """Say what is known of staying; nothing beside what is given."""
    nothing = dict.fromkeys(("best_in_one_region", "loss", "leave", "last_in_one_region"))
    unproved = dict.fromkeys(("proved", "never", "unlimited"), False)
    most = {"most_usd_per_hour": MOST_USD_PER_HOUR}
    return Staying(**{"regions": 1, **nothing, **unproved, **most, **known})


def _frontier(result: Result, asker: Asker) -> Staying[Option]:
    """Walk along the cheapest placements of growing speed until one leaves its region.

    The cheapest placement that is faster than the best at a budget is what a growing budget buys
    next. So the first of them in several regions marks the exact budget. Where several regions
    reach no such speed within some multiple of the price, which is proved fast, the walk goes on
    from the fastest of one region within that.
    """
    (_, estimate), problem, last = result.found, result.problem, None
    usd, leap = estimate.usd_per_hour.total, MOST_LEAP
    for _ in range(MOST_STEPS):
        step = 1 + max(asker.options.gap + BETTER, LEAST_STEP)
        floor = estimate.effective_samples_per_second.value * step
        most = min(MOST_USD_PER_HOUR, leap * usd)
        while leap > 1 and most > usd and _may_leave(floor, most, problem, asker):
            leap /= 2
            most = min(MOST_USD_PER_HOUR, leap * usd)
        if leap > 1 and most > usd:
            alone = asker.best(
                wanting(problem, objective="throughput", budget_usd_per_hour=most, max_regions=1),
                rough=most < MOST_USD_PER_HOUR,
            )
            if alone.estimate is not None:
                estimate, last = alone.estimate, alone.option()
            usd, leap = most, MOST_LEAP
            if most == MOST_USD_PER_HOUR:
                endless = not _may_leave(floor, None, problem, asker)
                return _staying(last_in_one_region=last, proved=True, never=True, unlimited=endless)
            continue
        trial = cheapest_from(floor, problem, asker, MOST_USD_PER_HOUR)
        found = _staying(last_in_one_region=last, proved=trial.proved)
        if trial.placement is None or trial.estimate is None:
            endless = trial.proved and cheapest_from(floor, problem, asker).infeasible
            return replace(found, never=trial.proved, unlimited=endless)
        if len(trial.placement.places) > 1:
            return replace(found, leave=trial.option())
        estimate, last = trial.estimate, trial.option()
        usd, leap = estimate.usd_per_hour.total, 2.0
    return _staying(last_in_one_region=last)


def _may_leave(floor: float, usd_per_hour: float | None, problem: Problem, asker: Asker) -> bool:
    """Tell whether several regions may reach some samples/s within a price: not where it is proved
    that they do not.
    """
    several = wanting(
        problem,
        objective="cost",
        min_samples_per_second=floor,
        budget_usd_per_hour=usd_per_hour,
        min_regions=max(2, problem.requirements.min_regions),
    )
    return not asker.best(several, first=True, beat=asker.just_above(usd_per_hour)).infeasible
