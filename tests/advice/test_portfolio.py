"""Portfolios: many jobs that share quotas, budgets and blocks."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path
from typing import Any

import pytest
from portfolios import brute_force, brute_force_in_slots, slot_portfolio, tiny_portfolio

import placer
from placer.advice.portfolio.answer import answered
from placer.advice.portfolio.choice import chosen
from placer.advice.portfolio.generation import Found, Generation
from placer.advice.portfolio.improvement import worth
from placer.advice.portfolio.master.bounds import Known
from placer.advice.portfolio.pricing.elsewhere import elsewhere
from placer.advice.portfolio.pricing.price import Pricing
from placer.advice.portfolio.pricing.search import Search
from placer.advice.portfolio.question.columns import Columns, Duals, groups_of
from placer.advice.portfolio.question.jobs import Job, Portfolio
from placer.advice.portfolio.question.resources import Limits
from placer.cost_model.limits import violations
from placer.documents.many.portfolio_check import wrong_sums
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

EXACT = SolveOptions(gap=1e-6, time_limit_s=30)
JOB: dict[str, Any] = {
    "model": "roberta-xlm",
    "min-throughput": "300/s",
    "market": "on-demand",
    "in": "lambda,gcp/us-central1",
}
"""One A10 at 0.60 USD/h is the cheapest there, four T4 at 0.51 USD/h each come next."""


def checked(portfolio: Portfolio) -> tuple[Found, tuple[float, ...]]:
    """Solve a portfolio to the end and check each job, the sums and the bound."""
    found = chosen(portfolio, EXACT)
    key = worth(found.columns, found.counts)
    assert found.bound is not None
    assert found.bound <= key[-1] * (1 + 1e-6)
    assert worth(found.columns, found.greedy) >= key
    answer = answered(found)
    assert wrong_sums(answer.to_dict()) == ""
    for placed in answer.jobs:
        if placed.result is not None and placed.result.placement is not None:
            assert violations(placed.result.placement, placed.job.problem) == ()
    return found, key


@pytest.mark.parametrize("seed", [3, 4, 8, 11, 12, 201])
def test_tiny_portfolios_agree_with_brute_force(seed: int) -> None:
    """Every combination of placements is tried, and jobs left out; in half of these some are."""
    portfolio = tiny_portfolio(seed)
    found, key = checked(portfolio)
    assert key == pytest.approx(brute_force(portfolio), rel=1e-6)
    assert found.proved_out


@pytest.mark.parametrize("seed", [5, 6, 9, 14])
def test_jobs_of_one_model_agree_with_brute_force(seed: int) -> None:
    """What is proved of one job holds for others of its family: no optimum is cut off."""
    portfolio = tiny_portfolio(seed, alike=True)
    _, key = checked(portfolio)
    assert key == pytest.approx(brute_force(portfolio), rel=1e-6)


@pytest.mark.parametrize("seed", range(30, 38))
def test_the_way_of_many_jobs_has_a_valid_bound_on_few(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shared-out time of many jobs, asked of a few of one model: the choice is no better than
    the best of all combinations, and where as much runs the bound is no higher.
    """
    monkeypatch.setattr("placer.advice.portfolio.generation.MOST_CLOSED", 0)
    portfolio = tiny_portfolio(seed, alike=True)
    found = chosen(portfolio, SolveOptions(gap=0.01, time_limit_s=20))
    best, key = brute_force(portfolio), worth(found.columns, found.counts)
    assert key >= tuple(part * (1 - 1e-9) for part in best)
    if key[:-1] == best[:-1] and not any(best[:-1]):
        assert found.bound is not None
        assert found.bound <= best[-1] * (1 + 1e-6)


@pytest.mark.parametrize("seed", [1, 2])
def test_portfolios_in_slots_agree_with_brute_force(seed: int) -> None:
    """Every combination of placements and starts is tried, with blocks that may be bought."""
    portfolio = slot_portfolio(seed)
    _, key = checked(portfolio)
    assert key == pytest.approx(brute_force_in_slots(portfolio), rel=1e-6)


def test_a_bound_holds_when_the_search_is_stopped_at_once() -> None:
    """No time at all: whatever is found costs no less than the bound."""
    portfolio = tiny_portfolio(4)
    found = chosen(portfolio, SolveOptions(gap=0.01, time_limit_s=0.0))
    assert found.stopped
    best = brute_force(portfolio)
    if found.bound is not None and sum(found.counts.values()) == len(portfolio.jobs):
        assert found.bound <= best[-1] * (1 + 1e-6)


