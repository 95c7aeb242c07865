"""Answers at prices of the last three months, where they come close to the best at any price."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from placer.cost_model.estimate import offer_of
from placer.documents.result_parts import OLDER
from placer.market.catalog import FREE, Catalog, VmOffer
from placer.market.price_interval import GUESSED
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import AT_BOOK_FIGURES
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Option, Result
from placer.solving.solve import solve

NEW_DAYS = 90
"""Age up to which a price is preferred to older ones, before the newest price of the book."""
WITHIN = 0.1
"""Share of the objective that an answer gives up at most for newer prices."""


def at_newer_prices(best: Result, solver: str, options: SolveOptions) -> Result:
    """Return the best answer at new prices, where the proved best of all rests on an older one and
    is at most a tenth better; else the best of all.

    Only at defended figures, where the request names no age of its own, and where the newer prices
    were read. The problem of the answer has the age as a limit, so that what is asked of it later
    is asked of new prices too. Its bound is that of all prices: it stays feasible, with the gap.
    """
    book: Catalog | None = best.problem.catalog.memo.get(AT_BOOK_FIGURES)
    wish, value, placement = best.problem.requirements, best.value, best.placement
    chosen = wish.oldest_price is not None or wish.confidence is not None or wish.expected
    if book is None or value is None or chosen or wish.open_batches or allowance.current().spent:
        return best
    if best.status is not Status.OPTIMAL:  # nothing bounds what newer prices give up
        return best
    assert placement is not None
    assert best.estimate is not None
    since = (date.fromisoformat(book.as_of[1]) - timedelta(days=NEW_DAYS)).isoformat()
    oldest = min((offer.as_of for offer in _priced(placement, best.problem)), default=since)
    asked = replace(best.problem, requirements=replace(wish, oldest_price=since))
    if oldest >= since or not asked.pools:
        return best
    least = value - best.objective.sign * WITHIN * abs(value)
    newer = solve(asked, solver, replace(options, start=None, beat=least))
    if newer.placement is None or newer.value is None or best.objective.better(least, newer.value):
        return best
    if any(GUESSED in offer.source for offer in _priced(newer.placement, asked)):
        return best
    older = Option(
        placement=placement,
        estimate=best.estimate,
        label=OLDER,
        note=f"at a price of {oldest[:7]} (name a --max-price-age to take it)",
    )
    return replace(
        newer,
        status=Status.FEASIBLE if newer.status is Status.OPTIMAL else newer.status,
        bound=best.bound,
        proof=(),
        nodes=best.nodes + newer.nodes,
        seconds=best.seconds + newer.seconds,
        near_misses=(older,),
    )


def _priced(placement: Placement, problem: Problem) -> Iterator[VmOffer]:
    """Yield the offers of a placement that somebody asks a price for."""
    offers = (offer_of(group, problem) for group in placement.groups)
    return (offer for offer in offers if offer.price_basis not in FREE)
