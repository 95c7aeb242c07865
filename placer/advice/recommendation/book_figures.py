"""The answer at the figures of the book, and what has to be true for it."""

from __future__ import annotations

from collections.abc import Iterator

from placer.advice.recommendation.nearest import short_search
from placer.cost_model.limits import evaluated
from placer.market.catalog import Catalog, VmOffer
from placer.market.scaled_market import with_offers, with_one_price
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import AT_BOOK_FIGURES, book_changed_again
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Warn
from placer.solving.result import Option, Result
from placer.solving.solve import solve
from placer.units import format_usd

WORTH_A_WORD = 0.02
"""Share by which the answer at book figures has to be better."""
BOLD_NODES = 10
"""Nodes of the search at book figures: it is only told about."""
HALVINGS = 20
"""Steps in which the highest price is found that an answer bears: to a millionth of its range."""


def bold_option(result: Result, solver: str, options: SolveOptions) -> Option | None:
    """Return what the book's own figures would give where that is better, with up to which price.

    By a short search: it may name less than there is, never more than the book promises.
    """
    defended, value = result.problem.catalog, result.value
    book: Catalog | None = defended.memo.get(AT_BOOK_FIGURES)
    if book is None or value is None or result.confidence or allowance.current().spent:
        return None
    asked = replace(result.problem, catalog=book_changed_again(book, defended.changes[1:]))
    bold = solve(asked, solver, short_search(options, BOLD_NODES, result.placement))
    if bold.value is None or not result.objective.better(bold.value, value, WORTH_A_WORD):
        return None
    placement, got = bold.found
    gain = abs(bold.value - value) / abs(value) if value else 0.0
    note = f"{100 * gain:.0f} % better {_condition(placement, result, asked)}"
    return Option(placement=placement, estimate=got, label="bold", note=note, proved=False)


def bold_notes(option: Option | None) -> Iterator[Warn]:
    """Yield in words what the book's own figures would give."""
    if option is not None:
        yield Warn("bold", f"{option.placement.in_words} would be {option.note}")


def _condition(placement: Placement, result: Result, asked: Problem) -> str:
    """Say what has to be true for a placement to be better than the answer."""
    rows = {group.offer_kind for group in placement.groups}
    if len(rows) > 1:
        return "if its prices are true"
    (row,) = rows
    quoted, planned = asked.catalog.offer(*row), result.problem.catalog.offer(*row)
    assert quoted is not None
    assert planned is not None
    read = f"the book has {format_usd(quoted.usd_per_hour)} of {quoted.as_of[:7]}"
    least = quoted.usd_per_hour / planned.usd_per_hour
    if not _better_at(least, placement, result, planned):
        return f"if a network that nobody promises is fast, and {read}"
    most = 1.0
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        if _better_at(middle, placement, result, planned):
            least = middle
        else:
            most = middle
    usd, now = format_usd(least * planned.usd_per_hour), format_usd(planned.usd_per_hour)
    return f"if a machine costs at most {usd}/h ({read}, planned {now})"


def _better_at(factor: float, placement: Placement, result: Result, planned: VmOffer) -> bool:
    """Tell whether a placement is better than the answer at a multiple of a planned price."""
    problem, hub = result.problem, placement.exchange.aggregator
    places = dict.fromkeys((*placement.places, *([] if hub is None else [hub])))
    # Of thousands of rows those of its places are enough to price it.
    rows = tuple(offer for place in places for offer in problem.catalog.offers_at(place))
    there = with_offers(problem.catalog, rows)
    world = replace(problem, catalog=with_one_price(there, planned, factor))
    outcome, broken = evaluated(placement, world)
    if outcome is None or broken or result.value is None:
        return False
    return result.objective.better(result.objective.value(outcome), result.value)
