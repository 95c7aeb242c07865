"""Plans with fallbacks: what they promise holds in fresh scenarios, bad questions are refused."""

import math
import random
from collections import Counter
from typing import Any

import pytest
from certain import certain

import placer
from placer.advice.confidence import choice
from placer.advice.confidence.choice import candidates
from placer.cost_model.outlook.totals import totals_of
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions
from placer.solving.result import ConfidentPlan, assured

QUESTION: dict[str, Any] = {
    "tokens": "2B",
    "deadline": "24h",
    "market": "spot",
    "gpu": "H100",
    "places": "gcp",
    "figures": "book",
    "alternatives": False,
}


@pytest.fixture(scope="module")
def plan() -> placer.Result:
    """Return a plan on spot machines of one provider."""
    return placer.recommend("llama-3.1-8b", confidence="90%", time_limit="60s", **QUESTION)


def test_a_plan_costs_no_less_than_its_bound_and_its_tail_no_less_than_its_mean(
    plan: placer.Result,
) -> None:
    """The bound is the price of a sample where every machine is there. A run that fails saves
    nothing: its dollars are those of the runs that finish.
    """
    sure = certain(plan.confidence)
    assert sure.usd is not None
    assert sure.tail_usd is not None
    assert sure.least_usd is not None
    assert sure.usd_per_finished is not None
    assert sure.usd_per_finished == pytest.approx(sure.usd / sure.reached)
    assert sure.least_usd <= sure.usd_per_finished
    gap = plan.to_dict()["confidence"]["gap"]
    assert sure.usd_per_finished * (1 - gap) == pytest.approx(sure.least_usd)
    assert sure.usd <= sure.tail_usd


LEVELS = (0.2, 0.5, 0.7, 0.9, 0.97)
"""Confidences that each drawn question is asked with, the lowest first."""


def drawn_words(draw: random.Random) -> dict[str, Any]:
    """Draw a question about a run with a deadline."""
    return {
        "tokens": f"{draw.randrange(500, 4_000)}M",
        "deadline": f"{draw.choice((6, 12, 24, 48))}h",
        "market": draw.choice(("spot", "spot", "any")),
        "gpu": draw.choice(("H100", "A100-40,A100-80", "H200")),
        "places": draw.choice(("gcp", "aws", "gcp/us-*,aws/us-*")),
    }


def taken(plan: ConfidentPlan, objective: str) -> float:
    """Return what a plan takes of what its objective wants little of: hours until a run is done or
    the deadline is there; grams or dollars of a finished run.
    """
    assert plan.mean_hours is not None
    assert plan.deadline_hours is not None
    if objective == "time":
        return plan.mean_hours * plan.reached + plan.deadline_hours * (1 - plan.reached)
    return ((plan.carbon_g if objective == "carbon" else plan.usd) or 0.0) / plan.reached


