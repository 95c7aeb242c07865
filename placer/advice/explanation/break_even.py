"""At which price, egress price or bandwidth something would be chosen that is not.

For a fixed placement USD/h is linear in a price, and the least USD/h over all placements is concave
in it. So Newton's method from below needs few searches and its steps are exact: each is the
break-even of a placement that exists, the last one is followed by a proof that a little more finds
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from placer.advice.explanation.side_questions import Asker, Trial, wanting
from placer.advice.explanation.subject import Subject
from placer.cost_model.estimate import estimate, evaluate
from placer.cost_model.limits import broken_limits
from placer.market.catalog import Catalog, VmOffer
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

Scale = Callable[[Catalog, float], Catalog]


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEven:
    """Where something enters.

    ``what`` is price, egress or bandwidth; ``factor`` multiplies today's; None with ``proved``: at
    no factor at all, not even 0 or infinity; None without ``proved``: not found. ``proved``: at a
    factor that is better by half a percent it enters, at one that is worse by half a percent
    nothing does. ``option`` is the placement at the break-even, priced there.
    """

    what: str
    factor: float | None
    proved: bool
    option: Option | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What a placement must reach to be chosen instead of the best: at least a speed, at most
    USD/h, USD per million samples, USD in all, g CO2e/h.
    """

    min_samples_per_second: float | None
    budget_usd_per_hour: float | None
    usd_per_million_samples: float | None
    budget_usd: float | None
    max_carbon_g_per_hour: float | None
    search: str = "cost"

    @property
    def counts_money(self) -> bool:
        """Whether money decides about it at all."""
        limits = (self.budget_usd_per_hour, self.usd_per_million_samples, self.budget_usd)
        return any(limit is not None for limit in limits)

    def most_usd_per_hour(self, samples_per_second: float, wish: Requirements) -> float:
        """Return the USD/h that a placement of some speed may cost; all of it is paid from the
        start, so that it errs low where much is sent.
        """
        limits = [] if self.budget_usd_per_hour is None else [self.budget_usd_per_hour]
        if self.usd_per_million_samples is not None:
            limits.append(
                self.usd_per_million_samples * samples_per_second * SECONDS_PER_HOUR / 1e6
            )
        if self.budget_usd is not None:
            seconds = (wish.samples or 0) / samples_per_second + wish.startup_s
            limits.append(self.budget_usd / seconds * SECONDS_PER_HOUR)
        return min(limits, default=float("inf"))

    def met(self, placement: Placement, problem: Problem) -> bool:
        """Return whether a placement reaches the goal."""
        asked = self.question(problem)
        return not broken_limits(evaluate(placement, asked), asked.requirements)

    def question(self, problem: Problem, search: str = "") -> Problem:
        """Return the search for a placement that reaches the goal, as far beyond it as possible."""
        return wanting(
            problem,
            objective=search or self.search,
            min_samples_per_second=self.min_samples_per_second,
            budget_usd_per_hour=self.budget_usd_per_hour,
            most_usd_per_million_samples=self.usd_per_million_samples,
            budget_usd=self.budget_usd,
            max_carbon_g_per_hour=self.max_carbon_g_per_hour,
        )


def goals_of(result: Result) -> tuple[Goal, ...]:
    """Return what beats the best: more speed, or the same for less; less money, or carbon."""
    wish, estimate = result.problem.requirements, result.estimate
    assert estimate is not None
    speed, usd = estimate.effective_samples_per_second.value, estimate.usd_per_hour.total
    usd, value = max(usd, LEAST_AMOUNT), max(result.value or 0.0, LEAST_AMOUNT)
    limits = Goal(
        min_samples_per_second=wish.floor_samples_per_second,
        budget_usd_per_hour=wish.budget_usd_per_hour,
        usd_per_million_samples=wish.most_usd_per_million_samples,
        budget_usd=wish.budget_usd,
        max_carbon_g_per_hour=wish.max_carbon_g_per_hour,
    )
    match wish.objective:
        case "cost":
            return (replace(limits, budget_usd_per_hour=usd),)
        case "cost-per-sample":
            least = max(estimate.usd_per_million_samples, LEAST_AMOUNT)
            return (replace(limits, usd_per_million_samples=least, search="cost-per-sample"),)
        case "total":
            return (replace(limits, budget_usd=value, search="total"),)
        case "carbon":
            return (replace(limits, max_carbon_g_per_hour=value),)
    faster = replace(limits, min_samples_per_second=speed * (1 + STRICT))
    same = speed * (1 - ROUNDING)
    return faster, replace(limits, min_samples_per_second=same, budget_usd_per_hour=usd)


