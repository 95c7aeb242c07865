"""What one more is worth: a dollar an hour, a GPU of quota, bandwidth on the busiest link, a
worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from placer.advice.explanation.binding import BETTER, improves, with_bucket
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
PRECISION = 0.01
"""A least increase of bandwidth is known within this share."""
BYTES_PER_MEGABIT = 1e6 / 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Worth:
    """What more of one limit brings.

    Notes
    -----
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


def worth_of_more(result: Result, asker: Asker) -> tuple[Worth, ...]:
    """Ask what one more of each limit would bring.

    Parameters
    ----------
    result
        The best answer.
    """
    return tuple(_worths(result, asker))


def _worths(result: Result, asker: Asker) -> Iterator[Worth]:
    problem, placement, estimate = result.problem, result.placement, result.estimate
    assert placement is not None
    assert estimate is not None
    wish = problem.requirements
    if wish.budget_usd_per_hour is not None:
        yield _dollar(result, wish.budget_usd_per_hour, asker)
    bucket, gpus = max(
        quota_use(placement, problem).items(), key=lambda item: item[1] / problem.quota(*item[0])
    )
    quota = problem.quota(*bucket)
    if gpus >= quota:
        words = f"GPU of quota for {bucket[1]} {bucket[2].replace('_', '-')} in {bucket[0]}"
        yield _counted(
            "quota",
            words,
            "gpus",
            quota,
            lambda n: with_bucket(problem, bucket, quota + n),
            result,
            asker,
        )
    if placement.workers >= wish.max_workers:
        most = wish.max_workers
        yield _counted(
            "workers",
            "worker",
            "workers",
            most,
            lambda n: wanting(problem, max_workers=most + n),
            result,
            asker,
        )
    between = [use for use in estimate.links if use.src != use.dst]
    if between:
        yield _bandwidth(
            max(
                between,
                key=lambda use: (
                    use.bytes_per_step / problem.network.link(use.src, use.dst).bytes_per_second
                ),
            ),
            result,
            asker,
        )


def _dollar(result: Result, budget: float, asker: Asker) -> Worth:
    """Value one more dollar an hour, and find the cheapest placement that is better."""
    problem = result.problem
    trial = asker.best(
        wanting(problem, budget_usd_per_hour=budget + DOLLAR), start=result.placement
    )
    least = _cheapest_better(result, asker) if result.objective.by_speed else None
    beyond = (
        None
        if least is None or least.estimate is None
        else least.estimate.usd_per_hour.total - budget
    )
    if beyond is not None and not 0 < beyond <= (MOST_FACTOR - 1) * budget:
        beyond, least = None, None
    return _worth(
        "budget",
        "dollar an hour",
        "usd_per_hour",
        budget,
        DOLLAR,
        trial,
        beyond,
        least,
        result,
        asker,
    )


def _cheapest_better(result: Result, asker: Asker) -> Trial | None:
    """Return the cheapest placement that is faster than the best by more than the gap."""
    problem, estimate = result.problem, result.estimate
    assert estimate is not None
    speed = estimate.effective_samples_per_second.value * (1 + asker.options.gap + BETTER)
    floor = max(speed, problem.requirements.floor_samples_per_second or 0.0)
    trial = asker.best(
        wanting(problem, objective="cost", budget_usd_per_hour=None, min_samples_per_second=floor)
    )
    return None if trial.placement is None else trial


def _counted(
    code: str,
    words: str,
    unit: str,
    limit: int,
    more: Callable[[int], Problem],
    result: Result,
    asker: Asker,
) -> Worth:
    """Value one more of what is counted, and find the fewest that change anything: what more allows
    never gets worse, so bisection finds it.
    """
    one = asker.best(more(1), start=result.placement)
    least, best = (1, one) if improves(one, result, asker.options.gap) else (None, None)
    if least is None:
        most = max(2, round((MOST_FACTOR - 1) * limit))
        trial = asker.best(more(most), start=result.placement)
        if improves(trial, result, asker.options.gap):
            low, least, best = 1, most, trial
            while least - low > 1:
                middle = (low + least) // 2
                trial = asker.best(more(middle), start=result.placement)
                if improves(trial, result, asker.options.gap):
                    least, best = middle, trial
                else:
                    low = middle
    return _worth(code, words, unit, limit, 1, one, least, best, result, asker)


def _bandwidth(use: LinkUse, result: Result, asker: Asker) -> Worth:
    """Value more bandwidth on one link, both ways."""
    problem = result.problem
    now = problem.network.link(use.src, use.dst).bytes_per_second / BYTES_PER_MEGABIT
    words = f"{MEGABITS:g} Mb/s between {use.src} and {use.dst}"
    trial = asker.best(_faster(use, now + MEGABITS, problem), start=result.placement)
    return _worth(
        "bandwidth", words, "megabits_per_second", now, MEGABITS, trial, None, None, result, asker
    )


def _faster(use: LinkUse, megabits_per_second: float, problem: Problem) -> Problem:
    """Return the question with another bandwidth of one stream between two places."""
    gbps, day = megabits_per_second / 1e3, problem.catalog.as_of[1]
    rows = [
        LinkSpeed(
            src=a,
            dst=b,
            gbps_one_stream=gbps,
            gbps_low=gbps,
            gbps_high=gbps,
            source="what if",
            as_of=day,
        )
        for a, b in ((use.src, use.dst), (use.dst, use.src))
    ]
    return replace(problem, catalog=with_link_speeds(problem.catalog, rows))


def _worth(
    code: str,
    words: str,
    unit: str,
    limit: float,
    step: float,
    trial: Trial,
    least: float | None,
    found: Trial | None,
    result: Result,
    asker: Asker,
) -> Worth:
    better = improves(trial, result, asker.options.gap)
    difference = gain = None if better is None else 0.0
    if better and trial.value is not None and result.value is not None:
        difference, gain = trial.value - result.value, _gain(trial, result)
    return Worth(
        code=code,
        words=words,
        unit=unit,
        limit=limit,
        step=step,
        option=trial.option() if better else None,
        difference=difference,
        gain=gain,
        least=least,
        least_option=None if found is None else found.option(),
        least_gain=None if found is None else _gain(found, result),
    )


def _gain(found: Trial, result: Result) -> float:
    """Return the improvement of the request's own objective, whatever was searched for."""
    assert found.estimate is not None
    assert result.value is not None
    return -result.objective.loss(result.objective.value(found.estimate), result.value)
