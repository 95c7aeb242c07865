"""The verb `recommend`: solve, then add what was considered, the baselines, near misses and advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from placer.advice import stay_verdict, warnings_of
from placer.estimator import estimate, evaluate, exchange_for
from placer.placement import NO_EXCHANGE, Exchange, Placement, WorkerGroup
from placer.problem import Pool, Problem, Requirements
from placer.result import Option, Result, SolveOptions, score
from placer.solve import require_pools, solve
from placer.units import format_number, format_usd
from placer.violations import violations

NEAR = 1.5
"""A near miss breaks one limit by at most this factor."""
BASELINE_NODES = 1_000
"""Nodes of the search that the egress-blind baseline gets: it starts from the answer and need not be proved."""
SPREAD_POOLS = 8
"""Kinds of machine that are tried in pairs of regions to show what spreading would give."""


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
    if result.placement is None:
        return replace(result, nearest=nearest(problem, solver, options), warnings=warnings_of(result))
    considered = list(equal_machines(problem))
    spread = best_spread(problem)
    feasible = [p for p in considered if not violations(p, problem)]
    ranked = sorted({p.canonical(): None for p in [result.placement, *feasible]}, key=lambda p: _key(p, problem))
    return replace(
        result,
        options=tuple(Option(placement=p, estimate=estimate(p, problem)) for p in ranked[:top]),
        baselines=tuple(_baselines(problem, result, solver, options)),
        near_misses=tuple(_near_misses(problem, result, considered)),
        verdict=stay_verdict(result, spread),
        warnings=warnings_of(result),
    )


def equal_machines(problem: Problem) -> Iterator[Placement]:
    """Yield, for every kind of machine and market, each count of it at its cheapest place."""
    cheapest: dict[tuple[str, str], Pool] = {}
    for pool in problem.pools:
        kind = (pool.offer.device, pool.offer.market)
        if kind not in cheapest or pool.offer.usd_per_hour < cheapest[kind].offer.usd_per_hour:
            cheapest[kind] = pool
    budget = (problem.requirements.budget_usd_per_hour or float("inf")) * NEAR
    for pool in cheapest.values():
        payable = [n for n in range(1, min(pool.max_count, problem.requirements.max_workers) + 1) if n * pool.offer.usd_per_hour <= budget]
        made = [Placement(groups=(_group(pool, n),), exchange=_exchange(n, problem)) for n in payable if _exchange_known(n, problem)]
        allowed = [p for p in made if _within(p, problem.requirements)]
        yield from sorted(allowed, key=lambda p: _key(p, problem))[:1]
        inside = [p for p in allowed if not violations(p, problem)]
        yield from sorted(inside, key=lambda p: _key(p, problem))[:1]


def best_spread(problem: Problem) -> Placement | None:
    """Best of the placements tried over two regions: pairs of promising kinds of machine, equal counts."""
    if problem.requirements.exchange == "central":
        return None
    budget = problem.requirements.budget_usd_per_hour or float("inf")
    found: list[tuple[tuple[float, float], Placement]] = []
    for a, b in combinations(_promising(problem, budget), 2):
        for n in (1, 2, 4, 8):
            if (
                a.offer.place == b.offer.place
                or n > min(a.max_count, b.max_count)
                or n * (a.offer.usd_per_hour + b.offer.usd_per_hour) > budget
            ):
                break
            made = Placement(groups=(_group(a, n), _group(b, n)), exchange=exchange_for("all-reduce", 2 * n, problem))
            found.append((_key(made, problem), made))
    return next((made for _, made in sorted(found, key=lambda f: f[0]) if not violations(made, problem)), None)


def _promising(problem: Problem, budget: float) -> list[Pool]:
    """A few pools of different places: best value, fastest that two of fit the budget, fastest of all."""
    payable = [pool for pool in problem.pools if pool.offer.usd_per_hour <= budget]
    rankings = (
        sorted(payable, key=lambda p: (-p.shared.value / max(p.offer.usd_per_hour, 1e-6), p.offer.place)),
        sorted((p for p in payable if p.offer.usd_per_hour <= budget / 2), key=lambda p: (-p.shared.value, p.offer.usd_per_hour)),
        sorted(payable, key=lambda p: (-p.shared.value, p.offer.usd_per_hour)),
    )
    chosen: dict[tuple[str, str, int], Pool] = {}
    for ranked in rankings:
        fresh: dict[tuple[str, str, int], Pool] = {}
        for pool in ranked:
            fresh.setdefault((pool.offer.place, pool.offer.gpu, pool.offer.gpu_count), pool)
            if len(fresh) == SPREAD_POOLS:
                break
        chosen |= fresh
    return list(chosen.values())


def nearest(problem: Problem, solver: str, options: SolveOptions) -> tuple[Option, ...]:
    """Find placements that fit after one wish is changed: the budget raised, or the floor lowered."""
    wish, found = problem.requirements, []
    if wish.budget_usd_per_hour is not None:
        relaxed = replace(problem, requirements=replace(wish, budget_usd_per_hour=None, objective="cost"))
        cheaper = solve(relaxed, solver, options)
        if cheaper.placement is not None and cheaper.estimate is not None:
            usd = cheaper.estimate.usd_per_hour.total
            note = f"--budget {usd * 1.0005 + 0.005:.2f}/h"
            found.append(Option(placement=cheaper.placement, estimate=cheaper.estimate, label="budget", note=note))
    if wish.min_samples_per_second is not None:
        relaxed = replace(problem, requirements=replace(wish, min_samples_per_second=None, objective="throughput"))
        slower = solve(relaxed, solver, options)
        if slower.placement is not None and slower.estimate is not None:
            note = f"--min-throughput {slower.estimate.samples_per_second.value * 0.9995:.4g}/s"
            found.append(Option(placement=slower.placement, estimate=slower.estimate, label="throughput", note=note))
    return tuple(found)


def _baselines(problem: Problem, result: Result, solver: str, options: SolveOptions) -> Iterator[Option]:
    """What simpler tools would choose, priced truly."""
    assert result.placement is not None
    blind_catalog = replace(problem.catalog, egress=tuple(replace(price, usd_per_gib=0.0) for price in problem.catalog.egress))
    limited = replace(options, start=result.placement, node_limit=BASELINE_NODES)
    blind = solve(replace(problem, catalog=blind_catalog), solver, limited).placement
    if len(result.placement.places) > 1:
        single = _one_region(problem, options)
        if single is not None:
            yield Option(placement=single, estimate=estimate(single, problem), label="single-region")
    else:
        yield Option(placement=result.placement, estimate=estimate(result.placement, problem), label="single-region", note="the same")
    if blind is not None:
        true = estimate(blind, problem)
        broken = "; ".join(v.message for v in violations(blind, problem))
        same = blind.canonical() == result.placement.canonical()
        yield Option(placement=blind, estimate=true, label="egress-blind", note="the same" if same else broken)


def _one_region(problem: Problem, options: SolveOptions) -> Placement | None:
    """Best placement within one region, by the exact solver restricted to it."""
    import importlib

    found: Placement | None = importlib.import_module("placer.solvers.exact").solve(problem, options, regions=(1, 1)).placement
    return found


def _near_misses(problem: Problem, result: Result, considered: list[Placement]) -> Iterator[Option]:
    """Placements just outside one limit that give clearly more."""
    wish, got = problem.requirements, result.estimate
    assert got is not None
    speed, usd = got.samples_per_second.value, got.usd_per_hour.total
    found = []
    for placement in considered:
        other = estimate(placement, problem)
        other_speed, other_usd = other.samples_per_second.value, other.usd_per_hour.total
        broken = {v.code for v in violations(placement, problem)}
        if (
            broken == {"budget"}
            and other_speed > speed * 1.02
            and wish.budget_usd_per_hour
            and other_usd <= wish.budget_usd_per_hour * NEAR
        ):
            note = f"+{format_usd(other_usd - usd)}/h buys +{100 * (other_speed / speed - 1):.0f} %"
            found.append((-other_speed, other_usd, Option(placement=placement, estimate=other, label="near-miss", note=note)))
        if broken == {"throughput"} and other_usd < usd * 0.98 and other_speed * NEAR >= (wish.min_samples_per_second or 0):
            note = f"saves {format_usd(usd - other_usd)}/h at {format_number(other_speed)} samples/s"
            found.append((other_usd, -other_speed, Option(placement=placement, estimate=other, label="near-miss", note=note)))
    yield from (option for _, _, option in sorted(found, key=lambda f: f[:2])[:2])


def _key(placement: Placement, problem: Problem) -> tuple[float, float]:
    return score(problem.requirements.objective, *evaluate(placement, problem), problem)


def _group(pool: Pool, count: int) -> WorkerGroup:
    o = pool.offer
    return WorkerGroup(place=o.place, instance_type=o.instance_type, gpu=o.gpu, gpu_count=o.gpu_count, market=o.market, count=count)


def _exchange_known(workers: int, problem: Problem) -> bool:
    return workers == 1 or problem.requirements.exchange in ("auto", "all-reduce")


def _exchange(workers: int, problem: Problem) -> Exchange:
    return exchange_for(NO_EXCHANGE if workers == 1 else "all-reduce", workers, problem)


def _within(placement: Placement, wish: Requirements) -> bool:
    return wish.min_workers <= placement.workers <= wish.max_workers
