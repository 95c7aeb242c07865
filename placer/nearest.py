"""What would fit if nothing does: the nearest placements after one wish is changed."""

from __future__ import annotations

import math
from dataclasses import replace

from placer.placement import Placement
from placer.problem import Problem
from placer.requirements import ALL_REGIONS, Quota, Requirements
from placer.result import Option, SolveOptions, Status
from placer.solve import solve
from placer.totals import totals_of

BASELINE_NODES = 1_000
"""Nodes of a search whose answer is only compared with and need not be proved."""
AMPLE_GPUS = 64
"""Quota that is tried when nothing fits."""


def nearest(problem: Problem, solver: str, options: SolveOptions) -> tuple[Option, ...]:
    """Find placements that fit after one wish is changed: a limit; failing these, any other single wish, or all limits."""
    wish, found = problem.requirements, []
    free = replace(wish, budget_usd_per_hour=None, min_samples_per_second=None, deadline_s=None, budget_usd=None)
    if wish.budget_usd_per_hour is not None:
        option = solve_changed(problem, replace(wish, budget_usd_per_hour=None, objective="cost"), solver, options, "budget")
        if option is not None:
            found.append(replace(option, note=f"--budget {option.estimate.usd_per_hour.total * 1.0005 + 0.005:.2f}/h"))
    if wish.min_samples_per_second is not None:
        option = solve_changed(problem, replace(wish, min_samples_per_second=None, objective="throughput"), solver, options, "throughput")
        if option is not None:
            found.append(replace(option, note=f"--min-throughput {option.estimate.effective_samples_per_second.value * 0.9995:.4g}/s"))
    if wish.deadline_s is not None and wish.samples is not None:
        option = solve_changed(problem, replace(wish, deadline_s=None, objective="throughput"), solver, options, "deadline")
        if option is not None:
            found.append(replace(option, note=f"--deadline {_deadline(totals_of(option.estimate, wish.samples).seconds.value)}"))
    if wish.budget_usd is not None and wish.samples is not None:
        option = solve_changed(problem, replace(wish, budget_usd=None, objective="cost-per-sample"), solver, options, "total-budget")
        if option is not None:
            total = totals_of(option.estimate, wish.samples).usd.value
            found.append(replace(option, note=f"--budget {total * 1.0005 + 0.005:.2f}usd"))
    if not found:
        widened = (
            ("workers", replace(wish, min_workers=1, max_workers=64), "--workers 1..64"),
            ("quota", replace(wish, quotas=(Quota(place="*", gpu="*", market="*", gpus=AMPLE_GPUS),)), f"a quota of {AMPLE_GPUS} GPUs"),
            ("exchange", replace(wish, exchange="auto", aggregator=None, storage=None), "--exchange auto"),
            ("regions", replace(wish, min_regions=1, max_regions=ALL_REGIONS), "any number of regions"),
            ("market", replace(wish, market="any"), "--market any"),
            ("place", replace(wish, places_in=(), places_not_in=()), "no --in and --not-in"),
            ("gpu", replace(wish, gpus=()), "no --gpu"),
            ("keep", replace(wish, kept=()), "no --keep"),
            ("data", replace(wish, datasets=()), "no --data"),
            ("limits", free, "no --budget, --min-throughput or --deadline"),
        )
        tried = (solve_changed(problem, changed, solver, options, label, note) for label, changed, note in widened if changed != wish)
        found = [option for option in tried if option is not None]
    return tuple(found)


def solve_changed(problem: Problem, changed: Requirements, solver: str, options: SolveOptions, label: str, note: str = "") -> Option | None:
    """Solve the problem with changed wishes."""
    result = solve(replace(problem, requirements=changed), solver, short_search(options, BASELINE_NODES))
    if result.placement is None or result.estimate is None:
        return None
    proved = result.status is Status.OPTIMAL
    return Option(placement=result.placement, estimate=result.estimate, label=label, note=note, proved=proved)


def _deadline(seconds: float) -> str:
    """A deadline that so many seconds just keep, as it is written: rounded up to minutes, long ones to tenths of an hour."""
    minutes = seconds * 1.0005 / 60
    return f"{math.ceil(minutes)}min" if minutes < 600 else f"{math.ceil(minutes / 6) / 10:g}h"


def short_search(options: SolveOptions, nodes: int, start: Placement | None = None) -> SolveOptions:
    """Options of a search whose answer is only compared with: a number of nodes, no bound, nothing shown."""
    return replace(options, start=start, node_limit=nodes, bound_if_stopped=False, on_better=None)
