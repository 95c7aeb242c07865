"""Answers of earlier questions, given to questions that ask for no more."""

import random
from typing import Any

import pytest

from instances import random_problem
from placer.advice.recommendation.recommend import recommend
from placer.cost_model.limits import violations
from placer.interface.advisor import Advisor
from placer.problem.admitted_exchanges import same_servers, server_at
from placer.problem.requirements import Requirements
from placer.problem.words.request import build_problem
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result
from placer.solving.solve import knowing, solve
from placer.solving.wider_proofs import WiderProofs
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
    ],
)
def test_what_the_wider_answer_does_not_settle_is_searched(
    options: SolveOptions, words: dict[str, Any]
) -> None:
    """More money, other machines, broken limits, a sharper gap, and whoever wants to see it. With
    more money the old answer is where a search may begin; not where its steps are of interest.
    """
    advisor, proofs = Advisor("erben-2023"), WiderProofs()
    problem = advisor.problem("roberta-xlm", budget="5/h", quota=8)
    proofs.keep(wide := solve(problem, options=OPTIONS), OPTIONS)
    assert known(proofs, advisor, budget="4.9/h", quota=8)
    assert not known(proofs, advisor, options, **{"quota": 8, **words})
    asked = advisor.problem("roberta-xlm", **{"quota": 8, **words})
    begins = options == OPTIONS and words == {"budget": "5.1/h"}
    hint = wide.placement if begins else None
    assert proofs.hint(asked, "exact", options) == hint


def test_answers_that_are_not_proved_are_not_kept() -> None:
    """A search that its nodes end proves nothing."""
    proofs, short = WiderProofs(), SolveOptions(node_limit=1, bound_if_stopped=False)
    problem = Advisor("erben-2023").problem("roberta-xlm", budget="50/h", regions="2..")
    stopped = solve(problem, options=short)
    assert stopped.status is Status.TIME_LIMIT
    proofs.keep(stopped, OPTIONS)
    assert len(proofs) == 0


def test_answers_of_wider_questions_are_as_good_as_searches() -> None:
    """Each answer keeps tighter limits, within the gap of a search, and its bound holds."""
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


def test_answers_of_looser_quotas_are_as_good_as_searches() -> None:
    """Random quotas, workers and budgets on a small market, in any order: each answer keeps its
    limits, is within the gap of a search of its own and has a bound that this does not beat; and
    some of them are those of wider questions.
    """
    draw, advisor, reused = random.Random(8), Advisor("erben-2023"), 0
    for _ in range(40):
        words: dict[str, Any] = {"budget": f"{3 * 2 ** draw.random():.2f}/h"}
        if draw.random() < 0.5:
            words["quota"] = draw.choice((4, 8, 12))
        if draw.random() < 0.5:
            words["workers"] = f"1..{draw.choice((4, 8, 12))}"
        model = draw.choice(("roberta-xlm", "resnet18"))
        got = advisor.recommend(model, alternatives=False, time_limit="100s", **words)
        fresh = solve(advisor.problem(model, **words), options=OPTIONS)
        assert got.status is fresh.status is Status.OPTIMAL
        assert got.placement is not None
        assert got.bound is not None
        assert fresh.value is not None
        assert not violations(got.placement, got.problem)
        assert got.value == pytest.approx(fresh.value, rel=OPTIONS.gap)
        assert not got.objective.beats_bound(fresh.value, got.bound)
        reused += got.seconds == 0.0
    assert reused >= 10


def test_a_smaller_quota_may_have_another_server() -> None:
    """The first machine that holds the gradients serves: a quota may leave it out."""
    catalog = Advisor("erben-2023").book()
    profile = load_profile("roberta-xlm")
    wide, tight = (
        build_problem(profile, catalog, budget="5/h", quota=quota, exchange="parameter-server")
        for quota in (16, 2)
    )
    same = same_servers(wide, tight)
    chosen = [
        [server_at(place, n, problem) for place in catalog.regions for n in range(1, 65)]
        for problem in (wide, tight)
    ]
    assert same == (chosen[0] == chosen[1])


