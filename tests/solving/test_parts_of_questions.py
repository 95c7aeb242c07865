"""Searches over parts of a question: what is said of the whole, and how long each part is asked."""

import math
from typing import Any

import pytest
from certain import certain

from instances import random_problem, two_places, wishing
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.parts.search import Part, PartSearch
from placer.solving.result import Result
from placer.solving.solve import solve
from proofs import PROOF


class ByDevice(PartSearch):
    """Asks about the machines of one device after the other."""

    def begin(self) -> None:
        """Open one part for each device."""
        for number, gpu in enumerate(sorted({pool.offer.gpu for pool in self.problem.pools})):
            asked = wishing(self.problem, gpus=(gpu,))
            self.push(Part(rank=-math.inf, number=number, asked=asked))


def exact(problem: Problem, options: SolveOptions) -> Result:
    """Ask about a part."""
    return solve(problem, "exact", options)


def searched(problem: Problem, options: SolveOptions = PROOF, ask: Any = exact) -> Result:
    """Search with `ByDevice`."""
    with allowance.opened(options.time_limit_s):
        return ByDevice(problem, ask, options, "exact", proves=True).run()


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 8, 13, 21])
def test_the_best_of_the_parts_is_proved_of_the_whole(seed: int) -> None:
    """As each part by itself has it, also where a worse value is known, and where nothing is better
    than one that is. The first that is found, and a draft, prove nothing; a strategy for each mode
    and, where one may work alone, for one worker.
    """
    problem = random_problem(seed)
    parts = {gpu: wishing(problem, gpus=(gpu,)) for gpu in {p.offer.gpu for p in problem.pools}}
    answers = [solve(part, "exhaustive") for part in parts.values()]
    heard: list[Result] = []

    def noted(asked: Problem, options: SolveOptions) -> Result:
        heard.append(exact(asked, options))
        return heard[-1]

    whole = searched(problem, ask=noted)
    for figure in ("candidates", "nodes"):
        assert getattr(whole, figure) == sum(getattr(each, figure) for each in heard)
    best = whole.objective.best([each.value for each in answers if each.value is not None])
    assert whole.status is (Status.INFEASIBLE if best is None else Status.OPTIMAL)
    wish = problem.requirements
    alone = [("none", 1)] if wish.min_workers == 1 and wish.min_regions <= 1 else []
    assert [(row.strategy, row.local_steps) for row in whole.proof] == [*alone, *problem.modes]
    for row in whole.proof:
        mode = row.strategy, row.local_steps
        rows = [r for each in heard for r in each.proof if (r.strategy, r.local_steps) == mode]
        assert row.bound == whole.bound
        assert (row.nodes, row.priced) == (sum(r.nodes for r in rows), sum(r.priced for r in rows))
        looked = "search" if row.nodes or row.priced else "root"
        assert row.method == ("alone" if row.strategy == "none" else looked)
    if best is None:
        assert whole.bound is None
        return
    assert (whole.value, whole.bound) == pytest.approx((best, best), rel=1e-9)
    for ahead, status in ((-0.05, Status.OPTIMAL), (0.001, Status.INFEASIBLE)):
        known = replace(PROOF, beat=whole.objective.ahead(best, ahead))
        assert searched(problem, known).status is status
    first = searched(problem, replace(PROOF, first=True))
    assert (first.status, first.placement is None) == (Status.FEASIBLE, False)
    draft = searched(problem, replace(PROOF, proof="none"))
    assert (draft.status, draft.bound, draft.proof) == (Status.FEASIBLE, None, ())


@pytest.mark.parametrize(
    ("said", "status", "asked"),
    [
        ({"status": Status.TIME_LIMIT}, Status.TIME_LIMIT, 2),
        ({"status": Status.FEASIBLE}, Status.FEASIBLE, 1),
        ({"status": Status.MEMORY_LIMIT}, Status.MEMORY_LIMIT, 1),
        ({"status": Status.TIME_LIMIT, "interrupted": True}, Status.TIME_LIMIT, 1),
    ],
)
@pytest.mark.parametrize("bound", [None, 500.0])
def test_what_a_part_leaves_open_is_open_in_the_whole(
    said: dict[str, Any], status: Status, asked: int, bound: float | None
) -> None:
    """A stopped part is asked once more, for all of the time, unless nothing more may be done. Its
    bound is that of the whole, however good the answer is; without one nothing is proved.
    """
    seconds = []

    def stopped(problem: Problem, options: SolveOptions) -> Result:
        seconds.append(options.time_limit_s)
        return replace(exact(problem, PROOF), bound=bound, **said)

    options = replace(PROOF, time_limit_s=1000.0)
    got = searched(two_places(budget_usd_per_hour=2.0), options, stopped)
    assert (got.status, got.bound, got.proof) == (status, bound, ())
    assert certain(got.value) == pytest.approx(163.7, abs=0.1)
    assert got.interrupted is said.get("interrupted", False)
    assert seconds == pytest.approx([250.0, 1000.0][:asked], rel=0.01)


class EightTimes(PartSearch):
    """Asks the same question eight times."""

    def begin(self) -> None:
        """Open them."""
        for number in range(8):
            self.push(Part(rank=-math.inf, number=number, asked=self.problem))


def test_parts_that_are_stopped_have_twice_as_long_each_time() -> None:
    """A quarter, a half, then all of the time that is left, in the order of the parts; of a search
    by nodes each part is asked once, with what is left of these. No part is better than the best
    of the bounds.
    """
    shares, nodes = list[float](), list[int | None]()

    def stopped(problem: Problem, options: SolveOptions) -> Result:
        shares.append(options.time_limit_s / 1000.0)
        nodes.append(options.node_limit)
        bound = 107.0 if options.node_limit is None else 100.0 + len(shares) % 8
        stop = Status.TIME_LIMIT
        return Result(problem=problem, status=stop, solver="exact", nodes=3, bound=bound)

    for options, rounds in ((PROOF, 3), (replace(PROOF, node_limit=100), 1)):
        shares.clear()
        with allowance.opened(1000.0):
            search = EightTimes(two_places(), stopped, options, "exact", proves=True)
            got = search.run()
        assert (got.status, got.bound, len(shares)) == (Status.TIME_LIMIT, 107.0, 8 * rounds)
        expected = [share for share in (0.25, 0.5, 1.0)[:rounds] for _ in range(8)]
        assert shares == pytest.approx(expected, rel=0.01)
    assert nodes[-8:] == [100 - 3 * at for at in range(8)]
