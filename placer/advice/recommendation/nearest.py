"""What would fit if nothing does: the nearest placements after one wish is changed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from placer.cost_model.objective import aimed_at
from placer.cost_model.outlook.totals import totals_of
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import ALL_REGIONS, Requirements, without_quotas
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Option
from placer.solving.solve import solve
from placer.units import format_plain

LIMITS = {
    "budget": ("budget_usd_per_hour", "cost"),
    "throughput": ("min_samples_per_second", "throughput"),
    "deadline": ("deadline_s", "throughput"),
    "total-budget": ("budget_usd", "total"),
    "carbon": ("max_carbon_g_per_hour", "carbon"),
}
"""Fields of limits that have a least relaxation, and the objectives that find it."""
BASELINE_NODES = 1_000
"""Nodes of a search whose answer is only compared with and need not be proved."""
Change = tuple[str, Requirements, str]
"""A label, changed wishes, and what is changed in words."""


def wanting(problem: Problem, **changes: object) -> Problem:
    """Return the same question with other wishes."""
    return replace(problem, requirements=replace(problem.requirements, **changes))


def nearest(problem: Problem, solver: str, options: SolveOptions) -> tuple[Option, ...]:
    """Find what fits after one wish is changed: a limit; else any other wish, or all limits."""
    wish, options = problem.requirements, short_search(options, BASELINE_NODES)

    def fitting(*changes: Change) -> list[Option]:
        tried = (
            solve_changed(problem, changed, solver, options, label, note)
            for label, changed, note in changes
        )
        return [option for option in tried if option is not None]

    found = [replace(option, note=limit_words(option, wish)) for option in fitting(*_freed(wish))]
    if wish.other_supply is not None:  # limits that nobody asked for
        found += fitting(("supply", replace(wish, supply=None), "--supply any"))
    if problem.uniform:
        found += fitting(("kinds", replace(wish, uniform=False), "--mixed"))
    each = (
        ("use", replace(wish, used=tuple(other for other in wish.used if other != rule)), rule.spec)
        for rule in wish.used
    )
    unused = fitting(*((label, changed, f"no --use {spec}") for label, changed, spec in each))
    if not unused and len(wish.used) > 1:
        unused = fitting(("use", replace(wish, used=()), "no --use"))
    return tuple(found + unused or fitting(*_widened(wish)))


def _freed(wish: Requirements) -> Iterator[Change]:
    """Yield each limit without which the best for it is looked for: label, wishes."""
    for code, (field, objective) in LIMITS.items():
        if getattr(wish, field) is not None:
            yield code, replace(aimed_at(wish, objective), **{field: None}), ""


def limit_words(option: Option, wish: Requirements) -> str:
    """Return the limit that a placement just keeps, as it is written on the command line."""
    estimate = option.estimate
    if option.label == "budget":
        return f"--budget {estimate.usd_per_hour.total * 1.0005 + 0.005:.2f}/h"
    if option.label == "throughput":
        speed = estimate.effective_samples_per_second.value
        return f"--min-throughput {format_plain(speed * 0.9995, 4)}/s"
    if option.label == "deadline":
        minutes = totals_of(estimate, wish).seconds.value * 1.0005 / 60
        if minutes < 600:
            return f"--deadline {math.ceil(minutes)}min"
        return f"--deadline {math.ceil(minutes / 6) / 10:g}h"
    if option.label == "total-budget":
        return f"--budget {totals_of(estimate, wish).usd.value * 1.0005 + 0.005:.2f}usd"
    emitted = 0.0 if estimate.carbon_g_per_hour is None else estimate.carbon_g_per_hour.value
    return f"--max-carbon {math.ceil(emitted * 10.005 + 0.05) / 10:.1f}g/h"


def _widened(wish: Requirements) -> Iterator[Change]:
    """Yield every other wish that can be widened, and all limits together: label, wishes, words."""
    free = replace(wish, **dict.fromkeys(field for field, _ in LIMITS.values()))
    given = (
        ("--budget", wish.budget_usd_per_hour or wish.budget_usd),
        ("--min-throughput", wish.min_samples_per_second),
        ("--deadline", wish.deadline_s),
        ("--max-carbon", wish.max_carbon_g_per_hour),
    )
    limits = " and ".join(f"no {name}" for name, limit in given if limit is not None)
    anyhow = replace(wish, exchange="auto", aggregator=None, storage=None)
    for label, changed, note in (
        ("workers", replace(wish, min_workers=1, max_workers=64), "--workers 1..64"),
        ("quota", without_quotas(wish), "no --quota"),
        ("exchange", anyhow, "--exchange auto"),
        ("regions", replace(wish, min_regions=1, max_regions=ALL_REGIONS), "any number of regions"),
        ("market", replace(wish, market="any"), "--market any"),
        ("place", replace(wish, places_in=(), places_not_in=()), "no --in and --not-in"),
        ("gpu", replace(wish, gpus=()), "no --gpu"),
        ("keep", replace(wish, kept=()), "no --keep"),
        ("data", replace(wish, datasets=()), "no --data"),
        ("limits", free, limits),
    ):
        if changed != wish:
            yield label, changed, note


def solve_changed(
    problem: Problem,
    changed: Requirements,
    solver: str,
    options: SolveOptions,
    label: str,
    note: str = "",
) -> Option | None:
    """Solve with changed wishes; None if nothing fits, or no time is left."""
    if allowance.current().spent:
        return None
    result = solve(replace(problem, requirements=changed), solver, options)
    if result.placement is None or result.estimate is None:
        return None
    proved = result.status is Status.OPTIMAL
    return Option(
        placement=result.placement, estimate=result.estimate, label=label, note=note, proved=proved
    )


def short_search(options: SolveOptions, nodes: int, start: Placement | None = None) -> SolveOptions:
    """Return the options of a search that is only compared with: some nodes, no bound, unseen."""
    return replace(
        options.deaf, start=start, node_limit=nodes, bound_if_stopped=False, certificate=False
    )
