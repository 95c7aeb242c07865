"""Limits that nobody asked for are named where they are reached."""

from threading import Event
from typing import Any

import pytest
from certain import certain

import placer
from instances import sized_problem, wishing
from placer.advice.explanation.explain import explain
from placer.advice.recommendation.bottlenecks import needs_reservation
from placer.advice.recommendation.other_answers import nearest
from placer.market.catalog import VmOffer
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

advisor = placer.Advisor()


def codes(model: str, **words: Any) -> dict[str, str]:
    """Return the warnings of an answer by their codes."""
    found = advisor.recommend(model, alternatives=False, **words)
    return {warning.code: warning.message for warning in found.warnings}


def test_the_supply_is_named_where_all_of_it_is_used() -> None:
    """16 of 16 spot machines; nothing where a place has some left, and nothing without a limit."""
    words = {"gpu": "H200:8", "places": "aws/ap-south-1", "market": "spot", "figures": "book"}
    said = codes("roberta-xlm", budget="500/h", **words)
    assert said["supply"].startswith("uses 16 of 16 spot machines p5en.48xlarge in aws/ap-south-1")
    assert "--supply any plans with more" in said["supply"]
    assert "supply" not in codes("roberta-xlm", budget="100/h", **words)
    assert "supply" not in codes("roberta-xlm", budget="500/h", supply="any", **words)


@pytest.mark.parametrize(
    ("market", "gpus", "machines", "basis", "needed"),
    [
        ("on_demand", 8, 17, "list", True),
        ("on_demand", 8, 16, "list", False),
        ("on_demand", 4, 17, "list", False),
        ("spot", 8, 17, "list", False),
        ("on_demand", 8, 17, "owned", False),
        ("on_demand", 8, 17, "reserved", False),
    ],
)
def test_more_than_sixteen_large_machines_need_a_reservation(
    market: str, gpus: int, machines: int, basis: str, needed: bool
) -> None:
    """On demand, of eight GPUs, and not one's own."""
    some = advisor.problem("roberta-xlm").catalog.offers[0]
    offer: VmOffer = replace(some, market=market, gpu_count=gpus, price_basis=basis)
    assert needs_reservation(offer, machines) is needed


def test_workers_grow_to_what_a_budget_pays() -> None:
    """64 machines of eight B300 cost 9,115 USD/h; 20,000 USD/h pay for 140 of them. A closed range
    stays as it is.
    """
    words = {"gpu": "B300:8", "market": "on-demand", "budget": "20000/h", "alternatives": False}
    more = advisor.recommend("roberta-xlm", **words)  # type: ignore[arg-type]
    few = advisor.recommend("roberta-xlm", workers="1..64", **words)  # type: ignore[arg-type]
    assert [certain(one.placement).workers for one in (more, few)] == [140, 64]
    assert more.problem.requirements.max_workers == 256


def test_a_floor_that_more_workers_reach_has_an_answer() -> None:
    """64 machines do 2.5 million samples/s; 4 million need 140."""
    words = {"gpu": "B300:8", "market": "on-demand", "min_throughput": "4M/s"}
    found = advisor.recommend("roberta-xlm", alternatives=False, **words)  # type: ignore[arg-type]
    assert found.status is Status.OPTIMAL
    assert certain(found.placement).workers == 140


def test_a_question_that_stays_open_is_searched_with_more_workers() -> None:
    """Over two regions 64 workers, whose bound is below 5 million samples/s, are not proved in an
    eighth of the time; drafts with more do 10 million, and the rest of the time begins there.
    """
    enough = Event()

    def heard(value: float) -> None:
        if value > 5e6:
            enough.set()

    found = advisor.recommend(
        "resnet50",
        budget="50000/h",
        regions="2..",
        local_steps="1..64",
        figures="book",
        time_limit="16s",
        alternatives=False,
        on_better=heard,
        cancel=enough,
    )
    assert certain(found.placement).workers > 64
    assert found.status is Status.TIME_LIMIT
    assert found.problem.requirements.max_workers > 64


def scarce() -> tuple[Problem, float]:
    """Return a question whose answer needs more spot machines than one, and what they reach."""
    for seed in range(200):
        drawn = sized_problem(seed)
        wish = replace(
            drawn.requirements,
            objective="throughput",
            quota_gpus=None,
            min_samples_per_second=None,
            deadline_s=None,
        )
        free = solve(replace(drawn, requirements=wish), "exact")
        less = solve(replace(drawn, requirements=replace(wish, supply=1)), "exact")
        if free.value and less.value and free.value > 1.1 * less.value:
            return less.problem, certain(free.estimate).effective_samples_per_second.value
    raise AssertionError


def test_explain_and_infeasible_answers_name_the_supply() -> None:
    """It binds; and with a floor that only more spot machines reach, lifting it is what works."""
    problem, speed = scarce()
    binding = explain(problem, options=SolveOptions(time_limit_s=30)).binding
    (limit,) = (limit for limit in certain(binding).limits if limit.code == "supply")
    assert limit.binds
    assert limit.words == "at most 1 spot machine of one type in a place"
    nothing = wishing(problem, min_samples_per_second=0.999 * speed)
    assert solve(nothing, "exact").status is Status.INFEASIBLE
    notes = [option.note for option in nearest(nothing, "exact", SolveOptions())]
    assert "--supply any" in notes
