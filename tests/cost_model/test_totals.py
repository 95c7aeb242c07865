"""Time and money for all samples: samples, deadline, budget in total, least time, start-up."""

import json
import random
from collections.abc import Callable

import pytest

from instances import island_problem, question, random_problem, total_problem, two_places, wishing
from placer.advice.confidence.choice import chance_in_time
from placer.advice.recommendation.other_answers import nearest
from placer.cost_model.estimate import estimate, evaluate
from placer.cost_model.limits import violations
from placer.cost_model.outlook.totals import totals_of
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve
from proofs import agrees, is_open


def ask(book: Catalog, **changes: object) -> Problem:
    """Ask for roberta-xlm on the published market."""
    wishes = {"gpus": ("T4", "A10", "V100"), "max_workers": 8, **changes}
    return question("roberta-xlm", book, **wishes)


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


GENERATORS: tuple[Callable[[int], Problem], ...] = (random_problem, island_problem, total_problem)
STARTUP_S = (0.0, 60.0, 600.0, 3600.0)
SAMPLES = (10**4, 10**5, 10**6, 10**7)


def drawn(generator: Callable[[int], Problem], seed: int) -> Problem:
    """A job on a drawn market: start-up from nothing to most of its time, and limits in total near
    what the fewest dollars in all are and take.
    """
    draw, problem = random.Random(f"startup {seed}"), generator(seed)
    bare = replace(
        problem.requirements,
        objective="total",
        samples=draw.choice(SAMPLES),
        startup_s=draw.choice(STARTUP_S),
        budget_usd=None,
        deadline_s=None,
    )
    least = solve(replace(problem, requirements=bare), "exact", SolveOptions(gap=0.0))
    wish = replace(bare, objective=draw.choice(["total", "total", "throughput", "time", "cost"]))
    if least.estimate is not None and least.value:
        totals = totals_of(least.estimate, bare)
        if draw.random() < 0.6:
            wish = replace(wish, budget_usd=least.value * draw.choice([1 + 1e-7, 1.1, 1.5, 3.0]))
        if draw.random() < 0.4:
            spare = draw.choice([0.7, 0.9, 1 + 1e-7, 1.5])
            work_s = totals.seconds.value - bare.startup_s
            wish = replace(wish, deadline_s=bare.startup_s + spare * work_s)
    return replace(problem, requirements=wish)


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda made: made.__name__)
@pytest.mark.parametrize("chunk", range(2))
def test_exact_equals_exhaustive_with_startup(
    generator: Callable[[int], Problem], chunk: int
) -> None:
    """150 instances in all, most about the fewest dollars in all, many with limits in total."""
    answered = left_open = 0
    for seed in range(25 * chunk, 25 * chunk + 25):
        problem = drawn(generator, seed)
        oracle = solve(problem, "exhaustive")
        answer = solve(problem, "exact", SolveOptions(gap=0.0, time_limit_s=3600.0))
        if generator is island_problem and is_open(answer, oracle, seed):
            left_open += 1
            continue
        answered += agrees(answer, oracle, seed)
    assert answered >= 8
    assert left_open <= 2


@pytest.mark.parametrize("solver", ["milp", "cpsat"])
def test_programs_find_the_same_totals(solver: str) -> None:
    """Their goal has the start as well: C (T + s) for each round of T seconds."""
    for seed in range(3):
        problem = drawn(random_problem, seed)
        oracle, answer = solve(problem, "exhaustive"), solve(problem, solver, SolveOptions(gap=0.0))
        assert answer.status == oracle.status, seed
        if oracle.value is not None:
            assert answer.value == pytest.approx(oracle.value, rel=1e-6), seed


def test_totals_with_a_start_by_hand() -> None:
    """At X samples/s for c USD/h, of which machines are m, a million samples take 1e6 / X seconds
    and cost c / 3600 times that; 3,600 s of start-up add an hour and m USD.
    """
    problem = two_places(samples=10**6)
    found = solve(problem)
    assert found.placement is not None
    got = estimate(found.placement, problem)
    bare, started = (
        totals_of(got, Requirements(samples=10**6, startup_s=s)) for s in (0.0, 3600.0)
    )
    speed = got.effective_samples_per_second
    for at, other in (("value", "value"), ("low", "high"), ("high", "low")):
        seconds = 1e6 / getattr(speed, other)
        assert getattr(bare.seconds, at) == pytest.approx(seconds)
        assert getattr(started.seconds, at) == pytest.approx(seconds + 3600)
    assert started.usd.value == pytest.approx(bare.usd.value + got.usd_per_hour.compute)
    assert bare.usd.value == pytest.approx(got.usd_per_million_samples)
    assert started.usd.low <= started.usd.value <= started.usd.high
    for spare, broken in ((1 + 1e-6, []), (1 - 1e-6, ["total-budget"])):
        asked = two_places(samples=10**6, startup_s=3600.0, budget_usd=spare * started.usd.value)
        assert [row.code for row in violations(found.placement, asked)] == broken


