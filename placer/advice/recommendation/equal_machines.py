"""Equal machines beside an answer: the best of each kind, and what just breaks one limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from placer.cost_model.convergence import multiplier_of
from placer.cost_model.estimate import Estimate, Outcome, estimate, evaluate, pool_of, with_plans
from placer.cost_model.limits import LIMIT_CODES, TOLERANCE, Violation, evaluated
from placer.cost_model.objective import Objective, objective_named, objective_of
from placer.cost_model.outlook.totals import totals_of
from placer.cost_model.timing.least_steps import LeastSteps
from placer.market.network.link_model import Array
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.placement import NO_EXCHANGE, Exchange, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving import allowance
from placer.solving.result import Option, Result
from placer.units import format_duration, format_usd, speed_unit
from placer.workload.island import Island

Considered = tuple[Placement, Outcome | None, tuple[Violation, ...]]
"""A placement, what it does and costs as far as that can be evaluated, and the limits it breaks."""
Fitting = list[tuple[Placement, Outcome]]
"""Placements that keep every limit."""
CLEARLY = 1.05
"""A near miss gives at least this much more."""
NEAR = 1.5
"""A near miss breaks one limit by at most this factor."""


class Promise(NamedTuple):
    """Equal machines with the most samples/s that count and the least USD/h: bounds on both."""

    samples_per_second: float
    usd_per_hour: float
    worker: WorkerGroup
    workers: int
    exchange: Exchange

    @property
    def kind(self) -> tuple[str, str]:
        """Device and market."""
        return self.worker.device, self.worker.market

    def score(self, objective: Objective) -> float:
        """Return the first part of a score (see `Objective.score`) that none of them is below."""
        if objective.by_speed:
            return -self.samples_per_second
        # Nobody promises emissions: 0, so that no placement is left out where they are minimised.
        return objective.value_at(self.samples_per_second, self.usd_per_hour, 0.0)

    @property
    def placement(self) -> Placement:
        """All workers, without the plan inside each."""
        return Placement(groups=(replace(self.worker, count=self.workers),), exchange=self.exchange)


def equal_machines(problem: Problem) -> Iterator[Promise]:
    """Yield every payable count of every kind of machine and market, at its cheapest place."""
    wish = problem.requirements
    budget = (wish.budget_usd_per_hour or math.inf) * NEAR
    least_steps = LeastSteps(replace(problem, requirements=replace(wish, exchange="all-reduce")))
    alone, together = (exchange_for(name, 2, problem) for name in (NO_EXCHANGE, "all-reduce"))
    multipliers = [multiplier_of(exchange, problem).value for exchange in (alone, together)]
    exchanges = ("all-reduce", 1) in problem.modes
    for worker, counts in _counted(problem):
        allowance.check()
        pool = pool_of(worker, problem)
        payable = counts * pool.usd_per_hour <= budget
        n = counts[payable if exchanges else payable & (counts == 1)]
        part_s = problem.batch / (n * max(pool.alone.value, pool.shared.value))
        steps_s = least_steps.steps_s(
            part_s, pool.host, n, pool.machines, free_share=pool.free_share
        )
        speeds = problem.batch / steps_s / np.where(n > 1, *reversed(multipliers))
        for count, speed in zip(n.tolist(), speeds.tolist(), strict=True):
            exchange = alone if count == 1 else together
            yield Promise(speed, count * pool.usd_per_hour, worker, count, exchange)


def _counted(problem: Problem) -> Iterator[tuple[WorkerGroup, Array]]:
    """Yield kinds of workers, each at its cheapest place, with the numbers to consider.

    Of workers with a plan, one more than a step can keep busier is left out: the fullest device has
    as many sequences as with one less. Larger islands than the smallest are considered alone: what
    several of them do is nearly what one of all their machines does.
    """
    wish, question, pools = problem.requirements, problem.island_question, problem.pools
    cheapest = pools.cheapest(*pools.by_kind(lambda kind: (kind.name, kind.offer.market)))
    for pool in map(pools.__getitem__, cheapest.tolist()):
        counts = np.arange(wish.min_workers, min(pool.max_count, wish.max_workers) + 1)
        if question is not None:
            fullest = -(-problem.batch // (counts * pool.gpus))
            counts = counts[np.diff(fullest, prepend=0) != 0]
        worker = pool.group(1)
        yield worker, counts
        if question is None or wish.min_workers > 1:
            continue
        most = min(question.limits(pool.offer)[1], problem.machines_there(pool.offer))
        machines = 2 * pool.machines
        while machines <= most and isinstance(
            problem.island(pool.offer, machines, workers=1), Island
        ):
            yield replace(worker, machines=machines), np.ones(1, dtype=int)
            machines *= 2


def considered_machines(result: Result, most_kinds: int) -> Iterator[Considered]:
    """Yield evaluated equal machines that may be best of one of the best kinds or near misses, with
    limits. Two kinds more than ``most_kinds`` are looked for: the machines of an answer are of one
    or two, and what is best without them is asked for.
    """
    (_, got), problem, objective = result.found, result.problem, result.objective
    limits = problem.requirements
    if limits.min_regions > 1:  # equal machines are in one
        return
    speed = got.effective_samples_per_second.value * CLEARLY
    usd = got.usd_per_hour.total / CLEARLY
    floor, budget = limits.floor_samples_per_second, limits.budget_usd_per_hour or math.inf
    budgeted = limits.budget_usd_per_hour is not None or limits.budget_usd is not None
    best: dict[tuple[str, str], float] = {}
    hopeful: list[tuple[float, Promise]] = []
    above: list[Promise] = []
    for promise in equal_machines(problem):
        most, least = promise.samples_per_second, promise.usd_per_hour
        if most * NEAR < (floor or 0.0):  # not even a near miss
            continue
        if least > budget * (1 + TOLERANCE):
            above += [promise] if most > speed else []
            continue
        hopeful.append((promise.score(objective), promise))
    enough = False
    for hoped, promise in sorted(hopeful, key=itemgetter(0)):
        known = best.get(promise.kind, math.inf)
        enough = enough or sum(score < hoped for score in best.values()) > most_kinds + 1
        # Only what is faster misses a budget in a way worth a word, and a floor what is cheaper.
        faster = budgeted and promise.samples_per_second > speed
        slower = floor is not None and promise.usd_per_hour < usd
        if (enough or known < hoped) and not (faster or slower):
            continue
        allowance.check()
        full, outcome, broken = _evaluated(promise, problem)
        if outcome is not None and not broken:
            best[promise.kind] = min(objective.score(outcome)[0], known)
        yield full, outcome, broken
    yield from _above_budget(above, speed, problem)


def _evaluated(promise: Promise, problem: Problem) -> Considered:
    full = with_plans(promise.placement, problem)
    return full, *evaluated(full, problem)


def _above_budget(
    promises: Sequence[Promise], speed: float, problem: Problem
) -> Iterator[Considered]:
    """Yield equal machines above the budget, evaluated, until none that is left can be the cheapest
    near miss or the fastest.
    """
    known: dict[int, Considered] = {}
    promised = [(promise.usd_per_hour, -promise.samples_per_second) for promise in promises]
    for at, keys in enumerate(zip(*promised, strict=True)):  # the cheapest first, then the fastest
        found = math.inf
        for i in sorted(range(len(promises)), key=keys.__getitem__):
            if keys[i] > found:
                break
            allowance.check()
            if i not in known:
                known[i] = _evaluated(promises[i], problem)
                yield known[i]
            _, outcome, broken = known[i]
            missed = {violation.code for violation in broken} == {"budget"}
            if outcome is not None and missed and outcome.samples_per_second > speed:
                found = min(found, (outcome.usd.total, -outcome.samples_per_second)[at])


def machines_of_a_worker(considered: Considered) -> int:
    """Return of how many machines each of some equal workers is."""
    return considered[0].groups[0].machines


def best_equal_machines(problem: Problem, most_kinds: int) -> list[Placement]:
    """Return equal machines, the best of each of the best kinds that are within the limits or near
    them, the best first. Those that promise less than what is known are not evaluated.
    """
    objective = objective_of(problem.requirements)
    floor = (problem.requirements.floor_samples_per_second or 0.0) / NEAR
    hopeful = [
        (promise.score(objective), promise)
        for promise in equal_machines(problem)
        if promise.samples_per_second >= floor
    ]
    best: dict[tuple[str, str], tuple[tuple[float, float], Placement]] = {}
    for hoped, promise in sorted(hopeful, key=itemgetter(0)):
        known = best.get(promise.kind)
        if sum(score[0] < hoped for score, _ in best.values()) >= most_kinds:
            break
        if known is not None and known[0][0] < hoped:
            continue
        planned, outcome, broken = _evaluated(promise, problem)
        if outcome is None or outcome.samples_per_second < floor:
            continue
        score = objective.score(outcome)
        if {violation.code for violation in broken} <= LIMIT_CODES and (
            known is None or score < known[0]
        ):
            best[promise.kind] = score, planned
    return [placement for _, placement in sorted(best.values(), key=itemgetter(0))][:most_kinds]


def better_equal_machines(result: Result, fitting: Fitting) -> tuple[Placement, Estimate] | None:
    """Return the best equal machines where a stopped search ended with less."""
    (chosen, _), problem, score = result.found, result.problem, result.objective.score
    scored = [(score(outcome), placement) for placement, outcome in fitting]
    best, placement = min(scored, key=lambda pair: pair[0], default=((math.inf, 0.0), None))
    if placement is None or best >= score(evaluate(chosen, problem)):
        return None
    return placement.canonical(), estimate(placement, problem)


def near_misses(problem: Problem, got: Estimate, considered: list[Considered]) -> Iterator[Option]:
    """Yield placements just outside one limit that give clearly more: the nearest, and the best."""
    speed = got.effective_samples_per_second.value
    near: list[tuple[tuple[float, float], str, Placement]] = []
    for placement, outcome, all_broken in considered:
        broken = {violation.code for violation in all_broken}
        if outcome is None or len(broken) != 1 or not broken <= LIMIT_CODES:
            continue
        note = _miss_words(broken.pop(), outcome, got, problem.requirements)
        if note:
            key = (outcome.usd.total, -outcome.samples_per_second)
            faster = outcome.samples_per_second > speed
            near.append((key if faster else key[::-1], note, placement))
    if near:
        first = min(near, key=lambda miss: miss[0]), min(near, key=lambda miss: miss[0][::-1])
        for _, note, placement in dict.fromkeys(first):
            yield Option.of(placement, problem, label="near-miss", note=note)


def _miss_words(code: str, other: Outcome, got: Estimate, wish: Requirements) -> str:
    """Say by how little a placement misses one limit and what that gives; empty if too little."""
    speed, usd = got.effective_samples_per_second.value, got.usd_per_hour.total
    other_speed, other_usd = other.samples_per_second, other.usd.total
    unit, floor = speed_unit(got.tokens_per_sample), wish.floor_samples_per_second
    gain, faster = f"{100 * (other_speed / speed - 1):+.0f} % {unit}", other_speed > speed * CLEARLY
    words, near = "", floor is not None and other_speed * NEAR >= floor
    if code == "budget" and faster:
        budget = wish.budget_usd_per_hour or 0.0
        if other_usd <= budget * NEAR:
            words = f"{format_usd(other_usd - budget)}/h over budget, {gain}"
    elif code == "total-budget" and faster and wish.objective != "total":  # it saves no dollars
        total, budget = _in_all("total", other, wish), wish.budget_usd or 0.0
        if total <= budget * NEAR:
            words = f"{format_usd(total - budget)} over budget in total, {gain}"
    elif code == "deadline" and near:
        total, known = _in_all("total", other, wish), totals_of(got, wish).usd.value
        late = format_duration(_in_all("time", other, wish) - (wish.deadline_s or 0.0))
        if total * CLEARLY < known:
            words = f"{late} after the deadline, saves {format_usd(known - total)}"
    elif code == "throughput" and near and other_usd * CLEARLY < usd:
        below = 100 * (1 - other_speed / (floor or 1.0))
        words = f"{below:.0f} % below the floor, saves {format_usd(usd - other_usd)}/h"
    return words


def _in_all(name: str, outcome: Outcome, wish: Requirements) -> float:
    """Return the USD (``total``) or the seconds (``time``) of all samples."""
    objective = replace(objective_named(name), samples=wish.samples, lead_s=wish.lead_s)
    return replace(objective, startup_s=wish.startup_s).value(outcome)
