"""Time and money for all samples: `--samples`, `--deadline`, a budget in total, and the least
time.
"""

from __future__ import annotations

import pytest

from conftest import Run
from placer.advice.recommendation.nearest import nearest
from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.cost_model.outlook.totals import totals_of
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.problem.words.readers import read_budget
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve
from placer.workload.profile import load_profile

WISH = Requirements(gpus=("T4", "A10", "V100"), max_workers=8)


def ask(book: Catalog, **changes: object) -> Problem:
    """Ask for roberta-xlm on the published market."""
    return Problem(
        profile=load_profile("roberta-xlm"),
        catalog=book,
        requirements=replace(WISH, **changes),
    )


def test_least_time_is_most_throughput(erben: Catalog) -> None:
    """The same machines; the value is 10 M samples over the samples/s, and the bound is on that
    side of it.
    """
    fast, quick = (
        solve(
            ask(erben, budget_usd_per_hour=5.0, samples=10**7, objective=o),
            options=SolveOptions(time_limit_s=3600.0),
        )
        for o in ("throughput", "time")
    )
    assert quick.placement == fast.placement
    assert fast.value is not None
    assert quick.value == pytest.approx(1e7 / fast.value)
    assert quick.bound is not None
    assert quick.bound <= quick.value  # type: ignore[operator]
    assert quick.status is Status.OPTIMAL


def test_totals_by_hand(erben: Catalog) -> None:
    """At X samples/s for c USD/h a million samples take 1e6 / X seconds and cost c / 3600 times
    that.
    """
    got = solve(ask(erben, budget_usd_per_hour=5.0)).estimate
    assert got is not None
    totals = totals_of(got, Requirements(samples=10**6))
    speed = got.effective_samples_per_second
    assert totals.seconds.value == pytest.approx(1e6 / speed.value)
    assert (totals.seconds.low, totals.seconds.high) == pytest.approx(
        (1e6 / speed.high, 1e6 / speed.low)
    )
    assert totals.usd.value == pytest.approx(got.usd_per_million_samples)
    assert totals.usd.low <= totals.usd.value <= totals.usd.high


def test_a_deadline_is_a_floor_and_says_so_itself(erben: Catalog) -> None:
    """36 M samples in 10 h are 1,000 samples/s; a placement of 471 breaks the deadline and no
    floor.
    """
    wish = ask(erben, samples=36_000_000, deadline_s=36_000.0).requirements
    assert wish.floor_samples_per_second == 1_000.0
    assert replace(wish, min_samples_per_second=1_200.0).floor_samples_per_second == 1_200.0
    slow = solve(ask(erben, budget_usd_per_hour=1.0))
    assert slow.placement is not None
    broken = violations(slow.placement, ask(erben, samples=36_000_000, deadline_s=36_000.0))
    assert [v.code for v in broken] == ["deadline"]
    assert "36,000,000 samples take" in broken[0].message
    assert "longer than the deadline of 10 h" in broken[0].message


def test_nearest_changes_of_totals_work(erben: Catalog) -> None:
    """Neither one minute nor one cent is enough; what is proposed for either, while the other is
    free, is.
    """
    problem = ask(erben, samples=10**7, deadline_s=60.0)
    (late,) = nearest(problem, "exact", SolveOptions())
    assert (late.label, late.note.split()[0]) == ("deadline", "--deadline")
    minutes = float(late.note.split()[1].removesuffix("min"))
    assert violations(late.placement, ask(erben, samples=10**7, deadline_s=minutes * 60)) == ()
    (dear,) = nearest(ask(erben, samples=10**7, budget_usd=0.01), "exact", SolveOptions())
    assert dear.label == "total-budget"
    usd = float(dear.note.split()[1].removesuffix("usd"))
    assert violations(dear.placement, ask(erben, samples=10**7, budget_usd=usd)) == ()
    assert usd == pytest.approx(
        totals_of(estimate(dear.placement, problem), problem.requirements).usd.value, abs=0.05
    )


@pytest.mark.parametrize(
    ("text", "samples", "usd"),
    [
        ("200", "1M", (None, 200.0)),
        ("$200", "1M", (None, 200.0)),
        ("200usd", "1M", (None, 200.0)),
        ("$1,200.50 total", "1M", (None, 1200.5)),
        ("200 usd in total", "1M", (None, 200.0)),
        ("5/h", "1M", (5.0, None)),
        ("120/day", None, (5.0, None)),
    ],
)
def test_budget_words(
    text: str, samples: str | None, usd: tuple[float | None, float | None]
) -> None:
    """A rate stays a rate; beside samples an amount is a total."""
    assert read_budget(text, samples)[:2] == usd


@pytest.mark.parametrize("text", ["0", "-5", "nan", "usd", "", "5,0", "1e400", "200/week"])
def test_bad_totals_are_refused(text: str) -> None:
    """By name, beside samples as well."""
    with pytest.raises(PlacerError) as caught:
        read_budget(text, "1M")
    assert "budget" in caught.value.message


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--deadline", "12h"], "deadline 12 h without a number of samples"),
        (["--budget", "200usd"], "a total without a number of samples"),
        (["--budget", "200"], "per hour or total?"),
        (["--objective", "time"], "objective 'time' without a number of samples"),
        (["--samples", "many"], "samples 'many' is not a number"),
        (["--samples", "0"], "must be above zero"),
        (["--samples", "1M", "--deadline", "soon"], "duration 'soon' is not a time"),
    ],
)
def test_wishes_that_lack_samples_are_refused(run: Run, words: list[str], says: str) -> None:
    """One line that names the word; exit code 2."""
    done = run("recommend", "--model", "roberta-xlm", "--catalog", "erben-2023", *words)
    assert done.returncode == 2
    assert says in done.stderr
