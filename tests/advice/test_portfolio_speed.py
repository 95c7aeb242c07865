"""Portfolios in which speed counts: the most work or the least hours, fair shares, and Ctrl-C."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import Counter
from math import inf
from typing import Any

import jsonschema
import pytest
from portfolios import brute_force, placements, speed_portfolio, tiny_portfolio

import placer
from placer.advice.portfolio.answer import PortfolioAnswer, answered
from placer.advice.portfolio.choice import chosen
from placer.advice.portfolio.improvement import worth
from placer.advice.portfolio.master.bounds import Known
from placer.advice.portfolio.question.columns import Columns, Duals, groups_of
from placer.advice.portfolio.question.resources import Limits
from placer.cli.report.portfolio import lines
from placer.cost_model.limits import violations
from placer.documents.many.portfolio_check import wrong_sums
from placer.documents.schemas import schema_text
from placer.errors import PlacerError
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

JOB: dict[str, Any] = {
    "model": "roberta-xlm",
    "market": "on-demand",
    "in": "lambda,gcp/us-central1",
    "gpu": "A10,T4",
}
"""One A10 for 0.60 USD/h is as fast as five or six T4 for 0.51 USD/h each."""
TOGETHER: dict[str, Any] = {
    "catalog": "erben-2023",
    "quota": {"A10": 1, "T4": 4},
    "budget": "5/h",
    "gap": 1e-6,
}


def checked(answer: PortfolioAnswer) -> None:
    """Check each job by its own limits, the sums, and the document."""
    document = answer.to_dict()
    assert wrong_sums(document) == ""
    jsonschema.validate(json.loads(json.dumps(document)), json.loads(schema_text("portfolio")))
    for placed in answer.jobs:
        if placed.result is not None and placed.result.placement is not None:
            assert violations(placed.result.placement, placed.job.problem) == ()


def test_most_work_least_hours_and_fair_shares_agree_with_brute_force() -> None:
    """Every combination of placements is tried. Among the drawn ones are all objectives, jobs that
    do not fit, and jobs that are slower than alone.
    """
    drawn: Counter[str] = Counter()
    for seed in (5, 10, 12, 17, 37, 43, 66, 78):
        portfolio = speed_portfolio(seed)
        found = chosen(portfolio, SolveOptions(gap=1e-6, time_limit_s=60))
        *missed, value = worth(found.columns, found.counts)
        fair = [-found.shares[0]] if found.shares is not None else []
        best = brute_force(portfolio)
        assert [*missed, *fair, value] == pytest.approx(best, rel=1e-6, abs=1e-6)
        assert found.bound is not None
        assert found.bound <= value + 1e-6 * abs(value)
        answer = answered(found)
        checked(answer)
        drawn[portfolio.objective] += 1
        drawn["fair"] += portfolio.fair
        drawn["left out"] += bool(answer.left_out)
        drawn["slower than alone"] += any((job.share or 1.0) < 0.99 for job in answer.jobs)
    assert min(drawn[kind] for kind in ("throughput", "time", "cost", "fair")) >= 1
    assert drawn["left out"] >= 3
    assert drawn["slower than alone"] >= 3


@pytest.mark.parametrize("seed", [1, 2, 8])
def test_a_stopped_search_bounds_what_is_best(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all columns are asked for, prices bound the value of the jobs that run, and halving
    bounds the least share: neither is passed by the best of all combinations.
    """
    monkeypatch.setattr("placer.advice.portfolio.faster.MOST_CLOSED", 0)
    portfolio = speed_portfolio(seed)
    found = chosen(portfolio, SolveOptions(gap=0.05, time_limit_s=20))
    best, missed = brute_force(portfolio), worth(found.columns, found.counts)[:-1]
    count = len(missed)
    assert missed >= best[:count]
    if missed == best[:count]:
        if found.shares is not None:
            assert found.shares[0] <= -best[count] + 1e-6
            assert found.shares[1] >= -best[count] - 1e-6
        elif sum(found.counts.values()) == len(portfolio.jobs):
            assert found.bound is not None
            assert found.bound <= best[-1] + 1e-6 * abs(best[-1])


