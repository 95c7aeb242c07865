"""Portfolios: many jobs that share quotas, budgets and blocks."""

from pathlib import Path
from typing import Any

import pytest
from certain import certain
from drawn import drawn

import placer
from placer.documents.many_check import wrong_sums

JOB: dict[str, Any] = {
    "model": "roberta-xlm",
    "min-throughput": "300/s",
    "market": "on-demand",
    "in": "lambda,gcp/us-central1",
}
"""One A10 at 0.60 USD/h is the cheapest there, four T4 at 0.51 USD/h each come next."""
FAST: dict[str, Any] = {**{k: v for k, v in JOB.items() if k != "min-throughput"}, "gpu": "A10,T4"}
"""One A10 is as fast as five or six T4."""
TOGETHER: dict[str, Any] = {
    "catalog": "erben-2023",
    "quota": {"A10": 1, "T4": 4},
    "budget": "5/h",
    "gap": 1e-6,
}


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
    assert certain(other.usd) - certain(other.alone_usd) == pytest.approx(1.44)
    assert [(row.resource, round(row.usd, 2)) for row in answer.worths] == [
        ("A10 on-demand in lambda/us-west-1", 1.44)
    ]
    assert answer.bound == pytest.approx(answer.usd, rel=0.01)


@pytest.mark.parametrize("speed", [False, True])
def test_a_job_that_is_as_well_off_elsewhere_is_not_displaced(speed: bool) -> None:
    """One A10 costs the same in each region of Lambda, and is as fast: of two jobs that may have
    one, each has what it would have alone, though one is not where it would be.
    """
    asked: dict[str, Any] = {"objective": "throughput", "budget": "5/h"} if speed else {}
    wish = {"regions": "..1"} if speed else {"min-throughput": "300/s"}
    job = {"model": "roberta-xlm", "market": "on-demand", "in": "lambda", **wish}
    answer = placer.portfolio([job, job], quota={"*": 0, "A10": 1}, **asked)
    assert answer.jobs[0].workers != answer.jobs[1].workers
    assert len({placed.alone_workers for placed in answer.jobs}) == 1
    assert [placed.displaced for placed in answer.jobs] == [(), ()]


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


@pytest.mark.parametrize(
    ("second", "usd", "greedy", "saving"),
    [
        # One by one the first takes the A10, and the second five T4 for 2.55 where four would do.
        ({"min-throughput": "420/s"}, 2.64, 3.15, 0.51 / 3.15),
        ({}, 2.64, 2.64, 0.0),
        ({"gpu": "A10"}, 2.64, 0.60, None),  # one by one the second finds nothing
    ],
)
def test_what_is_saved_is_said_where_as_many_run(
    second: dict[str, Any], usd: float, greedy: float, saving: float | None
) -> None:
    """One A10 for 0.60 USD/h, T4 for 0.51 each."""
    jobs = [{**JOB, "name": "a"}, {**JOB, "name": "b", **second}]
    answer = placer.portfolio(jobs, catalog="erben-2023", quota={"A10": 1, "T4": 8})
    assert (answer.usd, answer.greedy_usd) == pytest.approx((usd, greedy))
    assert answer.saving == (None if saving is None else pytest.approx(saving))


def test_who_gives_way_first_is_told_and_why_a_job_does_not_run() -> None:
    """The least priority first, then the least weight, then the last of the list."""
    ranks: list[dict[str, Any]] = [{"priority": 2}, {"weight": 3}, {"weight": 2}, {"weight": 2}]
    jobs = [{**JOB, **rank, "name": name} for name, rank in zip("abcd", ranks, strict=True)]
    few: dict[str, Any] = {"catalog": "erben-2023", "quota": {"A10": 4}}
    assert placer.portfolio(jobs, **few).giving_way == ("d", "c", "b", "a")
    fast = {**JOB, "name": "b", "min-throughput": "99999/s"}
    for asked, usd, reason in (
        (
            [jobs[0], fast],
            None,
            "no placement keeps its own limits, even with the market to itself",
        ),
        (jobs[:2], "1/h", "the budget is spent by jobs that come first"),
    ):
        (out,) = placer.portfolio(asked, budget=usd, **few).left_out
        assert (out.name, out.reason, out.displaced) == ("b", reason, ())


