"""Answers that were proved before, for questions that ask for no more: what is best among many
placements is best among some of them.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from typing import Any

from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result

KEPT = 4_000
"""Answers that are kept, 2.6 kB each on the default book."""
FREE: Mapping[str, Any] = {
    "budget_usd_per_hour": None,
    "min_samples_per_second": None,
    "max_workers": 64,
}
"""Limits that leave placements out and change nothing else, with a value for comparisons."""


class WiderProofs:
    """Answers of one caller that were proved, the latest last. Threads may share it.

    Notes
    -----
    A question whose limits are all as tight as those of an earlier one, or tighter, has a part of
    its placements. Where the answer of the earlier one is among them it is an answer here, with the
    bound that was proved of more. Of several placements within the gap it may be another one than a
    search of this question would end with.
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, list[Result]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._held.values()))

    def answer(self, problem: Problem, solver: str, options: SolveOptions) -> Result | None:
        """Return the answer of an earlier question that is one of this question too, priced anew;
        None where there is none.
        """
        if not _plain(problem, options):
            return None
        with self._lock:
            held = list(self._held.get(_key(problem, solver, options), ()))
        for known in reversed(held):
            placement = known.placement
            if placement is None or not _no_wider(problem, known.problem):
                continue
            if not violations(placement, problem):
                limits = replace(options, start=None, cancel=None)
                priced = estimate(placement, problem)
                return replace(known, problem=problem, estimate=priced, seconds=0.0, limits=limits)
        return None

    def keep(self, result: Result, options: SolveOptions) -> None:
        """Keep an answer that is proved; of all that are kept, one of a question that was not asked
        for the longest goes.
        """
        problem = result.problem
        if result.status is not Status.OPTIMAL or not _plain(problem, options):
            return
        # Without what was worked out of the question.
        known = replace(result, problem=replace(problem), estimate=None, limits=None)
        key = _key(problem, result.solver, options)
        with self._lock:
            self._held[key] = [*self._held.pop(key, ()), known]
            if sum(map(len, self._held.values())) > KEPT:
                oldest = next(iter(self._held))
                del self._held[oldest][0]
                if not self._held[oldest]:
                    del self._held[oldest]


def _plain(problem: Problem, options: SolveOptions) -> bool:
    """Return whether the best placement is all that is asked for: no table of bounds, no range of
    batches, nothing about scenarios, and nobody who listens.
    """
    wish = problem.requirements
    asked = wish.open_batches or wish.has_shares or wish.confidence is not None or wish.expected
    heard = options.certificate or options.on_better is not None
    return not (asked or heard or options.node_limit is not None or options.beat is not None)


def _key(problem: Problem, solver: str, options: SolveOptions) -> Hashable:
    """Return all of a question but the limits of `FREE`; its parts by identity, which stays theirs
    while the answer holds them.
    """
    parts = id(problem.profile), id(problem.catalog), id(problem.calibration)
    return parts, solver, options.gap, problem.modes, replace(problem.requirements, **FREE)


def _no_wider(problem: Problem, earlier: Problem) -> bool:
    """Return whether every limit of `FREE` is at least as tight as that of an earlier question."""
    wish, other = problem.requirements, earlier.requirements
    budget, before = wish.budget_usd_per_hour, other.budget_usd_per_hour
    return (
        (before is None or (budget is not None and budget <= before))
        and (wish.min_samples_per_second or 0.0) >= (other.min_samples_per_second or 0.0)
        and wish.max_workers <= other.max_workers
    )
