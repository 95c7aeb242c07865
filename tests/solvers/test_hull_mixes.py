"""First drafts of two kinds in one place, where workers or a joint limit run out with the money."""

import importlib
import math
import random
from itertools import product
from types import SimpleNamespace

import numpy as np

import placer  # noqa: F401  (makes placer.solvers a package)

hull, multipliers = (
    importlib.import_module(f"placer.solvers.{name}")
    for name in ("_drafts.one_place", "_market.best_sums")
)


def place(draw: random.Random, kinds: int, most: int, budget: float) -> SimpleNamespace:
    """Return what the drafts ask of a market with one place and kinds of one host."""
    usd = np.array([draw.uniform(1, 20) for _ in range(kinds)])
    speed = usd ** draw.uniform(0.5, 0.9) * np.array([draw.uniform(0.7, 1.0) for _ in usd])
    market = SimpleNamespace(
        usd=usd,
        speed=speed,
        pools=[None] * kinds,
        places=("here",),
        place_of=np.zeros(kinds, dtype=np.intp),
        host_of=("t4",) * kinds,
        joint=np.zeros((0, kinds)),
        kept={},
        cap=np.full(kinds, 1e6),
    )
    return SimpleNamespace(
        market=market,
        most=most,
        target=SimpleNamespace(budget_usd_per_hour=budget),
        problem=SimpleNamespace(
            gradient_bytes=1e9,
            profile=SimpleNamespace(tensors=100),
            calibration=importlib.import_module("placer.workload.constants").PUBLISHED,
            joint_limits=(),
        ),
    )


def best_of_two(judge: SimpleNamespace) -> float:
    """Return the highest speed of any numbers of any two kinds within workers and budget."""
    usd, speed, most = judge.market.usd, judge.market.speed, judge.most
    best = 0.0
    for a, b in product(range(len(usd)), repeat=2):
        for count in range(most + 1):
            left = judge.target.budget_usd_per_hour - count * usd[a]
            if left < 0:
                break
            other = min(most - count, int(left / usd[b])) if a != b else 0
            best = max(best, count * speed[a] + other * speed[b])
    return best


def test_the_best_mix_of_two_kinds_is_found_but_for_rounding() -> None:
    """Where the budget is more than all workers of the best value cost, the fastest mix on the hull
    lies within one machine of the best of all mixes of two kinds.
    """
    draw, judged = random.Random(3), 0
    for _ in range(60):
        most = draw.randint(8, 24)
        judge = place(draw, draw.randint(2, 6), most, draw.uniform(3, 12) * most)
        mixes = list(hull.hull_mixes(judge, np.ones(len(judge.market.usd), dtype=bool)))
        usd, speed = judge.market.usd, judge.market.speed
        for mix in mixes:
            assert sum(mix.values()) <= most
            assert (
                sum(n * usd[i] for i, n in mix.items()) <= judge.target.budget_usd_per_hour + 1e-9
            )
        if mixes:
            found = max(sum(n * speed[i] for i, n in mix.items()) for mix in mixes)
            assert found >= best_of_two(judge) - 2 * speed.max()
            judged += 1
    assert judged >= 20, "hardly any drawn budget lies between two corners of a hull"


def test_a_joint_limit_takes_the_place_of_the_workers() -> None:
    """Two kinds of which the faster takes two units: 10 units and 100 USD/h. x fast and y slow with
    2 x + y <= 10 and 30 x + 5 y <= 100: x = (100 - 10 x 5) / (30 - 2 x 5) = 2, y = 10 - 4 = 6.
    """
    judge = place(random.Random(1), 2, 64, 100.0)
    judge.market.usd, judge.market.speed = np.array([5.0, 30.0]), np.array([2.0, 9.0])
    judge.market.joint = np.array([[1.0, 2.0]])
    judge.problem.joint_limits = (SimpleNamespace(most=10),)
    mixes = list(hull.hull_mixes(judge, np.ones(2, dtype=bool)))
    assert {0: 6, 1: 2} in mixes


def test_pairs_of_prices_bound_where_budget_and_sum_bind_together() -> None:
    """Continuous machines within a budget and a sum: the bound of the rows, beta x budget + gamma x
    sum where no machine is worth more than it costs, comes within 5 % of the linear program's
    value. Prices of a dollar alone leave 20 % and more in the worst case.
    """
    from scipy.optimize import linprog

    draw, worst_alone, worst = random.Random(5), 0.0, 0.0
    for _ in range(40):
        size = draw.randint(3, 8)
        usd = np.array([draw.uniform(1, 20) for _ in range(size)])
        speed = np.array([draw.uniform(1, 20) for _ in range(size)])
        taken = np.array([float(draw.randint(1, 4)) for _ in range(size)])
        budget, most = draw.uniform(50, 100), draw.uniform(5, 20)
        best = -linprog(-speed, A_ub=[usd, taken], b_ub=[budget, most]).fun
        rows = multipliers.bound_rows(speed, usd, taken[None])
        rows = rows[rows[:, 0] > 0]
        worth = rows[:, :1] * speed - rows[:, 1:2] * usd - rows[:, 2:] * taken
        # Machines that are worth more than they cost could be taken without end.
        tight = (worth <= 1e-9).all(axis=1)
        bounds = rows[tight, 1] * budget + rows[tight, 2] * most
        alone = rows[tight & (rows[:, 2] == 0), 1] * budget
        assert bounds.min(initial=math.inf) >= best * (1 - 1e-9)
        worst = max(worst, bounds.min(initial=math.inf) / best)
        worst_alone = max(worst_alone, alone.min(initial=math.inf) / best)
    assert worst < 1.05
    assert worst_alone > 1.2