def test_a_share_keeps_a_job_from_taking_all() -> None:
    """Of 4 T4 in a place a job with half a share has 2, so that it must go elsewhere for more."""
    job = {"model": "roberta-xlm", "min_throughput": "250/s", "gpu": "T4", "market": "spot"}
    question: dict[str, Any] = {"catalog": "erben-2023", "quota": {"T4": 4}}
    (free,) = placer.portfolio([job], **question).jobs
    (half,) = placer.portfolio([{**job, "max_share": "50%"}], **question).jobs
    assert free.result is not None
    gpus = {g.place: g.gpus for g in certain(certain(half.result).placement).groups}
    assert max(gpus.values()) <= 2
    assert (half.usd or 0.0) >= (free.usd or 0.0)


TEAMS: dict[str, Any] = {"catalog": "erben-2023", "quota": {"A10": 1, "T4": 8}}
"""Two jobs want the one A10; the other takes four T4 for 1.44 USD/h more."""
A_AND_B: list[dict[str, Any]] = [{**JOB, "name": name, "team": name} for name in ("a", "b")]


def test_limits_of_a_team_hold_for_its_jobs_alone() -> None:
    """Team a may have no A10, or may not pay for four T4: its job takes the other machines, and
    that of team b what is left. The sum stays 2.64 USD/h.
    """
    for limit, machines in (({"quota": {"A10": 0}}, "4xT4"), ({"budget": "1/h"}, "1xA10")):
        teams: list[dict[str, Any]] = [{"name": "a", **limit}, {"name": "b"}]
        answer = placer.portfolio(A_AND_B, teams=teams, **TEAMS)
        assert machines in answer["a"].workers[0]
        assert answer.usd == pytest.approx(0.6 + 4 * 0.51, abs=0.01)
        assert wrong_sums(answer.to_dict()) == ""


def test_a_team_that_lacks_something_is_named_with_what_it_needs() -> None:
    """A quota of 3 T4 and no A10 is less than a job needs in any place; and a budget of 1 USD/h
    runs one of two jobs: 0.40 USD/h of the 0.60 that the other one costs alone are left.
    """
    few: dict[str, Any] = {
        "name": "a",
        "quota": [{"gpus": 0}, {"gpu": "T4", "gpus": 3, "scope": "together"}],
    }
    answer = placer.portfolio(A_AND_B, teams=[few, {"name": "b"}], **TEAMS)
    (out,) = answer.left_out
    assert (out.name, out.reason) == ("a", "team a may not have what it needs")
    row = next(row for row in out.displaced if not row.by)
    assert (row.resource, row.left) == ("A10 on-demand in lambda/us-west-1 of team a", 0)
    assert row.wanted == 1
    words = " ".join(drawn(answer).split())
    assert "0 of 1 A10 on-demand in lambda/us-west-1 of team a are all that there is" in words
    both = [{**JOB, "name": name, "team": "a"} for name in ("one", "two")]
    teams = [{"name": "a", "budget": "1/h"}]
    (out,) = placer.portfolio(both, teams=teams, catalog="erben-2023").left_out
    short = out.displaced[-1]
    assert (short.resource, short.unit) == ("of the budget of team a", "USD/h")
    assert short.wanted == pytest.approx(0.6)
    assert short.left == pytest.approx(0.4)


def test_one_more_changes_the_sum_as_asking_again_with_it_does() -> None:
    """A team has one A10 and 3 T4, fewer than the second job needs, which takes eight V100 for
    14.60 USD/h in place of one A10 for 0.60: one more A10 saves 14.00. The price of the relaxation,
    in which a part of a job takes what is left of the T4, is 11.40.
    """
    jobs = [{**JOB, "name": name, "team": "x"} for name in ("a", "b")]

    def asked(a10: int, t4: int) -> placer.PortfolioAnswer:
        teams = [{"name": "x", "quota": {"A10": a10, "T4": t4}}]
        return placer.portfolio(jobs, teams=teams, catalog="erben-2023")

    for t4 in (3, 8):
        one, two = asked(1, t4), asked(2, t4)
        (row,) = one.worths
        assert row.resource == "A10 on-demand in lambda/us-west-1 of team x"
        assert row.usd == pytest.approx(one.usd - two.usd)
        assert two.worths == ()


