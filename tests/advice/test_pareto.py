"""The frontier of cost against throughput: complete, proved, marked, printed."""

import importlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import placer
from conftest import Run
from instances import exchange_problem, question, random_problem, wide_problem, wishing
from placer.advice.frontier import Ending, Frontier, frontier, knee_of
from placer.cost_model.estimate import estimate, evaluate
from placer.cost_model.limits import violations
from placer.documents.many_check import check_frontier
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import prepare, solve

exact = importlib.import_module("placer.solvers.exact.branch_and_bound")
placements = importlib.import_module("placer.solvers.exhaustive").placements
AMPLE_S = 3600.0
"""No proof is asked for within a time: the test's own time-out ends what never ends."""
EXACT = SolveOptions(gap=0.0, time_limit_s=AMPLE_S)
ERBEN = ("--model", "roberta-xlm", "--catalog", "erben-2023")


def enumerated(problem: Problem) -> list[tuple[float, float]]:
    """Frontier (USD/h, samples/s) by trying every placement."""
    found = []
    for placement in placements(problem):
        if not violations(placement, problem):
            got = evaluate(placement, problem)
            found.append((got.usd.total, got.samples_per_second))
    kept: list[tuple[float, float]] = []
    for usd, speed in sorted(found, key=lambda f: (f[0], -f[1])):
        if not kept or speed > kept[-1][1] * (1 + 1e-9):
            kept.append((usd, speed))
    return kept


def reached(found: Frontier) -> list[tuple[float, float]]:
    """Frontier (USD/h, samples/s) of the answer."""
    return [(point.usd_per_hour, point.samples_per_second) for point in found.points]


@pytest.mark.parametrize("seed", [seed for seed in range(12) if random_problem(seed).pools])
def test_complete_frontier_is_the_enumerated_one(seed: int) -> None:
    """With gap 0 and points enough, exactly the placements that enumeration keeps."""
    problem = random_problem(seed)
    expected = enumerated(problem)
    found = frontier(problem, "exact", EXACT, points=1000)
    assert reached(found) == [pytest.approx(pair, rel=1e-8) for pair in expected]
    assert found.ending is (Ending.COMPLETE if expected else Ending.NOTHING)
    assert found.proved is bool(expected)
    assert (found.failed is None) is bool(expected)


@pytest.mark.parametrize("seed", range(12))
def test_every_exchange_and_placed_data(seed: int) -> None:
    """Local steps, streams, overlap, data that moves or stays: nothing beats a point by the gap."""
    problem = exchange_problem(seed)
    found = frontier(problem, "exact", SolveOptions(gap=0.01, time_limit_s=AMPLE_S), points=1000)
    every = enumerated(problem)
    assert bool(every) is bool(found.points)
    for (
        usd,
        speed,
    ) in every:  # each true point has one that costs at most 1 % more or is at most 1 % slower
        assert any(
            u <= usd * 1.0100001 + 1e-9 and s >= speed / 1.0100001 for u, s in reached(found)
        ), (usd, speed)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), points=st.integers(2, 6))
