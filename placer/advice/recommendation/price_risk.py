"""Prices that an answer rests on: what is best at others, and at the figures of the book."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from placer.advice.recommendation.other_answers import short_search
from placer.cost_model.estimate import Outcome, offers_of, workers_of
from placer.cost_model.limits import broken_limits, evaluated
from placer.cost_model.objective import objective_of
from placer.cost_model.outlook.risk import machine_groups
from placer.cost_model.outlook.totals import totals_of
from placer.documents.schemas.proofs import Case, RegionPrice
from placer.market.books.defended_figures import Outlier, outlier_of, usual_share
from placer.market.catalog import Catalog, VmOffer
from placer.market.price_interval import price_interval
from placer.market.scaled_market import with_one_price
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import AT_BOOK_FIGURES, book_changed_again
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions
from placer.solving.result import HIGH, USUAL, WITHOUT, Option, PriceCase, PriceRisk, Result
from placer.solving.solve import solve
from placer.units import SECONDS_PER_HOUR, format_usd

RISK_NODES = 50
"""Nodes of the search for what is best at another price."""
DOLLARS = ("cost", "cost-per-sample", "total")
"""Objectives that dearer machines make worse."""
Known = Sequence[tuple[Placement, Outcome]]
"""Other placements that keep every limit, evaluated."""
WORTH_A_WORD = 0.02
"""Share by which the answer at book figures has to be better."""
BOLD_NODES = 10
"""Nodes of the search at book figures: it is only told about."""
HALVINGS = 20
"""Steps in which the highest price is found that an answer bears: to a millionth of its range."""


def price_risk(
    result: Result, known: Known, solver: str, options: SolveOptions, *, cases: bool = True
) -> PriceRisk | None:
    """Find the price whose rise inside its interval changes an answer the soonest, and what is best
    then, unless ``cases`` is False.

    The solver is asked at most three times, and not where the answer follows: what is best at the
    high end without the row is best at any higher price and without the row. None where no such
    price breaks a limit or makes a ``known`` placement better: dearer machines make no other
    placement better than it was, so the answer stays best as long as it keeps its limits and, if
    dollars are the objective, what is known stays worse.
    """
    placement = result.placement
    if placement is None or result.estimate is None or allowance.current().spent:
        return None
    machines = _machines(placement, result.problem)
    marked = [
        (at / offer.usd_per_hour, offer, at)
        for offer, count in machines
        if not price_interval(offer).exact
        and (at := _changes_at(offer, count, result, known)) < _high(offer, result.problem.catalog)
    ]
    if not marked:
        return None
    _, offer, changes_at = min(marked, key=lambda row: row[0])
    catalog = result.problem.catalog
    usual = usual_share(offer.provider, offer.gpu, catalog) if offer.market == "spot" else None
    on_demand = _on_demand(offer, catalog)
    risk = PriceRisk(
        row=offer,
        usd_per_hour=price_interval(offer),
        changes_at_usd_per_hour=changes_at,
        on_demand_usd_per_hour=on_demand,
        usual_usd_per_hour=None if usual is None or on_demand is None else usual.share * on_demand,
        next_region=_elsewhere(offer, catalog),
        outlier=outlier_of(offer, catalog),
        cases=(),
    )
    asked = _cases(result, risk, known, solver, options) if cases else ()
    return replace(risk, cases=tuple(asked))


def outlier_sentences(result: Result) -> tuple[str, ...]:
    """Name the spot prices of an answer that are far below what is usual."""
    return tuple(
        f"The spot price of {offer.device} in {offer.place} is an outlier: "
        f"{100 * (1 - off.share):.0f} % below on-demand, where the {off.usual.regions} regions of "
        f"{offer.provider} have {100 * (1 - off.usual.share):.0f} % in the median (modified "
        f"z-score {off.score:.1f}); check it before you rely on it."
        for offer, off in outlier_prices(result.found[0], result.problem)
    )


def outlier_prices(placement: Placement, problem: Problem) -> list[tuple[VmOffer, Outlier]]:
    """Return the rows of a placement whose spot price is far below what is usual."""
    rows = (offer for offer, _ in _machines(placement, problem))
    found = ((offer, outlier_of(offer, problem.catalog)) for offer in rows)
    return [(offer, off) for offer, off in found if off is not None and off.score < 0]


def _machines(placement: Placement, problem: Problem) -> list[tuple[VmOffer, int]]:
    """Return the offers of a placement with how many machines of each it rents."""
    counts: dict[VmOffer, int] = {}
    pools = workers_of(placement, problem)
    for offer, count in offers_of(pools, placement, problem):
        counts[offer] = counts.get(offer, 0) + count
    return list(counts.items())


def _changes_at(offer: VmOffer, count: int, result: Result, known: Known) -> float:
    """Return the price of one machine from which the answer is another one; perhaps infinite."""
    (_, got), wish, value = result.found, result.problem.requirements, result.value or 0.0
    usd, speed = got.usd_per_hour.total, got.effective_samples_per_second.value
    room = [math.inf]
    if wish.budget_usd_per_hour is not None:
        room.append(wish.budget_usd_per_hour - usd)
    if wish.budget_usd is not None and wish.samples:
        hours = (wish.samples / speed + wish.startup_s) / SECONDS_PER_HOUR
        room.append((wish.budget_usd - totals_of(got, wish).usd.value) / hours)
    if wish.most_usd_per_million_samples is not None:
        room.append((wish.most_usd_per_million_samples / got.usd_per_million_samples - 1) * usd)
    # A plan that holds with a confidence is not the cheapest placement, which would lead it.
    if result.objective.name in DOLLARS and result.confidence is None and value > 0:
        room += [
            usd * (result.objective.value(outcome) / value - 1)
            for placement, outcome in known
            if offer not in dict(_machines(placement, result.problem))
        ]
    return offer.usd_per_hour + max(0.0, min(room)) / count


def _high(offer: VmOffer, catalog: Catalog) -> float:
    """Return the highest price that is expected: no more than on demand in the same place."""
    high, on_demand = price_interval(offer).high, _on_demand(offer, catalog)
    return high if on_demand is None else min(high, max(on_demand, offer.usd_per_hour))


def _on_demand(offer: VmOffer, catalog: Catalog) -> float | None:
    other = catalog.offer(offer.place, offer.instance_type, offer.gpu, offer.gpu_count, "on_demand")
    return None if other is None or not offer.moves else other.usd_per_hour


def _elsewhere(offer: VmOffer, catalog: Catalog) -> RegionPrice | None:
    """Return the cheapest other region of the provider that rents the same machine alike."""
    fields = ("provider", "instance_type", "gpu", "gpu_count", "market")
    rows = catalog.table.matching(**{name: getattr(offer, name) for name in fields}).tolist()
    others = (catalog.offers[row] for row in rows)
    prices = [(each.usd_per_hour, each.place) for each in others if each.place != offer.place]
    if not prices:
        return None
    usd_per_hour, place = min(prices)
    return RegionPrice(place=place, usd_per_hour=usd_per_hour)


def _cases(
    result: Result, risk: PriceRisk, known: Known, solver: str, options: SolveOptions
) -> Iterable[PriceCase]:
    """Yield what is best at other prices of one row, asking the solver only where that is open."""
    offer, problem, usual_usd = risk.row, result.problem, risk.usual_usd_per_hour
    high = _high(offer, problem.catalog)

    def asked(case: Case, usd_per_hour: float | None) -> PriceCase:
        """Ask what is best where the row has another price, or is left out (None)."""
        factor = None if usd_per_hour is None else usd_per_hour / offer.usd_per_hour
        world = replace(problem, catalog=with_one_price(problem.catalog, offer, factor))
        got = solve(world, solver, short_search(options, RISK_NODES, _start(world, known, offer)))
        placement, chosen = got.placement, result.placement
        same = placement and chosen and placement.canonical() == chosen.canonical()
        return PriceCase(
            case=case,
            usd_per_hour=usd_per_hour,
            placement=placement,
            estimate=got.estimate,
            proved=got.status.settled,
            on_outlier=placement is not None and bool(outlier_prices(placement, problem)),
            same=bool(same),
        )

    at_high = asked(HIGH, high)
    yield at_high
    left = at_high.placement is None or not _uses(at_high.placement, offer)
    if usual_usd is not None and usual_usd > offer.usd_per_hour:
        usual = replace(at_high, case=USUAL, usd_per_hour=usual_usd)
        if usual_usd < risk.changes_at_usd_per_hour:
            placement, got = result.found
            proved = result.objective.name not in DOLLARS
            yield replace(usual, same=True, proved=proved, placement=placement, estimate=got)
        else:
            yield usual if usual_usd >= high and left else asked(USUAL, usual_usd)
    yield replace(at_high, case=WITHOUT, usd_per_hour=None) if left else asked(WITHOUT, None)


def _uses(placement: Placement, offer: VmOffer) -> bool:
    """Return whether a placement rents machines of a row, whatever they cost."""
    row = offer.place, offer.instance_type, offer.gpu, offer.gpu_count, offer.market
    return any(group.offer_kind == row for group in machine_groups(placement))


def _start(asked: Problem, known: Known, offer: VmOffer) -> Placement | None:
    """Return the best known placement that rents nothing of a row."""
    score = objective_of(asked.requirements).score
    others = [(score(got), p) for p, got in known if not _uses(p, offer)]
    return min(others, key=lambda pair: pair[0])[1] if others else None


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


def _condition(placement: Placement, result: Result, asked: Problem) -> str:
    """Say what has to be true for a placement to be better than the answer."""
    rows = {group.offer_kind for group in placement.groups}
    if len(rows) > 1:
        return "if its prices are true"
    (row,), value = rows, result.value
    quoted, planned = asked.catalog.offer(*row), result.problem.catalog.offer(*row)
    assert quoted is not None
    assert planned is not None
    assert value is not None
    read = f"the book has {format_usd(quoted.usd_per_hour)} of {quoted.as_of[:7]}"
    least, most = quoted.usd_per_hour, planned.usd_per_hour
    cheap = with_one_price(result.problem.catalog, planned, least / most)
    world = replace(result.problem, catalog=cheap)
    outcome, broken = evaluated(placement, world)
    paid = cheap.offer(*row)
    count = sum(n for offer, n in _machines(placement, world) if offer == paid)

    def better_at(usd_per_hour: float) -> bool:
        assert outcome is not None
        dearer = outcome.usd.compute + count * (usd_per_hour - quoted.usd_per_hour)
        got = replace(outcome, usd=replace(outcome.usd, compute=dearer))
        better = result.objective.better(result.objective.value(got), value)
        return better and not broken_limits(got, world.requirements)

    if outcome is None or broken or not better_at(least):
        return f"if a network that nobody promises is fast, and {read}"
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        least, most = (middle, most) if better_at(middle) else (least, middle)
    usd, now = format_usd(least), format_usd(planned.usd_per_hour)
    return f"if a machine costs at most {usd}/h ({read}, planned {now})"
