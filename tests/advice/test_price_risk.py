"""What an answer becomes if the price that it rests on most is wrong."""

from typing import Any

import pytest
from certain import certain

import placer
from instances import offer, random_problem, two_places, wishing
from placer.advice.recommendation.price_risk import outlier_sentences
from placer.advice.recommendation.recommend import recommend
from placer.cost_model.estimate import estimate
from placer.documents.schemas.proofs import RegionPrice
from placer.market.books.defended_figures import outlier_of
from placer.market.price_interval import price_interval
from placer.market.scaled_market import with_one_price, with_scaled_egress, with_scaled_prices
from placer.problem.problem import Problem
from placer.problem.words.changes import AT_BOOK_FIGURES
from placer.records import replace
from placer.solving.answer import Status
from placer.solving.by_hand import place_by_hand
from placer.solving.result import HIGH, WITHOUT, Result
from placer.solving.solve import solve


def at(problem: Problem, row: object, usd: float) -> Result:
    """The proved answer at another price of one row."""
    offers = tuple(replace(o, usd_per_hour=usd) if o is row else o for o in problem.catalog.offers)
    return solve(replace(problem, catalog=replace(problem.catalog, offers=offers)))


def test_what_the_figures_of_the_book_would_give_is_said() -> None:
    """The book has the spot machine for 0.60 USD/h, at 2.00 it is planned: 0.60 is 40 % less than
    the 1.00 on demand, and it stays the cheaper one up to that.
    """
    problem = two_places(objective="cost", max_workers=1)
    on_demand, spot = problem.catalog.offers
    dear = replace(spot, usd_per_hour=2.0)
    planned = replace(problem.catalog, offers=(on_demand, dear))
    planned.memo[AT_BOOK_FIGURES] = problem.catalog
    (note,) = recommend(replace(problem, catalog=planned)).notes
    assert note.code == "bold"
    assert note.message == (
        "1 x T4 spot in gcp/b would be 40 % better if a machine costs at most $1.00/h (the book "
        "has $0.60 of 2026-01, planned $2.00)"
    )


@pytest.mark.parametrize("factor", [1.7, None])
def test_machines_of_a_book_with_one_other_price_are_those_admitted_anew(
    factor: float | None,
) -> None:
    """Admitted machines are the same as looking at every row again, also with free egress."""
    problem = placer.Advisor("erben-2023").problem("roberta-xlm", budget="5/h", gpu=["T4", "A10"])
    row = problem.pools[1].offer
    changed = with_one_price(problem.catalog, row, factor)
    anew = replace(problem, catalog=replace(changed))  # of the same rows, without what it knows
    assert replace(problem, catalog=changed).pools == anew.pools
    assert replace(problem, catalog=with_scaled_egress(changed, 0.0)).pools == anew.pools
    assert anew.pools != problem.pools
    assert (len(anew.pools) < len(problem.pools)) is (factor is None)


def test_machines_of_a_book_with_scaled_prices_are_those_admitted_anew() -> None:
    """Scaled once and again, with rows of other devices left as they are, also with free egress."""
    problem = placer.Advisor("erben-2023").problem("roberta-xlm", budget="5/h", gpu=["T4", "A10"])
    once = with_scaled_prices(problem.catalog, lambda row: row.gpu == "T4", 0.5)
    twice = with_scaled_prices(once, lambda row: row.market == "spot", 3.0)
    for changed in (once, twice, with_scaled_egress(twice, 0.0)):
        anew = replace(problem, catalog=replace(changed))  # of the same rows, without what it knows
        assert replace(problem, catalog=changed).pools == anew.pools
        assert anew.pools != problem.pools


def test_the_price_from_which_another_answer_is_best_is_the_room_in_the_budget() -> None:
    """0.60 USD/h of a budget of 0.80: from 0.80 on the spot machine no longer fits, below the 0.84
    of its interval (x1.4). On demand the other costs 1.00: nothing fits.
    """
    problem = two_places(budget_usd_per_hour=0.8, max_workers=1)
    got = recommend(problem)
    risk = certain(got.price_risk)
    assert risk.row.place == "gcp/b"
    assert risk.changes_at_usd_per_hour == pytest.approx(0.8)
    assert risk.usd_per_hour.high == pytest.approx(0.84)
    high, without = certain(risk.case(HIGH)), certain(risk.case(WITHOUT))
    assert high.placement is None
    assert high.proved
    assert without.placement is None
    there = replace(
        got, price_risk=replace(risk, next_region=RegionPrice(place="aws/a", usd_per_hour=1.0))
    )
    part = there.to_dict()["price_risk"]
    assert part["next_region"] == {"place": "aws/a", "usd_per_hour": 1.0}
    assert part["row"]["place"] == "gcp/b"
    assert part["changes_at_usd_per_hour"] == risk.changes_at_usd_per_hour