def test_points_rise_and_their_bounds_hold(seed: int, points: int) -> None:
    """Few points: each dearer and faster than the one before; enumeration beats no bound."""
    problem, gap = random_problem(seed), 0.02
    if not problem.pools:
        reject()
    found = frontier(problem, "exact", SolveOptions(gap=gap, time_limit_s=AMPLE_S), points)
    assert len(found.points) <= points
    for below, above in pairwise(found.points):
        assert below.usd_per_hour < above.usd_per_hour
        assert below.samples_per_second < above.samples_per_second
    every = enumerated(problem)
    for point in found.points:
        assert point.gap is not None
        assert point.gap <= gap + 1e-7
        assert point.most_samples_per_second is not None
        assert point.least_usd_per_hour is not None
        assert not violations(point.placement, problem)
        assert point.estimate == estimate(point.placement, problem)
        for usd, speed in every:
            if usd <= point.usd_per_hour:
                assert speed <= point.most_samples_per_second * (1 + 1e-8)
            if speed >= point.samples_per_second:
                assert usd >= point.least_usd_per_hour * (1 - 1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_a_prepared_solver_answers_as_a_fresh_one(seed: int) -> None:
    """What `exact` keeps between questions changes nothing, whatever they are."""
    problem = wide_problem(seed, most=300) if seed % 2 else exchange_problem(seed)
    answer = prepare(problem)
    for objective, budget, floor in (
        ("throughput", 3.0, None),
        ("cost", None, 50.0),
        ("throughput", None, None),
        ("cost-per-sample", 5.0, None),
    ):
        asked = wishing(
            problem, objective=objective, budget_usd_per_hour=budget, min_samples_per_second=floor
        )
        kept, fresh = answer(asked, EXACT), solve(asked, "exact", EXACT)
        assert (kept.status, kept.placement, kept.bound) == (
            fresh.status,
            fresh.placement,
            fresh.bound,
        )


def test_fewer_searches_than_two_for_each_budget(xlm: Problem) -> None:
    """Each point, its price, and what closes the box beside it: at most four searches."""
    found = frontier(xlm, "exact", SolveOptions(time_limit_s=AMPLE_S), points=1000)
    assert found.ending is Ending.COMPLETE
    assert found.solves <= 4 * len(found.points)


def test_knee_lies_furthest_above_the_chord() -> None:
    """By hand, in logarithms: costs 1, 10, 100 lie at 0, 0.5, 1.

    Speeds 1, 100, 1000 at 0, 2/3, 1: the middle is 2/3 - 1/2 above the chord. With speeds 1, 5,
    1000 it lies at 0.233, below the chord, so nothing bends. Of four points with costs at 0, 1/3,
    2/3, 1 and speeds at 0, 0.9, 0.95, 1 the second is 0.57 above, the third 0.28.
    """
    assert knee_of([1, 10, 100], [1, 100, 1000]) == 1
    assert knee_of([1, 10, 100], [1, 5, 1000]) is None
    assert knee_of([1, 10, 100, 1000], [1, 10**0.9, 10**0.95, 10]) == 1


def test_marginal_price_is_that_of_the_extra_samples(xlm: Problem) -> None:
    """From $0.134/h to $0.60/h: 0.466 USD/h over (463.6 - 208.76) samples/s: 0.508 USD/million."""
    found = frontier(
        replace(xlm, requirements=Requirements(budget_usd_per_hour=0.7, max_workers=1)), points=1000
    )
    assert [round(point.usd_per_hour, 3) for point in found.points] == [0.134, 0.6]
    first, extra = found.marginal_usd_per_million_samples
    assert first is None
    assert extra == pytest.approx(0.508, abs=0.001)


def test_heuristics_say_that_nothing_is_proved(xlm: Problem) -> None:
    """No bounds, status feasible, and never `complete`."""
    found = frontier(
        replace(xlm, requirements=Requirements(budget_usd_per_hour=5.0)), "local_search", points=4
    )
    assert found.points
    assert {point.status for point in found.points} == {Status.FEASIBLE}
    assert not found.proved
    assert found.ending is not Ending.COMPLETE


def test_no_time_is_a_wider_gap_not_an_error(default: Catalog) -> None:
    """A tenth of a second: the cheapest end at least, bounds that hold, the reason for the end."""
    problem = question("resnet50", default, max_local_steps=4, gpus=("T4",))
    found = frontier(problem, "exact", SolveOptions(time_limit_s=0.1), 12)
    assert found.ending in (Ending.TIME_LIMIT, Ending.NOTHING)
    assert check_frontier(found.to_dict(), "here")[0].startswith("frontier of")


def test_ctrl_c_leaves_the_points_so_far(xlm: Problem) -> None:
    """Pressed in the third search: the ends that were found stay. Raised where it is heard: beside
    other threads a signal may come late.
    """
    heard = []

    def press(value: float) -> None:
        heard.append(value)
        if len(heard) == 3:
            raise KeyboardInterrupt

    found = frontier(xlm, "exact", SolveOptions(time_limit_s=AMPLE_S, on_better=press), 12)
    assert found.ending is Ending.INTERRUPTED
    assert 1 <= len(found.points) < 12


@pytest.fixture(scope="module")
def shown() -> Frontier:
    """XLM-RoBERTa on the April 2023 book up to $5/h."""
    return placer.pareto("roberta-xlm", budget="5/h", catalog="erben-2023", points=6)


def test_edited_documents_are_refused(shown: Frontier) -> None:
    """A beaten bound, or a point that is no better than the one before."""
    edits = {"most_samples_per_second": 1.0, "least_usd_per_hour": 1e6, "usd_per_hour": 0.0}
    for key, value in edits.items():
        document = shown.to_dict()
        document["points"][2][key] = value
        with pytest.raises(PlacerError, match="point 2"):
            check_document(document, "here")


def test_plot_is_drawn(run: Run, tmp_path: Path) -> None:
    """SVG is XML."""
    done = run(
        "pareto", *ERBEN, "--budget", "5/h", "--points", "4", "--plot", str(tmp_path / "f.svg")
    )
    assert done.returncode == 0, done.stderr
    assert "</svg>" in (tmp_path / "f.svg").read_text(encoding="utf-8")
