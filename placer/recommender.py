"""The verb `recommend`: solve, then add what was considered, the baselines, near misses and advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

from placer.advice import leave_verdict, local_verdict, notes_of, stay_verdict, warnings_of
from placer.estimator import estimate, evaluate, pool_of
from placer.exchanges import exchange_for
from placer.explanation.ask import Asker
from placer.explanation.conflict import nearest
from placer.network import with_free_egress
from placer.placement import NO_EXCHANGE, Placement, WorkerGroup
from placer.problem import Pool, Problem
from placer.requirements import Requirements
from placer.result import Option, Result, SolveOptions, Status, score
from placer.solve import require_pools, solve
from placer.units import format_usd
from placer.violations import Violation, violations

CLEARLY = 1.05
"""A near miss gives at least this much more."""
NEAR = 1.5
"""A near miss breaks one limit by at most this factor."""
BASELINE_NODES = 1_000
"""Nodes of a search whose answer is only compared with and need not be proved."""
SPREAD_NODES = 50
"""Nodes of the search for a placement over two regions to compare with."""
LOCAL_STEPS = 16
"""Steps between exchanges that a request without local steps is compared with."""


def recommend(problem: Problem, solver: str = "exact", options: SolveOptions | None = None, top: int = 8) -> Result:
    """Find the best placement and what there is to say about it.

    Parameters
    ----------
    problem
        The question.
    solver, options
        As in `placer.solve.solve`.
    top
        Rows of the considered table.

    Returns
    -------
    Result
        With options, baselines, near misses, verdict and warnings; if infeasible, with the nearest
        placements that fit after one change.

    Raises
    ------
    PlacerError
        If the request admits no machine at all.
    """
    require_pools(problem)
    options = options or SolveOptions()
    result = solve(problem, solver, options)
    if result.placement is None or result.estimate is None:
        return replace(result, nearest=nearest(problem, _asker(solver, options)), warnings=warnings_of(problem, None, None))
    considered = [(placement, violations(placement, problem)) for placement in equal_machines(problem)]
    stopped = result.status is not Status.OPTIMAL
    leaves = len(result.placement.places) > 1 or stopped or problem.requirements.max_regions == 1
    spread = None if leaves else best_spread(problem, solver, options)
    feasible = [placement for placement, broken in considered if not broken]
    best_of_kind: dict[tuple[str, str], Placement] = {}
    for placement in sorted(feasible, key=lambda p: _key(p, problem)):
        best_of_kind.setdefault((placement.groups[0].device, placement.groups[0].market), placement)
    ranked = sorted({p.canonical(): None for p in [result.placement, *best_of_kind.values()]}, key=lambda p: _key(p, problem))
    return replace(
        result,
        options=tuple(Option(placement=p, estimate=estimate(p, problem)) for p in ranked[:top]),
        baselines=() if stopped else tuple(_baselines(problem, result, solver, options)),
        near_misses=tuple(_near_misses(problem, result, considered)),
        verdict=(
            *stay_verdict(result, spread),
            *leave_verdict(result, best_staying(problem, solver, options)),
            *local_verdict(result, None if stopped else best_local(problem, solver, options)),
        ),
        notes=notes_of(problem, result.placement, result.estimate),
        warnings=warnings_of(problem, result.placement, result.estimate),
    )


def equal_machines(problem: Problem) -> Iterator[Placement]:
    """Yield every payable count of every kind of machine and market, at its cheapest place."""
    cheapest: dict[tuple[str, str], Pool] = {}
    for pool in problem.pools:
        kind = (pool.offer.device, pool.offer.market)
        if kind not in cheapest or pool.offer.usd_per_hour < cheapest[kind].offer.usd_per_hour:
            cheapest[kind] = pool
    wish = problem.requirements
    budget = (wish.budget_usd_per_hour or float("inf")) * NEAR
    for pool in cheapest.values():
        for n in range(wish.min_workers, min(pool.max_count, wish.max_workers) + 1):
            if n * pool.offer.usd_per_hour <= budget and (n == 1 or ("all-reduce", 1) in problem.modes):
                yield Placement(
                    groups=(WorkerGroup.of(pool.offer, n),), exchange=exchange_for(NO_EXCHANGE if n == 1 else "all-reduce", n, problem)
                )


def best_spread(problem: Problem, solver: str, options: SolveOptions) -> Placement | None:
    """Best placement over at least two regions that a short search finds."""
    wish = problem.requirements
    spread = replace(problem, requirements=replace(wish, min_regions=max(2, wish.min_regions)))
    return solve(spread, solver, _short(options, SPREAD_NODES)).placement


def best_local(problem: Problem, solver: str, options: SolveOptions) -> Placement | None:
    """Best placement that exchanges every few steps, if the request leaves that open, as far as a short search finds one."""
    wish = problem.requirements
    if wish.exchange != "auto" or wish.max_local_steps is not None or wish.max_workers < 2:
        return None
    local = replace(problem, requirements=replace(wish, min_local_steps=LOCAL_STEPS, max_local_steps=LOCAL_STEPS))
    return solve(local, solver, _short(options, SPREAD_NODES)).placement


def best_staying(problem: Problem, solver: str, options: SolveOptions) -> Option | None:
    """Best placement that leaves data that may move where it is, as a short search finds it."""
    if not problem.requirements.data_moves:
        return None
    return _after(problem, problem.requirements.with_data_staying(), solver, options, "stay")


def rent_everything(placement: Placement, problem: Problem) -> Placement:
    """Every machine of the same kinds that the quotas allow: what a scheduler without elasticity rents."""
    used: dict[tuple[str, str, str], int] = {}
    groups = []
    for group in placement.groups:
        pool = pool_of(group, problem)
        left = pool.gpu_quota - used.get(pool.bucket, 0)
        count = max(1, min(pool.max_count, left // pool.offer.gpu_count))
        used[pool.bucket] = used.get(pool.bucket, 0) + count * pool.offer.gpu_count
        groups.append(replace(group, count=count))
    return replace(placement, groups=tuple(groups))


def _short(options: SolveOptions, nodes: int, start: Placement | None = None) -> SolveOptions:
    """Options of a search whose answer is only compared with: a number of nodes, no bound, nothing shown."""
    return replace(options, start=start, node_limit=nodes, bound_if_stopped=False, on_better=None)


def _asker(solver: str, options: SolveOptions) -> Asker:
    """Asks for the nearest placements where nothing fits, in as many nodes as other comparisons."""
    return Asker(solver=solver, options=options, deadline=inf, nodes=BASELINE_NODES)


def _after(problem: Problem, changed: Requirements, solver: str, options: SolveOptions, label: str, note: str = "") -> Option | None:
    """Solve the problem with changed wishes."""
    result = solve(replace(problem, requirements=changed), solver, _short(options, BASELINE_NODES))
    if result.placement is None or result.estimate is None:
        return None
    proved = result.status is Status.OPTIMAL
    return Option(placement=result.placement, estimate=result.estimate, label=label, note=note, proved=proved)


def _baselines(problem: Problem, result: Result, solver: str, options: SolveOptions) -> Iterator[Option]:
    """What simpler tools would choose, priced truly."""
    assert result.placement is not None
    sightless = replace(problem, catalog=with_free_egress(problem.catalog))
    blind = solve(sightless, solver, _short(options, BASELINE_NODES, result.placement)).placement
    if len(result.placement.places) > 1:
        within = replace(problem, requirements=replace(problem.requirements, min_regions=1, max_regions=1))
        single = solve(within, solver, replace(options, on_better=None)).placement
        if single is not None:
            yield Option(placement=single, estimate=estimate(single, problem), label="single-region")
    else:
        yield Option(
            placement=result.placement, estimate=estimate(result.placement, problem), label="single-region", note="the same", same=True
        )
    if problem.requirements.datasets:
        every = rent_everything(result.placement, problem)
        broken = "; ".join(v.message for v in violations(every, problem))
        same = every.canonical() == result.placement.canonical()
        yield Option(placement=every, estimate=estimate(every, problem), label="rent-everything", note=broken, same=same)
    if blind is not None:
        true = estimate(blind, problem)
        broken = "; ".join(v.message for v in violations(blind, problem))
        same = blind.canonical() == result.placement.canonical()
        yield Option(placement=blind, estimate=true, label="egress-blind", note="the same" if same else broken, same=same)


def _near_misses(problem: Problem, result: Result, considered: list[tuple[Placement, tuple[Violation, ...]]]) -> Iterator[Option]:
    """Placements just outside one limit that give clearly more: the nearest, and the one that gives most."""
    wish, got = problem.requirements, result.estimate
    assert got is not None
    speed, usd = got.effective_samples_per_second.value, got.usd_per_hour.total
    found: list[tuple[float, float, Option]] = []
    for placement, found_broken in considered:
        broken = {violation.code for violation in found_broken}
        if broken not in ({"budget"}, {"throughput"}):
            continue
        other = estimate(placement, problem)
        other_speed, other_usd = other.effective_samples_per_second.value, other.usd_per_hour.total
        budget, floor = wish.budget_usd_per_hour, wish.min_samples_per_second
        if budget is not None and broken == {"budget"} and other_speed > speed * CLEARLY and other_usd <= budget * NEAR:
            note = f"{format_usd(other_usd - budget)}/h over the budget, {100 * (other_speed / speed - 1):+.0f} % samples/s"
            found.append((other_usd, -other_speed, Option(placement=placement, estimate=other, label="near-miss", note=note)))
        if floor is not None and broken == {"throughput"} and other_usd * CLEARLY < usd and other_speed * NEAR >= floor:
            note = f"{100 * (1 - other_speed / floor):.0f} % below the floor, saves {format_usd(usd - other_usd)}/h"
            found.append((-other_speed, other_usd, Option(placement=placement, estimate=other, label="near-miss", note=note)))
    chosen = [min(found, key=lambda f: f[:2]), min(found, key=lambda f: (f[1], f[0]))] if found else []
    yield from dict.fromkeys(option for _, _, option in chosen)


def _key(placement: Placement, problem: Problem) -> tuple[float, float]:
    return score(problem.requirements.objective, evaluate(placement, problem))
