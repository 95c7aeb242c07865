"""Answers to other wishes: what fits if nothing does, with a copy of the data, at newer prices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, timedelta

from placer.cost_model.estimate import offer_of
from placer.cost_model.objective import aimed_at
from placer.cost_model.outlook.totals import totals_of
from placer.documents.result_parts import OLDER
from placer.errors import PlacerError
from placer.market.catalog import FREE, Catalog, StoreOffer, VmOffer
from placer.market.price_interval import GUESSED
from placer.problem.contradictions import contradiction
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import ALL_REGIONS, Requirements, without_quotas
from placer.problem.words.changes import AT_BOOK_FIGURES
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status, Warn
from placer.solving.result import Option, Result
from placer.solving.solve import solve
from placer.units import format_bytes, format_duration, format_plain, format_speed, format_usd

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

    freed = (
        (code, replace(aimed_at(wish, objective), **{field: None}), "")
        for code, (field, objective) in LIMITS.items()
        if getattr(wish, field) is not None
    )
    found = [replace(option, note=limit_words(option, wish)) for option in fitting(*freed)]
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


PROVED = 1e-6
"""Relative gap below which a bound on all copies says that an answer is the best."""

UNPROVED = (
    "no copy of the data is known to be better than reading it where it lies, but one may be "
)
NEW_DAYS = 90
"""Age up to which a price is preferred to older ones, before the newest price of the book."""
WITHIN = 0.1
"""Share of the objective that an answer gives up at most for newer prices."""
NEWER_S = 2.0
"""Seconds of the search at newer prices, or as long as that at all prices took: how far what it
finds may be from the best is known by the bound of all prices.
"""


def preferred(best: Result, solver: str, options: SolveOptions) -> Result:
    """Return the best with a copy of the data, and at newer prices, where these are better."""
    return at_newer_prices(at_copy(best, solver, options), solver, options)


def at_copy(best: Result, solver: str, options: SolveOptions) -> Result:
    """Return the best answer with a copy of the data beside the workers, where that is better than
    reading it where it lies; else the answer as it is.

    Only for data of a known size, whose source the request leaves open, and a proved answer about
    one batch. A question whose workers read in each place the copy that is fastest there, and pay
    for the one that is cheapest, after the least time, bounds every copy. The copies that its
    answer would read are tried, and those in the places of the answer as it is. The bound of what
    is returned holds for all stores.
    """
    problem, wish = best.problem, best.problem.requirements
    asked = problem.data_store is not None and wish.data_source is None and wish.data_bytes
    range_of_batches = wish.batch_range is not None or wish.confidence is not None or wish.expected
    proved = best.status.settled
    if not asked or range_of_batches or not proved or allowance.current().spent:
        return best
    try:
        return _best_of_copies(best, solver, options)
    except PlacerError as error:  # of another way, which the question as it is does not need
        words = f"no copy of the data was looked at: {error.message}"
        return replace(best, notes=(*best.notes, Warn("staged", words)))


def _best_of_copies(best: Result, solver: str, options: SolveOptions) -> Result:
    """Return the best answer with a copy, or the answer as it is with the bound on all copies."""
    problem, wish = best.problem, best.problem.requirements
    ahead, fresh = best.objective, replace(options, start=None)
    anywhere = wanting(problem, data_store=None, data_source=wish.data_store)
    if not anywhere.data_copies:  # no other store
        return best
    least = solve(anywhere, solver, replace(fresh, beat=best.value))
    if least.placement is None or least.value is None:
        return _bounded(best, least, options.gap)
    if best.value is not None and not ahead.better(least.value, best.value, options.gap):
        return _bounded(best, least, options.gap)
    found = best
    for store in _stores(best, least):
        there = wanting(problem, data_store=store.place, data_source=wish.data_store)
        if contradiction(there):
            continue
        one = solve(there, solver, replace(fresh, beat=found.value))
        if one.value is not None and (found.value is None or ahead.better(one.value, found.value)):
            found = one
    if found is best:
        return _bounded(best, least, options.gap)
    return replace(_bounded(found, least, options.gap), notes=(*found.notes, _staged(found, best)))


def _bounded(found: Result, least: Result, gap: float) -> Result:
    """Return an answer with the bound on all copies, where that is the weaker one."""
    value, bound = found.value, least.bound
    if value is None and least.status is not Status.INFEASIBLE:
        return replace(found, status=Status.UNKNOWN, bound=bound, proof=())
    if value is None or bound is None:
        return found
    if not found.objective.better(bound, value, max(gap, PROVED) * (1 + PROVED)):
        return found
    optimal = found.status is Status.OPTIMAL
    bounded = replace(
        found,
        status=Status.FEASIBLE if optimal else found.status,
        bound=bound,
        proof=(),
        nodes=found.nodes + least.nodes,
    )
    if bounded.problem.data_copy is not None or bounded.gap is None:
        return bounded
    most = f"at most {100 * bounded.gap:.2g} % better"
    return replace(bounded, notes=(*found.notes, Warn("staged", f"{UNPROVED}{most}")))


def _stores(best: Result, least: Result) -> Iterator[StoreOffer]:
    """Yield the stores to copy to: the cheapest and fastest of all, and those near the answer."""
    problem, stores = least.problem, []
    for place in least.found[0].places:
        stores += [problem.fastest_copy(place).store, problem.least_copy(place)[1].store]
    if best.placement is not None:
        there = set(best.placement.places)
        stores += [copy.store for copy in problem.data_copies if copy.store.place in there]
    yield from {store.place: store for store in stores}.values()


def _staged(found: Result, best: Result) -> Warn:
    """Say what the copy costs, and what is best without it."""
    copied, without = found.problem.data_copy, "nothing fits"
    assert copied is not None
    if best.placement is not None:
        placement, got = best.found
        speed = format_speed(got.effective_samples_per_second.value, got.tokens_per_sample)
        without = f"{placement.in_words}, {speed} for {format_usd(got.usd_per_hour.total)}/h"
    return Warn(
        "staged",
        f"{format_bytes(copied.bytes)} copied once from {copied.source.place} to "
        f"{copied.store.store}@{copied.store.place} before the start: "
        f"{format_usd(copied.egress_usd)} of egress, {format_usd(copied.kept_usd)} of storage, "
        f"about {format_duration(copied.seconds)}, all counted; read where it lies "
        f"(--data-source none): {without}",
    )


def at_newer_prices(best: Result, solver: str, options: SolveOptions) -> Result:
    """Return the best answer at new prices, where the proved best of all rests on an older one and
    is at most a tenth better; else the best of all.

    Only at defended figures, where the request names no age of its own, and where the newer prices
    were read. The problem of the answer has the age as a limit, so that what is asked of it later
    is asked of new prices too. Its bound is that of all prices: it stays feasible, with the gap.
    """
    book: Catalog | None = best.problem.catalog.memo.get(AT_BOOK_FIGURES)
    wish, value = best.problem.requirements, best.value
    chosen = wish.oldest_price is not None or wish.confidence is not None or wish.expected
    if book is None or value is None or chosen or wish.open_batches or allowance.current().spent:
        return best
    if best.status is not Status.OPTIMAL:  # nothing bounds what newer prices give up
        return best
    placement, got = best.found
    since = (date.fromisoformat(book.as_of[1]) - timedelta(days=NEW_DAYS)).isoformat()
    oldest = min((offer.as_of for offer in _rented(placement, best.problem)), default=since)
    asked = wanting(best.problem, oldest_price=since)
    if oldest >= since or not asked.pools:
        return best
    least = value - best.objective.sign * WITHIN * abs(value)
    seconds = min(options.time_limit_s, max(NEWER_S, best.seconds))
    newer = solve(asked, solver, replace(options, start=None, beat=least, time_limit_s=seconds))
    if newer.placement is None or newer.value is None or best.objective.better(least, newer.value):
        return best
    if any(GUESSED in offer.source for offer in _rented(newer.placement, asked)):
        return best
    note = f"at a price of {oldest[:7]} (name a --max-price-age to take it)"
    return replace(
        newer,
        status=Status.FEASIBLE if newer.status is Status.OPTIMAL else newer.status,
        bound=best.bound,
        proof=(),
        nodes=best.nodes + newer.nodes,
        seconds=best.seconds + newer.seconds,
        near_misses=(Option(placement=placement, estimate=got, label=OLDER, note=note),),
    )


def _rented(placement: Placement, problem: Problem) -> Iterator[VmOffer]:
    """Yield the offers of a placement that somebody asks a price for."""
    offers = (offer_of(group, problem) for group in placement.groups)
    return (offer for offer in offers if offer.price_basis not in FREE)