def test_one_more_lets_a_job_run_that_is_left_out() -> None:
    """Then the sum grows by 0.60 USD/h, with its sign, and the job is named."""
    jobs = [{**JOB, "name": name, "in": "lambda", "gpu": "A10"} for name in ("a", "b", "c")]
    answer = placer.portfolio(jobs, catalog="erben-2023", quota={"A10": 1})
    (row,) = answer.worths
    assert row.runs == ("b",)
    assert row.usd == pytest.approx(-0.6)
    words = " ".join(drawn(answer).split())
    assert "A10 on-demand in lambda/us-west-1 runs b, and costs $0.60/h" in words


def test_the_checker_sums_each_team() -> None:
    """Limits that are tightened afterwards are found broken, by the sums of the document alone."""
    limits = {"quota": {"A10": 1}, "budget": "3/h"}
    teams: list[dict[str, Any]] = [{"name": "a", **limits}, {"name": "b"}]
    document = placer.portfolio(A_AND_B, teams=teams, **TEAMS).to_dict()
    assert wrong_sums(document) == ""
    team = document["shared"]["teams"][0]
    team["budget_usd"] = 0.5
    assert "USD of team a are above 0.5" in wrong_sums(document)
    team["budget_usd"] = None
    team["quotas"] = [{"place": "*", "gpu": "*", "market": "*", "gpus": 0, "scope": "each"}]
    assert "of team a exceed the quota of 0" in wrong_sums(document)


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
    place = one["placement"]["workers"][0]["place"]
    assert f"2 A10 in {place} exceed the quota of 1" in wrong_sums(document)


def test_jobs_wait_for_each_other_in_slots() -> None:
    """Two jobs of 2 hours share one A10: they run one after the other, and both pay 0.60 USD/h."""
    slots: dict[str, Any] = {"catalog": "erben-2023", "slot": "1h", "horizon": "4h"}
    answer = placer.portfolio([SHORT, SHORT], quota={"A10": 1}, **slots)
    assert sorted(placed.start for placed in answer.jobs) == [0, 2]
    assert answer.usd == pytest.approx(2 * 2 * 0.6)
    late = placer.portfolio([SHORT, {**SHORT, "earliest": "3h"}], quota={"A10": 1}, **slots)
    assert [placed.name for placed in late.left_out] == ["job-2"]


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
BLOCK: dict[str, Any] = {
    "name": "night",
    "place": "lambda/us-west-1",
    "device": "A10",
    "machines": 1,
    "start": "2h",
    "duration": "4h",
}


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(("usd", "total", "starts"), [("0.5", 0.5, {2, 3, 4}), ("2.0", 1.2, {0})])
def test_a_block_is_bought_where_it_is_cheaper(
    tmp_path: Path, usd: str, total: float, starts: set[int], listed: bool
) -> None:
    """A job of 2 hours takes a block for 0.50 USD in place of 2 x 0.60, and not for 2.00: named, or
    in a list as placer writes what AWS offers, of which one that is over is passed over.
    """
    given: dict[str, Any] = {"blocks": [{**BLOCK, "usd": float(usd)}]}
    if listed:
        given = {"blocks_file": tmp_path / "blocks.csv"}
        given["blocks_file"].write_text(BLOCKS.format(usd=usd), encoding="utf-8")
    answer = placer.portfolio([SHORT], **given, **NIGHT)
    assert answer.usd == pytest.approx(total)
    assert answer.jobs[0].start in starts or starts == {0}
    assert answer.jobs[0].workers[0].startswith("lambda/us-west-1=1xA10") or starts == {0}
    assert wrong_sums(answer.to_dict()) == ""


def test_fair_shares_say_who_is_held_back_and_by_whom() -> None:
    """Two like jobs: alone each has all machines; together one has the A10 and the other four T4,
    and the words name what is missing and who has it.
    """
    answer = placer.portfolio([FAST, FAST], fair=True, objective="throughput", **TOGETHER)
    assert wrong_sums(answer.to_dict()) == ""
    assert len(answer.left_out) == 0
    assert answer.least_share == min(job.share or 0.0 for job in answer.jobs)
    assert answer.least_share_bound == pytest.approx(answer.least_share)
    text = " ".join(drawn(answer).split())
    assert f"held back most: {answer.held_back[0]}" in text
    assert "are left after job-" in text
    assert "weighted samples/s together" in text
