"""At which price, egress price or bandwidth something would be chosen that is not.

For a fixed placement USD/h is linear in a price, and the least USD/h over all placements is concave
in it. So Newton's method from below needs few searches and its steps are exact: each is the
break-even of a placement that exists, the last one is followed by a proof that a little more finds
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, isinf
from operator import itemgetter
from typing import Any, Literal

from placer.advice.explanation.subject import Asker, Subject, Trial
from placer.advice.recommendation.other_answers import wanting
from placer.cost_model.estimate import estimate, evaluate
from placer.cost_model.limits import broken_limits
from placer.documents.schemas.explanation import BreakEven
from placer.market.catalog import Catalog
from placer.market.scaled_market import with_scaled_egress, with_scaled_links, with_scaled_prices
from placer.problem.kept_answers import Recent
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.result import Option, Result
from placer.units import SECONDS_PER_HOUR

STEP = 0.005
"""A break-even is proved to lie within this share of the factor that is reported."""
MOST_STEPS = 12
"""Steps of Newton's method; three are usual."""
KEPT_BOOKS = 3
"""Books with scaled prices that are kept: of nothing, of the last step, and of the one before."""
LIMITLESS = 1e6
"""Factor of bandwidth that stands for no limit."""
TRIED_FACTORS = (LIMITLESS, 64.0, 8.0, 2.0)
"""Where a search goes down from: faster steps also send more, so the largest need not be the best.
"""
HALVINGS = 60
"""Halvings of a bisection over one placement."""
STRICT = 1e-6
"""A speed is better if it is by this share."""
LEAST_AMOUNT = 1e-9
"""A limit of nothing is written as this: machines that are paid for may cost and emit nothing."""
ROUNDING = 1e-9
"""Slack of sums in floating point."""