def test_the_value_is_the_total_that_is_shown() -> None:
    """USD in all of the objective and of the totals are one figure; so are the seconds of time."""
    for seed in range(20):
        problem = drawn(random_problem, seed)
        for name in ("total", "time"):
            wish = replace(problem.requirements, objective=name, startup_s=600.0)
            found = solve(replace(problem, requirements=wish))
            if found.estimate is not None:
                totals = totals_of(found.estimate, wish)
                shown = totals.usd if name == "total" else totals.seconds
                assert found.value == pytest.approx(shown.value)
                assert found.bound is not None
                assert found.value is not None
                assert found.bound <= found.value * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_a_limit_never_improves_the_total(seed: int) -> None:
    """A deadline, a budget by the hour, a longer start and fewer workers cost, or do nothing."""
    problem = drawn(random_problem, seed)
    free = replace(
        problem.requirements, objective="total", deadline_s=None, budget_usd=None, startup_s=60.0
    )
    exact = SolveOptions(gap=0.0)
    best = solve(replace(problem, requirements=free), "exact", exact)
    if best.estimate is None or best.value is None:
        return
    seconds = totals_of(best.estimate, free).seconds.value
    for limit in (
        {"deadline_s": seconds * 0.8},
        {"budget_usd_per_hour": max(1e-3, best.estimate.usd_per_hour.total * 0.9)},
        {"startup_s": 600.0},
        {"max_workers": 1, "min_workers": 1},
    ):
        asked = replace(problem, requirements=replace(free, **limit))
        try:
            limited = solve(asked, "exact", exact)
        except PlacerError:  # no machine is left
            continue
        assert limited.value is None or limited.value >= best.value * (1 - 1e-9), limit


def test_a_start_is_in_the_deadline_and_in_the_budget() -> None:
    """A placement that takes just as long and costs just as much as allowed breaks both limits with
    a start of an hour.
    """
    problem = two_places(samples=10**6)
    found = solve(problem)
    assert found.placement is not None
    got = evaluate(found.placement, problem)
    wish = replace(
        problem.requirements,
        deadline_s=1e6 / got.samples_per_second * (1 + 1e-6),
        budget_usd=got.usd_per_million_samples * (1 + 1e-6),
    )
    late = replace(wish, startup_s=3600.0)
    assert violations(found.placement, replace(problem, requirements=wish)) == ()
    broken = violations(found.placement, replace(problem, requirements=late))
    assert {violation.code for violation in broken} == {"deadline", "total-budget"}


def test_cost_of_a_job_is_in_all() -> None:
    """The word `cost` means USD/h, and with samples or tokens USD in all; so does the default of a
    deadline. Requirements of Python and of files keep their meaning.
    """

    def wish(**words: object) -> Requirements:
        return Advisor().problem("resnet50", "erben-2023", **words).requirements  # type: ignore[arg-type]

    assert wish(objective="cost").objective == "cost"
    assert wish(objective="cost").startup_s == 0.0
    assert wish(objective="cost", samples="1M").objective == "total"
    assert wish(deadline="12h", samples="1M").objective == "total"
    assert wish(min_throughput="10/s").objective == "cost"
    assert wish(samples="1M").startup_s == 600.0
    assert wish(samples="1M", startup=0).startup_s == 0.0
    assert wish(samples="1M", startup="15min").startup_s == 900.0
    assert Requirements(objective="cost", samples=10**6).objective == "cost"


def test_saved_questions_have_no_startup() -> None:
    """A document of an older version has no key for it, and none is written where there is none."""
    problem = two_places(samples=10**6)
    saved = problem.to_dict()
    assert "startup_s" not in saved["requirements"]
    assert Problem.from_dict(saved).requirements.startup_s == 0.0
    started = two_places(samples=10**6, startup_s=60.0)
    assert Problem.from_dict(json.loads(json.dumps(started.to_dict()))).requirements.startup_s == 60


def test_a_deadline_has_a_chance() -> None:
    """On spot machines the chance grows with the time; on demand nothing is said."""
    problem = Advisor().problem(
        "resnet50", "default", samples="100M", gpu="T4", market="spot", deadline="20h"
    )
    found = solve(problem)
    assert found.placement is not None
    got = estimate(found.placement, problem)
    seconds = totals_of(got, problem.requirements).seconds.value
    chances = [
        chance_in_time(found.placement, got, wishing(problem, deadline_s=times * seconds))
        for times in (1.01, 1.5, 4.0)
    ]
    assert None not in chances
    assert chances == sorted(chances)  # type: ignore[type-var]
    assert chances[0] < chances[2]  # type: ignore[operator]
    never = wishing(problem, deadline_s=None)
    assert chance_in_time(found.placement, got, never) is None
