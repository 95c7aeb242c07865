"""One way to ask the solver a side question: bounded, and honest about what was proved."""

from __future__ import annotations

import time
from dataclasses import dataclass

from placer.cost_model.estimate import Estimate
from placer.cost_model.objective import aimed_at
from placer.errors import PlacerError
from placer.problem.contradictions import contradiction
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions
from placer.solving.result import Option
from placer.solving.solve import solve

SIDE_NODES = 300
"""Nodes of a search that only explains: few enough that an explanation of a large book stays short.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Answer to a side question. Not ``proved``: nothing better was found, but it may exist."""

    placement: Placement | None = None
    estimate: Estimate | None = None
    value: float | None = None
    proved: bool = False

    @property
    def infeasible(self) -> bool:
        """Whether it is proved that nothing fits."""
        return self.placement is None and self.proved

    def option(self, label: str = "") -> Option | None:
        """Return the placement with its estimate; None if there is none."""
        if self.placement is None or self.estimate is None:
            return None
        return Option(
            placement=self.placement, estimate=self.estimate, label=label, proved=self.proved
        )


NOTHING = Trial()
"""Nothing was found, and nothing is proved."""
IMPOSSIBLE = Trial(proved=True)
"""It is proved that nothing fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asker:
    """Solver and limits of side questions; ``deadline`` by the monotonic clock."""

    solver: str
    options: SolveOptions
    deadline: float
    nodes: int = SIDE_NODES

    @property
    def seconds_left(self) -> float:
        """Time until the explanation has to end."""
        return min(self.deadline - time.monotonic(), allowance.current().seconds_left)

    def best(
        self, problem: Problem, *, start: Placement | None = None, first: bool = False
    ) -> Trial:
        """Find the best placement (the ``first`` will do), perhaps from a known one."""
        if contradiction(problem) or not problem.pools:
            return IMPOSSIBLE
        if self.seconds_left <= 0:
            return NOTHING
        options = replace(
            self.options.deaf,
            start=start,
            first=first,
            node_limit=self.nodes,
            time_limit_s=min(self.options.time_limit_s, self.seconds_left),
            bound_if_stopped=False,
        )
        got = solve(problem, self.solver, options)
        proved = got.status.settled
        proved = proved or (first and got.placement is not None)
        return Trial(placement=got.placement, estimate=got.estimate, value=got.value, proved=proved)

    def wanting(self, problem: Problem, start: Placement | None = None, **changes: object) -> Trial:
        """Find the best placement of a problem with other wishes."""
        return self.best(wanting(problem, **changes), start=start)


def wanting(problem: Problem, **changes: object) -> Problem:
    """Return the same question with other wishes."""
    return replace(problem, requirements=replace(problem.requirements, **changes))


def aimed(problem: Problem, objective: str) -> Problem:
    """Return the question with another objective that admits the same machines."""
    return replace(problem, requirements=aimed_at(problem.requirements, objective))


def require_asker_solver(solver: str) -> None:
    """Refuse solvers that prove nothing: an explanation rests on proofs."""
    if solver in ("greedy", "local_search"):
        raise PlacerError(
            f"the solver '{solver}' proves nothing, so it cannot explain", "use --solver exact"
        )