Figure = Literal["price", "egress", "bandwidth"]
Scale = Callable[[Catalog, float], Catalog]
Reached = tuple[float | None, Option | None, bool]
"""A factor, the placement there, and whether no better one is left."""
MONEY = ("budget_usd_per_hour", "most_usd_per_million_samples", "budget_usd")
"""Limits on money: by the hour, by the sample, in all."""
SEARCHED = dict(zip(("cost", "cost-per-sample", "total"), MONEY, strict=True))
"""The limit on what a search minimises."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """Limits that a placement keeps to be chosen instead of the best, and what is searched for."""

    limits: Mapping[str, float | None]
    search: str = "cost"

    def most_usd_per_hour(self, samples_per_second: float, wish: Requirements) -> float:
        """Return the USD/h that a placement of some speed may cost; all of it is paid from the
        start, so that it errs low where much is sent.
        """
        hourly, per_million, total = (self.limits[name] for name in MONEY)
        limits = [] if hourly is None else [hourly]
        if per_million is not None:
            limits.append(per_million * samples_per_second * SECONDS_PER_HOUR / 1e6)
        if total is not None:
            seconds = (wish.samples or 0) / samples_per_second + wish.startup_s
            limits.append(total / seconds * SECONDS_PER_HOUR)
        return min(limits, default=inf)

    def met(self, placement: Placement, problem: Problem) -> bool:
        """Return whether a placement reaches the goal."""
        asked = self.question(problem)
        return not broken_limits(evaluate(placement, asked), asked.requirements)

    def question(self, problem: Problem, search: str = "") -> Problem:
        """Return the search for a placement that reaches the goal, as far beyond it as possible."""
        return wanting(problem, objective=search or self.search, **self.limits)


def goals_of(result: Result) -> tuple[Goal, ...]:
    """Return what beats the best: more speed, or the same for less; less money, or carbon."""
    (_, got), wish = result.found, result.problem.requirements
    usd, value = max(got.usd_per_hour.total, LEAST_AMOUNT), max(result.value or 0.0, LEAST_AMOUNT)
    known = {name: getattr(wish, name) for name in (*MONEY, "max_carbon_g_per_hour")}
    known["min_samples_per_second"] = wish.floor_samples_per_second
    match wish.objective:
        case "cost":
            return (Goal(limits={**known, "budget_usd_per_hour": usd}),)
        case "cost-per-sample":
            least = max(got.usd_per_million_samples, LEAST_AMOUNT)
            limits = {**known, "most_usd_per_million_samples": least}
            return (Goal(limits=limits, search="cost-per-sample"),)
        case "total":
            return (Goal(limits={**known, "budget_usd": value}, search="total"),)
        case "carbon":
            return (Goal(limits={**known, "max_carbon_g_per_hour": value}),)
    speed = got.effective_samples_per_second.value
    faster = {**known, "min_samples_per_second": speed * (1 + STRICT)}
    same = {**known, "min_samples_per_second": speed * (1 - ROUNDING), "budget_usd_per_hour": usd}
    return Goal(limits=faster), Goal(limits=same)


def price_break_even(
    subject: Subject, questions: Sequence[Problem], known: Trial, result: Result, asker: Asker
) -> BreakEven[Option]:
    """Find the factor on the price of a subject's machines at which it is chosen: at which any of
    the questions with it forced in has an answer that beats the best. ``known`` is the best of
    these answers today.
    """
    # Many factors are tried on the same offers: which are meant is found out once.
    meant = {
        id(offer)
        for question in questions
        for offer in question.catalog.offers
        if offer.price_basis != "owned" and subject.matches(offer)
    }

    def scale(book: Catalog, factor: float) -> Catalog:
        return with_scaled_prices(book, lambda offer: id(offer) in meant, factor)

    return _from_below("price", scale, questions, known, result, asker)


def egress_break_even(
    questions: Sequence[Problem], known: Trial, result: Result, asker: Asker
) -> BreakEven[Option]:
    """Find the factor on all prices of egress at which an answer beats the best."""
    return _from_below("egress", with_scaled_egress, questions, known, result, asker)


def _from_below(
    what: Figure,
    scale: Scale,
    questions: Sequence[Problem],
    today: Trial,
    result: Result,
    asker: Asker,
) -> BreakEven[Option]:
    """Run Newton's method over a price, from 0 up, or from where today's answer reaches a goal."""
    # One goal ends where the next begins, and questions about one book share what is known of it.
    made: Recent[Catalog] = Recent(KEPT_BOOKS)

    def kept(book: Catalog, factor: float) -> Catalog:
        return made.get((id(book), factor), lambda: scale(book, factor))

    def reached() -> Iterator[Reached]:
        entered = list(_entering(kept, today, questions[0], goals_of(result)))
        yield from entered
        largest = max((factor for factor, _, _ in entered if factor is not None), default=0.0)
        for question, goal in product(questions, goals_of(result)):
            if largest > LIMITLESS:  # no larger one counts
                continue
            if what == "price" and all(goal.limits[name] is None for name in MONEY):
                # Money decides nothing: the goal is reached at any price or at none.
                trial = asker.best(goal.question(question, "throughput"))
                option = _plain(trial)
                never: Reached = (None, None, trial.proved)
                found = never if option is None else (inf, option, True)
            else:
                found = _newton(kept, goal, question, asker, largest)
            largest = max(largest, found[0] or 0.0)
            yield found

    return _entered(what, kept, reached(), questions[0], max)


def _entering(
    scale: Scale, today: Trial, question: Problem, goals: Iterable[Goal]
) -> Iterator[Reached]:
    """Yield the factors at which today's answer reaches goals."""
    option = _plain(today)
    if option is None:
        return
    placement, free = option.placement, _at(scale, 0.0, question)
    for goal in goals:
        factor = _own_factor(placement, goal, free, question)
        if 0 < factor < inf and goal.met(placement, _at(scale, factor, question)):
            yield factor, option, True


def _entered(
    what: Figure,
    scale: Scale,
    reached: Iterable[Reached],
    question: Problem,
    best: Callable[..., Any],
) -> BreakEven[Option]:
    """Return the best of some factors, whose placement has its estimate in the scaled market."""
    rows = list(reached)
    known = [(factor, option) for factor, option, _ in rows if factor is not None]
    factor, option = best(known, key=itemgetter(0), default=(None, None))
    if option is not None and factor is not None and factor < LIMITLESS:
        there = estimate(option.placement, _at(scale, factor, question))
        option = replace(option, estimate=there)
    proved = all(sure for _, _, sure in rows)
    endless = factor is not None and isinf(factor)
    return BreakEven(
        what=what,
        factor=None if endless else factor,
        at_any_price=endless,
        proved=proved,
        placement=option,
    )


