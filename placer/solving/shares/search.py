"""A search that asks about the parts of a question one by one, the best bound first."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from placer.cost_model.estimate import estimate
from placer.cost_model.limits import parts_of, violations
from placer.cost_model.objective import Objective, objective_of
from placer.documents.schemas.proofs import ModeProof
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.problem.shares import (
    Part,
    ShareLimit,
    SpeedCap,
    broken_shares,
    crowded,
    most_of,
)
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import Allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.result import Result
from placer.solving.shares.repair import repaired

MOST_SHORT = 12
"""Questions of a search whose answer is only compared with."""
Ask = Callable[[Problem, SolveOptions], Result]
"""Solves a problem without shares."""
Crowd = tuple[ShareLimit, str]
"""An area whose workers are summed up, with the share that limits them."""
FIRST_SHARE = 0.25
"""Share of the time that is left for one question; what is open then is asked again with twice as
much.
"""
NARROW = 100
"""A range of less than this part of its speed is not cut again once a search of it was stopped."""
CUT = 0.1
"""Where a range is cut: so far from the speed of the placement that breaks a share to the speed of
which it would keep it.
"""


def best_within_shares(
    problem: Problem, ask: Ask, options: SolveOptions, solver: str = "exact"
) -> Result:
    """Find the best placement that keeps the shares of the speed, and prove it. A question about
    speeds from ``low`` to ``high`` caps each area at what its share allows of ``high``: no slower
    placement that keeps its share is left out, so its bound holds for all of them. Where its answer
    breaks a share the range is cut above its speed: the caps of the lower part exclude it, and so
    does the least speed of the upper part. The first question is about all speeds and has no caps,
    which would hardly bind and make a proof long: often its answer keeps the shares. The bound
    holds for every placement that keeps the shares. ``problem``: its wishes have shares.
    """
    wish = problem.requirements
    fewest = max([limit.fewest_areas for limit in wish.max_shares], default=1)
    if fewest > min(wish.max_regions, wish.max_workers):
        return Result(
            problem=problem,
            status=Status.INFEASIBLE,
            placement=None,
            estimate=None,
            bound=None,
            solver=solver,
            seconds=0.0,
            candidates=0,
            limits=options.asked,
        )
    with allowance.opened(
        options.time_limit_s, options.memory_limit_bytes, options.cancel
    ) as allowed:
        search = _Search(problem=problem, ask=ask, options=options, allowed=allowed)
        return search.run()


@dataclass
class _Search:
    """The best answer so far, and the ranges of speeds that are open, the worst bound first.
    Mutable. ``counted`` are the areas of several kinds of workers that are summed up, once an
    answer has crowded one; ``closed`` holds bounds of what is closed, ``left`` the ranges that were
    not finished with their bounds, None where nothing is known; ``share`` is that of the time that
    is left which a question may take.
    """

    problem: Problem
    ask: Ask
    options: SolveOptions
    allowed: Allowance
    best: Result | None = None
    last: Result | None = None
    open: list[tuple[float, int, int, float | None]] = field(default_factory=list)
    closed: list[float] = field(default_factory=list)
    left: list[tuple[int, int, float | None]] = field(default_factory=list)
    share: float = FIRST_SHARE
    stopped: Status | None = None
    counted: set[Crowd] = field(default_factory=set)
    modes: dict[tuple[str, int], list[ModeProof]] = field(default_factory=dict)
    asked: int = 0
    candidates: int = 0
    nodes: int = 0
    seconds: float = 0.0

    @property
    def wish(self) -> Requirements:
        """Return the wishes of the question."""
        return self.problem.requirements

    @property
    def objective(self) -> Objective:
        """Return the objective of the question."""
        return objective_of(self.wish)

    def run(self) -> Result:
        """Ask range after range until none may hold something better, or a limit is reached. The
        first is asked even where nothing is left of the time: its answer says so.
        """
        self._push(1, self._highest, None)
        while (self.open or self._again()) and (self.last is None or not self._spent):
            _, low, high, bound = heapq.heappop(self.open)
            if self._hopeless(bound):
                assert bound is not None
                self.closed.append(bound)
            else:
                self._work(low, high, bound)
                self._tell_bound()
        self.left += [
            (low, high, bound) for _, low, high, bound in self.open if not self._hopeless(bound)
        ]
        return self._result()

    def _again(self) -> bool:
        """Open what was stopped once more, for twice the share of the time; return whether anything
        is open now.
        """
        heuristic = self.last is not None and self.last.status is Status.FEASIBLE
        if self.share >= 1 or heuristic or self.options.node_limit is not None or self._spent:
            return False
        self.share = min(1.0, 2 * self.share)
        left, self.left = self.left, []
        for low, high, bound in left:
            self._push(low, high, bound)
        return bool(self.open)

    def _tell_bound(self) -> None:
        """Tell whoever listens what nothing beats, of all ranges together."""
        if self.options.on_bound is None:
            return
        bound = self._bound([bound for *_, bound in (*self.left, *self.open)])
        if bound is not None:
            self.options.on_bound(bound)

    @cached_property
    def _highest(self) -> int:
        """Return a speed that no placement exceeds: as many of the fastest as may run, and no more
        than the budget buys of the cheapest for its speed.
        """
        pools, wish = self.problem.pools, self.wish
        fastest = max((pool.speed_units for pool in pools), default=1)
        most = fastest * wish.max_workers
        if wish.budget_usd_per_hour is not None and all(pool.usd_per_hour > 0 for pool in pools):
            worth = max((pool.speed_units / pool.usd_per_hour for pool in pools), default=1.0)
            most = min(most, math.ceil(wish.budget_usd_per_hour * worth * 1.001))
        return most

    @property
    def _spent(self) -> bool:
        """Whether nothing more may be asked."""
        short = self.options.node_limit is not None and self.asked >= MOST_SHORT
        found = self.options.first and self.best is not None
        return short or found or self.stopped is not None or bool(self.allowed.spent)

    def _push(self, low: int, high: int, bound: float | None) -> None:
        if low <= high:
            rank = -math.inf if bound is None else -self.objective.sign * bound
            heapq.heappush(self.open, (rank, low, high, bound))

    def _hopeless(self, bound: float | None) -> bool:
        """Whether a bound leaves nothing that is worth finding."""
        known = self._known
        if known is None or bound is None:
            return False
        goal = self.objective.ahead(known, self.options.gap)
        return not self.objective.better(bound, goal)

    @property
    def _known(self) -> float | None:
        """Value that a better placement must beat."""
        found = None if self.best is None else self.best.value
        return self.options.beat if found is None else found

    def _work(self, low: int, high: int, bound: float | None) -> None:
        """Ask about a range of speeds, and close or cut it by the answer."""
        known, own = self._known, self.options
        answer = self.ask(
            replace(self.problem, requirements=self._relaxed(low, high)),
            replace(
                own.deaf,
                time_limit_s=self.share * max(0.0, self.allowed.seconds_left),
                beat=known,
                start=self._start(low, high),
            ),
        )
        self._count(answer)
        if answer.status is Status.INFEASIBLE:
            if known is not None:
                self.closed.append(self.objective.ahead(known, own.gap))
            return
        bound = self._tighter(bound, answer.bound)
        placement = answer.placement
        if answer.interrupted or answer.status is Status.MEMORY_LIMIT:
            self.stopped = answer.status
        if placement is not None and not self._broken(placement):
            self._keep(answer)
            if answer.status is Status.OPTIMAL and bound is not None:
                self.closed.append(bound)
                return
        if placement is not None and self._broken(placement):
            self._mend(answer, placement)
        if (
            placement is not None
            and self._broken(placement)
            and (not answer.status.stopped or high > low + low // NARROW)
        ):
            self._cut(placement, low, high, bound)
            return
        self.left.append((low, high, bound))

    def _mend(self, answer: Result, placement: Placement) -> None:
        """Keep the first placement made of one that breaks a share that keeps every limit: what
        other ranges have to beat.
        """
        for made in repaired(placement, self.problem):
            if not violations(made, self.problem):
                figures = estimate(made, self.problem)
                self._keep(replace(answer, placement=made, estimate=figures, bound=None, proof=()))
                return

    def _cut(self, placement: Placement, low: int, high: int, bound: float | None) -> None:
        """Exclude a placement that breaks a share: sum up the areas that it crowds beyond the caps
        of the range, or else cut the range above its speed.
        """
        parts = parts_of(placement, self.problem)
        speed, kept = sum(part.speed for part in parts), 0
        beyond: set[Crowd] = set()
        for limit in self.wish.max_shares:
            for area, own in crowded(limit, parts):
                kept = max(kept, math.ceil(own / limit.share))
                if own > limit.most(high) or (
                    (limit, area) not in self.counted and limit.area == "provider"
                ):
                    beyond.add((limit, area))
        if beyond - self.counted:
            self.counted |= beyond
            self._push(low, high, bound)
            return
        if self.wish.on_demand_floor is not None and self.wish.on_demand_floor < 1:
            others = sum(part.speed for part in parts if part.market != "on_demand")
            kept = max(kept, math.ceil(others / (1 - self.wish.on_demand_floor)))
        cut = speed + max(0, math.floor(CUT * (kept - speed)) - 1)
        self.counted |= {
            (limit, area)
            for limit in self.wish.max_shares
            for area, own in crowded(limit, parts)
            if own > limit.most(cut)
        } & {(limit, area) for limit, area in self._several(parts)}
        self._push(low, min(cut, high), bound)
        self._push(cut + 1, high, bound)

    def _several(self, parts: Sequence[Part]) -> Iterator[Crowd]:
        """Yield the areas with workers of several kinds: a cap on each alone does not limit them
        together.
        """
        for limit in self.wish.max_shares:
            kinds = Counter(limit.pattern(part.place) for part in parts)
            yield from ((limit, area) for area, count in kinds.items() if count > 1)

    def _relaxed(self, low: int, high: int) -> Requirements:
        """Return the question about a range of speeds: caps in place of shares."""
        wish, caps = self.wish, list(self.wish.speed_caps)
        if high < self._highest:
            caps.append(SpeedCap(place="*", most=high, scope="together"))
        for limit in wish.max_shares:
            most = limit.most(high)
            if high < self._highest:
                caps.append(SpeedCap(place="*", most=most))
            areas = sorted(area for other, area in self.counted if other == limit)
            caps += [SpeedCap(place=area, most=most, scope="together") for area in areas]
        if wish.on_demand_floor is not None:
            most = most_of(1 - wish.on_demand_floor, high)
            others = sorted({pool.offer.market for pool in self.problem.pools} - {"on_demand"})
            pattern = others[0] if len(others) == 1 else "[!o]*"
            if others:
                caps.append(SpeedCap(place="*", market=pattern, most=most, scope="together"))
        fewest = [limit.fewest_areas for limit in wish.max_shares]
        return replace(
            wish,
            least_speed=low,
            min_workers=max([wish.min_workers, *fewest]),
            min_regions=max([wish.min_regions, *fewest]),
            max_shares=(),
            on_demand_floor=None,
            speed_caps=tuple(caps),
        )

    def _start(self, low: int, high: int) -> Placement | None:
        """Return a placement to start from, if one of the range is known."""
        known = self.options.start if self.best is None else self.best.placement
        if known is None or self._broken(known):
            return None
        speed = sum(part.speed for part in parts_of(known, self.problem))
        return known if low <= speed <= high else None

    def _broken(self, placement: Placement) -> bool:
        wish, parts = self.wish, parts_of(placement, self.problem)
        return any(broken_shares(wish.max_shares, wish.on_demand_floor, parts))

    def _tighter(self, one: float | None, other: float | None) -> float | None:
        """Return the tighter of two bounds on the same placements."""
        if one is None or other is None:
            return other if one is None else one
        return other if self.objective.better(one, other) else one

    def _count(self, answer: Result) -> None:
        """Add what a search did, and what it says of each strategy."""
        self.last = answer
        self.asked += 1
        self.candidates += answer.candidates
        self.nodes += answer.nodes
        for mode in answer.proof:
            self.modes.setdefault((mode.strategy, mode.local_steps), []).append(mode)

    def _keep(self, answer: Result) -> None:
        """Keep an answer that is better than the best."""
        known = self._known
        if answer.value is None or (
            known is not None and not self.objective.better(answer.value, known)
        ):
            return
        self.best = answer
        if self.options.on_better is not None:
            self.options.on_better(answer.value)

    def _result(self) -> Result:
        """Return the best answer with what is proved of all."""
        assert self.last is not None
        found = self.last if self.best is None else self.best
        bound = self._bound([bound for *_, bound in self.left])
        return replace(
            found,
            problem=self.problem,
            placement=None if self.best is None else found.placement,
            estimate=None if self.best is None else found.estimate,
            status=self._status(),
            bound=bound,
            candidates=self.candidates,
            nodes=self.nodes,
            proof=self._proof(bound),
            notes=(),  # those of one range are of its caps
            interrupted=self.last.interrupted,
        )

    def _status(self) -> Status:
        """Return how the whole ended."""
        if self.stopped is not None:
            return self.stopped
        if self.left:
            heuristic = self.last is not None and self.last.status is Status.FEASIBLE
            return Status.FEASIBLE if heuristic and self.best is not None else Status.TIME_LIMIT
        return Status.INFEASIBLE if self.best is None else Status.OPTIMAL

    def _bound(self, left: Sequence[float | None]) -> float | None:
        """Return what no placement beats; None where something open has no bound."""
        value = None if self.best is None else self.best.value
        if any(bound is None for bound in left):
            return None
        known = [*self.closed, *(bound for bound in left if bound is not None)]
        if value is not None:
            known.append(value)
        return self.objective.best(known)

    def _proof(self, bound: float | None) -> tuple[ModeProof, ...]:
        """Return what is proved of each strategy: the bound of the whole, which holds for all of
        them.
        """
        if bound is None or self.stopped is not None:
            return ()
        return tuple(
            replace(
                rows[-1],
                method=self._method(rows),
                bound=bound,
                root_bound=None,
                nodes=sum(row.nodes for row in rows),
                priced=sum(row.priced for row in rows),
            )
            for rows in self.modes.values()
        )

    def _method(self, rows: Sequence[ModeProof]) -> str:
        """Return how a strategy was ruled out; a range whose search was stopped was closed in parts
        where nothing is left.
        """
        method = max((row.method for row in rows), key=_METHODS.index)
        if method != "stopped" or self.left:
            return method
        return "search" if any(row.nodes or row.priced for row in rows) else "root"


_METHODS = ("alone", "root", "search", "stopped")
"""How bounds are found, the longest way last."""
