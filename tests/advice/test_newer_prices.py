"""Prices of the last 90 days are preferred to older ones within a tenth of the objective."""

import pytest
from certain import certain

from instances import offer, two_places
from placer.advice.recommendation import other_answers
from placer.advice.recommendation.recommend import recommend
from placer.market.catalog import Setting
from placer.problem.problem import Problem
from placer.problem.words.changes import defended_book
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result
from placer.solving.solve import solve

NEWEST, OLD = "2026-06-30", "2026-04-01"
"""90 days apart: the older price is just new enough; a day before it is not."""
BEFORE = "2026-03-31"


def asked(newer_usd: float, *, older: str = BEFORE, source: str = "test", **wishes: str) -> Problem:
    """One T4 on demand in aws/a for 1.00 USD/h at an older price, one in gcp/b at a newer one; the
    least USD/h for 50 samples/s.
    """
    plain = two_places(objective="cost", min_samples_per_second=50.0, **wishes)
    rows = (
        replace(offer("aws", "a", "T4", 1.0, market="on_demand"), as_of=older),
        replace(
            offer("gcp", "b", "T4", newer_usd, market="on_demand"), as_of=NEWEST, source=source
        ),
    )
    nccl = Setting(setting="transport", value="nccl", source="test", as_of=NEWEST)
    book = replace(plain.catalog, offers=rows, settings=(nccl,))
    return replace(plain, catalog=defended_book(book))


def answer(problem: Problem) -> Result:
    """Recommend without alternatives."""
    return recommend(problem, alternatives=False)


def places(result: Result) -> tuple[str, ...]:
    """Return where an answer's machines are."""
    return certain(result.placement).places


def test_a_newer_price_within_a_tenth_is_the_answer() -> None:
    """1.09 USD/h is 9 % more than 1.00, which bounds the answer and stands beside it."""
    result = answer(asked(1.09))
    assert places(result) == ("gcp/b",)
    assert result.status is Status.FEASIBLE
    assert result.value == pytest.approx(1.09)
    assert result.proved
    assert result.bound == pytest.approx(1.0, rel=2e-3)
    assert certain(result.older).placement.places == ("aws/a",)
    assert "2026-03" in certain(result.older).note


def test_newer_prices_are_searched_about_as_long_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found in that time is the answer, at a distance from the bound of all prices, which
    is no proof that nothing at newer prices is better.
    """
    limits = []

    def stopped(problem: Problem, solver: str, options: SolveOptions) -> Result:
        limits.append(options.time_limit_s)
        return replace(solve(problem, solver, options), status=Status.TIME_LIMIT)

    monkeypatch.setattr(other_answers, "solve", stopped)
    result = answer(asked(1.09))
    assert limits == [other_answers.NEWER_S]
    assert places(result) == ("gcp/b",)
    assert result.bound == pytest.approx(1.0, rel=2e-3)
    assert not result.proved


@pytest.mark.parametrize(
    "problem",
    [
        asked(1.11),  # more than a tenth dearer
        asked(1.09, older=OLD),  # 90 days are not too old
        asked(1.09, source="estimate: 0.4 x on-demand"),  # a guess wins nothing
        asked(1.09, oldest_price="2025-01-01"),  # the request says which prices may be used
    ],
)
def test_else_the_best_of_all_is(problem: Problem) -> None:
    """The cheapest machine, proved."""
    result = answer(problem)
    assert places(result) == ("aws/a",)
    assert result.status is Status.OPTIMAL
    assert result.older is None


def test_nothing_is_given_up_for_what_is_not_proved() -> None:
    """A heuristic has no bound that says how much newer prices cost."""
    result = recommend(asked(1.09), "greedy", alternatives=False)
    assert places(result) == ("aws/a",)
    assert result.older is None
    assert not result.proved


def test_at_the_figures_of_the_book_no_price_is_too_old() -> None:
    """The same book, whose figures nobody defends."""
    problem = asked(1.09)
    plain = replace(problem, catalog=two_places().catalog)
    plain = replace(plain, catalog=replace(plain.catalog, offers=problem.catalog.offers))
    result = solve(plain, "exact", SolveOptions())
    assert other_answers.at_newer_prices(result, "exact", SolveOptions()) is result
