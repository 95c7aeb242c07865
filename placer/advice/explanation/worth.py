"""What a change is worth: one more of a limit, a second region, another price or bandwidth.

For a fixed placement USD/h is linear in a price, and the least USD/h over all placements is concave
in it. So Newton's method from below needs few searches and its steps are exact: each is the
break-even of a placement that exists, the last one is followed by a proof that a little more finds
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, isfinite, isinf
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from placer.advice.explanation.binding import BETTER, cheapest_from, gain_of, improves, with_bucket
from placer.advice.explanation.subject import Asker, Subject, Trial
from placer.advice.recommendation.other_answers import wanting
from placer.cost_model.estimate import LinkUse, estimate, evaluate
from placer.cost_model.limits import broken_limits, quota_use
from placer.documents.schemas.explanation import Binding, BreakEven, Staying, Worth
from placer.market.catalog import Catalog
from placer.market.scaled_market import with_scaled_egress, with_scaled_links, with_scaled_prices
from placer.problem.kept_answers import Recent
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.result import Option, Result
from placer.units import SECONDS_PER_HOUR
from placer.workload.overlay import LinkSpeed, with_link_speeds

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


class BreakEvens:
    """At which figure any of some ``questions``, with a subject forced in, has an answer that beats
    the best.
    """

    def __init__(self, questions: Sequence[Problem], result: Result, asker: Asker) -> None:
        self.questions, self.goals, self.asker = questions, goals_of(result), asker

    def price(self, subject: Subject, known: Trial) -> BreakEven[Option]:
        """Find the factor on the price of a subject's machines at which it is chosen. ``known`` is
        the best of the answers today.
        """
        # Many factors are tried on the same offers: which are meant is found out once.
        meant = {
            id(offer)
            for question in self.questions
            for offer in question.catalog.offers
            if offer.price_basis != "owned" and subject.matches(offer)
        }

        def scale(book: Catalog, factor: float) -> Catalog:
            return with_scaled_prices(book, lambda offer: id(offer) in meant, factor)

        return self._from_below("price", scale, known)

    def egress(self, known: Trial) -> BreakEven[Option]:
        """Find the factor on all prices of egress at which an answer beats the best."""
        return self._from_below("egress", with_scaled_egress, known)

    def bandwidth(self) -> BreakEven[Option]:
        """Find the least factor on the bandwidth between places."""
        pairs = product(self.questions, self.goals)
        reached = [_from_above(goal, question, self.asker) for question, goal in pairs]
        return self._entered("bandwidth", with_scaled_links, reached, min)

    def never_by_network(self) -> bool | None:
        """Return whether nothing enters even with free egress and endless links; None if that is
        not proved.
        """
        proved = True
        for question in self.questions:
            free = with_scaled_egress(question.catalog, 0.0)
            ideal = replace(question, catalog=with_scaled_links(free, LIMITLESS))
            for goal in self.goals:
                trial = self.asker.best(goal.question(ideal), first=True)
                if trial.placement is not None and goal.met(trial.placement, ideal):
                    return False
                proved = proved and trial.proved
        return True if proved else None

    def _from_below(self, what: Figure, scale: Scale, today: Trial) -> BreakEven[Option]:
        """Run Newton's method over a price, from 0 up, or from where today's answer is enough."""
        # One goal ends where the next begins; questions about one book share what is known of it.
        made: Recent[Catalog] = Recent(KEPT_BOOKS)

        def kept(book: Catalog, factor: float) -> Catalog:
            return made.get((id(book), factor), lambda: scale(book, factor))

        reached = list(self._entering(kept, today))
        largest = max((factor for factor, _, _ in reached if factor is not None), default=0.0)
        for question, goal in product(self.questions, self.goals):
            if largest > LIMITLESS:  # no larger one counts
                continue
            if what == "price" and all(goal.limits[name] is None for name in MONEY):
                # Money decides nothing: the goal is reached at any price or at none.
                trial = self.asker.best(goal.question(question, "throughput"))
                option = _plain(trial)
                never: Reached = (None, None, trial.proved)
                found = never if option is None else (inf, option, True)
            else:
                found = _newton(kept, goal, question, self.asker, largest)
            largest = max(largest, found[0] or 0.0)
            reached.append(found)
        return self._entered(what, kept, reached, max)

    def _entering(self, scale: Scale, today: Trial) -> Iterator[Reached]:
        """Yield the factors at which today's answer reaches goals."""
        option, question = _plain(today), self.questions[0]
        if option is None:
            return
        placement, free = option.placement, _at(scale, 0.0, question)
        for goal in self.goals:
            factor = _own_factor(placement, goal, free, question)
            if 0 < factor < inf and goal.met(placement, _at(scale, factor, question)):
                yield factor, option, True

    def _entered(
        self, what: Figure, scale: Scale, reached: Sequence[Reached], best: Callable[..., Any]
    ) -> BreakEven[Option]:
        """Return the best of some factors, with the estimate in the scaled market."""
        known = [(factor, option) for factor, option, _ in reached if factor is not None]
        factor, option = best(known, key=itemgetter(0), default=(None, None))
        if option is not None and factor is not None and factor < LIMITLESS:
            there = estimate(option.placement, _at(scale, factor, self.questions[0]))
            option = replace(option, estimate=there)
        endless = factor is not None and isinf(factor)
        return BreakEven(
            what=what,
            factor=None if endless else factor,
            at_any_price=endless,
            proved=all(sure for _, _, sure in reached),
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


DOLLAR = 1.0
"""Step of the budget in USD/h."""
MEGABITS = 100.0
"""Step of the bandwidth of one stream in Mb/s."""
MOST_FACTOR = 2.0
"""The least increase that changes anything is looked for up to this multiple."""
BYTES_PER_MEGABIT = 1e6 / 8
MOST_USD_PER_HOUR = 500.0
"""Budgets are looked at up to here."""
MOST_POINTS = 40
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
        loss = inf
        if trial.value is not None and result.value is not None:
            loss = result.objective.loss(trial.value, result.value)
        return _staying(
            regions=len(placement.places),
            best_in_one_region=trial.option(),
            loss=loss if isfinite(loss) else None,
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
    for _ in range(MOST_POINTS):
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
