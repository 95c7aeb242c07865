"""Plain enumeration of every placement: the oracle of the tests, for small instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from placer.errors import PlacerError
from placer.estimator import evaluate, exchange_for
from placer.placement import Exchange, Placement, WorkerGroup
from placer.problem import Pool, Problem
from placer.result import Answer, SolveOptions, Status, objective_value, score
from placer.violations import violations

LIMIT = 2_000_000
"""Most combinations of counts that are tried."""


def solve(problem: Problem, options: SolveOptions) -> Answer:
    """Try every count of every offer with every exchange and keep the best.

    Raises
    ------
    PlacerError
        If there are more than `LIMIT` combinations.
    """
    best: tuple[tuple[float, float], Placement, float] | None = None
    tried = 0
    for placement in placements(problem):
        tried += 1
        if violations(placement, problem):
            continue
        step, usd = evaluate(placement, problem)
        objective = problem.requirements.objective
        key = score(objective, step, usd, problem)
        if best is None or key < best[0]:
            best = key, placement, objective_value(objective, step, usd, problem)
    if best is None:
        return Answer(status=Status.INFEASIBLE, placement=None, bound=None, candidates=tried)
    return Answer(status=Status.OPTIMAL, placement=best[1].canonical(), bound=best[2], candidates=tried)


def placements(problem: Problem) -> Iterator[Placement]:
    """Yield every placement that quotas and the range of workers could allow."""
    wish, pools = problem.requirements, problem.pools
    size = 1
    for pool in pools:
        size *= min(pool.max_count, wish.max_workers) + 1
    if size > LIMIT:
        raise PlacerError(
            f"{size:,} combinations are too many for the solver 'exhaustive'", "use --solver exact, or narrow --gpu, --in, --workers"
        )
    for counts in product(*(range(min(pool.max_count, wish.max_workers) + 1) for pool in pools)):
        workers = sum(counts)
        if wish.min_workers <= workers <= wish.max_workers:
            groups = groups_of(pools, counts)
            for exchange in exchanges(problem, workers):
                yield Placement(groups=groups, exchange=exchange)


def groups_of(pools: Sequence[Pool], counts: Sequence[int]) -> tuple[WorkerGroup, ...]:
    """Turn counts per pool into worker groups."""
    return tuple(WorkerGroup.of(pool.offer, count) for pool, count in zip(pools, counts, strict=True) if count)


def exchanges(problem: Problem, workers: int) -> Iterator[Exchange]:
    """Yield every exchange that the request admits for a number of workers."""
    wanted = problem.requirements.exchange
    if workers == 1:
        yield exchange_for("none", 1, problem)
        return
    if wanted in ("auto", "all-reduce"):
        yield exchange_for("all-reduce", workers, problem)
    if wanted in ("auto", "central"):
        for function, store in problem.aggregator_places:
            yield exchange_for("central", workers, problem, function, store)
