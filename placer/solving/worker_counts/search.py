"""The best placement of workers with a plan: one question for each number of them.

Workers with a plan have equal parts of a step, in whole sequences, so that their speed depends on
how many they are. Where their number is known, every number of machines and every plan has one
speed, and the question is like any other. A bound from below on the calculation alone tells which
numbers are worth asking about, and which machines then keep up.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from placer.cost_model.convergence import batch_factor, multiplier_of
from placer.cost_model.dollars.components import usd_per_million_samples
from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.limits import evaluated
from placer.cost_model.objective import Objective, objective_of
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Pool, Problem
from placer.problem.requirements import Narrowed
from placer.problem.worker_sizes import ROUNDING
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import Allowance
from placer.solving.answer import ModeProof, SolveOptions, Status
from placer.solving.result import Result
from placer.solving.worker_counts.drafts import divisions, first_placements, numbers
from placer.units import SECONDS_PER_HOUR

Ask = Callable[[Problem, SolveOptions], Result]
"""Solves a question about one number of workers, whose speeds add up."""
MOST_SHORT = (2, 16)
"""Numbers of workers, each twice the one before, of a search whose answer is only compared with,
and its questions.
"""
FIRST_SHARE = 0.25
"""Share of the time that is left for one question; what is open then is asked again with twice as
much.
"""
CLOSED = 0.9
"""Share of the gap in which nothing better is looked for; in the rest a machine less may be."""
SAME = 1e-8
"""Relative difference up to which workers are equally fast."""


def best_worker_count(
    problem: Problem, ask: Ask, options: SolveOptions, solver: str, *, proves: bool
) -> Result:
    """Find the best placement of workers with a plan, and prove it.

    Parameters
    ----------
    problem
        Its model has an architecture.
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
        The bound holds for every number of workers, of machines of a worker, and every plan.

    Notes
    -----
    A number of workers is asked about by the seconds of their slowest: first bounded, then with
    one question for each. Where all are equally fast it has these workers alone; where they may be
    unlike it has faster ones too, timed as if they waited so long: that is true of all placements
    with such a slowest worker, and bounds them.
    """
    with allowance.opened(
        options.time_limit_s, options.memory_limit_bytes, options.cancel
    ) as allowed:
        began = time.perf_counter()
        found = _Search(
            problem, ask, replace(options, certificate=False), solver, allowed, proves
        ).run()
        return replace(found, seconds=time.perf_counter() - began)


@dataclass(frozen=True, order=True)
class _Node:
    """Some workers; ``rank`` is a bound on their value, lowest is best. ``asked`` is the question
    about such that reach a ``goal``; with ``part_s`` their slowest does its part of a step in so
    many seconds.
    """

    rank: float
    workers: int
    part_s: float | None = field(default=None, compare=False)
    goal: float | None = field(default=None, compare=False)
    asked: Problem | None = field(default=None, compare=False)


@dataclass
class _Search:
    """The best answer so far, and the questions that are open, the best bound first.

    Notes
    -----
    Mutable. ``left`` holds what was stopped, ``share`` that of the remaining time which a question
    may take.
    """

    problem: Problem
    ask: Ask
    options: SolveOptions
    solver: str
    allowed: Allowance
    proves: bool
    best: Result | None = None
    last: Result | None = None
    open: list[_Node] = field(default_factory=list)
    left: list[_Node] = field(default_factory=list)
    known: float | None = None
    share: float = FIRST_SHARE
    stopped: Status | None = None
    asked: int = 0
    candidates: int = 0
    nodes: int = 0
    modes: dict[tuple[str, int], list[ModeProof]] = field(default_factory=dict)

    @cached_property
    def objective(self) -> Objective:
        """Objective of the question."""
        return objective_of(self.problem.requirements)

    @cached_property
    def multiplier(self) -> float:
        """Least samples to target of any exchange."""
        modes = [
            multiplier_of(exchange_for(name, 1, self.problem, local_steps=h), self.problem).value
            for name, h in self.problem.modes
        ]
        return min([*modes, batch_factor(self.problem)])

    @property
    def _empty(self) -> Result:
        """Answer without a placement."""
        return Result(
            problem=self.problem,
            status=Status.UNKNOWN,
            placement=None,
            estimate=None,
            bound=None,
            solver=self.solver,
            seconds=0.0,
            candidates=0,
        )

    @property
    def goal(self) -> float | None:
        """Value that is worth finding: better than the best by the gap; None without one."""
        values = [v for v in (self.known, self.options.beat) if v is not None]
        best = self.objective.best(values)
        return None if best is None else self.objective.ahead(best, CLOSED * self.options.gap)

    def run(self) -> Result:
        """Ask about number after number of workers until none may hold something better, or a limit
        is reached.
        """
        wish = self.problem.requirements
        quick = self.options.beat is None and not self.options.first
        for known in (self.options.start, self.options.hint):
            if known is not None:
                self._offer(known)
        for draft in self._drafts() if quick else ():
            if self._spent:
                break
            self._offer(draft)
        most = min(wish.max_workers, self.problem.batch, wish.max_machines or wish.max_workers)
        fewest = max(wish.min_workers, wish.min_regions)
        among: Iterable[int] = range(fewest, most + 1)
        if self.options.node_limit is not None:
            among = (fewest * 2**k for k in range(MOST_SHORT[0]) if fewest * 2**k <= most)
        for workers in among:
            self._push(_Node(-math.inf, workers))
        while (self.open or self._again()) and not self._spent:
            node = heapq.heappop(self.open)
            if self._worth(node.rank):
                self._go_on(node)
        self.left += [node for node in self.open if self._worth(node.rank)]
        while self._drop_one():
            pass
        return self._result()

    def _drafts(self) -> Iterator[Placement]:
        """Yield quickly made placements of sizes that may be better than the best so far."""
        for workers in numbers(self.problem):
            sizes = self._asking(workers).worker_sizes(workers)
            yield from first_placements(self.problem, sizes, self.objective, workers)

    def _drop_one(self) -> bool:
        """Leave out a machine that buys nothing: the fullest rank has as many sequences without it;
        return whether there was one.
        """
        best, slack = self.best, (1 - CLOSED) * self.options.gap
        if best is None or best.placement is None or not self.options.break_ties:
            return False
        if not self.objective.by_speed or self.known is None:
            return False
        able = [
            (self.objective.value(outcome), fewer)
            for fewer in divisions(best.placement, self.problem, less=1)
            for outcome, broken in (evaluated(fewer, self.problem),)
            if outcome is not None and not broken
        ]
        value, fewer = max(able, key=lambda row: self.objective.sign * row[0], default=(None, None))
        if value is None or fewer is None:
            return False
        if self.objective.better(self.known, value, slack):
            return False
        known = self.objective.best([self.known, value])
        self._keep(fewer, estimate(fewer, self.problem), value, best)
        self.known = known
        return True

    def _go_on(self, node: _Node) -> None:
        """Bound, expand or ask an open question, whichever comes next."""
        known = node.part_s is not None or node.goal == self.goal
        if node.asked is None or not known:  # something better was found since
            self._push(node)
        elif node.part_s is None:
            self._expand(node, node.asked)
        else:
            self._work(node, node.asked)

    def _worth(self, rank: float) -> bool:
        """Tell whether a bound leaves anything that is worth finding."""
        goal = self.goal
        return goal is None or self.objective.better(-self.objective.sign * rank, goal, SAME)

    def _push(self, node: _Node) -> None:
        """Open the question about a number of workers with its bound as of now, if it may hold
        something that is worth finding.
        """
        asked, goal = self._asking(node.workers), self.goal
        sequences = self.problem.sequences(node.workers)
        timed = [
            (size.kind.calculation_s(size.machines, sequences), size.usd_per_hour)
            for size in asked.worker_sizes(node.workers)
        ]
        rank = self._rank(timed, node.workers)
        if rank is not None and self._worth(rank):
            heapq.heappush(self.open, _Node(rank, node.workers, None, goal, asked))

    def _expand(self, node: _Node, asked: Problem) -> None:
        """Open one question for each speed that the slowest worker may have."""
        groups: dict[float, list[Pool]] = {}
        for pool in asked.pools:
            seconds = asked.part_s(pool, node.workers)
            groups.setdefault(float(f"{seconds:.9g}"), []).append(pool)
        mixed = self.problem.mixes_workers
        for seconds, alike in groups.items():
            slowest = max(asked.part_s(pool, node.workers) for pool in alike)
            pools = (
                tuple(p for p in asked.pools if asked.part_s(p, node.workers) <= slowest)
                if mixed
                else tuple(alike)
            )
            timed = [(seconds * (1 - SAME), pool.usd_per_hour) for pool in pools]
            rank, regions = self._rank(timed, node.workers), {pool.place for pool in pools}
            few = len(regions) < self.problem.requirements.min_regions
            if rank is None or few or not self._worth(rank):
                continue
            wish = replace(
                asked.requirements,
                narrowed=Narrowed(most_s=slowest, least_s=slowest if mixed else 0.0),
            )
            question = asked.with_pools(wish, () if mixed else pools)
            if mixed:  # timed as if they waited for the slowest
                slowed = (question.pool(p.offer, p.machines, p.inner, node.workers) for p in pools)
                question = asked.with_pools(wish, tuple(p for p in slowed if p is not None))
            heapq.heappush(
                self.open, _Node(max(rank, node.rank), node.workers, slowest, None, question)
            )

    def _rank(self, timed: Sequence[tuple[float, float]], workers: int) -> float | None:
        """Return a bound on the value of a question by calculation and prices alone, lowest is
        best; None if it holds nothing.

        Parameters
        ----------
        timed
            Seconds and USD per hour of each worker, at least.

        Notes
        -----
        All wait for the slowest: a step takes so long that as many workers as there are can be paid
        which are no slower.
        """
        budget, batch = self.problem.requirements.budget_usd_per_hour, self.problem.batch
        each = math.inf if budget is None else budget / workers * (1 + ROUNDING)
        least_s = min((seconds for seconds, usd in timed if usd <= each), default=None)
        if least_s is None:
            return None
        if self.objective.name == "cost-per-sample":
            # Of unlike workers each is paid for as long as the slowest works, and so for its own.
            work = min(seconds * usd for seconds, usd in timed)
            value = usd_per_million_samples(workers * work, batch / self.multiplier)
        else:
            usd = workers * min(usd for _, usd in timed)
            value = self.objective.value_at(batch / least_s / self.multiplier, usd, 0.0)
        return -self.objective.sign * value

    def _asking(self, workers: int) -> Problem:
        """Return the question about some workers, with the limits that only a better placement
        keeps.
        """
        wish, goal = self.problem.requirements, self.goal
        floors = [wish.floor_samples_per_second or 0.0]
        budget = wish.budget_usd_per_hour
        if goal is not None and self.objective.by_speed:
            floors.append(goal if self.objective.maximised else (wish.samples or 1) / goal)
        if goal is not None and self.objective.name == "cost":
            budget = min(goal * (1 + ROUNDING), math.inf if budget is None else budget)
        usd_s = min(
            (z for z in (wish.max_usd_per_million_samples, self._cheapest) if z is not None),
            default=math.inf,
        )
        floor = self.multiplier * max(floors) * (1 - ROUNDING)
        batch = self.problem.batch
        longest = batch / floor if floor > 0 else math.inf
        return replace(
            self.problem,
            requirements=replace(
                wish,
                min_workers=workers,
                max_workers=workers,
                narrowed=Narrowed(
                    most_s=longest,
                    most_usd_s=usd_s * batch * SECONDS_PER_HOUR / 1e6 / self.multiplier,
                    few_sizes=self.options.node_limit is not None,
                ),
                budget_usd_per_hour=budget if budget is None or budget > 0 else None,
            ),
        )

    @property
    def _cheapest(self) -> float | None:
        """USD per million samples that are worth finding, where these are the objective."""
        return self.goal if self.objective.name == "cost-per-sample" else None

    def _work(self, node: _Node, asked: Problem) -> None:
        """Ask about some workers, and keep what is open after the answer."""
        seconds = self.share * max(0.0, self.allowed.seconds_left)
        best = self.objective.best([v for v in (self.known, self.options.beat) if v is not None])
        own = replace(self.options.deaf, time_limit_s=seconds, start=None, hint=None, beat=best)
        answer = self.ask(asked, own)
        self._count(answer)
        if answer.status is Status.INFEASIBLE:
            return
        if answer.interrupted or answer.status is Status.MEMORY_LIMIT:
            self.stopped = answer.status
        if answer.placement is not None:
            self._offer(answer.placement, answer)
        rank = node.rank if answer.bound is None else -self.objective.sign * answer.bound
        again = answer.status.stopped
        # Unlike workers that wait for a slower one than there is may be better: they are no answer.
        if again or (self.problem.mixes_workers and self._worth(rank)):
            workers = node.workers if again else 0
            self.left.append(replace(node, rank=max(node.rank, rank), workers=workers))

    def _offer(self, placement: Placement, answer: Result | None = None) -> None:
        """Keep a placement that keeps every limit and is better than the best, with its machines
        divided into workers in the best way.
        """
        for divided in (each.canonical() for each in self._divisions(placement)):
            outcome, broken = evaluated(divided, self.problem)
            if outcome is None or broken:
                continue
            value = self.objective.value(outcome)
            if self.known is None or self.objective.better(value, self.known, self._tie(divided)):
                self._keep(divided, estimate(divided, self.problem), value, answer)

    def _tie(self, placement: Placement) -> float:
        """Return the share by which a placement has to be better than the best: of equal runs the
        one of the smaller workers is the plainer.
        """
        known = self.best and self.best.placement
        smaller = known and placement.groups[0].machines < known.groups[0].machines
        return -SAME if smaller else 0.0

    def _divisions(self, placement: Placement) -> Iterator[Placement]:
        yield placement
        if self.options.break_ties:
            yield from divisions(placement, self.problem)

    def _keep(
        self, placement: Placement, figures: Estimate, value: float, answer: Result | None
    ) -> None:
        self.known = value
        self.best = replace(
            answer or self._empty,
            problem=self.problem,
            placement=placement,
            estimate=figures,
            proof=(),
        )
        if self.options.on_better is not None:
            self.options.on_better(value)

    def _again(self) -> bool:
        """Open what was stopped once more, for twice the share of the time; return whether anything
        is open now.
        """
        if self.share >= 1 or self.options.node_limit is not None or self._spent:
            return False
        self.share = min(1.0, 2 * self.share)
        again = [node for node in self.left if node.workers]
        self.left = [node for node in self.left if not node.workers]
        self.open += again
        heapq.heapify(self.open)
        return bool(self.open)

    @property
    def _spent(self) -> bool:
        """Whether nothing more may be asked."""
        found = self.options.first and self.best is not None
        short = self.options.node_limit is not None and self.asked >= MOST_SHORT[1]
        return short or found or self.stopped is not None or bool(self.allowed.spent)

    def _count(self, answer: Result) -> None:
        """Add what a search did, and what it says of each strategy."""
        self.last = answer
        self.asked += 1
        self.candidates += answer.candidates
        self.nodes += answer.nodes
        for mode in answer.proof:
            self.modes.setdefault((mode.strategy, mode.local_steps), []).append(mode)

    def _result(self) -> Result:
        """Return the best answer with what is proved of all."""
        status = self._status()
        bound = self._total_bound(status)
        return replace(
            self.best or self._empty,
            status=status,
            bound=bound,
            solver=self.solver,
            candidates=self.candidates,
            nodes=self.nodes,
            proof=self._proof(status, bound),
            limits=self.options.asked,
            interrupted=self.last is not None and self.last.interrupted,
        )

    def _status(self) -> Status:
        """Return how the whole ended."""
        if self.stopped is not None:
            return self.stopped
        if not self.proves:
            return Status.UNKNOWN if self.best is None else Status.FEASIBLE
        if self.options.first and self.best is not None:
            return Status.FEASIBLE
        if self.left or self.options.node_limit is not None:  # a short search skips numbers
            return Status.TIME_LIMIT
        return Status.INFEASIBLE if self.best is None else Status.OPTIMAL

    def _total_bound(self, status: Status) -> float | None:
        """Return what no placement beats: of a finished search the value and the gap; None of a
        short one, which skips numbers.
        """
        if self.options.node_limit is not None:
            return None
        if not self.proves or status is Status.INFEASIBLE or self.best is None:
            ranks = [node.rank for node in self.left]
            open_ = self.proves and ranks and status is not Status.INFEASIBLE
            return -self.objective.sign * min(ranks) if open_ and min(ranks) > -math.inf else None
        bounds = [-self.objective.sign * node.rank for node in self.left]
        value = self.best.value
        reached = None if value is None else self.objective.ahead(value, self.options.gap)
        return self.objective.best([*bounds, *([] if reached is None else [reached])])

    def _proof(self, status: Status, bound: float | None) -> tuple[ModeProof, ...]:
        """Return what is proved of each strategy: the bound of the whole holds for all of them."""
        wish = self.problem.requirements
        if not self.proves or status not in (Status.OPTIMAL, Status.INFEASIBLE):
            return ()
        alone = wish.min_workers == 1 and wish.min_regions <= 1
        names = [*([(NO_EXCHANGE, 1)] if alone else []), *self.problem.modes]
        proof = []
        for name, steps in names:
            rows = self.modes.get((name, steps), [])
            nodes, priced = (sum(getattr(r, key) for r in rows) for key in ("nodes", "priced"))
            searched = "search" if nodes or priced else "root"
            proof.append(
                ModeProof(
                    strategy=name,
                    local_steps=steps,
                    method="alone" if name == NO_EXCHANGE else searched,
                    bound=bound,
                    root_bound=None,
                    nodes=nodes,
                    priced=priced,
                )
            )
        return tuple(proof)
