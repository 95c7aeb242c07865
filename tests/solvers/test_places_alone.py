"""Places alone cut in finer prices, and searches that are kept for the next question."""

import importlib
import time
from typing import Any

import numpy as np
import pytest

from instances import random_problem
from placer.interface.advisor import Advisor
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

places_alone: Any = importlib.import_module("placer.solvers.exact.allreduce_search")
relaxations: Any = importlib.import_module("placer.solvers.exact.bounds.relaxation")
grids: Any = importlib.import_module("placer.solvers._market.grid")
markets: Any = importlib.import_module("placer.solvers._market.market")
modes: Any = importlib.import_module("placer.solvers._mode")
targets: Any = importlib.import_module("placer.solvers._target")


def erben_problem() -> Problem:
    """The question of the README on the small book; eight A10 in one region are best."""
    return Advisor("erben-2023").problem("roberta-xlm", budget="5/h", gpu=["T4", "A10"])


@pytest.mark.parametrize("share", [0.999, 1.001])
def test_the_best_place_stays_open_until_its_value_is_to_be_beaten(share: float) -> None:
    """What beats 99.9 % of the best value is the best placement; nothing beats 100.1 % of it, and
    the finer prices leave no more open than those of the market.
    """
    problem = erben_problem()
    best = solve(problem, "exact", SolveOptions(gap=0.0))
    assert best.placement is not None
    assert best.value is not None
    market = markets.Market.of(problem)
    target = targets.Target.of(
        problem, gap=0.0, deadline=time.monotonic() + 60, beat=share * best.value
    )
    relaxation = relaxations.Relaxation(
        market, target, modes.Mode(problem, "all-reduce", 1), 2, problem.requirements.max_workers
    )
    workers = np.arange(2, relaxation.most + 1)
    here, n = market.places.index(best.placement.places[0]), best.placement.workers
    left = 0
    for family in relaxation.families:
        at = np.array(relaxation.places(family))
        open_ = relaxation.margins_alone(tuple(at.tolist()), workers, family) >= 0
        finer, prices = places_alone.still_open(relaxation, at, workers, family, open_)
        assert not np.any(finer & ~open_)
        assert all(np.all(each > 0) for each in prices.values())
        left += int(finer[at == here, workers == n].sum())
    assert (left > 0) == (share < 1)


@pytest.mark.parametrize(
    "words",
    [
        {"model": "whisper-small", "budget": "16/h", "market": "spot", "places": "gcp/*"},
        {"model": "resnet50", "budget": "39/h", "market": "on-demand", "quota": 64},
    ],
    ids=lambda words: words["model"],
)
def test_classes_of_hosts_are_cut_together_as_one_by_one(
    words: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many leaves of a class are bounded together, the best of one region is the same, and
    together fewer are left to search.
    """
    alone: dict[str, Any] = {"mixed": True, "regions": "..1", "figures": "book"}
    problem = Advisor("default").problem(**words, **alone)
    found = []
    for many in (0, 10**9):
        monkeypatch.setattr(places_alone, "MANY", many)
        found.append(solve(problem, "exact", SolveOptions(gap=0.0)))
    together, apart = found
    assert (together.status, together.value) == (apart.status, apart.value)
    assert together.nodes < apart.nodes


def test_rows_lie_around_both_limits_of_a_dollar() -> None:
    """A floor of 100 samples/s within 1,000 USD/h asks for 0.1 samples/s a dollar, a price of a
    sample of a million for 1 USD asks for 277.8 (1e6 / 3600): rows from 0.3 to 2.5 times each.
    """
    problem = Advisor("erben-2023").problem(
        "roberta-xlm", objective="cost-per-sample", budget="1000/h", min_throughput=100
    )
    target = targets.Target.of(problem, gap=0.0, deadline=time.monotonic() + 60, beat=1.0)
    prices = np.array([0.0, 0.02, 0.04, 0.1, 0.24, 0.3, 80.0, 90.0, 277.8, 600.0, 700.0])
    weights = np.column_stack([np.ones(len(prices)), prices])
    rows = relaxations.priced_rows(weights, modes.Mode(problem, "all-reduce", 1), target)
    assert prices[rows].tolist() == [0.0, 0.04, 0.1, 0.24, 90.0, 277.8, 600.0]


def test_rows_of_a_grid_lie_around_the_tightest_price() -> None:
    """Up to eight machines need 100 samples/s: the price of a dollar at which they have least to
    spare is among the rows, with those from a quarter to 1.5 times; few are those just below it.
    """
    market = markets.Market.of(erben_problem())
    grid = grids.Grid(market, market.hosts, 8)
    first = int(np.any(grid.weights[:, 2:] > 0, axis=1).sum()) + 2
    prices, needed = grid.weights[first:, 1], 100.0 * grid.weights[:, 0]
    for workers in range(1, 9):
        best = prices[np.argmin((grid.everywhere[:, workers] - needed)[first:] / prices)]
        for few, least, most in ((False, 0.25, 1.5), (True, 0.8, 1.0)):
            rows = grid.rows(needed, workers, few=few)
            expected = prices[(prices >= least * best) & (prices <= most * best)]
            assert grid.weights[rows[rows >= first], 1].tolist() == expected.tolist()
            assert (first - 1 in rows) == (not few)


@pytest.mark.parametrize("seed", range(8))
def test_a_kept_search_answers_as_a_new_one(seed: int) -> None:
    """Other budgets, floors and objectives before do not change an answer: a new catalog object
    keeps nothing.
    """
    problem = random_problem(seed)
    wish, none = problem.requirements, SolveOptions(gap=0.0)
    others = [
        replace(wish, objective="throughput", budget_usd_per_hour=2.0),
        replace(wish, objective="cost", min_samples_per_second=10.0),
        replace(wish, objective="cost-per-sample", budget_usd_per_hour=50.0),
    ]
    for asked in (*others, wish, *others[::-1]):
        warm = solve(replace(problem, requirements=asked), "exact", none)
        anew = replace(problem, requirements=asked, catalog=replace(problem.catalog))
        cold = solve(anew, "exact", none)
        assert (warm.status, warm.placement, warm.value) == (
            cold.status,
            cold.placement,
            cold.value,
        )
        assert warm.bound == pytest.approx(cold.bound) if cold.bound else warm.bound is None