def test_a_bound_at_other_prices_holds_for_every_column() -> None:
    """What is proved at some prices is moved to others: no column of the job is worth less there.
    It beats the loss of all that there is of a resource where a job pays for a part alone.
    """
    draw, judged, better = random.Random(3), 0, 0
    for seed in range(4):
        portfolio = tiny_portfolio(seed)
        limits, groups = Limits(portfolio=portfolio), groups_of(portfolio)
        columns = Columns(portfolio=portfolio, limits=limits, groups=groups)
        for group in groups:
            for placement in placements(group.job.problem):
                columns.add(group, placement)
            most = inf if portfolio.budget_usd is None else portfolio.budget_usd
            own = [column for column in columns.of(group.number) if column.usd <= most]
            held = sorted({key for column in own for key in column.use})
            for _ in range(8 if own else 0):
                there, here = (
                    Duals(
                        prices={key: draw.choice((0.0, draw.uniform(0, 2))) for key in held},
                        budget=draw.choice((0.0, draw.uniform(0, 1))),
                    )
                    for _ in range(2)
                )
                known = Known(group=group, limits=limits)
                known.learn(there, min(column.reduced(there) for column in own))
                bound = known.at(here)
                assert bound <= min(column.reduced(here) for column in own) + 1e-9
                dropped = (
                    max(0.0, usd - here.prices.get(key, 0.0)) * limits.capacity(key)
                    for key, usd in there.prices.items()
                )
                loss = max(0.0, there.budget - here.budget) * (portfolio.budget_usd or 0.0)
                judged += 1
                better += bound > known.proofs[0][1] - sum(dropped) - loss + 1e-9
    assert judged >= 60
    assert better >= judged // 3


def test_fair_shares_say_who_is_held_back_and_by_whom() -> None:
    """Two like jobs: alone each has all machines; together one has the A10 and the other four T4,
    and the words name what is missing and who has it.
    """
    answer = placer.portfolio([JOB, JOB], fair=True, objective="throughput", **TOGETHER)
    checked(answer)
    assert len(answer.left_out) == 0
    assert answer.least_share == min(job.share or 0.0 for job in answer.jobs)
    assert answer.least_share_bound == pytest.approx(answer.least_share)
    text = " ".join(lines(answer))
    assert f"held back most: {answer.held_back[0]}" in text
    assert "are left after job-" in text
    assert "weighted samples/s together" in text


def test_weights_decide_who_does_more() -> None:
    """Of two like jobs the one whose samples count ten times has the faster machines."""
    heavy = {**JOB, "weight": 10, "name": "heavy"}
    answer = placer.portfolio([JOB, heavy], objective="throughput", **TOGETHER)
    checked(answer)
    speed = {job.name: job.share or 0.0 for job in answer.jobs}
    assert speed["heavy"] > speed["job-1"]
    assert answer.value == pytest.approx(
        sum(
            job.job.weight * job.result.estimate.effective_samples_per_second.value
            for job in answer.jobs
            if job.result is not None and job.result.estimate is not None
        )
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"objective": "speed"}, "unknown objective 'speed'"),
        ({"objective": "throughput"}, "objective 'throughput' without a budget"),
        ({"fair": True}, "fair shares without a budget"),
        ({"fair": "yes"}, "fair 'yes' is neither true nor false"),
        ({"objective": "time", "budget": "5/h"}, "nothing says how much it has to do"),
        (
            {"fair": True, "budget": "5usd", "slot": "1h", "horizon": "6h"},
            "fair shares with slots",
        ),
    ],
)
def test_an_objective_that_nothing_limits_is_refused(words: dict[str, Any], says: str) -> None:
    """One line that names what is missing."""
    with pytest.raises(PlacerError) as error:
        placer.portfolio([JOB], catalog="erben-2023", **words)
    assert says in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize("words", [{}, {"fair": True, "objective": "throughput"}])
def test_ctrl_c_returns_the_best_so_far_with_its_bound(
    words: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal while the third question is asked: no exception, no further question, a document
    that holds; the signal works as before afterwards.
    """
    before, asked = signal.getsignal(signal.SIGINT), [0]

    def solve_and_interrupt(*given: Any) -> Any:
        asked[0] += 1
        if asked[0] == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return solve(*given)

    monkeypatch.setattr("placer.advice.portfolio.pricing.search.solve", solve_and_interrupt)
    jobs = [{**JOB, "in": "*", "min-throughput": f"{300 + 20 * i}/s"} for i in range(9)]
    answer = placer.portfolio(
        jobs, catalog="erben-2023", budget="60/h", quota={"A10": 1, "T4": 4}, gap=1e-6, **words
    )
    assert asked[0] == 3
    assert answer.stopped
    assert answer.status == "time_limit"
    checked(answer)
    assert signal.getsignal(signal.SIGINT) is before
