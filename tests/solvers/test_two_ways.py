"""An all-reduce over several regions is searched region by region and group by group, in turns."""

from __future__ import annotations

import sys

import pytest

from conftest import ROOT
from placer.interface.advisor import Advisor
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

sys.path.insert(0, str((ROOT / "tests") / "benchmarks"))

from markets import WHOLE_BOOK


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
