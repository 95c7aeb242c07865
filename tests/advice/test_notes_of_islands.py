"""Warnings about today's exchanges: unlike workers in one step of NCCL or Gloo."""

from typing import Any

import pytest

from instances import island_problem
from placer.advice.recommendation.notes import warnings_of
from placer.advice.recommendation.plan_notes import equal_parts_speed
from placer.advice.recommendation.recommend import recommend
from placer.cli.report.placements import proof_words
from placer.cost_model.estimate import Estimate, estimate, pool_of
from placer.interface.advisor import Advisor
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.answer import Status
from placer.solving.by_hand import place_by_hand

advisor = Advisor()
EAST = "aws/us-east-1"


def placed(
    workers: str, model: str = "mpt-1b", catalog: str = "default", **words: Any
) -> tuple[Problem, Placement, Estimate]:
    """A placement by hand with its estimate."""
    problem = advisor.problem(model, catalog, **words)
    placement = place_by_hand(workers, problem)
    return problem, placement, estimate(placement, problem)


def messages(case: tuple[Problem, Placement, Estimate], code: str) -> list[str]:
    """Warnings of one code."""
    return [warn.message for warn in warnings_of(*case) if warn.code == code]


@pytest.mark.parametrize("transport", ["nccl", "gloo"])
def test_unlike_workers_of_a_ring_are_told_of_equal_parts(transport: str) -> None:
    """Two workers of a model with known speeds: the plan divides by speed; with half of the batch
    each the step takes what the T4 needs for its half, beside what the exchange exposes.
    """
    problem, placement, got = case = placed(
        f"{EAST}=1xH100:8:spot,{EAST}=1xT4:spot", model="resnet50", transport=transport
    )
    slowest = min(pool_of(group, problem).shared.value for group in placement.groups)
    calculation = problem.batch / 2 / slowest
    exchange = got.step.communication
    seconds = calculation + exchange - 0.8 * min(exchange, 0.25 * calculation)
    speed = equal_parts_speed(problem, placement, got)
    assert speed == pytest.approx(problem.batch / seconds)
    assert speed < got.samples_per_second.value
    (message,) = messages(case, "mixed-devices")
    assert message.startswith("H100:8, T4 share each step by speed; with equal parts ")


def test_unlike_workers_with_a_plan_wait_for_the_slowest() -> None:
    """Half of the batch each: the step calculates as long as the machine of L4 does, and is no
    shorter than with two of these alone.
    """
    _, placement, got = case = placed(f"{EAST}=1xH100:8:spot,{EAST}=1xL4:8:spot")
    _, alike, alone = placed(f"{EAST}=2xL4:8:spot")
    assert placement.workers == alike.workers
    assert got.step.calculation == pytest.approx(alone.step.calculation)
    (message,) = messages(case, "mixed-devices")
    assert message == "H100:8, L4:8 have equal parts of each step, and all wait for the slowest"


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        (f"{EAST}=2xH100:8:spot", {}),
        (f"{EAST}=1xH100:8:spot", {}),
        (f"{EAST}=1xH100:8:spot,{EAST}=1xH100:8:on-demand", {}),
        (f"{EAST}=1xH100:8:spot,{EAST}=1xL4:8:spot", {"transport": "hivemind"}),
        (f"{EAST}=1xH100:8:spot,{EAST}=1xL4:8:spot", {"exchange": "parameter-server"}),
    ],
)
def test_like_workers_and_other_divisions_are_not(workers: str, words: dict[str, Any]) -> None:
    """Machines alike, one worker, two markets of one machine; hivemind accumulates until the batch
    is full, and a parameter server gives equal parts in the estimate itself.
    """
    assert messages(placed(workers, **words), "mixed-devices") == []


def test_an_answer_whose_slower_plans_are_open_says_how_much_better_one_may_be() -> None:
    """Hundreds of slower plans may pay for fewer steps: the answer is not called stopped, nor the
    best that some solver happened to find.
    """
    answer = recommend(island_problem(880_093))
    assert answer.status is Status.FEASIBLE
    (verdict,) = answer.verdict
    assert "one region; not proved: one that is up to 34 % better may exist." in verdict
    assert proof_words(answer).startswith("not proved: at most 34 % from the best over ")
