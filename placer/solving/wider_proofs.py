"""Answers that were proved before: what is best among many placements is best among some."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Mapping
from operator import itemgetter
from typing import Any

from msgspec import Struct

from placer.cost_model.estimate import estimate
from placer.cost_model.limits import quota_use, violations
from placer.cost_model.objective import objective_of
from placer.documents.schemas.proofs import ModeProof
from placer.market.scaled_market import ONE_ROW, RowChange
from placer.problem.admitted_exchanges import same_servers
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status, Warn
from placer.solving.result import Result

KEPT = 12_000
"""Answers that are kept, 1.3 kB each: a question with its alternatives has up to six."""
FREE: Mapping[str, Any] = {
    "budget_usd_per_hour": None,
    "min_samples_per_second": None,
    "max_workers": 64,
    "quota_gpus": None,
}
"""Limits that leave placements out and change nothing else, with a value for comparisons."""
NEAR, BELOW = 0.9, 0.98
"""Shares of the budget of a stopped short search, or of one's own, down to which what it found is
an answer: few nodes find little of what is far from the best.
"""
SIMILAR = 0.15
"""Logarithm of the ratio of two budgets whose answers are taken to be alike."""
SAME = ("status", "placement", "bound", "candidates", "nodes", "proof", "notes")
"""Fields of a result that are kept as they are."""
HINTS = 3
"""Known placements that are tried as a hint, the best first."""
NEARLY = 1 + 1e-5
"""A price above a budget by less is left to the check of limits."""


class Known(Struct, frozen=True):
    """An answer with the limits that it was proved for, and what keeps the ids of its key its own.

    Without a placement nothing is better than ``beat``, or nothing at all keeps the limits where
    that is None. Where ``short`` is not None nothing is proved: this is what a search of so many
    nodes has found.
    """

    budget_usd_per_hour: float | None
    floor_samples_per_second: float
    workers: int
    quota_gpus: int | None
    beat: float | None
    short: int | None
    usd_per_hour: float
    samples_per_second: float
    value: float
    status: Status
    placement: Placement | None
    bound: float | None
    candidates: int
    nodes: int
    proof: tuple[ModeProof, ...]
    notes: tuple[Warn, ...]
    parts: tuple[object, ...]

    def is_of(self, wish: Requirements) -> bool:
        """Return whether a question has the same limits, so that its notes are of that too."""
        floor = wish.min_samples_per_second or 0.0
        mine = (self.budget_usd_per_hour, self.floor_samples_per_second, self.workers)
        theirs = (wish.budget_usd_per_hour, floor, wish.max_workers)
        return (*mine, self.quota_gpus) == (*theirs, wish.quota_gpus)

    def settles(self, wish: Requirements, options: SolveOptions) -> bool:
        """Return whether a question has a part of these placements, and may have this answer."""
        budget, most, beat = wish.budget_usd_per_hour, self.budget_usd_per_hour, options.beat
        if self.short is not None:
            if self.short != options.node_limit or (budget or 0.0) < NEAR * (most or 0.0):
                return False
            if most is not None and self.placement is not None:  # it may be one of a wider question
                most /= BELOW
        if most is not None and (budget is None or budget > most):
            return False
        if (wish.min_samples_per_second or 0.0) < self.floor_samples_per_second:
            return False
        most_gpus = math.inf if self.quota_gpus is None else self.quota_gpus  # None allows all
        gpus = math.inf if wish.quota_gpus is None else wish.quota_gpus
        if wish.max_workers > self.workers or gpus > most_gpus:
            return False
        if self.placement is not None:
            return budget is None or self.usd_per_hour <= budget * NEARLY
        if self.beat is None:
            return True
        return beat is not None and not objective_of(wish).better(self.beat, beat)


class WiderProofs:
    """Answers of one caller that were proved, the latest last. Threads may share it.

    A question whose limits are all as tight as those of an earlier one, or tighter, has a part of
    its placements. Where the answer of the earlier one is among them it is an answer here, with the
    bound that was proved of more; where nothing was among the many, nothing is among the few. Of
    several placements within the gap it may be another one than a search of this question would end
    with.
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, list[Known]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return self._count

    def answer(self, problem: Problem, solver: str, options: SolveOptions) -> Result | None:
        """Return an earlier answer that is one of this question too, priced anew; None without."""
        if not _plain(problem, options):
            return None
        wish = problem.requirements
        for known in reversed(self._alike(problem, solver, options)):
            if known.settles(wish, options) and _same_placements(problem, known.quota_gpus):
                result = _priced(known, problem, solver, options)
                if result is not None:
                    return result
        return None

    def _alike(self, problem: Problem, solver: str, options: SolveOptions) -> list[Known]:
        """Return the answers of questions that differ in the limits of `FREE` alone."""
        with self._lock:
            return list(self._held.get(_key(problem, solver, options), ()))

    def hint(self, problem: Problem, solver: str, options: SolveOptions) -> Placement | None:
        """Return the best known placement that keeps the limits; None if a value is to beat."""
        if options.beat is not None or options.start is not None or not _plain(problem, options):
            return None
        held = self._alike(problem, solver, options)
        wish, objective = problem.requirements, objective_of(problem.requirements)
        budget, floor = wish.budget_usd_per_hour, wish.min_samples_per_second or 0.0
        payable = [
            known
            for known in held
            if known.placement is not None
            and (budget is None or known.usd_per_hour <= budget)
            and known.samples_per_second >= floor
            and known.placement.workers <= wish.max_workers
        ]
        for known in sorted(payable, key=lambda known: objective.sign * -known.value)[:HINTS]:
            if known.placement is not None and not violations(known.placement, problem):
                return known.placement
        return None

    def wider(self, problem: Problem, solver: str, options: SolveOptions) -> Problem | None:
        """Return the question without limits on workers and quotas, where a similar answer keeps
        these.

        Its answer is then one of many questions, and found sooner: quotas make many mixes of
        machines, and each limit has tables of its own.
        """
        wish, most = problem.requirements, FREE["max_workers"]
        free = replace(wish, max_workers=most, quota_gpus=None, supply=wish.other_supply)
        budget = wish.budget_usd_per_hour
        if free == wish or budget is None or not _plain(problem, options):
            return None
        if options.node_limit is not None or options.beat is not None:
            return None
        near = [
            (abs(math.log(known.budget_usd_per_hour / budget)), known.placement)
            for known in self._alike(problem, solver, options)
            if known.quota_gpus is None
            and known.workers == most
            and known.budget_usd_per_hour
            and known.placement is not None
        ]
        distance, placement = min(near, key=itemgetter(0), default=(math.inf, None))
        if distance > SIMILAR or placement is None or placement.workers > wish.max_workers:
            return None
        if max(quota_use(placement, problem).values()) > (wish.quota_gpus or math.inf):
            return None
        looser = replace(problem, requirements=free)
        return looser if _same_placements(problem, None) else None

    def keep(self, result: Result, options: SolveOptions) -> None:
        """Keep an answer that is proved, or of a short search; the one unasked the longest goes."""
        problem, wish, got = result.problem, result.problem.requirements, result.estimate
        proved = result.status.settled
        # Or a stopped search had all its nodes, and is only compared with.
        counted = options.node_limit is not None and not options.bound_if_stopped
        short = counted and not allowance.current().spent
        if not (proved or short) or not _plain(problem, options):
            return
        known = Known(
            budget_usd_per_hour=wish.budget_usd_per_hour,
            floor_samples_per_second=wish.min_samples_per_second or 0.0,
            workers=wish.max_workers,
            quota_gpus=wish.quota_gpus,
            beat=options.beat,
            short=None if proved else options.node_limit,
            usd_per_hour=0.0 if got is None else got.usd_per_hour.total,
            samples_per_second=0.0 if got is None else got.effective_samples_per_second.value,
            value=result.value or 0.0,
            parts=_parts(problem),
            **{name: getattr(result, name) for name in SAME},
        )
        key = _key(problem, result.solver, options)
        with self._lock:
            held = self._held[key] = self._held.pop(key, [])
            held.append(known)
            self._count += 1
            if self._count > KEPT:
                oldest = next(iter(self._held))
                del self._held[oldest][0]
                self._count -= 1
                if not self._held[oldest]:
                    del self._held[oldest]


