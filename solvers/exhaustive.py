"""Plain enumeration of every placement: the oracle of the tests, for small instances."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from placer.cost_model.estimate import Outcome, by_each_plan, offer_of
from placer.cost_model.limits import priced, violations_without_price
from placer.cost_model.objective import objective_of
from placer.errors import PlacerError
from placer.problem.admitted_exchanges import exchange_for, exchanges
from placer.problem.placement import NO_EXCHANGE, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.workers.pool import groups_of
from placer.records import replace
from placer.solving.answer import Answer, SolveOptions, Status
from placer.workload.island import Island

PRICES_ALL = True
"""Every placement is priced by itself, whatever the number of its workers does to their speed."""
LIMIT = 2_000_000
"""Most combinations of counts that are tried."""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Try every count of every offer with every exchange; PlacerError beyond `LIMIT`."""
    best: tuple[tuple[float, float], Placement, float] | None = None
    tried, objective = 0, objective_of(problem.requirements)
    for placement in placements(problem):
        tried += 1
        if violations_without_price(placement, problem):
            continue
        outcome, broken = priced(placement, problem)
        able = [] if broken else [(outcome, placement)]
        cheap = objective.name == "cost"
        if cheap or {violation.code for violation in broken} == {"budget"}:
            able += _slower(placement, problem, outcome, best[2] if cheap and best else math.inf)
        for outcome, found in able:
            key = objective.score(outcome)
            if best is None or key < best[0]:
                best = key, found, objective.value(outcome)
    if best is None:
        return Answer(status=Status.INFEASIBLE, placement=None, bound=None, candidates=tried)
    return Answer(
        status=Status.OPTIMAL, placement=best[1].canonical(), bound=best[2], candidates=tried
    )


def _slower(
    placement: Placement, problem: Problem, fastest: Outcome, at_most: float
) -> Iterator[tuple[Outcome, Placement]]:
    """Yield the plans of some workers that keep every limit, where a slower one may cost less in an
    hour: it sends less, and its machines cost what they do. In a question about some workers of a
    larger one each has its fastest: whoever asks it looks for slower plans. None is left whose
    machines alone cost more than ``at_most`` USD/h.
    """
    if problem.requirements.narrowed is not None:
        return
    budget = problem.requirements.budget_usd_per_hour
    machines, total = fastest.usd.compute, fastest.usd.total
    if machines == total or machines > min(at_most, math.inf if budget is None else budget):
        return
    for slower in by_each_plan(placement, problem):
        if not violations_without_price(slower, problem):
            outcome, broken = priced(slower, problem)
            if not broken:
                yield outcome, slower


def placements(problem: Problem) -> Iterator[Placement]:
    """Yield every placement that quotas and the range of workers could allow."""
    wish, pools = problem.requirements, problem.every_pool
    size = 1
    for pool in pools:
        size *= min(pool.max_count, wish.max_workers) + 1
        if size > LIMIT:  # of a whole book the number itself would have thousands of digits
            raise PlacerError(
                f"more than {LIMIT:,} combinations are too many for the solver 'exhaustive'",
                "use --solver exact, or narrow --gpu, --in, --workers",
            )
    for counts in product(*(range(min(pool.max_count, wish.max_workers) + 1) for pool in pools)):
        workers = sum(counts)
        if wish.min_workers <= workers <= wish.max_workers:
            for groups in planned(groups_of(pools, counts), problem):
                if not alike(groups, problem):
                    continue
                at = Placement(
                    groups=groups, exchange=exchange_for(NO_EXCHANGE, 1, problem)
                ).workers_by_place
                for exchange in exchanges(problem, at):
                    yield Placement(groups=groups, exchange=exchange)


def planned(groups: tuple[WorkerGroup, ...], problem: Problem) -> Iterator[tuple[WorkerGroup, ...]]:
    """Yield workers by every plan that may be best of so many."""
    workers, plans = sum(group.count for group in groups), []
    for group in groups:
        built = problem.island(offer_of(group, problem), group.machines, group.inner, workers)
        several = (built, *built.rivals) if isinstance(built, Island) else ()
        each = tuple(one.plan for one in several) or (group.inner,)
        plans.append(each)
    for inner in product(*plans):
        yield tuple(replace(g, inner=plan) for g, plan in zip(groups, inner, strict=True))


def alike(groups: Sequence[WorkerGroup], problem: Problem) -> bool:
    """Tell whether workers with a plan are equally fast, where they have to be."""
    free = problem.mixes_workers or problem.requirements.narrowed is not None
    if problem.island_question is None or free or len(groups) == 1:
        return True
    workers = sum(group.count for group in groups)
    islands = [problem.island(offer_of(g, problem), g.machines, g.inner, workers) for g in groups]
    seconds = [built.step.seconds for built in islands if isinstance(built, Island)]
    return len(seconds) == len(islands) and max(seconds) <= min(seconds) * (1 + 1e-8)
