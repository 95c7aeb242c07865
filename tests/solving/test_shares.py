"""Shares of the speed: the search over ranges against plain enumeration, and refused words."""

from __future__ import annotations

import importlib
import random
from collections import Counter
from typing import Any

import pytest

import placer
from instances import random_problem
from placer.cost_model.limits import violations
from placer.errors import PlacerError
from placer.problem.shares import ShareLimit
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

exhaustive = importlib.import_module("placer.solvers.exhaustive")


def with_shares(seed: int) -> placer.Problem:
    """Draw a small problem and shares."""
    draw, problem = random.Random(seed), random_problem(seed)
    shares = [
        ShareLimit(share=draw.choice((0.4, 0.5, 0.6, 0.7)), area=area)
        for area in ("region", "provider")
        if draw.random() < 0.5
    ]
    spot = problem.requirements.market == "spot"
    floor = None if spot or draw.random() < 0.4 else draw.choice((0.2, 0.25, 0.5, 1.0))
    wish = replace(problem.requirements, max_shares=tuple(shares), on_demand_floor=floor)
    return replace(problem, requirements=wish)


def test_the_best_within_shares_is_that_of_plain_enumeration() -> None:
    """Enumeration checks each placement against its own shares; the search asks ranges of speeds
    with caps. Both find the same value, or that nothing keeps the shares.
    """
    counted: Counter[str] = Counter()
    # 700,093 once had a bound on the wrong side: a price of a sample beside a limit on a sum.
    for seed in (*range(700_000, 700_045), 700_093):
        problem = with_shares(seed)
        if not problem.pools or not problem.requirements.has_shares:
            continue
        options = SolveOptions(gap=1e-9, time_limit_s=60.0)
        plain = exhaustive.solve(problem, options)
        if plain.status.stopped:
            continue
        found = solve(problem, "exact", options)
        counted[str(found.status)] += 1
        if plain.placement is None:
            assert found.placement is None, seed
            assert found.status is Status.INFEASIBLE, seed
            continue
        assert found.placement is not None, (seed, found.status)
        assert not violations(found.placement, problem)
        value = plain.bound
        assert found.value == pytest.approx(value, rel=1e-7), seed
        assert found.bound == pytest.approx(value, rel=1e-6), seed
    assert counted["optimal"] >= 8
    assert counted["infeasible"] >= 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"max_share": "50%/city"}, "area"),
        ({"max_share": "150%"}, "is not a share"),
        ({"max_share": "100%"}, "not between 0 and 1"),
        ({"max_share": ["50%", "40%/region"]}, "two shares for one region"),
        ({"max_share": "50%/zone", "zones": "spread"}, "which of them is in which zone"),
        ({"on_demand_floor": "25%", "market": "spot"}, "are all spot"),
        ({"on_demand_floor": "0%"}, "on_demand_floor is 0"),
    ],
)
def test_shares_that_nothing_can_keep_are_refused(words: dict[str, Any], says: str) -> None:
    """One line that names the word and its value."""
    with pytest.raises(PlacerError, match=says) as error:
        placer.recommend("roberta-xlm", catalog="erben-2023", budget="3/h", **words)
    assert error.value.exit_code == 2
