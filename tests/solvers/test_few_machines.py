"""What few whole machines reach, against enumeration."""

import importlib
import random
from itertools import combinations_with_replacement
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placer.interface.advisor import Advisor
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

few_machines: Any = importlib.import_module("placer.solvers.exact.bounds.few_machines")


def drawn(draw: random.Random, kinds: int) -> tuple[Any, Any]:
    """Draw machines: a market, and which of them count."""
    usd = np.array([round(draw.uniform(0.1, 9), draw.choice((1, 6))) for _ in range(kinds)])
    speed = usd * np.array([draw.uniform(0.5, 2) for _ in range(kinds)])
    inside = np.array([draw.random() < 0.7 for _ in range(kinds)])
    return SimpleNamespace(usd=usd, speed=speed), inside


@pytest.mark.parametrize("most_points", [2_000, 3])
def test_whole_machines_reach_what_some_of_them_do(
    monkeypatch: pytest.MonkeyPatch, most_points: int
) -> None:
    """Whatever drawn machines reach for their price is within reach; with all points of a front, a
    little more for that price is not.
    """
    monkeypatch.setattr(few_machines, "MOST_POINTS", most_points)
    draw, refused = random.Random(1), 0
    for _ in range(30):
        market, inside = drawn(draw, draw.randint(1, 7))
        at = np.flatnonzero(inside).tolist()
        few, machines = few_machines.FewMachines(market, inside), draw.randint(1, 4)
        mixes = list(combinations_with_replacement(at, machines))
        for mix in draw.sample(mixes, min(10, len(mixes))):
            usd = float(market.usd[list(mix)].sum()) * (1 + 1e-12)
            best = max(
                float(market.speed[list(m)].sum())
                for m in mixes
                if market.usd[list(m)].sum() <= usd
            )
            assert few.reach(machines, usd=usd, speed=best * (1 - 1e-12))
            refused += not few.reach(machines, usd=usd, speed=best * (1 + 1e-9))
            if most_points > len(mixes):
                assert not few.reach(machines, usd=usd, speed=best * (1 + 1e-9))
        assert not few.reach(machines, usd=0.05, speed=0.0)  # nothing is as cheap
    assert refused


def test_three_machines_over_many_like_places_are_proved_at_the_root() -> None:
    """Twenty places with the same machines and prices: three machines of one place are proved the
    cheapest in 725 nodes; with fractions of machines alone it took 95,723.
    """
    problem = Advisor().problem(
        "resnet50",
        min_throughput=3838,
        market="on-demand",
        quota=16,
        objective="cost",
    )
    answer = solve(problem, "exact", SolveOptions(gap=0.001, break_ties=False))
    assert answer.status is Status.OPTIMAL
    assert answer.nodes < 2_000