def _plain(problem: Problem, options: SolveOptions) -> bool:
    """Return whether the best placement is all that is asked for, and nobody listens."""
    wish = problem.requirements
    asked = wish.open_batches or wish.has_shares or wish.confidence is not None or wish.expected
    return not (asked or options.certificate or options.on_better is not None or options.first)


def _parts(problem: Problem) -> tuple[object, ...]:
    """Return what a key names by identity: it must live as long as the key."""
    row: RowChange | None = problem.catalog.memo.get(ONE_ROW)
    book = problem.catalog if row is None else row.plain
    return problem.profile, book, problem.calibration


def _key(problem: Problem, solver: str, options: SolveOptions) -> Hashable:
    """Return all of a question but the limits of `FREE`; a book with one changed row by that."""
    row: RowChange | None = problem.catalog.memo.get(ONE_ROW)
    changed = None
    if row is not None:
        changed = id(row.offer), None if row.changed is None else row.changed.usd_per_hour
    return (
        *(tuple(map(id, _parts(problem))), changed),
        *(solver, options.gap, options.break_ties, problem.modes),
        replace(problem.requirements, **FREE, supply=problem.requirements.other_supply),
    )


def _same_placements(problem: Problem, quota_gpus: int | None) -> bool:
    """Return whether every placement would be one with a larger quota too, as fast and cheap.

    A quota leaves machines out. It also decides which may serve, and which share a store of data.
    """
    wish = problem.requirements
    if wish.quota_gpus == quota_gpus:
        return True
    if wish.datasets or wish.data_store is not None or wish.used:
        return False
    looser = replace(problem, requirements=replace(wish, quota_gpus=quota_gpus))
    served = any(name == "parameter-server" for name, _ in problem.modes)
    return not served or same_servers(problem, looser)


def _priced(known: Known, problem: Problem, solver: str, options: SolveOptions) -> Result | None:
    """Return a known answer as that of a question; None if it breaks a limit or beats nothing."""
    placement, priced = known.placement, None
    if placement is not None:
        if violations(placement, problem):
            return None
        priced = estimate(placement, problem)
        objective = objective_of(problem.requirements)
        if options.beat is not None and not objective.better(objective.value(priced), options.beat):
            return None
    same = {name: getattr(known, name) for name in SAME}
    same["notes"] = known.notes if known.is_of(problem.requirements) else ()
    return Result(problem=problem, estimate=priced, solver=solver, limits=options.asked, **same)
