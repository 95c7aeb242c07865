"""What follows from a result: how a plan with fallbacks ends, its row, and its place in a table."""

from typing import Any

import pytest
from certain import certain

import placer
from instances import two_places
from placer.documents.result_parts import OLDER
from placer.records import replace
from placer.solving.answer import Status
from placer.solving.result import ConfidentPlan, Option, Rank, Result, confident_document
from placer.solving.solve import solve


def plan_of(result: Result, **figures: Any) -> ConfidentPlan:
    """A plan with one rung, the placement of a result, in 4,096 scenarios."""
    placement, got = result.found
    ranks = (
        Rank(placement=placement, estimate=got, chance_alone=0.9, mean_hours=1.0, certain=False),
    )
    more = {"reached_in_fresh_scenarios": 0.9, "scenarios": 4096, "seed": 1, "ladders_tried": 1}
    return ConfidentPlan(ranks=ranks, **{**more, **figures})


@pytest.mark.parametrize(
    ("asked", "reached", "tail_usd", "status"),
    [
        (0.9, 0.89, None, "not-reached"),
        (0.9, 0.9, None, "not-assured"),  # which chance may be: 0.89 at least
        (0.9, 0.92, None, "holds"),
        (1.0, 1.0, None, "holds"),  # no number of scenarios shows more
        (1.0, 0.9999, None, "not-reached"),
        (0.9, 0.92, 10.0, "holds"),
        (0.9, 0.92, 10.01, "over-budget"),
        (0.9, 0.89, 10.01, "not-reached"),
    ],
)
def test_a_plan_holds_with_a_margin_and_within_its_budget(
    asked: float, reached: float, tail_usd: float | None, status: str
) -> None:
    """Of 10 USD. A run that fails is no saving: 8 USD for 0.8 of the runs are 10 for one that
    finishes, 25 % more than the 8 that none is below.
    """
    result = solve(two_places(budget_usd=10.0, samples=10**6))
    plan = plan_of(result, asked=asked, reached=reached, tail_usd=tail_usd, usd=8.0, least_usd=8.0)
    assert plan.status(10.0) == status
    half = replace(plan, reached=0.8)
    document = certain(confident_document(half, result.problem))
    assert document["usd_per_finished_run"] == pytest.approx(10.0)
    assert document["gap"] == pytest.approx(0.2)
    assert (document["holds"], document["status"]) == (False, "not-reached")
    assert replace(plan, reached=0.0).usd_per_finished is None
    assert confident_document(None, result.problem) is None


def test_a_result_without_a_placement_says_what_would_fit() -> None:
    """In its one line; it has no manifest."""
    result = solve(two_places(budget_usd_per_hour=0.1))
    near = Option.of(solve(two_places()).found[0], result.problem)
    assert result.headline == "infeasible: no placement"
    assert replace(result, nearest=(near, near)).headline.endswith(
        "no placement; 2 placements fit after a change"
    )
    with pytest.raises(placer.PlacerError, match="so there is no manifest"):
        result.to_manifest()


def test_a_result_is_proved_at_newer_prices_too() -> None:
    """Where the best at any price stands beside it; not if it is only feasible."""
    result = solve(two_places(budget_usd_per_hour=2.0))
    older = Option.of(result.found[0], result.problem, label=OLDER)
    feasible = replace(result, status=Status.FEASIBLE)
    newer = replace(feasible, near_misses=(replace(older, label="near-miss"), older))
    assert [one.proved for one in (result, feasible, newer)] == [True, False, True]
    assert certain(newer.older) is older


def test_the_table_of_a_result_begins_with_the_chosen_one() -> None:
    """A row for each that was considered."""
    pytest.importorskip("pandas")
    result = placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023")
    rows = result.to_frame().to_dict("records")
    assert len(rows) == len(result.options) > 1
    assert [row["chosen"] for row in rows] == [True] + [False] * (len(rows) - 1)
    assert rows[0]["workers"] == "lambda/us-west-1=8xA10:on-demand"
    assert rows[0]["usd_per_hour"] == pytest.approx(4.8)
    for row in rows:
        usd = row["usd_per_hour"] / row["samples_per_second"] / 3600 * 1e6
        assert row["usd_per_million_samples"] == pytest.approx(usd)
        assert row["egress_usd_per_hour"] <= row["usd_per_hour"]