def test_a_job_says_who_displaced_it_and_what_that_costs() -> None:
    """Two jobs want the one A10 (0.60 USD/h); the other one takes four T4 (2.04): 1.44 more, which
    is what one more A10 is worth.
    """
    answer = placer.portfolio(
        [{**JOB, "name": "a"}, {**JOB, "name": "b"}],
        catalog="erben-2023",
        quota={"A10": 1, "T4": 8},
    )
    one, other = sorted(answer.jobs, key=lambda placed: placed.usd or 0.0)
    assert one.workers == ("lambda/us-west-1=1xA10:on-demand",)
    assert other.displaced[0].by == (one.name,)
    assert (other.displaced[0].wanted, other.displaced[0].left) == (1, 0)
    assert other.extra_usd == pytest.approx(1.44)
    assert [(row.resource, round(row.usd, 2)) for row in answer.worths] == [
        ("A10 on-demand in lambda/us-west-1", 1.44)
    ]
    assert answer.bound == pytest.approx(answer.usd, rel=0.01)


def test_priority_and_weight_decide_who_is_left_out() -> None:
    """One A10 and nothing else: the higher priority runs, then the greater weight."""
    low, high = {**JOB, "name": "low", "weight": 5}, {**JOB, "name": "high", "priority": 1}
    wide: dict[str, Any] = {"catalog": "erben-2023", "quota": {"*": 0, "A10": 1}}
    assert [p.name for p in placer.portfolio([low, high], **wide).left_out] == ["low"]
    heavy = {**JOB, "name": "heavy", "weight": 2}
    answer = placer.portfolio([{**JOB, "name": "light"}, heavy], **wide)
    assert [placed.name for placed in answer.left_out] == ["light"]
    assert answer.left_out_proved
    assert answer.left_out[0].displaced[0].by == ("heavy",)


def test_a_share_keeps_a_job_from_taking_all() -> None:
    """Of 4 T4 in a place a job with half a share has 2, so that it must go elsewhere for more."""
    job = {"model": "roberta-xlm", "min_throughput": "250/s", "gpu": "T4", "market": "spot"}
    question: dict[str, Any] = {"catalog": "erben-2023", "quota": {"T4": 4}}
    (free,) = placer.portfolio([job], **question).jobs
    (half,) = placer.portfolio([{**job, "max_share": "50%"}], **question).jobs
    assert free.result is not None
    assert half.result is not None
    assert half.result.placement is not None
    gpus = {g.place: g.gpus for g in half.result.placement.groups}
    assert max(gpus.values()) <= 2
    assert (half.usd or 0.0) >= (free.usd or 0.0)


def test_a_broken_sum_is_found() -> None:
    """The independent checker counts the GPUs of the document itself."""
    answer = placer.portfolio([JOB, JOB], catalog="erben-2023", quota={"A10": 1, "T4": 8})
    document = answer.to_dict()
    assert wrong_sums(document) == ""
    one = next(job for job in document["jobs"] if job["placement"]["workers"][0]["gpu"] == "A10")
    for job in document["jobs"]:
        job["placement"], job["estimate"], job["usd"] = (
            one["placement"],
            one["estimate"],
            one["usd"],
        )
    assert "exceed the quota of 1" in wrong_sums(document)


def test_a_block_is_bought_where_it_is_cheaper() -> None:
    """One A10 for 4 of 6 hours: a job of 2 hours takes it for 0.50 USD in place of 2 x 0.60."""
    block = {
        "name": "night",
        "place": "lambda/us-west-1",
        "device": "A10",
        "machines": 1,
        "start": "2h",
        "duration": "4h",
    }
    job = {"model": "roberta-xlm", "duration": "2h", "market": "on-demand", "gpu": "A10"}
    question: dict[str, Any] = {"catalog": "erben-2023", "slot": "1h", "horizon": "6h"}
    cheap = placer.portfolio([job], blocks=[{**block, "usd": 0.5}], **question)
    assert cheap.jobs[0].workers[0].startswith("lambda/us-west-1=1xA10")
    assert cheap.jobs[0].start >= 2
    assert cheap.usd == pytest.approx(0.5)
    dear = placer.portfolio([job], blocks=[{**block, "usd": 2.0}], **question)
    assert dear.usd == pytest.approx(1.2)


def test_jobs_wait_for_each_other_in_slots() -> None:
    """Two jobs of 2 hours share one A10: they run one after the other, and both pay 0.60 USD/h."""
    job = {"model": "roberta-xlm", "duration": "2h", "market": "on-demand", "gpu": "A10"}
    answer = placer.portfolio(
        [job, job], catalog="erben-2023", quota={"A10": 1}, slot="1h", horizon="4h"
    )
    assert sorted(placed.start for placed in answer.jobs) == [0, 2]
    assert answer.usd == pytest.approx(2 * 2 * 0.6)
    late = placer.portfolio(
        [job, {**job, "earliest": "3h"}],
        catalog="erben-2023",
        quota={"A10": 1},
        slot="1h",
        horizon="4h",
    )
    assert [placed.name for placed in late.left_out] == ["job-2"]


