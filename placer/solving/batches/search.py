"""A search that asks about the parts of a question one by one, the best bound first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from placer.cost_model.estimate import estimate, evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import Objective, objective_of
from placer.documents.schemas.proofs import BatchProof, BatchRow
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.batches.interval import Span, is_monotone, strategies, with_batch
from placer.solving.result import Result

STRICT = 1e-9
"""A value that is better by less than this share is a tie."""
LEAST_GAP = 1e-3
"""Where large batches need more samples, a range of many is proved no closer than this: neighbours
differ by less.
"""
SPAN_GAP_SHARE = 0.1
"""Share of the gap, or of the slack of a span if that is more, that its question may leave."""
SPAN_TIME_SHARE = 0.25
"""Share of the time left that one span may take."""
TRIED_SHARE = 0.5
"""Share of the time for the batches that are solved one by one."""
MOST_PARTS = 3
"""Where most batches are excluded by what others reach, one may take this part of the time left."""
MOST_SINGLE = 64
"""Batches of a range that are solved one by one where no question covers several."""
MOST_DIVIDED = 3
"""Batches that are solved because the workers of the best answer divide them evenly."""
LOOKS = 8
"""Steps of the first look at the batches of a placement."""
Ask = Callable[[Problem, SolveOptions], Result]
"""Solves a problem with one batch."""


def best_batch(problem: Problem, ask: Ask, options: SolveOptions, *, proves: bool) -> Result:
    """Find the best batch of a range, and prove that no other is better.

    Where nobody says that large batches need more samples, the largest wins: it comes first, and
    one question for each strategy proves it. Else the best placement of a batch is priced at all
    others, and the batch nearest to where it is best comes next. Of the tried batches with the same
    value the smallest is chosen. The bound holds for every batch that ``batch_proof`` names, and
    for those that were tried.
    """
    own = replace(options, on_bound=None)  # that of one batch is not that of all
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
        search = _Search(problem=problem, ask=ask, options=own, tell=options.on_bound)
        search.try_each(problem.requirements.open_batches)
        for _ in range(MOST_DIVIDED):
            search.try_each(search.divided())
        full = proves and options.proof == "full" and not options.first
        if full and not search.interrupted:
            search.close_spans()
        return search.result()


@dataclass
class _Search:
    """The best answer so far, the batches that were tried, and the spans that are open, the worst
    bound first. Mutable. ``closed`` holds bounds of what is closed; ``covered`` says that spans and
    tried batches are the whole range.
    """

    problem: Problem
    ask: Ask
    options: SolveOptions
    tell: Callable[[float | None], None] | None = None
    best: Result | None = None
    last: Result | None = None
    rows: dict[int, BatchRow] = field(default_factory=dict)
    heap: list[tuple[float, int, Span]] = field(default_factory=list)
    left: list[Span] = field(default_factory=list)
    closed: list[float] = field(default_factory=list)
    priced: set[Placement] = field(default_factory=set)
    searches: int = 0
    covered: bool = False
    interrupted: bool = False
    out_of_memory: bool = False

    @property
    def objective(self) -> Objective:
        return objective_of(self.problem.requirements)

    @property
    def seconds_left(self) -> float:
        """Time until the answer is wanted; 0 once nothing more may be done."""
        return allowance.current().seconds_left

    @property
    def goal(self) -> float | None:
        """Value that a batch must reach to be worth finding; None while nothing is known."""
        low, high = self.problem.requirements.batch_range or (1, 1)
        same = self.problem.requirements.critical_batch is None or high - low < MOST_SINGLE
        return self._ahead(STRICT if same else LEAST_GAP)

    def _ahead(self, least: float) -> float | None:
        """Return the value that is better than the best by the gap, or a larger share of it."""
        value = None if self.best is None else self.best.value
        gap = max(self.options.gap, least)
        return None if value is None else self.objective.ahead(value, gap)

    @property
    def _start(self) -> Placement | None:
        """Placement to start from at another batch, where the same workers exist at all."""
        known = self.best is not None and is_monotone(self.problem)
        return self.best.placement if self.best is not None and known else self.options.start

    def try_each(self, batches: tuple[int, ...]) -> None:
        left = list(batches)
        while left:
            batch = self._next(left)
            share = max(0.0, self.seconds_left - self.options.time_limit_s * (1 - TRIED_SHARE))
            parts = min(len(left), MOST_PARTS) if self._has_peak else len(left)
            left.remove(batch)
            asked, limit = with_batch(self.problem, batch), self._ahead(STRICT)
            if limit == 0:
                self.rows[batch] = BatchRow(
                    target_batch_size=batch, value=None, bound=0.0, status=Status.INFEASIBLE
                )
                continue
            own = replace(self.options, time_limit_s=share / parts, start=self._start)
            answer = self.ask(asked if limit is None else limited(asked, limit), own)
            self._note(batch, answer, limit)
            if answer.interrupted:
                self.interrupted = True
                return
            if self._has_peak and answer.placement is not None:
                self._price(answer.placement)

    def divided(self) -> tuple[int, ...]:
        """Return the largest batch of the range that divides among the ranks of the best answer, if
        it was not tried: there no rank waits for a fuller one.
        """
        placement = None if self.best is None else self.best.placement
        if placement is None or self.interrupted:
            return ()
        ranks = sum(
            group.gpus // group.inner.rank_gpus for group in placement.groups if group.inner
        )
        low, high = self.problem.requirements.batch_range or (1, 0)
        batch = high // ranks * ranks if ranks else 0
        return (batch,) if batch >= low and batch not in self.rows else ()

    @property
    def _has_peak(self) -> bool:
        """Whether the best batch lies inside the range: large batches need more samples."""
        return self.problem.requirements.critical_batch is not None

    def _next(self, left: list[int]) -> int:
        """Return which batch to solve next: the largest, or where large ones need more samples the
        nearest to the best so far, from the middle outwards.
        """
        if not self._has_peak:
            return max(left)
        known = left[len(left) // 2] if self.best is None else self.best.problem.batch
        return min(left, key=lambda batch: (abs(math.log(batch / known)), batch))

    def close_spans(self) -> None:
        """Close and cut spans until none is open, or the time is up."""
        if self.best is not None and self.best.placement is not None:
            self._price(self.best.placement)
        self.covered = is_monotone(self.problem)
        for span in self._first_spans():
            self.covered = True
            self._push(self._known(span))
        while self.heap and self.seconds_left > 0 and not self.interrupted:
            _, _, span = heapq.heappop(self.heap)
            if not self._closed_now(span):
                self._work(span)
                if self.tell is not None and self.best is not None and self.covered:
                    waiting = (span for _, _, span in self.heap)
                    bound = self._bound(self.best, [*self.left, *waiting])
                    if bound is not None:  # what no batch of the range beats
                        self.tell(bound)
        self.left += [span for _, _, span in self.heap if not self._closed_now(span)]

    def _first_spans(self) -> Iterator[Span]:
        """Yield spans that hold every batch of the range, or all that were not tried."""
        wish = self.problem.requirements
        low, high = wish.batch_range or (1, 1)
        whole = Span(problem=self.problem, strategy=None, low=low, high=high)
        if is_monotone(self.problem):
            for name in strategies(with_batch(self.problem, high)):
                for first, last in pairwise(wish.open_batches or (low,)):
                    yield replace(whole, strategy=name, low=first + (first > low), high=last)
                if low == high:
                    yield replace(whole, strategy=name)
        elif high - low < MOST_SINGLE:
            for batch in range(low, high + 1):
                yield replace(whole, low=batch, high=batch)

    def _known(self, span: Span) -> Span:
        """Return a span with what the batch at its end has proved of it already."""
        row = self.rows.get(span.high)
        if row is None or row.bound is None or not span.is_of_its_end:
            return span
        return replace(span, bound=span.value_ahead(span.low, row.bound))

    def _push(self, span: Span) -> None:
        rank = -math.inf if span.bound is None else -self.objective.sign * span.bound
        heapq.heappush(self.heap, (rank, self.searches + len(self.heap), span))

    def _closed_now(self, span: Span) -> bool:
        """Close a span if nothing in it is worth finding; tell whether it is closed."""
        row = self.rows.get(span.high) if span.low == span.high else None
        if row is not None and row.status.settled:
            self._close(row.bound)
            return True
        goal = self.goal
        if goal is None or span.bound is None or self.objective.better(span.bound, goal):
            return False
        self._close(span.bound)
        return True

    def _close(self, bound: float | None) -> None:
        if bound is not None:
            self.closed.append(bound)

    def _work(self, span: Span) -> None:
        asked, goal = span.question, self.goal
        own = replace(
            self.options,
            gap=SPAN_GAP_SHARE * max(self.options.gap, span.slack),
            time_limit_s=max(0.0, self.seconds_left) * SPAN_TIME_SHARE,
            start=self._start,
            certificate=False,
            break_ties=False,
        )
        limit = None if goal is None else span.value_behind(goal)
        if limit is not None and limit <= 0:
            self._close(goal)
            return
        answer = self.ask(asked if limit is None else limited(asked, limit), own)
        self.searches += 1
        self.interrupted = answer.interrupted
        self.out_of_memory |= answer.status is Status.MEMORY_LIMIT
        if answer.status is Status.INFEASIBLE:
            self._close(goal)
            return
        if span.strategy is None:  # of one batch
            self._note(span.high, answer)
            if answer.status is Status.OPTIMAL:
                self._close(answer.bound)
            else:
                self.left.append(replace(span, bound=answer.bound))
            return
        if answer.placement is not None:
            self._price(answer.placement)
        self._cut(span, answer)

    def _cut(self, span: Span, answer: Result) -> None:
        """Close the end of a span as far as the bound of its question goes, and keep the rest."""
        goal, known, first = self.goal, span.bound, span.high + 1
        if answer.bound is not None:
            ahead = span.value_ahead(span.low, answer.bound)
            known = ahead if known is None or self.objective.better(known, ahead) else known
            if goal is not None:
                first = span.least_closed(answer.bound, goal)
        rest = replace(span, bound=known)
        if first <= span.high:
            self._close(goal)
            if first > span.low:
                self._halve(replace(rest, high=first - 1), span.middle)
        elif span.low == span.high or answer.status is not Status.OPTIMAL:
            self.left.append(rest)  # a search that was stopped once is not asked again
        else:
            self._halve(rest, span.middle)

    def _halve(self, span: Span, middle: int) -> None:
        """Keep a span for later, in two parts if it goes beyond a middle."""
        if span.high > middle:
            self._push(replace(span, low=middle + 1))
        self._push(replace(span, high=min(middle, span.high)))

    def _note(self, batch: int, answer: Result, limit: float | None = None) -> None:
        """Keep what a search says of its batch; infeasible under a limit is bounded by it."""
        self.last = answer
        self.out_of_memory |= answer.status is Status.MEMORY_LIMIT
        bound = limit if answer.status is Status.INFEASIBLE else answer.bound
        self.rows[batch] = BatchRow(
            target_batch_size=batch, value=answer.value, bound=bound, status=answer.status
        )
        self._keep(replace(answer, problem=with_batch(self.problem, batch)))

    def _keep(self, answer: Result) -> None:
        known, value = None if self.best is None else self.best.value, answer.value
        if value is not None and (known is None or self.objective.better(value, known)):
            self.best = answer

    def _price(self, placement: Placement) -> None:
        """Price a placement at the batches of the range, and keep it where it is best."""
        placement = placement.canonical()
        if placement in self.priced or not is_monotone(self.problem):
            return
        self.priced.add(placement)
        batch = best_batch_of(placement, self.problem)
        if batch is not None and self.last is not None:
            asked = with_batch(self.problem, batch)
            priced = estimate(placement, asked)
            found = replace(
                self.last, problem=asked, placement=placement, estimate=priced, proof=(), bound=None
            )
            self._keep(found)

    def result(self) -> Result:
        assert self.last is not None
        best, bound, status = self.best, None, self._nothing()
        if best is not None:
            best = _smallest(best, self.problem)
            if best.problem.batch not in self.rows:
                best = self._solved(best)
            bound, status = self._bound(best, self.left), self._status()
        proof, (low, high) = None, self.problem.requirements.batch_range or (1, 1)
        if self.covered:  # else only the batches that were tried are proved
            proof = BatchProof(
                low=low, high=high, bound=bound, searches=self.searches, finished=not self.left
            )
        return replace(
            best or replace(self.last, problem=self.problem),
            status=status,
            bound=bound,
            batches=tuple(self.rows[batch] for batch in sorted(self.rows)),
            batch_proof=proof,
            interrupted=self.interrupted,
        )

    def _solved(self, best: Result) -> Result:
        """Solve for a batch that was priced only, so that it has a proof of its own."""
        batch = best.problem.batch
        if self.seconds_left > 0 and not self.interrupted:
            own = replace(self.options, time_limit_s=self.seconds_left, start=best.placement)
            answer = self.ask(best.problem, own)
            self._note(batch, answer)
            value = answer.value
            if value is not None and not self.objective.better(best.value or 0, value):
                return answer
        return best

    @property
    def _ended(self) -> bool:
        """Whether a limit or the user ended a search."""
        stopped = any(row.status.stopped for row in self.rows.values())
        return self.interrupted or bool(self.left) or stopped

    def _nothing(self) -> Status:
        if self._ended:
            return self._stopped()
        none = {row.status for row in self.rows.values()} == {Status.INFEASIBLE}
        return Status.INFEASIBLE if none and self.covered else Status.UNKNOWN

    def _status(self) -> Status:
        statuses = {row.status for row in self.rows.values()}
        if self.covered and not self.left:
            return Status.OPTIMAL
        if self._ended:
            return self._stopped()
        return Status.FEASIBLE if statuses & {Status.FEASIBLE, Status.UNKNOWN} else Status.OPTIMAL

    def _stopped(self) -> Status:
        return Status.MEMORY_LIMIT if self.out_of_memory else Status.TIME_LIMIT

    def _bound(self, best: Result, left: Sequence[Span]) -> float | None:
        """Return the best bound over all batches; None if some batch has none, or may have none."""
        assert best.value is not None
        if self.options.proof != "full":
            return None
        rows = self.rows.values()
        tried = [row.bound for row in rows if row.status is not Status.INFEASIBLE]
        if self.covered:
            bounds = [*self.closed, *(span.bound for span in left)]
            bounds += [] if is_monotone(self.problem) else tried
        else:
            bounds = tried + [row.bound for row in rows if row.bound is not None]
        known = [bound for bound in bounds if bound is not None]
        if len(known) < len(bounds):
            return None
        return self.objective.best([best.value, *known])


def limited(problem: Problem, limit: float) -> Problem:
    """Return the problem with a limit that only better answers keep."""
    wish = problem.requirements
    return replace(problem, requirements=objective_of(wish).demand(limit, wish))


def best_batch_of(placement: Placement, problem: Problem) -> int | None:
    """Return the batch of a range at which a placement is best, or nearly; None if it fits at none
    that was looked at. Its value has one peak, and what does not fit lies at one end: a coarse
    look, then thirds.
    """
    objective = objective_of(problem.requirements)
    low, high = problem.requirements.batch_range or (problem.batch, problem.batch)
    known: dict[int, float] = {}

    def score(batch: int) -> float:
        if batch not in known:
            asked = with_batch(problem, batch)
            known[batch] = -math.inf
            if not violations(placement, asked):
                known[batch] = objective.sign * objective.value(evaluate(placement, asked))
        return known[batch]

    steps = (math.exp(math.log(high / low) * i / LOOKS) for i in range(LOOKS + 1))
    looks = sorted({round(low * step) for step in steps})
    best = max(looks, key=score)
    if score(best) == -math.inf:
        return None
    at = looks.index(best)
    left, right = looks[max(0, at - 1)], looks[min(len(looks) - 1, at + 1)]
    while right - left > 2:
        third = (right - left) // 3
        if score(left + third) < score(right - third):
            left += third
        else:
            right -= third
    peak: int = max([*range(left, right + 1), best], key=score)
    return peak


def _smallest(best: Result, problem: Problem) -> Result:
    """Return the same placement at the smallest batch that is tried at which it is as good."""
    assert best.placement is not None
    assert best.value is not None
    if not is_monotone(problem):
        return best  # at another batch its workers may not exist
    for batch in problem.requirements.open_batches:
        asked = with_batch(problem, batch)
        if batch >= best.problem.batch:
            break
        if violations(best.placement, asked):
            continue
        value = best.objective.value(evaluate(best.placement, asked))
        if not best.objective.better(best.value, value, STRICT):
            return replace(best, problem=asked, estimate=estimate(best.placement, asked))
    return best
