"""An all-reduce over several regions is searched region by region and group by group, in turns."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Iterator

import pytest

from conftest import ROOT
from placer.interface.advisor import Advisor
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

sys.path.insert(0, str((ROOT / "tests") / "benchmarks"))

from markets import WHOLE_BOOK

INTERLEAVING = importlib.import_module("placer.solvers.exact.leaves.interleaving")


@pytest.mark.parametrize(("budget", "nodes"), [("5/h", 3000), ("500/h", 6000)])
def test_links_decide_where_egress_is_cheap(budget: str, nodes: int) -> None:
    """XLM-RoBERTa over two regions or more, on the whole book at its own figures: splits of groups
    alone left gaps of 34 and 22 % after 12,000 nodes, regions one by one need 398 and 871.
    """
    advisor = Advisor(str(WHOLE_BOOK))
    problem = advisor.problem("roberta-xlm", budget=budget, regions="2..", figures="book")
    found = solve(problem, "exact", SolveOptions(time_limit_s=100))
    assert found.status is Status.OPTIMAL
    assert found.nodes < nodes
    assert found.placement is not None
    assert len(found.placement.places) > 1


@pytest.mark.parametrize(
    ("one", "other"), [(0, 9), (3, 100), (300, 3), (150, 1000), (1000, 150), (5000, 1700)]
)
def test_the_shorter_way_ends_the_search(one: int, other: int) -> None:
    """Both ways have as many nodes: of either no more than twice those of the shorter one, and
    those of its first turn.
    """
    taken = [0, 0]

    def way(number: int, length: int) -> Iterator[None]:
        for _ in range(length):
            taken[number] += 1
            yield None

    ways = INTERLEAVING.in_turns(way(0, one), way(1, other), lambda: sum(taken))
    pauses = sum(1 for _ in ways)
    assert pauses == sum(taken)
    shorter = min(one, other)
    assert shorter in taken
    assert max(taken) <= 2 * shorter + INTERLEAVING.FIRST_NODES


@pytest.mark.parametrize("weight", [1, 3])
def test_two_endless_ways_take_turns(weight: int) -> None:
    """A hundred nodes each, then two hundred each; three times as many of the other one where it
    weighs so much.
    """
    order: list[str] = []

    def way(name: str) -> Iterator[None]:
        while True:
            order.append(name)
            yield None

    first = INTERLEAVING.FIRST_NODES
    ways = INTERLEAVING.in_turns(way("a"), way("b"), lambda: len(order), weight)
    list(itertools.islice(ways, 3 * first * (1 + weight)))
    runs = [(name, len(list(same))) for name, same in itertools.groupby(order)]
    assert runs == [
        ("a", first),
        ("b", weight * first),
        ("a", 2 * first),
        ("b", weight * 2 * first),
    ]