def test_more_confidence_never_cheapens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each plan that holds takes no less than those for lower confidences: a higher one leaves some
    plans out and adds none. Among the drawn questions are all objectives, budgets that no sure plan
    keeps, levels that no plan reaches, and questions whose plans differ between levels.
    """
    monkeypatch.setattr(choice, "DRAWS", 64)  # so few that chance would show
    monkeypatch.setattr(choice, "CHECKED", 128)
    draw, options = random.Random(2), SolveOptions(time_limit_s=60)
    drawn: Counter[str] = Counter()
    for objective in ("cost", "time", "carbon", "cost", "cost"):
        words = {**drawn_words(draw), "objective": objective}
        best = placer.recommend("llama-3.2-1b", alternatives=False, time_limit="2s", **words)
        if best.estimate is None:
            drawn["nothing fits"] += 1
            continue
        if draw.random() < 0.5:  # up to half as much again as where every machine is there
            wish = best.problem.requirements
            usd = totals_of(best.estimate, wish).usd.value * draw.uniform(1, 1.5)
            wish = replace(wish, budget_usd=usd)
            drawn["budget"] += 1
            best = replace(best, problem=replace(best.problem, requirements=wish))
        found = candidates(best, "exact", options)  # the same for all levels: asked once
        monkeypatch.setattr(choice, "candidates", lambda *_, found=found: found)
        before, wish = 0.0, best.problem.requirements
        values = set()
        for level in LEVELS:
            asked = replace(best.problem, requirements=replace(wish, confidence=level))
            with allowance.opened(60.0):
                plan = choice.confident(replace(best, problem=asked), "exact", options)
            drawn[plan.status(wish.budget_usd)] += 1
            if plan.status(wish.budget_usd) == "holds":
                value = taken(plan, objective)
                assert value >= before * (1 - 1e-9), (words, level)
                before = value
                values.add(value)
                drawn[objective] += 1
        drawn["differ"] += len(values) > 1
    assert min(drawn[kind] for kind in ("cost", "time", "carbon", "budget")) >= 1
    assert drawn["not-reached"] + drawn["over-budget"] >= 1
    assert drawn["differ"] >= 1


def test_the_mean_may_be_the_objective() -> None:
    """Fallbacks only add to the mean: it is at least the first placement's speed times its chance,
    and at most the speed of the fastest.
    """
    result = placer.recommend(
        "resnet50", budget="5/h", gpu="T4", market="spot", places="gcp", objective="expected"
    )
    sure, wish = certain(result.confidence), result.problem.requirements
    assert sure.mean_samples_per_second is not None
    assert (wish.objective, wish.expected, sure.asked) == ("throughput", True, 0.0)
    speeds = [rank.estimate.effective_samples_per_second.value for rank in sure.ranks]
    assert sure.ranks[0].chance_alone * speeds[0] <= sure.mean_samples_per_second * (1 + 1e-9)
    assert sure.mean_samples_per_second <= max(speeds) * (1 + 1e-9)
    assert result.to_dict()["request"]["expected"] is True


def test_each_fallback_has_a_manifest(plan: placer.Result) -> None:
    """A manifest for each placement after the first, with the machines of that placement."""
    sure = certain(plan.confidence)
    documents = plan.fallback_manifests()
    assert [document["world_size"] for document in documents] == [
        rank.placement.machines for rank in sure.ranks[1:]
    ]
    assert plan.to_manifest()["groups"][0]["place"] == sure.ranks[0].placement.places[0]


@pytest.mark.parametrize("asked", ["85%", "90%", "95%"])
def test_a_promise_has_room_for_chance(plan: placer.Result, asked: str) -> None:
    """The share in 4,096 scenarios is so far above what is asked that chance alone makes it so in
    one case of forty; in as many fresh ones it stays above.
    """
    words = {"confidence": asked, "time_limit": "60s", **QUESTION}
    result = plan if asked == "90%" else placer.recommend("llama-3.1-8b", **words)
    sure = certain(result.confidence)
    assert sure.holds
    assert sure.scenarios == 4_096
    assert assured(sure.reached, sure.scenarios) >= sure.asked
    assert sure.reached_in_fresh_scenarios >= sure.asked
    assert sure.ranks[0].placement == result.placement
    assert all(group.market == "spot" for rank in sure.ranks for group in rank.placement.groups)


def test_what_is_assured_is_the_lower_end_of_a_score_interval() -> None:
    """Wilson's 95 % interval of 90 of 100 is .826 to .945; of 100 of 100 its lower end is .963."""
    assert assured(0.9, 100) == pytest.approx(0.8256, abs=1e-4)
    assert assured(1.0, 100) == pytest.approx(0.963, abs=1e-3)
    assert assured(0.0, 100) == pytest.approx(0.0, abs=1e-12)


def test_plans_are_ranked_by_the_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least time is the fewest hours on average, the least carbon the fewest grams, the least
    cost the fewest dollars; all hold, and all keep the proved least cost.
    """
    monkeypatch.setattr(choice, "DRAWS", 256)  # the plans differ by more than chance does
    monkeypatch.setattr(choice, "CHECKED", 1_024)
    words = {**QUESTION, "confidence": "85%", "time_limit": "60s", "budget": "60/h"}
    cost, time, carbon = (
        certain(placer.recommend("llama-3.1-8b", objective=objective, **words).confidence)
        for objective in ("cost", "time", "carbon")
    )
    for plan_of in (cost, time, carbon):
        assert plan_of.holds
        assert plan_of.least_usd is not None
        assert plan_of.least_usd <= (plan_of.usd_per_finished or 0.0)
    assert (time.mean_hours or 0.0) < (cost.mean_hours or 0.0)
    assert (cost.usd_per_finished or 0.0) < (time.usd_per_finished or 0.0)
    assert carbon.carbon_g is not None
    assert carbon.carbon_g <= (cost.carbon_g or math.inf)
    assert carbon.carbon_g < (time.carbon_g or math.inf)