def test_equal_jobs_cost_one_search() -> None:
    """Ten equal jobs are one group: no more searches than for one, and nothing that differs."""
    portfolio = tiny_portfolio(3)
    job = portfolio.jobs[0]
    many = replace(
        portfolio,
        jobs=tuple(replace(job, name=f"j{i}") for i in range(10)),
        quotas=(),
        budget_usd=None,
    )
    assert len(chosen(many, EXACT).columns.groups) == 1


def families(floors: tuple[float, ...], **words: Any) -> Portfolio:
    """Jobs of one model that differ in how fast they must be, under 8 A10 and 8 T4 a region."""
    advisor = Advisor("erben-2023")
    quota = {"A10": 1, "T4": 8}
    problems = [
        advisor.problem("roberta-xlm", quota=quota, objective="cost", min_throughput=floor, **words)
        for floor in floors
    ]
    jobs = tuple(Job(name=f"j{i}", problem=problem) for i, problem in enumerate(problems))
    return Portfolio(jobs=jobs, quotas=problems[0].requirements.quotas)


def test_jobs_that_differ_in_speed_alone_are_a_family() -> None:
    """How fast, and how much where that is not about data or dollars; a market or a budget in total
    makes another family.
    """
    one, two = families((100.0, 300.0)).jobs
    assert one.family == two.family
    assert one.kind != two.kind
    (spot,) = families((100.0,), market="spot").jobs
    assert spot.family[2:] != one.family[2:]
    (little, much) = (
        families((100.0,), samples=samples, budget="50usd").jobs[0] for samples in (10**6, 10**7)
    )
    assert little.family[2:] != much.family[2:]
    (few, many) = (families((100.0,), samples=samples).jobs[0] for samples in (10**6, 10**7))
    assert few.family[2:] == many.family[2:]


def test_what_is_proved_of_a_slow_job_holds_for_faster_ones_of_its_family() -> None:
    """The bound of 300/s holds for 400/s and not for 200/s; what was found for 300/s is handed to
    the slower job, if it has nothing better.
    """
    portfolio = families((200.0, 300.0, 400.0))
    columns = Columns(
        portfolio=portfolio, limits=Limits(portfolio=portfolio), groups=groups_of(portfolio)
    )
    search = Search(columns=columns, options=SolveOptions(gap=1e-6))
    state = Generation(
        portfolio=portfolio,
        columns=columns,
        pricing=Pricing(columns=columns, search=search),
        known=[Known(group=group, limits=columns.limits) for group in columns.groups],
        gap=0.01,
    )
    state.price(columns.groups[1], Duals())
    slow, middle, fast = (known.at(Duals()) for known in state.known)
    assert slow == -inf
    assert middle == pytest.approx(min(c.usd for c in columns.of(1)), rel=1e-5)
    assert fast == middle
    assert [c.placement for c in columns.of(0)] == [c.placement for c in columns.of(1)]
    assert columns.of(2) == []


def test_what_is_found_in_one_place_is_kept_for_others_with_the_same_machines() -> None:
    """One A10 of Lambda costs the same in many places: each of them is a column, with its own
    quota; a placement over two places is kept alone.
    """
    advisor = Advisor()
    problem = advisor.problem(
        "roberta-xlm", quota=8, objective="cost", min_throughput=300, places="lambda"
    )
    portfolio = Portfolio(jobs=(Job(name="a", problem=problem),), quota_gpus=8)
    columns = Columns(
        portfolio=portfolio, limits=Limits(portfolio=portfolio), groups=groups_of(portfolio)
    )
    pricing = Pricing(columns=columns, search=Search(columns=columns, options=EXACT))
    found = solve(problem, "exact", SolveOptions(gap=0.01)).placement
    assert found is not None
    made = pricing.keep(columns.groups[0], found)
    assert [column.placement for column in made] == [found]
    kept = columns.of(0)
    assert len(kept) > 5
    assert {column.usd for column in kept} == {made[0].usd}
    assert len({held for column in kept for held in column.use}) == len(kept)
    here, there = (column.placement.groups for column in kept[:2])
    assert list(elsewhere(replace(found, groups=(*here, *there)), problem)) == []


