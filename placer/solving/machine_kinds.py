"""The best placement of machines of one kind: one question for each kind.

Software that divides a step equally makes fast machines wait for slow ones, so that all workers are
to be alike. A bound by price and speed alone tells which kinds are worth asking about.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from placer.cost_model.dollars.components import usd_per_million_samples
from placer.problem.problem import Pool, Problem
from placer.problem.worker_sizes import ROUNDING
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions
from placer.solving.part_search import Ask, Part, PartSearch
from placer.solving.result import Result


def best_of_kinds(
    problem: Problem, ask: Ask, options: SolveOptions, solver: str, *, proves: bool
) -> Result:
    """Find the best placement whose machines are all of one kind, and prove it.

    Parameters
    ----------
    problem
        Its workers have to be alike, and its model has no architecture.
    ask
        The solver.
    options
        The limits are for all questions together.
    solver
        Name of the solver.
    proves
        Whether its answers have bounds.

    Returns
    -------
    Result
        The bound holds for every kind.
    """
    with allowance.opened(
        options.time_limit_s, options.memory_limit_bytes, options.cancel
    ) as allowed:
        began = time.perf_counter()
        own = replace(options, certificate=False)
        found = _KindSearch(problem, ask, own, solver, allowed, proves).run()
        return replace(found, seconds=time.perf_counter() - began)


@dataclass
class _KindSearch(PartSearch):
    """The best answer so far, and the kinds of machines that are open."""

    def begin(self) -> None:
        """Open each kind with a bound by price and speed alone."""
        kinds: dict[str, list[Pool]] = {}
        for pool in self.problem.pools:
            kinds.setdefault(f"{pool.offer.gpu}:{pool.offer.gpu_count}", []).append(pool)
        for number, (kind, pools) in enumerate(kinds.items()):
            wish = replace(self.problem.requirements, gpus=(kind,), mixed=True)
            self.push(Part(self._rank(pools), number, replace(self.problem, requirements=wish)))

    def _rank(self, pools: Sequence[Pool]) -> float:
        """Return a bound on the value of a kind, lowest is best.

        Notes
        -----
        Exchanges take time and money: no placement is faster than its machines are together, nor
        cheaper than they are.
        """
        wish = self.problem.requirements
        fastest = max(max(pool.alone.value, pool.shared.value) for pool in pools)
        usd = min(
            pool.usd_per_hour / max(pool.alone.value, pool.shared.value) for pool in pools
        )  # of a sample each second
        speed = wish.max_workers * fastest
        if wish.budget_usd_per_hour is not None and usd > 0:
            speed = min(speed, wish.budget_usd_per_hour / usd)
        speed *= (1 + ROUNDING) / self.multiplier
        usd *= self.multiplier * (1 - ROUNDING)
        if self.objective.name == "cost-per-sample":
            return usd_per_million_samples(usd, 1.0)
        least = usd * (wish.floor_samples_per_second or 0.0)
        value = self.objective.value_at(speed, least, 0.0)
        return -self.objective.sign * value if math.isfinite(value) else -math.inf
