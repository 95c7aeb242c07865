"""What one more is worth: a dollar, a GPU of quota, bandwidth, a worker; and a second region."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

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
    step: float
    option: Option | None
    difference: float | None
    gain: float | None
    least: float | None
    least_option: Option | None
    least_gain: float | None


class _Kind(NamedTuple):
    """What there is more of."""

    code: str
    words: str
    unit: str
    limit: float
    step: float = 1


def worth_of_more(result: Result, asker: Asker) -> tuple[Worth, ...]:
    """Ask what one more of each limit would bring."""
    return tuple(_worths(result, asker))


def _worths(result: Result, asker: Asker) -> Iterator[Worth]:
    problem, placement, estimate = result.problem, result.placement, result.estimate
    assert placement is not None
    assert estimate is not None
    wish, most = problem.requirements, problem.requirements.max_workers
    if wish.budget_usd_per_hour is not None:
        yield _dollar(result, wish.budget_usd_per_hour, asker)
    bucket, gpus = max(
        quota_use(placement, problem).items(), key=lambda item: item[1] / problem.quota(*item[0])
    )
    quota = problem.quota(*bucket)
    if gpus >= quota:
        words = f"GPU of quota for {bucket_words(bucket)}"
        kind = _Kind("quota", words, "gpus", quota)
        yield _counted(kind, lambda n: with_bucket(problem, bucket, quota + n), result, asker)
    if placement.workers >= most:
        kind = _Kind("workers", "worker", "workers", most)
        yield _counted(kind, lambda n: wanting(problem, max_workers=most + n), result, asker)
    links = {
        use.bytes_per_step / problem.network.link(use.src, use.dst).bytes_per_second: use
        for use in reversed(estimate.links)
        if use.src != use.dst
    }
    if links:
        yield _bandwidth(links[max(links)], result, asker)


def _dollar(result: Result, budget: float, asker: Asker) -> Worth:
    """Value one more dollar an hour, and find the cheapest placement that is better."""
    problem, estimate = result.problem, result.estimate
    assert estimate is not None
    trial = asker.wanting(problem, result.placement, budget_usd_per_hour=budget + DOLLAR)
    kind, least = _Kind("budget", "dollar an hour", "usd_per_hour", budget, DOLLAR), None
    if result.objective.by_speed:
        speed = estimate.effective_samples_per_second.value
        found = cheapest_from(speed * (1 + asker.options.gap + BETTER), problem, asker)
        if found.estimate is not None:
            beyond = found.estimate.usd_per_hour.total - budget
            least = (beyond, found) if 0 < beyond <= (MOST_FACTOR - 1) * budget else None
    return _worth(kind, trial, least, result, asker)


def _counted(kind: _Kind, more: Callable[[int], Problem], result: Result, asker: Asker) -> Worth:
    """Value one more, and bisect for the fewest that change anything: more never gets worse."""

    def asked(count: int) -> tuple[Trial, bool]:
        trial = asker.best(more(count), start=result.placement)
        return trial, bool(improves(trial, result, asker.options.gap))

    one, better = asked(1)
    least: tuple[int, Trial] | None = (1, one) if better else None
    if least is None:
        most = max(2, round((MOST_FACTOR - 1) * kind.limit))
        trial, better = asked(most)
        least, low = ((most, trial) if better else None), 1
        while least is not None and least[0] - low > 1:
            middle = (low + least[0]) // 2
            trial, better = asked(middle)
            if better:
                least = middle, trial
            else:
                low = middle
    return _worth(kind, one, least, result, asker)


def _bandwidth(use: LinkUse, result: Result, asker: Asker) -> Worth:
    """Value more bandwidth on one link, both ways."""
    problem = result.problem
    now = problem.network.link(use.src, use.dst).bytes_per_second / BYTES_PER_MEGABIT
    words = f"{MEGABITS:g} Mb/s between {use.src} and {use.dst}"
    gbps = (now + MEGABITS) / 1e3
    rows = [
        LinkSpeed(
            src=a,
            dst=b,
            gbps_one_stream=gbps,
            gbps_low=gbps,
            gbps_high=gbps,
            source="what if",
            as_of=problem.catalog.as_of[1],
        )
        for a, b in ((use.src, use.dst), (use.dst, use.src))
    ]
    faster = replace(problem, catalog=with_link_speeds(problem.catalog, rows))
    trial = asker.best(faster, start=result.placement)
    kind = _Kind("bandwidth", words, "megabits_per_second", now, MEGABITS)
    return _worth(kind, trial, None, result, asker)


def _worth(
    kind: _Kind, trial: Trial, least: tuple[float, Trial] | None, result: Result, asker: Asker
) -> Worth:
    better = improves(trial, result, asker.options.gap)
    difference = gain = None if better is None else 0.0
    if better and trial.value is not None and result.value is not None:
        difference, gain = trial.value - result.value, gain_of(trial, result)
    return Worth(
        **kind._asdict(),
        difference=difference,
        gain=gain,
        option=trial.option() if better else None,
        least=None if least is None else least[0],
        least_gain=None if least is None else gain_of(least[1], result),
        least_option=None if least is None else least[1].option(),
    )


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