def test_more_than_eight_jobs_are_close_to_their_bound() -> None:
    """Nine jobs that do not fit side by side in their cheapest places: rounds of prices, proofs and
    the choice one by one share the time, and the answer is within the gap asked for.
    """
    portfolio = families(tuple(200.0 + 15 * i for i in range(9)), market="on-demand")
    found = chosen(portfolio, SolveOptions(gap=0.01, time_limit_s=60))
    key, greedy = (worth(found.columns, counts) for counts in (found.counts, found.greedy))
    assert sum(found.counts.values()) == 9
    assert key <= greedy
    assert found.bound is not None
    assert found.bound <= key[-1] <= found.bound * 1.02
    assert wrong_sums(answered(found).to_dict()) == ""


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_many_jobs_that_are_stopped_have_a_valid_bound(seconds: float) -> None:
    """Stopped while first placements are made, or later: no exception, and no bound above what a
    longer search finds.
    """
    portfolio = families(tuple(150.0 + 20 * i for i in range(9)))
    stopped = chosen(portfolio, SolveOptions(gap=0.01, time_limit_s=seconds))
    whole = chosen(portfolio, SolveOptions(gap=0.01, time_limit_s=60))
    if stopped.bound is not None and sum(stopped.counts.values()) == 9:
        assert stopped.bound <= worth(whole.columns, whole.counts)[-1] * (1 + 1e-9)


BLOCKS = (
    "name,place,instance_type,gpu,gpu_count,machines,start,hours,usd,source\n"
    "cb-1,lambda/us-west-1,gpu_1x_a10,A10,1,1,2026-11-24T02:00:00+00:00,4,{usd},EC2 blocks\n"
    "gone,lambda/us-west-1,gpu_1x_a10,A10,1,1,2026-11-20T02:00:00+00:00,4,0.01,EC2 blocks\n"
)
"""A block of four hours from 2 h on, and one that is over."""
NIGHT: dict[str, Any] = {
    "catalog": "erben-2023",
    "slot": "1h",
    "horizon": "6h",
    "begins": "2026-11-24T00:00Z",
}
SHORT: dict[str, Any] = {
    "model": "roberta-xlm",
    "duration": "2h",
    "market": "on-demand",
    "gpu": "A10",
}


@pytest.mark.parametrize(("usd", "total", "starts"), [("0.5", 0.5, {2, 3, 4}), ("2.0", 1.2, {0})])
def test_a_list_of_blocks_for_sale_is_read(
    tmp_path: Path, usd: str, total: float, starts: set[int]
) -> None:
    """As placer writes what AWS offers: a block is bought for 0.50 USD in place of 2 x 0.60, and
    not for 2.00; one that is over is passed over.
    """
    path = tmp_path / "blocks.csv"
    path.write_text(BLOCKS.format(usd=usd), encoding="utf-8")
    answer = placer.portfolio([SHORT], blocks_file=path, **NIGHT)
    assert answer.usd == pytest.approx(total)
    assert answer.jobs[0].start in starts or starts == {0}
    assert wrong_sums(answer.to_dict()) == ""


def test_a_block_that_has_begun_serves_for_the_rest(tmp_path: Path) -> None:
    """Three hours later one hour of the block's four is over, and slots count from then."""
    path = tmp_path / "blocks.csv"
    path.write_text(BLOCKS.format(usd="0.5"), encoding="utf-8")
    later = {**NIGHT, "begins": "2026-11-24T03:00:00+00:00"}
    answer = placer.portfolio([SHORT], blocks_file=path, **later)
    assert answer.usd == pytest.approx(0.5)
    assert answer.jobs[0].start <= 1


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        (",usd,", ",dollars,", "column 'usd' is missing"),
        (",1,1,2026", ",1,none,2026", "blocks.csv:2: machines 'none' is not a whole number"),
        ("2026-11-24T02:00:00+00:00", "tomorrow", "blocks.csv:2: start: 'tomorrow' is not a time"),
        ("+00:00,4,", "+00:00,0,", "blocks.csv:2: hours '0' is not above 0"),
        ("gpu_1x_a10,A10", "p9.large,A10", "no book knows the machine p9.large of lambda"),
        (",EC2 blocks\n", "\n", "blocks.csv:2: 9 cells instead of 10"),
    ],
)
def test_a_wrong_list_of_blocks_is_refused(
    tmp_path: Path, wrong: str, right: str, says: str
) -> None:
    """One line with file, line and column."""
    path = tmp_path / "blocks.csv"
    path.write_text(BLOCKS.format(usd="0.5").replace(wrong, right, 1), encoding="utf-8")
    with pytest.raises(PlacerError, match=re.escape(says)) as error:
        placer.portfolio([SHORT], blocks_file=path, **NIGHT)
    assert error.value.exit_code == 2


def test_a_list_of_blocks_needs_slots_and_a_time(tmp_path: Path) -> None:
    """Blocks have a start and an end."""
    path = tmp_path / "blocks.csv"
    path.write_text(BLOCKS.format(usd="0.5"), encoding="utf-8")
    with pytest.raises(PlacerError, match="without slots"):
        placer.portfolio([JOB], blocks_file=path, catalog="erben-2023")
    with pytest.raises(PlacerError, match="begins: 'soon' is not a time"):
        placer.portfolio([SHORT], blocks_file=path, **{**NIGHT, "begins": "soon"})