def price_break_even(
    subject: Subject, questions: Sequence[Problem], result: Result, asker: Asker
) -> BreakEven:
    """Find the factor on the price of a subject's machines at which it is chosen: at which any of
    the questions with it forced in has an answer that beats the best.
    """
    # Many factors are tried on the same offers: which are meant is found out once.
    meant = {
        id(offer)
        for question in questions
        for offer in question.catalog.offers
        if offer.price_basis != "owned" and subject.matches(offer)
    }

    def rented(offer: VmOffer) -> bool:
        return id(offer) in meant

    def scale(book: Catalog, factor: float) -> Catalog:
        return with_scaled_prices(book, rented, factor)

    return _from_below("price", scale, questions, result, asker)


def egress_break_even(questions: Sequence[Problem], result: Result, asker: Asker) -> BreakEven:
    """Find the factor on all prices of egress at which an answer beats the best."""
    return _from_below("egress", with_scaled_egress, questions, result, asker)


def _from_below(
    what: str, scale: Scale, questions: Sequence[Problem], result: Result, asker: Asker
) -> BreakEven:
    """Run Newton's method over a price, from 0 up."""
    answer, proved = BreakEven(what=what, factor=None, proved=True, option=None), True
    scale = _kept(scale)
    for question, goal in product(questions, goals_of(result)):
        if answer.factor is not None and answer.factor > LIMITLESS:  # no larger one counts
            continue
        if what == "price" and not goal.counts_money:
            factor, option, sure = _without_money(goal, question, asker)
        else:
            factor, option, sure = _newton(scale, goal, question, asker, answer.factor)
        proved = proved and sure
        if factor is not None and (answer.factor is None or factor > answer.factor):
            answer = replace(answer, factor=factor, option=option)
    return _priced(scale, replace(answer, proved=proved), questions[0])


def _kept(scale: Scale) -> Scale:
    """Return a scale that keeps its last books: goals and questions share them."""
    made: Recent[Catalog] = Recent(KEPT_BOOKS)
    return lambda book, factor: made.get((id(book), factor), lambda: scale(book, factor))


def _at(scale: Scale, factor: float, question: Problem) -> Problem:
    return replace(question, catalog=scale(question.catalog, factor))


def _priced(scale: Scale, found: BreakEven, question: Problem) -> BreakEven:
    """Return a break-even whose placement has its estimate in the scaled market."""
    if found.option is None or found.factor is None or found.factor >= LIMITLESS:
        return found
    there = estimate(found.option.placement, _at(scale, found.factor, question))
    return replace(found, option=replace(found.option, estimate=there))


def _without_money(
    goal: Goal, question: Problem, asker: Asker
) -> tuple[float | None, Option | None, bool]:
    """Answer where no money limits anything: the goal is reached at any price or at none."""
    trial = asker.best(goal.question(question, "throughput"))
    option = _plain(trial)
    return (None, None, trial.proved) if option is None else (float("inf"), option, True)


def _plain(trial: Trial) -> Option | None:
    """Return the placement of an answer, whatever was proved."""
    option = trial.option()
    return option and replace(option, proved=True)


def _newton(
    scale: Scale, goal: Goal, question: Problem, asker: Asker, least: float | None
) -> tuple[float | None, Option | None, bool]:
    """Return the largest factor that reaches a goal, its placement, and whether that is proved."""
    free = _at(scale, 0.0, question)
    factor, option, reached = (least or 0.0) * (1 + STEP), None, None
    for _ in range(MOST_STEPS):
        trial = asker.best(goal.question(scaled := _at(scale, factor, question)))
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
    return (most - nothing.usd.total) / slope if slope > 0 else float("inf")


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


def bandwidth_break_even(questions: Sequence[Problem], result: Result, asker: Asker) -> BreakEven:
    """Find the least factor on the bandwidth between places at which an answer beats the best."""
    answer, proved = BreakEven(what="bandwidth", factor=None, proved=True, option=None), True
    for question, goal in product(questions, goals_of(result)):
        factor, option, sure = _from_above(goal, question, asker)
        proved = proved and sure
        if factor is not None and (answer.factor is None or factor < answer.factor):
            answer = replace(answer, factor=factor, option=option)
    return _priced(with_scaled_links, replace(answer, proved=proved), questions[0])


def _from_above(
    goal: Goal, question: Problem, asker: Asker
) -> tuple[float | None, Option | None, bool]:
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
            return reached, option, sure
    return None, None, sure


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
