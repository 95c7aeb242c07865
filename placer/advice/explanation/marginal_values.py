"""What one more is worth: a dollar, a GPU of quota, bandwidth, a worker; and a second region."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from placer.advice.explanation.binding import (
    BETTER,
    bucket_words,
    cheapest_from,
    gain_of,
    improves,
    with_bucket,
)
from placer.advice.explanation.side_questions import Asker, Trial, wanting
from placer.cost_model.estimate import LinkUse
from placer.cost_model.limits import quota_use
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
LEAST_STEP = 0.01
"""From one placement of the frontier to the next the speed grows by this share at least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Worth:
    """What more of one limit brings.

    ``step`` more in ``unit`` (usd_per_hour, gpus, megabits_per_second, workers) change the
    objective by ``difference``, a share of ``gain``; 0 if nothing changes, None if that is not
    proved. ``option`` is the best placement then. ``least`` is the least increase that changes
    anything, up to twice the limit, with ``least_option`` and its ``least_gain``; None if none was
    found.
    """

    code: str
    words: str
    unit: str
    limit: float
    step: float = 1
    option: Option | None = None
    difference: float | None = None
    gain: float | None = None
    least: float | None = None
    least_option: Option | None = None
    least_gain: float | None = None


def worth_of_more(result: Result, asker: Asker) -> Iterator[Worth]:
    """Ask what one more of each limit would bring."""
    (placement, got), problem = result.found, result.problem
    wish, most = problem.requirements, problem.requirements.max_workers
    if wish.budget_usd_per_hour is not None:
        yield _dollar(result, wish.budget_usd_per_hour, asker)
    bucket, gpus = max(
        quota_use(placement, problem).items(), key=lambda item: item[1] / problem.quota(*item[0])
    )
    quota = problem.quota(*bucket)
    if gpus >= quota:
        words = f"GPU of quota for {bucket_words(bucket)}"
        asked = Worth(code="quota", words=words, unit="gpus", limit=quota)
        yield _counted(asked, lambda n: with_bucket(problem, bucket, quota + n), result, asker)
    if placement.workers >= most:
        asked = Worth(code="workers", words="worker", unit="workers", limit=most)
        yield _counted(asked, lambda n: wanting(problem, max_workers=most + n), result, asker)
    links = {
        use.bytes_per_step / problem.network.link(use.src, use.dst).bytes_per_second: use
        for use in reversed(got.links)
        if use.src != use.dst
    }
    if links:
        yield _bandwidth(links[max(links)], result, asker)


def _dollar(result: Result, budget: float, asker: Asker) -> Worth:
    """Value one more dollar an hour, and find the cheapest placement that is better."""
    (placement, got), problem, least = result.found, result.problem, None
    trial = asker.wanting(problem, placement, budget_usd_per_hour=budget + DOLLAR)
    asked = Worth(
        code="budget", words="dollar an hour", unit="usd_per_hour", limit=budget, step=DOLLAR
    )
    if result.objective.by_speed:
        speed = got.effective_samples_per_second.value
        found = cheapest_from(speed * (1 + asker.options.gap + BETTER), problem, asker)
        if found.estimate is not None:
            beyond = found.estimate.usd_per_hour.total - budget
            least = (beyond, found) if 0 < beyond <= (MOST_FACTOR - 1) * budget else None
    return _valued(asked, trial, least, result, asker)


def _counted(asked: Worth, more: Callable[[int], Problem], result: Result, asker: Asker) -> Worth:
    """Value one more, and bisect for the fewest that change anything: more never gets worse."""

    def tried(count: int) -> tuple[Trial, bool]:
        trial = asker.best(more(count), start=result.placement)
        return trial, bool(improves(trial, result, asker.options.gap))

    one, better = tried(1)
    least: tuple[int, Trial] | None = (1, one) if better else None
    if least is None:
        most = max(2, round((MOST_FACTOR - 1) * asked.limit))
        trial, better = tried(most)
        least, low = ((most, trial) if better else None), 1
        while least is not None and least[0] - low > 1:
            middle = (low + least[0]) // 2
            trial, better = tried(middle)
            if better:
                least = middle, trial
            else:
                low = middle
    return _valued(asked, one, least, result, asker)


def _bandwidth(use: LinkUse, result: Result, asker: Asker) -> Worth:
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
    words = f"{MEGABITS:g} Mb/s between {use.src} and {use.dst}"
    unit = "megabits_per_second"
    asked = Worth(code="bandwidth", words=words, unit=unit, limit=now, step=MEGABITS)
    return _valued(asked, trial, None, result, asker)


def _valued(
    asked: Worth, trial: Trial, least: tuple[float, Trial] | None, result: Result, asker: Asker
) -> Worth:
    """Say what one more brings, and the least that changes anything."""
    better = improves(trial, result, asker.options.gap)
    if better is False:
        asked = replace(asked, difference=0.0, gain=0.0)
    elif better and trial.value is not None and result.value is not None:
        difference, gain = trial.value - result.value, gain_of(trial, result)
        asked = replace(asked, option=trial.option(), difference=difference, gain=gain)
    if least is None:
        return asked
    more, found = least
    gain = gain_of(found, result)
    return replace(asked, least=more, least_option=found.option(), least_gain=gain)


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


def stay_or_leave(result: Result, asker: Asker) -> Staying:
    """Compare staying in one region with leaving it, now and at larger budgets."""
    (placement, _), wish = result.found, result.problem.requirements
    if len(placement.places) > 1:
        trial = asker.wanting(result.problem, min_regions=1, max_regions=1)
        loss = math.inf
        if trial.value is not None and result.value is not None:
            loss = result.objective.loss(trial.value, result.value)
        return Staying(
            regions=len(placement.places),
            alone=trial.option(),
            loss=loss if math.isfinite(loss) else None,
            proved=trial.proved,
        )
    if wish.objective in ("cost-per-sample", "total", "carbon") or wish.max_regions == 1:
        return Staying(regions=1, proved=str(result.status) == "optimal")
    return _frontier(result, asker)


def _frontier(result: Result, asker: Asker) -> Staying:
    """Walk along the cheapest placements of growing speed until one leaves its region.

    The cheapest placement that is faster than the best at a budget is what a growing budget buys
    next. So the first of them in several regions marks the exact budget.
    """
    (_, estimate), problem, last = result.found, result.problem, None
    for _ in range(MOST_STEPS):
        step = 1 + max(asker.options.gap + BETTER, LEAST_STEP)
        floor = estimate.effective_samples_per_second.value * step
        trial = cheapest_from(floor, problem, asker, MOST_USD_PER_HOUR)
        found = Staying(regions=1, last=last, proved=trial.proved)
        if trial.placement is None or trial.estimate is None:
            endless = trial.proved and cheapest_from(floor, problem, asker).infeasible
            return replace(found, never=trial.proved, unlimited=endless)
        if len(trial.placement.places) > 1:
            return replace(found, leave=trial.option())
        estimate, last = trial.estimate, trial.option()
    return Staying(regions=1, last=last)