def test_what_nothing_beats_nothing_beats_with_less_money() -> None:
    """That no placement over two regions is better than 10^6 samples/s within 5 USD/h says the same
    of 4.9 USD/h and of 2 x 10^6 samples/s, but not of 5.1 USD/h, of 10^5 samples/s, nor that there
    is none at all.
    """
    advisor, proofs = Advisor("erben-2023"), WiderProofs()

    def options(beat: float | None) -> SolveOptions:
        return replace(OPTIONS, node_limit=50, bound_if_stopped=False, beat=beat)

    words: dict[str, Any] = {"regions": "2..", "quota": 8}
    proved = solve(advisor.problem("roberta-xlm", budget="5/h", **words), options=options(1e6))
    assert proved.status is Status.INFEASIBLE
    proofs.keep(proved, options(1e6))
    cases = [("4.9/h", 1e6), ("5/h", 2e6), ("5.1/h", 1e6), ("5/h", 1e5), ("5/h", None)]
    held = [known(proofs, advisor, options(b), budget=u, **words) for u, b in cases]
    assert held == [True, True, False, False, False]


def test_a_question_with_limits_asks_the_one_without_them_where_that_is_likely_its_answer() -> None:
    """The answer at 5 USD/h has 8 workers: at 5.4 USD/h with at most 12 it is likely the same as
    without that limit, which is asked and kept in its place; with at most 4 it is not.
    """
    advisor, proofs = Advisor("erben-2023"), WiderProofs()
    proofs.keep(
        solve(advisor.problem("roberta-xlm", budget="5/h", supply="any"), options=OPTIONS), OPTIONS
    )

    def wider(**words: Any) -> bool:
        problem = advisor.problem("roberta-xlm", supply="any", **words)
        return proofs.wider(problem, "exact", OPTIONS) is not None

    assert wider(budget="5.4/h", workers="1..12")
    assert wider(budget="5.4/h", quota=8)
    assert not wider(budget="5.4/h", workers="1..4")
    assert not wider(budget="5.4/h", quota=4)
    assert not wider(budget="5.4/h")
    assert not wider(budget="50/h", workers="1..12")


class Noted(WiderProofs):
    """Notes the number of workers and the seconds that each search was allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.searched: list[tuple[int, float]] = []

    def keep(self, result: Result, options: SolveOptions) -> None:
        """Note a search, and keep its answer."""
        assert result.limits is not None
        wish = result.problem.requirements
        self.searched.append((wish.max_workers, result.limits.time_limit_s))
        super().keep(result, options)


@pytest.mark.parametrize(
    ("workers", "options", "limits"),
    [
        (12, OPTIONS, [(64, 50.0)]),
        (8, OPTIONS, [(64, 50.0), (8, pytest.approx(99.0, abs=0.9999))]),
        (8, replace(OPTIONS, time_limit_s=0.0), [(64, 0.0), (8, 0.0)]),
        (8, replace(OPTIONS, proof="none"), [(8, 100.0)]),
    ],
)
def test_the_question_without_limits_has_half_the_time(
    workers: int, options: SolveOptions, limits: list[tuple[int, float]]
) -> None:
    """At 5.4 USD/h 9 workers are best, which at most 12 allow; at most 8 are searched for in what
    is left of the time. A draft asks no other question.
    """
    advisor, proofs = Advisor("erben-2023"), Noted()
    with knowing(proofs):
        solve(advisor.problem("roberta-xlm", budget="5/h", supply="any"), options=OPTIONS)
        asked = advisor.problem(
            "roberta-xlm", budget="5.4/h", supply="any", workers=f"1..{workers}"
        )
        got = solve(asked, options=options)
    assert proofs.searched == [(64, 100.0), *limits]
    assert got.problem == asked
    assert got.limits is not None
    assert got.limits.time_limit_s == options.time_limit_s
    assert 0 < got.seconds < 50
