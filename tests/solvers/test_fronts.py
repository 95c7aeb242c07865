"""Fronts of machines: thinned where memory ends, and still an outer front."""

import importlib
import random
from collections import Counter
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from instances import loading_problem, two_places, wide_problem, wishing
from placer.cost_model.estimate import evaluate
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.placement import Placement
from placer.problem.workers.pool import groups_of
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

increments: Any = importlib.import_module("placer.solvers._market.increments")
fronts: Any = importlib.import_module("placer.solvers.exact.tree.fronts")


def front(speed: np.ndarray, usd: np.ndarray, machines: np.ndarray) -> Any:
    """Choices with these figures."""
    none = np.zeros(len(speed), dtype=np.intp)
    return fronts.States(
        machines=machines, devices=none, speed=speed, usd=usd, pace=none, parent=none, choice=none
    )


def test_a_thinned_front_is_outside_of_what_it_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 choices become at most 200: for each of them one with as many machines is at least as
    fast and, with 0.01 USD of egress for a sample/s, no dearer.
    """
    monkeypatch.setattr(fronts, "fitting", lambda most, each_bytes: 100)
    draw = np.random.default_rng(17)
    speed = np.sort(draw.uniform(1, 100, 3000))
    usd = np.sort(draw.uniform(1, 50, 3000))
    whole = front(speed, usd, draw.integers(1, 3, 3000))
    this = SimpleNamespace(usd_per_speed=0.01, thinned=False)
    thin = fronts.Fronts.fitted(this, whole)
    assert this.thinned
    assert len(thin.speed) <= 200
    for n in (1, 2):
        those, these = whole.machines == n, thin.machines == n
        key, thin_key = (f.usd + 0.01 * f.speed for f in (whole, thin))
        faster = thin.speed[these] >= speed[those][:, None] - 1e-12
        cheaper = thin_key[these] <= key[those][:, None] + 1e-12
        assert np.all(np.any(faster & cheaper, axis=1))


def test_a_search_with_thinned_fronts_claims_no_more_than_it_proves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fronts of one choice leave the best placement of the small market within the bound."""
    problem = two_places(max_workers=12, budget_usd_per_hour=9.0)
    best = solve(problem, "exact", SolveOptions(gap=0.0))
    monkeypatch.setattr(fronts, "fitting", lambda most, each_bytes: 1)
    thinned = solve(problem, "exact", SolveOptions(gap=0.0))
    assert best.status is Status.OPTIMAL
    assert best.value is not None
    assert thinned.bound is not None
    assert not best.objective.beats_bound(best.value, thinned.bound, 1e-9)


def test_choices_that_are_looked_at_in_parts_are_those_of_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one choice at a time the drawn answers are the same."""
    problems = [problem for seed in range(40) if (problem := wide_problem(seed)).pools]
    exactly, found = SolveOptions(gap=0.0), [0, 0]
    whole = [solve(problem, "exact", exactly) for problem in problems]
    monkeypatch.setattr(fronts, "JOINED", 1)
    monkeypatch.setattr(fronts, "FEW", 1)
    for problem, one in zip(problems, whole, strict=True):
        again = solve(problem, "exact", exactly)
        assert (again.status, again.placement) == (one.status, one.placement)
        found[one.placement is not None] += 1
    assert found[True] > 10


def test_a_front_knows_what_speed_brings_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever machines a split has, the model's price of what they send and read is that of a
    sample/s times those that they go through.
    """
    begin, paid = fronts.Fronts.__init__, Counter[str]()

    def compared(self: Any, bound: Any, hosts: Any, split: Any, *priced: Any) -> None:
        begin(self, bound, hosts, split, *priced)
        problem, market = bound.market.problem, bound.market
        first = [market.pools[market.place_of.tolist().index(at)] for at in bound.node.used]
        exchange = exchange_for("all-reduce", int(split.sum()), problem)
        groups = groups_of(first, split[0].tolist())
        got = evaluate(Placement(groups=groups, exchange=exchange), problem)
        usd = self.usd_per_speed * got.samples / got.step.total
        assert got.usd.egress + got.usd.data == pytest.approx(usd, rel=1e-9)
        paid.update(egress=got.usd.egress > 0, data=got.usd.data > 0)

    monkeypatch.setattr(fronts.Fronts, "__init__", compared)
    floor = {"objective": "cost", "min_samples_per_second": 150.0, "budget_usd_per_hour": None}
    for problem in map(loading_problem, range(40)):
        solve(wishing(problem, exchange="all-reduce", **floor), "exact", SolveOptions(gap=0.0))
    assert min(paid["egress"], paid["data"]) >= 5, paid


def test_machines_to_come_are_worth_no_more_than_is_said_of_them() -> None:
    """Before each pool no mix of the earlier ones within caps and quotas sums to more, whether or
    not every pool alone has as many machines as are asked for.
    """
    draw, judged = random.Random(5), Counter[bool]()
    for _ in range(400):
        quotas = [draw.choice((4, 6, 8)) for _ in range(draw.randint(1, 3))]
        pools = [
            SimpleNamespace(gpus=draw.choice((1, 1, 2)), gpu_quota=quota, bucket=at)
            for at, quota in enumerate(quotas)
            for _ in range(draw.randint(1, 2))
        ]
        cap = np.array([draw.randint(1, pool.gpu_quota // pool.gpus) for pool in pools])
        buckets = [[i for i, p in enumerate(pools) if p.bucket == at] for at in range(len(quotas))]
        units, count = increments.PlaceUnits(buckets, pools, cap, 64), draw.randint(1, 4)
        values = np.array([[draw.uniform(-2, 10) for _ in pools] for _ in range(2)])
        this = SimpleNamespace(count=count)
        told = [*fronts.RegionFront._later(this, units, values[:, units.pools], buckets)]
        order = [i for bucket in buckets for i in bucket]
        for at, later in enumerate(told[: len(order)]):
            for mix in product(*(range(min(int(cap[i]), count) + 1) for i in order[:at])):
                taken = Counter[int]()
                for i, n in zip(order, mix, strict=False):
                    taken[pools[i].bucket] += n * pools[i].gpus
                if sum(mix) > count or any(taken[k] > quota for k, quota in enumerate(quotas)):
                    continue
                worth = values[:, order[:at]] @ np.array(mix, dtype=float)
                assert np.all(later[:, sum(mix)] >= worth - 1e-9)
                judged[count <= units.enough] += 1
    assert min(judged[True], judged[False]) > 500