@pytest.mark.parametrize(
    ("wish", "on_demand", "changes_at"),
    [
        ({"budget_usd_per_hour": 0.83}, None, 0.83),
        ({"budget_usd_per_hour": 0.85}, None, None),  # above the 0.84 of its interval
        # No spot machine costs more than the same one on demand, unless it does already.
        ({"budget_usd_per_hour": 0.65}, 0.7, 0.65),
        ({"budget_usd_per_hour": 0.75}, 0.7, None),
        ({"budget_usd_per_hour": 0.65}, 0.5, None),
        # Two machines share the room.
        ({"budget_usd_per_hour": 1.3, "max_workers": 2}, None, 0.65),
        # A million samples take 10,000 s for 1.667 USD, and with an hour to start 2.267 USD.
        ({"samples": 10**6, "budget_usd": 1.8}, None, 0.6 * 1.8 / 1.6667),
        ({"samples": 10**6, "budget_usd": 2.4, "startup_s": 3600.0}, None, 0.6 * 2.4 / 2.2667),
        ({"most_usd_per_million_samples": 2.0}, None, 0.6 * 2.0 / 1.6667),
    ],
)
def test_every_limit_on_money_leaves_room_for_a_price(
    wish: dict[str, Any], on_demand: float | None, changes_at: float | None
) -> None:
    """The spot machine for 0.60 USD/h, perhaps beside the same one on demand."""
    problem = two_places(**{"max_workers": 1, **wish})
    one, spot = problem.catalog.offers
    twin = replace(spot, market="on_demand", usd_per_hour=on_demand or 9.0)
    problem = replace(problem, catalog=replace(problem.catalog, offers=(one, spot, twin)))
    risk = recommend(problem).price_risk
    at_usd = None if risk is None else risk.changes_at_usd_per_hour
    assert at_usd == (None if changes_at is None else pytest.approx(changes_at, rel=1e-4))


def test_the_cheapest_answer_changes_where_another_machine_becomes_cheaper() -> None:
    """0.80 on spot against 1.00 on demand: the spot price may rise to 1.12, above which... 1.00 is
    where the other one becomes cheaper.
    """
    problem = two_places(objective="cost", max_workers=1)
    dear = tuple(
        replace(o, usd_per_hour=0.8) if o.market == "spot" else o for o in problem.catalog.offers
    )
    problem = replace(problem, catalog=replace(problem.catalog, offers=dear))
    risk = certain(recommend(problem).price_risk)
    assert risk.changes_at_usd_per_hour == pytest.approx(1.0)
    high = certain(risk.case(HIGH))
    assert certain(high.placement).places == ("aws/a",)


def test_answers_hold_on_drawn_markets() -> None:
    """Below the price that is named the proved answer is the old one in value; at the high end what
    is shown is never better than the proved best, and is it where it says so.
    """
    seen = 0
    for seed in range(70_300, 70_312):
        problem = random_problem(seed)
        first = solve(problem).estimate
        if first is None:
            continue
        budget = 1.1 * first.usd_per_hour.total
        problem = wishing(problem, budget_usd_per_hour=budget)
        got = recommend(problem)
        risk = got.price_risk
        if risk is None or got.value is None or got.status != "optimal":
            continue
        seen += 1
        objective, price = got.objective, risk.row.usd_per_hour
        assert price <= risk.changes_at_usd_per_hour < price_interval(risk.row).high
        if objective.by_speed:
            below = at(problem, risk.row, price + 0.99 * (risk.changes_at_usd_per_hour - price))
            assert below.value == pytest.approx(got.value, rel=2e-3)
        high = certain(risk.case(HIGH))
        best = at(problem, risk.row, certain(high.usd_per_hour))
        if high.estimate is None:
            assert not high.proved or best.value is None
            continue
        assert best.value is not None
        value = objective.value(high.estimate)
        assert not objective.better(value, best.value, 2e-3)
        if high.proved:
            assert value == pytest.approx(best.value, rel=2e-3)
    assert seen >= 3


def test_the_row_that_breaks_the_soonest_is_named() -> None:
    """Both rows have one machine. What egress leaves of 2.00 is room for either, which is a smaller
    share of 1.00 USD/h than of 0.60.
    """
    problem = two_places(budget_usd_per_hour=2.0, min_workers=2, max_workers=2)
    offers = (offer("aws", "a", "T4", 1.0), offer("gcp", "b", "T4", 0.6))
    capped = tuple(replace(o, available=1) for o in offers)
    problem = replace(problem, catalog=replace(problem.catalog, offers=capped))
    got = recommend(problem)
    assert len(certain(got.placement).places) == 2
    room = 2.0 - certain(got.estimate).usd_per_hour.total
    assert 0 < room < 0.24
    assert certain(got.price_risk).row.place == "aws/a"
    assert certain(got.price_risk).changes_at_usd_per_hour == pytest.approx(1.0 + room)


def test_a_spot_price_far_below_what_is_usual_is_named_with_both_shares() -> None:
    """How far the price in the book is below that on demand, and how far it is in the median of the
    regions that rent the device; nothing is said of a machine at a usual price.
    """
    problem = placer.Advisor().problem("roberta-xlm", figures="book", market="spot")
    known = [(row, outlier_of(row, problem.catalog)) for row in problem.catalog.offers]
    low, off = next((row, off) for row, off in known if off is not None and off.score < 0)
    alike = (low.device, "spot")
    usual = next(row for row, off in known if not off and (row.device, row.market) == alike)
    kind = low.place, low.instance_type, low.gpu, low.gpu_count
    on_demand = problem.catalog.offer(*kind, "on_demand")
    told = []
    for row in (low, usual):
        placement = place_by_hand(f"{row.place}=1x{row.device}:spot", problem)
        got = Result(
            problem=problem,
            status=Status.FEASIBLE,
            placement=placement,
            estimate=estimate(placement, problem),
            solver="by hand",
        )
        told.append(outlier_sentences(got))
    below = 100 * (1 - low.usd_per_hour / certain(on_demand).usd_per_hour)
    ((said,), nothing) = told
    assert nothing == ()
    assert said.startswith(
        f"The spot price of {low.device} in {low.place} is an outlier: {below:.0f} % below "
        f"on-demand, where the {off.usual.regions} regions of {low.provider} have "
        f"{100 - 100 * off.usual.share:.0f} % in the median"
    )