def _at(scale: Scale, factor: float, question: Problem) -> Problem:
    return replace(question, catalog=scale(question.catalog, factor))


def _plain(trial: Trial) -> Option | None:
    """Return the placement of an answer, whatever was proved."""
    option = trial.option()
    return option and replace(option, proved=True)


def _newton(scale: Scale, goal: Goal, question: Problem, asker: Asker, least: float) -> Reached:
    """Return the largest factor that reaches a goal, its placement, and whether that is proved."""
    free = _at(scale, 0.0, question)
    factor, option, reached = least * (1 + STEP), None, None
    for _ in range(MOST_STEPS):
        asked = goal.question(scaled := _at(scale, factor, question))
        beat = asker.just_above(goal.limits[SEARCHED[goal.search]])
        # Where nothing costs anything, none is better than the first.
        trial = asker.best(asked, first=factor == 0.0, beat=beat, rough=True)
        if trial.placement is None and not trial.proved and beat is not None:
            trial = asker.best(asked, rough=True)  # drafts are made for this
        if trial.placement is None or not goal.met(trial.placement, scaled):
            return reached, option, trial.proved
        option = _plain(trial)
        reached = max(factor, _own_factor(trial.placement, goal, free, question))
        if reached > LIMITLESS:
            return reached, option, True
        factor = reached * (1 + STEP) or STEP
    return reached, option, False


def _own_factor(placement: Placement, goal: Goal, free: Problem, today: Problem) -> float:
    """Return the factor at which a placement costs what the goal allows: only USD/h moves."""
    nothing, full = evaluate(placement, free), evaluate(placement, today)
    slope = full.usd.total - nothing.usd.total
    most = goal.most_usd_per_hour(nothing.samples_per_second, today.requirements)
    return (most - nothing.usd.total) / slope if slope > 0 else inf


def never_by_network(questions: Sequence[Problem], result: Result, asker: Asker) -> bool | None:
    """Return whether nothing enters even with free egress and endless links; None if not proved."""
    proved = True
    for question in questions:
        free = with_scaled_egress(question.catalog, 0.0)
        ideal = replace(question, catalog=with_scaled_links(free, LIMITLESS))
        for goal in goals_of(result):
            trial = asker.best(goal.question(ideal), first=True)
            if trial.placement is not None and goal.met(trial.placement, ideal):
                return False
            proved = proved and trial.proved
    return True if proved else None


def bandwidth_break_even(
    questions: Sequence[Problem], result: Result, asker: Asker
) -> BreakEven[Option]:
    """Find the least factor on the bandwidth between places at which an answer beats the best."""
    pairs = product(questions, goals_of(result))
    reached = (_from_above(goal, question, asker) for question, goal in pairs)
    return _entered("bandwidth", with_scaled_links, reached, questions[0], min)


def _from_above(goal: Goal, question: Problem, asker: Asker) -> Reached:
    """Go down from ample bandwidth: each placement that reaches the goal says what it needs."""
    reached, option, sure = None, None, True
    for factor in TRIED_FACTORS:
        while reached is None or reached > 1:
            at = factor if reached is None else reached / (1 + STEP)
            scaled = _at(with_scaled_links, at, question)
            trial = asker.best(goal.question(scaled, "throughput"))
            sure = trial.proved
            if trial.placement is None or not goal.met(trial.placement, scaled):
                break
            reached, option = _least_factor(trial.placement, goal, question, at), _plain(trial)
        if reached is not None:
            break
    return reached, option, sure


def _least_factor(placement: Placement, goal: Goal, question: Problem, most: float) -> float:
    """Return the least bandwidth with which a placement reaches the goal, below one that does."""
    low, high = 0.0, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if goal.met(placement, _at(with_scaled_links, middle, question)):
            high = middle
        else:
            low = middle
        if high - low < STEP / 10 * high:
            break
    return high
