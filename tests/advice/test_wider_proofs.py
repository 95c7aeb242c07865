"""Answers of earlier questions, given to questions that ask for no more."""

from typing import Any

import pytest

from instances import random_problem
from placer.advice.recommendation import wider_proofs
from placer.advice.recommendation.recommend import recommend
from placer.advice.recommendation.wider_proofs import WiderProofs
from placer.cost_model.limits import violations
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.problem.requirements import Requirements
from placer.problem.words.request import build_problem
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve
from placer.workload.profile import load_profile

OPTIONS = SolveOptions(time_limit_s=100)


def known(
    proofs: WiderProofs, advisor: Advisor, options: SolveOptions = OPTIONS, **words: Any
) -> bool:
    """Say whether an earlier answer is one of a question."""
    return proofs.answer(advisor.problem("roberta-xlm", **words), "exact", options) is not None


def test_a_tighter_question_has_the_answer_of_a_wider_one() -> None:
    """8 x A10 at Lambda for 4.80 USD/h is best within 5 USD/h, so within 4.9 too, with the bound
    that was proved; 4.7 does not pay for it.
    """
    advisor = Advisor("erben-2023")
    wide = advisor.recommend("roberta-xlm", budget="5/h", quota=8, alternatives=False)
    assert wide.placement is not None
    tight = advisor.recommend("roberta-xlm", budget="4.9/h", quota=8, alternatives=False)
    assert (tight.placement, tight.bound, tight.nodes) == (wide.placement, wide.bound, wide.nodes)
    assert (tight.seconds, tight.status) == (0.0, Status.OPTIMAL)
    assert tight.problem.requirements.budget_usd_per_hour == 4.9
    dearer = advisor.recommend("roberta-xlm", budget="4.7/h", quota=8, alternatives=False)
    assert dearer.placement != wide.placement
    assert dearer.seconds > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (OPTIONS, {"budget": "5.1/h"}),
        (OPTIONS, {"budget": "5/h", "quota": 4}),
        (OPTIONS, {"budget": "4.9/h", "market": "on-demand"}),
        (OPTIONS, {"budget": "4.9/h", "min_throughput": "100000/s"}),
        (OPTIONS, {"budget": "4.9/h", "workers": "1..2"}),
        (OPTIONS, {"objective": "cost", "budget": "4.9/h"}),
        (replace(OPTIONS, gap=1e-4), {"budget": "4.9/h"}),
        (replace(OPTIONS, certificate=True), {"budget": "4.9/h"}),
        (replace(OPTIONS, on_better=print), {"budget": "4.9/h"}),
        (replace(OPTIONS, node_limit=5), {"budget": "4.9/h"}),
    ],
)
def test_what_the_wider_answer_does_not_settle_is_searched(
    options: SolveOptions, words: dict[str, Any]
) -> None:
    """More money, other machines, limits that the answer breaks, a sharper gap, and whoever wants
    to see the search.
    """
    advisor, proofs = Advisor("erben-2023"), WiderProofs()
    problem = advisor.problem("roberta-xlm", budget="5/h", quota=8)
    proofs.keep(solve(problem, options=OPTIONS), OPTIONS)
    assert known(proofs, advisor, budget="4.9/h", quota=8)
    assert not known(proofs, advisor, options, **{"quota": 8, **words})


def test_answers_that_are_not_proved_are_not_kept() -> None:
    """A search that its nodes end proves nothing."""
    proofs, short = WiderProofs(), SolveOptions(node_limit=1, bound_if_stopped=False)
    problem = Advisor("erben-2023").problem("roberta-xlm", budget="50/h", regions="2..")
    stopped = solve(problem, options=short)
    assert stopped.status is Status.TIME_LIMIT
    proofs.keep(stopped, OPTIONS)
    assert len(proofs) == 0


def test_few_answers_are_kept(monkeypatch: pytest.MonkeyPatch, erben: Catalog) -> None:
    """The question that was not asked for the longest goes first."""
    monkeypatch.setattr(wider_proofs, "KEPT", 2)
    proofs, profile = WiderProofs(), load_profile("resnet18")
    for quota in (1, 2, 3):
        problem = build_problem(profile, erben, budget="3/h", quota=quota, workers="1..2")
        proofs.keep(solve(problem, options=OPTIONS), OPTIONS)
    assert len(proofs) == 2
    asked = [build_problem(profile, erben, budget="3/h", quota=q, workers="1..2") for q in (1, 3)]
    assert [proofs.answer(p, "exact", OPTIONS) is not None for p in asked] == [False, True]


def test_answers_of_wider_questions_are_as_good_as_searches() -> None:
    """Ever tighter limits: each answer keeps them and is within the gap of a search of its own, and
    its bound holds of what that search ends with.
    """
    reused = 0
    for seed in (30, *range(32, 38)):
        whole, proofs = random_problem(seed), WiderProofs()
        for factor in (1.0, 0.98, 0.94, 0.8):
            problem = replace(whole, requirements=tightened(whole.requirements, factor))
            got = recommend(problem, options=OPTIONS, alternatives=False, proofs=proofs)
            fresh = solve(problem, options=OPTIONS)
            assert got.status is fresh.status
            if got.placement is None or got.value is None or got.bound is None:
                continue
            reused += got.seconds == 0.0
            assert fresh.value is not None
            assert not violations(got.placement, problem)
            assert got.value == pytest.approx(fresh.value, rel=OPTIONS.gap)
            assert not got.objective.beats_bound(fresh.value, got.bound)
    assert reused >= 5


def tightened(wish: Requirements, factor: float) -> Requirements:
    """Return wishes with less money, a higher floor and fewer workers."""
    budget, floor = wish.budget_usd_per_hour, wish.min_samples_per_second
    return replace(
        wish,
        budget_usd_per_hour=None if budget is None else budget * factor,
        min_samples_per_second=None if floor is None else floor / factor,
        max_workers=max(wish.min_workers, int(wish.max_workers * factor)),
    )
