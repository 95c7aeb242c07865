"""Words as users type them: --spot, other money, counts in billions, devices by number."""

from datetime import UTC, datetime

import pytest

import placer
from placer.documents.request import request_document
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.problem.words.readers import read_deadline
from placer.problem.words.values import check_words
from placer.units import parse_budget, parse_count

advisor = Advisor("erben-2023")


def test_spot_is_short_for_its_market() -> None:
    """The question is the same, down to its document."""
    short = advisor.problem("resnet50", spot=True, budget="5/h")
    long = advisor.problem("resnet50", market="spot", budget="5/h")
    assert short.requirements == long.requirements
    assert request_document(short) == request_document(long)
    both = advisor.problem("resnet50", market="spot", spot=True, budget="5/h")
    assert both.requirements == long.requirements


@pytest.mark.parametrize(
    ("text", "usd_per_hour"),
    [
        ("3000/month", 3000 / 730),  # a month is billed as 730 h
        ("3000 per month", 3000 / 730),
        ("100/day", 100 / 24),
        ("5 usd/hour", 5.0),
    ],
)
def test_budgets_of_longer_times(text: str, usd_per_hour: float) -> None:
    """Each is a rate by the hour."""
    assert parse_budget(text) == pytest.approx(usd_per_hour)


def test_counts_in_billions() -> None:
    """As people write tokens and samples."""
    assert parse_count("1B") == 10**9
    assert parse_count("1e9") == 10**9
    llama = advisor.problem("llama-3.2-1b", tokens="1B", catalog="default")
    assert llama.requirements.tokens == 10**9
    assert llama.requirements.samples == -(-(10**9) // 8192)  # sequences of 8,192 tokens
    assert check_words({"tokens": 1e9}) == {"tokens": "1000000000"}
    with pytest.raises(PlacerError, match="is of type"):
        check_words({"tokens": 1.5})


def test_a_budget_in_euros_names_its_rate() -> None:
    """In the request, in the words of a change, and where it is scaled."""
    problem = advisor.problem("resnet50", budget="5EUR/h")
    assert problem.requirements.budget_usd_per_hour == pytest.approx(5.602)
    said = request_document(problem)["budget_rate"]
    assert said.startswith("5EUR/h at 1 EUR = 1.1204 USD on 2026-10-05")
    answer = placer.whatif("resnet50", set=["budget=x0.5"], budget="5EUR/h", catalog="erben-2023")
    assert answer.after.problem.requirements.budget_usd_per_hour == pytest.approx(2.801)


def test_a_number_of_gpus_is_kept_by_answer_and_document() -> None:
    """Only machines with eight V100 are admitted, and the saved document is checked again."""
    from placer.documents.saved_result import check_result

    result = placer.recommend(
        "resnet50", gpu="V100:8", places="onprem/erben-eu", catalog="erben-2023"
    )
    assert result.placement is not None
    assert {group.gpu_count for group in result.placement.groups} == {8}
    assert result.to_dict()["request"]["gpus"] == ["V100:8"]
    check_result(result.to_saved(whole=True), "saved")


WEDNESDAY = datetime(2026, 11, 25, 18, 30, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("36h", 36 * 3600.0),
        ("friday", (2 * 24 + 5.5) * 3600 - 60),  # midnight after Friday, in whole minutes
        ("Wednesday", 5.5 * 3600 - 60),  # today
        ("tuesday", (6 * 24 + 5.5) * 3600 - 60),  # of next week
        ("2026-12-04", (9 * 24 + 5.5) * 3600 - 60),
        ("9999-12-31", (2_912_114 * 24 + 5.5) * 3600 - 60),  # the last day that Python knows
    ],
)
def test_deadlines_are_times_or_days(text: str, seconds: float) -> None:
    """A day lasts until midnight UTC."""
    assert read_deadline(text, WEDNESDAY) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-11-24", "deadline 2026-11-24 is over"),
        ("2026-02-30", "deadline '2026-02-30' is not a date"),
        ("someday", "duration 'someday' is not a time"),
    ],
)
def test_deadlines_that_are_over_or_no_day_are_refused(text: str, message: str) -> None:
    """In one line."""
    with pytest.raises(PlacerError, match=message):
        read_deadline(text, WEDNESDAY)
