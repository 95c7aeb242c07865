"""Searches that ask about parts of a question: one by one, the best bound first, or one for each
engine that executes some of its plans.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from functools import cached_property

from msgspec import Struct

from placer.cost_model.convergence import batch_factor, multiplier_of
from placer.cost_model.estimate import Estimate, estimate, replanned
from placer.cost_model.limits import evaluated
from placer.cost_model.objective import Objective, objective_of
from placer.documents.schemas.proofs import Method, ModeProof
from placer.problem.admitted_exchanges import exchange_for, exchanges
from placer.problem.placement import NO_EXCHANGE, Exchange, Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result
from placer.workload.engines import ENGINES, engines_of
from placer.workload.inner_plan import InnerPlan

Ask = Callable[[Problem, SolveOptions], Result]
"""Solves a part of a question."""
FIRST_SHARE = 0.25
"""Share of the time that is left for one part; what is open then is asked again with twice as much.
"""
SAME = 1e-8
"""Relative difference up to which values are equal."""


class Part(Struct, frozen=True, kw_only=True):
    """A part of a question; ``rank`` is a bound on its value, lowest is best, ``number`` orders
    equals. A part without ``asked`` is still to be made; ``again`` tells whether one that was
    stopped is worth more time.
    """

    rank: float
    number: int
    asked: Problem | None = None
    again: bool = True


class PartSearch:
    """The best answer so far, and the parts that are open, the best bound first. Mutable. It is
    made in the allowance that it runs in. ``left`` holds what was stopped, ``share`` that of the
    remaining time which a part may take, ``most_short`` the questions of a search whose answer is
    only compared with.
    """

    most_short = 16

    def __init__(
        self, problem: Problem, ask: Ask, options: SolveOptions, solver: str, *, proves: bool
    ) -> None:
        self.problem, self.ask, self.options = problem, ask, options
        self.solver, self.allowed, self.proves = solver, allowance.current(), proves
        self.best: Result | None = None
        self.last: Result | None = None
        self.open: list[tuple[float, int, int, Part]] = []
        self.left: list[Part] = []
        self.known: float | None = None
        self.share = FIRST_SHARE
        self.pause_nodes: int | None = None
        self.stopped: Status | None = None
        self.asked = self.candidates = self.nodes = self.pushed = 0
        self.modes: dict[tuple[str, int], list[ModeProof]] = {}

    @property
    def closed_gap(self) -> float:
        """Relative distance from the best in which nothing better is looked for."""
        return self.options.gap

    @property
    def skips(self) -> bool:
        """Whether some parts are not even opened, so that nothing is proved."""
        return False

    def begin(self) -> None:
        """Open the parts; drafts may come before."""
        raise NotImplementedError

    def go_on(self, part: Part) -> None:
        """Make, divide or ask an open part, whichever comes next."""
        if part.asked is not None:
            self.work(part, part.asked)

    def close(self, rank: float) -> None:
        """Take note of the bound of a part that holds nothing better."""

    def end(self) -> None:
        """Improve the best answer once all parts are closed or stopped."""

    def variants(self, placement: Placement) -> Iterator[Placement]:
        """Yield a placement that was found, and others that are worth pricing beside it."""
        yield placement

    def tie(self, placement: Placement) -> float:
        """Return the share by which a placement has to be better than the best."""
        return 0.0

    def is_open(self, answer: Result, rank: float) -> bool:
        """Tell whether a part is open after an answer that was not stopped."""
        return False

    @cached_property
    def objective(self) -> Objective:
        """Objective of the question."""
        return objective_of(self.problem.requirements)

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """One exchange of each mode."""
        modes = self.problem.modes
        return [exchange_for(name, 1, self.problem, local_steps=steps) for name, steps in modes]

    @cached_property
    def multipliers(self) -> list[float]:
        """Samples to target of the exchange of each mode."""
        return [multiplier_of(exchange, self.problem).value for exchange in self.exchanges]

    @cached_property
    def multiplier(self) -> float:
        """Least samples to target of any exchange."""
        return min([*self.multipliers, batch_factor(self.problem)])

    @property
    def empty(self) -> Result:
        """Answer without a placement."""
        return Result(problem=self.problem, status=Status.UNKNOWN, solver=self.solver)

    @property
    def goal(self) -> float | None:
        """Value that is worth finding: better than the best by the gap; None without one."""
        values = [v for v in (self.known, self.options.beat) if v is not None]
        best = self.objective.best(values)
        return None if best is None else self.objective.ahead(best, self.closed_gap)

    def run(self) -> Result:
        """Ask about part after part until none may hold something better, or a limit is reached."""
        for known in (self.options.start, self.options.hint):
            if known is not None:
                self.offer(known)
        self.begin()
        while (self.open or self._again()) and not (self.spent or self._drafted):
            *_, part = heapq.heappop(self.open)
            if self.worth(part.rank):
                self.go_on(part)
            else:
                self.close(part.rank)
        self.left += [part for *_, part in self.open if self.worth(part.rank)]
        self.end()
        return self._result()

    @property
    def _drafted(self) -> bool:
        """Whether an answer is known, and no proof of it is asked for."""
        return self.options.proof != "full" and self.best is not None

    def push(self, part: Part) -> None:
        """Open a part."""
        self.pushed += 1
        heapq.heappush(self.open, (part.rank, part.number, self.pushed, part))

    def worth(self, rank: float) -> bool:
        """Tell whether a bound leaves anything that is worth finding."""
        goal = self.goal
        return goal is None or self.objective.better(-self.objective.sign * rank, goal, SAME)

    def work(self, part: Part, asked: Problem) -> None:
        """Ask about a part, and keep what is open after the answer."""
        answer, rank = self.answer(part, asked)
        if answer.status is Status.INFEASIBLE:
            return
        if answer.placement is not None:
            self.offer(answer.placement, answer)
        again = answer.status.stopped
        if not answer.status.settled or self.is_open(answer, rank):
            self.left.append(replace(part, rank=rank, again=again))

    def answer(self, part: Part, asked: Problem) -> tuple[Result, float]:
        """Return an answer about a part, and its bound; infeasible: nothing is better."""
        seconds = self.share * max(0.0, self.allowed.seconds_left)
        best = self.objective.best([v for v in (self.known, self.options.beat) if v is not None])
        own = replace(
            self.options.deaf,
            time_limit_s=seconds,
            node_limit=self.nodes_left,
            pause_nodes=self.pause_nodes,
            start=None,
            hint=None,
            beat=best,
        )
        answer = self.ask(asked, own)
        self.count(answer)
        if answer.interrupted or answer.status is Status.MEMORY_LIMIT:
            self.stopped = answer.status
        rank = part.rank if answer.bound is None else -self.objective.sign * answer.bound
        return answer, max(part.rank, rank)

    def offer_narrower(self, share: float, **wishes: object) -> None:
        """Offer the best answer with some other wishes, which is one of this question too and found
        sooner, in a share of the time that is left. No proof of it is needed.
        """
        seconds = share * max(0.0, self.allowed.seconds_left)
        own = replace(self.options.deaf, time_limit_s=seconds, start=None, hint=None)
        asked = replace(self.problem, requirements=replace(self.problem.requirements, **wishes))
        if self.spent or not asked.modes:
            return
        with allowance.opened(seconds, own.memory_limit_bytes, own.cancel):
            found = type(self)(asked, self.ask, own, self.solver, proves=False).run()
        self.count(found)
        if found.placement is not None:
            self.offer(found.placement, found)

    def offer(self, placement: Placement, answer: Result | None = None) -> None:
        """Keep a placement, or a variant, that keeps every limit and is better than the best, and
        than the value that is to be beaten.
        """
        beat = self.options.beat
        for found in (each.canonical() for each in self.variants(placement)):
            outcome, broken = evaluated(found, self.problem)
            if outcome is None or broken:
                continue
            value = self.objective.value(outcome)
            if beat is not None and not self.objective.better(value, beat):
                continue
            if self.known is None or self.objective.better(value, self.known, self.tie(found)):
                self.keep(found, estimate(found, self.problem), value, answer)

    def keep(
        self, placement: Placement, figures: Estimate, value: float, answer: Result | None
    ) -> None:
        """Take a placement as the best so far."""
        self.known = value
        self.best = replace(
            answer or self.empty,
            problem=self.problem,
            placement=placement,
            estimate=figures,
            proof=(),
            notes=(),  # those of a part are of its own question
        )
        # A plan that no engine executes gives way to one that is executed.
        if self.options.on_better is not None and not placement.unexecuted:
            self.options.on_better(value)

    def _again(self) -> bool:
        """Open what was stopped once more, for twice the share or, where few are left, twice an
        equal one: what has less time than before gets no further. Return whether any is open.
        """
        if self.share >= 1 or self.options.node_limit is not None or self.spent:
            return False
        again = [part for part in self.left if part.again]
        self.pause_nodes = None
        self.share = min(1.0, max(2 * self.share, 2 / max(1, len(again))))
        self.left = [part for part in self.left if not part.again]
        for part in again:
            self.push(part)
        return bool(self.open)

    @property
    def spent(self) -> bool:
        """Whether nothing more may be asked."""
        found = self.options.first and self.best is not None
        nodes = self.nodes_left
        short = nodes is not None and (self.asked >= self.most_short or nodes <= 0)
        return short or found or self.stopped is not None or bool(self.allowed.spent)

    @property
    def nodes_left(self) -> int | None:
        """Nodes that all parts together may still take; None without a limit."""
        limit = self.options.node_limit
        return None if limit is None else limit - self.nodes

    def count(self, answer: Result) -> None:
        """Add what a search did, and what it says of each strategy."""
        self.last = answer
        self.asked += 1
        self.candidates += answer.candidates
        self.nodes += answer.nodes
        for mode in answer.proof:
            self.modes.setdefault((mode.strategy, mode.local_steps), []).append(mode)

    def _result(self) -> Result:
        status = self._status()
        bound = self._total_bound(status)
        return replace(
            self.best or self.empty,
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
        if self.stopped is not None:
            return self.stopped
        drafted = self.options.proof != "full" and bool(self.left)
        if not self.proves or drafted:
            return Status.UNKNOWN if self.best is None else Status.FEASIBLE
        if self.best is not None and (self.options.first or self.options.proof == "none"):
            return Status.FEASIBLE
        if self.skips or any(part.again for part in self.left):
            return Status.TIME_LIMIT
        if self.left:  # what is open there stays open, however long it is asked
            return Status.UNKNOWN if self.best is None else Status.FEASIBLE
        return Status.INFEASIBLE if self.best is None else Status.OPTIMAL

    def _total_bound(self, status: Status) -> float | None:
        """Return what no placement beats; None of one that skips parts or proves nothing."""
        ranks = [part.rank for part in self.left]
        if self.skips or self.options.proof == "none" or -math.inf in ranks:
            return None
        if not self.proves or status is Status.INFEASIBLE or self.best is None:
            open_ = self.proves and ranks and status is not Status.INFEASIBLE
            return -self.objective.sign * min(ranks) if open_ else None
        bounds = [-self.objective.sign * rank for rank in ranks]
        value = self.best.value
        reached = None if value is None else self.objective.ahead(value, self.options.gap)
        return self.objective.best([*bounds, *([] if reached is None else [reached])])

    def _proof(self, status: Status, bound: float | None) -> tuple[ModeProof, ...]:
        """Return what is proved of each strategy: the bound of the whole holds for all of them."""
        wish = self.problem.requirements
        if not self.proves or not status.settled:
            return ()
        alone = wish.min_workers == 1 and wish.min_regions <= 1
        names = [*([(NO_EXCHANGE, 1)] if alone else []), *self.problem.modes]
        proof = []
        for name, steps in names:
            rows = self.modes.get((name, steps), [])
            nodes, priced = (sum(getattr(r, key) for r in rows) for key in ("nodes", "priced"))
            searched: Method = "search" if nodes or priced else "root"
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


ALONE = "pytorch"
"""Engine of a single worker, whatever exchange several would have."""


def best_executed(problem: Problem, ask: Ask, options: SolveOptions) -> Result:
    """Find the best placement that an engine executes, and prove it; that of the whole question
    where an engine executes its answer, or where nothing that is asked for is executed. Where
    nobody asks for a compression, an engine without that of the model's profile sends messages as
    they are, and the problem of the result asks for that.
    """
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
        whole = ask(problem, options)
        if whole.placement is None or not whole.placement.unexecuted:
            return whole
        found: list[Result] = []
        for asked in questions(problem):
            left_s = allowance.current().seconds_left
            hint = _hint(whole.placement, asked)
            own = replace(options, time_limit_s=left_s, start=None, hint=hint)
            answer = ask(asked, own)
            # What an engine executes is some of what was asked, unless it sends other messages.
            same = asked.compression == problem.compression
            found.append(_bounded(answer, whole.bound) if same else answer)
    executed = [each for each in found if each.placement and not each.placement.unexecuted]
    if not executed:
        if options.on_better is not None and whole.value is not None:
            options.on_better(whole.value)
        return whole
    best = _best(executed, found)
    same = best.problem.compression == problem.compression
    kept = replace(best.problem, requirements=replace(best.problem.requirements, engine=""))
    return replace(best, problem=problem if same else kept, limits=options.asked)


def questions(problem: Problem) -> Iterator[Problem]:
    """Yield the question for each engine that does some of what is asked."""
    wish = problem.requirements
    wanted = InnerPlan(
        sharding=wish.sharding or "none",
        tensor_parallel=wish.tensor_parallel or 1,
        precision=wish.precision or "bf16",
    )
    able = engines_of(problem.transport)
    for name, engine in ENGINES.items():
        if engine not in able or engine.lack_inside(wanted):
            continue
        usual = wish.compression or problem.compression in engine.compressions
        compression = wish.compression if usual else engine.compressions[0]
        wished = replace(wish, engine=name, compression=compression)
        asked = replace(problem, requirements=wished)
        if asked.modes:
            yield asked
        elif name == ALONE and max(wish.min_workers, wish.min_regions) == 1:
            yield replace(problem, requirements=replace(wished, max_workers=1))


def _hint(placement: Placement, asked: Problem) -> Placement | None:
    """Return the machines of a placement with a plan of an engine that does its exchange, or else
    with the first exchange of this engine.
    """
    exchange: Exchange | None = replace(placement.exchange, compression=asked.compression)
    if (placement.exchange.strategy, placement.exchange.local_steps) not in asked.modes:
        exchange = next(exchanges(asked, placement.workers_by_place), None)
    if exchange is None:
        return None
    return replanned(replace(placement, exchange=exchange), asked)


def _bounded(answer: Result, bound: float | None) -> Result:
    """Return an answer with a bound that is no looser than another one that holds."""
    if bound is None or answer.status is Status.INFEASIBLE:
        return answer
    if answer.bound is not None and answer.objective.better(bound, answer.bound):
        return answer
    return replace(answer, bound=bound)


def _best(executed: list[Result], found: list[Result]) -> Result:
    """Return the best answer with what is proved of all."""
    objective = executed[0].objective
    value = objective.best([each.value for each in executed if each.value is not None])
    best = next(each for each in executed if each.value == value)
    bounds = [each.bound for each in found if each.status is not Status.INFEASIBLE]
    stopped = [each.status for each in found if each.status.stopped]
    settled = all(each.status.settled for each in found)
    proof = {(row.strategy, row.local_steps): row for each in found for row in each.proof}
    return replace(
        best,
        status=stopped[0] if stopped else best.status if settled else Status.FEASIBLE,
        bound=None if None in bounds else objective.best([b for b in bounds if b is not None]),
        proof=() if stopped else tuple(proof.values()),
        candidates=sum(each.candidates for each in found),
        nodes=sum(each.nodes for each in found),
    )
