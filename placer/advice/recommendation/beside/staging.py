"""Whether data is better copied once to a store beside the workers than read over the way there."""

from __future__ import annotations

from collections.abc import Iterator

from placer.advice.recommendation.nearest import BASELINE_NODES, short_search
from placer.cost_model.outlook.totals import totals_of
from placer.market.catalog import StoreOffer
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Warn
from placer.solving.result import Result
from placer.solving.solve import solve
from placer.units import GIB, format_bytes, format_speed, format_usd

WORTH_A_WORD = 0.02
"""Share by which the answer with a copy has to be better."""


def _name(store: StoreOffer) -> str:
    return f"{store.store}@{store.place}"


def copy_usd(store: StoreOffer, problem: Problem) -> float:
    """Return what it costs to copy the data to a store, and to keep it there for a month; USD.

    Notes
    -----
    A month is kept although many jobs are shorter: nobody deletes the copy on the day.
    """
    source, size = problem.data_store, problem.requirements.data_bytes or 0.0
    assert source is not None
    out = problem.network.usd_per_byte(source.place, store.place) * GIB
    return (out + source.usd_per_gib_retrieved + store.usd_per_gib_month) * size / GIB


def staging_notes(result: Result, solver: str, options: SolveOptions) -> Iterator[Warn]:
    """Yield where data of a known size had better be copied to, with what the copy costs.

    Notes
    -----
    Stores are tried in the places of the answer, and in those of the answer that reads nothing. By
    short searches: a better copy may exist.
    """
    problem, value = result.problem, result.value
    source, wish = problem.data_store, problem.requirements
    if source is None or not wish.data_bytes or value is None or allowance.current().spent:
        return
    best: tuple[float, str] | None = None
    for store in _stores(result, solver, options):
        asked = replace(problem, requirements=replace(wish, data_store=_name(store)))
        found = solve(asked, solver, short_search(options, BASELINE_NODES))
        if found.placement is None or found.estimate is None or found.value is None:
            continue
        once, got = copy_usd(store, problem), found.estimate
        if wish.budget_usd is not None and totals_of(got, wish).usd.value + once > wish.budget_usd:
            continue
        reached = found.value + (once if result.objective.name == "total" else 0.0)
        gain = abs(reached - value) / abs(value) if value else 0.0
        better = result.objective.better(reached, value, WORTH_A_WORD)
        if not better or (best is not None and gain <= best[0]):
            continue
        speed = format_speed(got.effective_samples_per_second.value, got.tokens_per_sample)
        best = (
            gain,
            f"{format_bytes(wish.data_bytes)} copied once to {_name(store)} for {format_usd(once)} "
            f"(egress, and a month there): {found.placement.in_words}, {speed} for "
            f"{format_usd(got.usd_per_hour.total)}/h, {100 * gain:.0f} % better",
        )
    if best is not None:
        yield Warn(code="staged", message=best[1])


def _stores(result: Result, solver: str, options: SolveOptions) -> Iterator[StoreOffer]:
    """Yield a store in each place of the answer and of the answer that reads nothing, but not where
    the data is.
    """
    problem = result.problem
    source, wish = problem.data_store, problem.requirements
    assert source is not None
    without = replace(wish, data_store=None, data_bytes=None, data_cache=None, passes=1.0)
    blind = solve(
        replace(problem, requirements=without), solver, short_search(options, BASELINE_NODES)
    )
    places = [
        place
        for placement in (result.placement, blind.placement)
        if placement is not None
        for place in placement.places
    ]
    for place in dict.fromkeys(places):
        stores = [store for store in problem.catalog.stores if store.place == place]
        if stores and place != source.place:
            yield stores[0]
