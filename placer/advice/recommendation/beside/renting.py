"""What renting the speed of one's own machines would cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

from placer.advice.recommendation.beside.own_or_rented import own_or_rented
from placer.advice.recommendation.nearest import BASELINE_NODES, short_search
from placer.cost_model.estimate import Estimate, estimate
from placer.errors import PlacerError
from placer.market.words.own_places import host_assumed, own_places
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Warn
from placer.solving.result import Result
from placer.solving.solve import require_pools, solve
from placer.units import format_speed, format_usd

KEPT = 1 - 1e-6
"""Share of the speed of one's own machines that rented ones must reach: rounding aside, all."""


def own_notes(problem: Problem) -> Iterator[Warn]:
    """Yield what the words of own machines were taken to mean, with what is assumed."""
    if own_places(problem.catalog.changes):
        from placer.market.words.own_machines import own_sentences

        for sentence in own_sentences(problem.catalog):
            yield Warn(code="own", message=sentence)


def check_own_pools(problem: Problem) -> None:
    """Refuse a question without a machine; about own ones alone, say how to rent others."""
    try:
        require_pools(problem)
    except PlacerError as error:
        own = own_places(problem.catalog.changes)
        alone = own and {*problem.requirements.places_in} == {*own}
        if alone and "the quota " not in error.hint:
            wish = problem.requirements
            adapters = ", or train adapters with --lora 16 or --qlora 16"
            error.hint = (
                "your own machines alone cannot train it: add --budget 5/h to rent others too"
                + (adapters if wish.lora is wish.qlora is None else "")
            )
            if "host memory" in error.message and host_assumed(problem.catalog.changes):
                error.hint = (
                    "their host memory is assumed: say it, as in :ram=1TB; or "
                    + (error.hint.partition(": ")[2])
                )
        raise


def with_renting(result: Result, solver: str, options: SolveOptions) -> Result:
    """Add what own machines, own with spot ones and spot ones alone reach; and what the cheapest
    rented machines of at least the answer's speed cost, where it has machines of one's own.
    """
    placement, got, problem = result.placement, result.estimate, result.problem
    own = own_places(problem.catalog.changes)
    if not own or placement is None or got is None or allowance.current().spent:
        return result
    works = {*own} & {*placement.places}
    found = _rented(problem, got, own, solver, options) if works else None
    table = own_or_rented(result, found, solver, options)
    notes = _renting_notes(found, got, problem) if works else ()
    idle = [] if table is None or not table.idle else [Warn(code="renting", message=table.idle)]
    return replace(result, notes=(*result.notes, *idle, *notes), own_machines=table)


def _renting_notes(found: Placement | None, got: Estimate, problem: Problem) -> Iterator[Warn]:
    """Say what the cheapest rented machines of at least the speed of an answer cost."""
    if found is None:
        words = "a short search finds no rented machines that reach the same speed"
        yield Warn(code="renting", message=words)
        return
    other = estimate(found, problem)
    usd, mine = other.usd_per_hour.total, got.usd_per_hour.total
    times = f", {usd / mine:.1f} x" if mine else ""
    speed = format_speed(other.effective_samples_per_second.value, other.tokens_per_sample)
    yield Warn(
        code="renting",
        message=f"the same speed from rented machines: {found.in_words}, {speed} for "
        f"{format_usd(usd)}/h{times} (by a short search)",
    )


def _rented(
    problem: Problem, got: Estimate, own: tuple[str, ...], solver: str, options: SolveOptions
) -> Placement | None:
    """Return the cheapest placement without one's own machines that is as fast."""
    wish = problem.requirements
    rented = replace(
        wish,
        objective="cost",
        expected=False,
        confidence=None,
        places_in=tuple(place for place in wish.places_in if place not in own),
        places_not_in=(*wish.places_not_in, *own),
        used=tuple(rule for rule in wish.used if rule.place not in own),
        budget_usd_per_hour=None,
        budget_usd=None,
        min_samples_per_second=got.effective_samples_per_second.value * KEPT,
    )
    asked = replace(problem, requirements=rented)
    if not asked.pools or not math.isfinite(rented.min_samples_per_second or math.inf):
        return None
    return solve(asked, solver, short_search(options, BASELINE_NODES)).placement
