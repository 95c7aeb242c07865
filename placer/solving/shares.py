"""The best placement under shares of the speed, such as at most half of it in one region.

A share is no limit on machines: it grows with the speed. So ranges of speeds are asked one by one,
each with the caps of its highest speed. A placement that breaks its own share cuts its range, and
what remains open is bounded by answers to questions that allow more. Placements that keep the
shares are also made of one that breaks them: fewer workers where too many are, machines on demand
in place of others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from placer.cost_model.estimate import replanned
from placer.cost_model.limits import parts_of, violations
from placer.documents.schemas.proofs import ModeProof
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import traits
from placer.problem.placement import NO_EXCHANGE, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.problem.shares import Part as SpeedPart
from placer.problem.shares import ShareLimit, SpeedCap, broken_shares, crowded, most_of
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.parts.search import Ask, Part, PartSearch
from placer.solving.result import Result

Crowd = tuple[ShareLimit, str]
"""An area whose workers are summed up, with the share that limits them."""
NARROW = 100
"""A range of less than this part of its speed is not cut again once a search of it was stopped."""
CUT = 0.1
"""Where a range is cut: so far from the speed of the placement that breaks a share to the speed of
which it would keep it.
"""
MOST_STEPS = 128
"""Changes of one placement."""


def best_within_shares(
    problem: Problem, ask: Ask, options: SolveOptions, solver: str, *, proves: bool
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
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
        search = _ShareSearch(problem, ask, options, solver, proves=proves)
        if fewest > min(wish.max_regions, wish.max_workers):
            return replace(search.empty, status=Status.INFEASIBLE, limits=options.asked)
        return search.run()


class _Range(Part, frozen=True, kw_only=True):
    """Speeds from ``number`` to ``high``; nothing is known of a rank below all."""

    high: int


class _ShareSearch(PartSearch):
    """The best answer so far, and the ranges of speeds that are open. ``counted`` are the areas of
    several kinds of workers that are summed up, once an answer has crowded one; ``closed`` holds
    bounds of what is closed.
    """

    most_short = 12

    def __init__(self, *known: Any, proves: bool) -> None:
        super().__init__(*known, proves=proves)
        self.wish = self.problem.requirements
        self.counted: set[Crowd] = set()
        self.closed: list[float] = []

    @property
    def spent(self) -> bool:
        """Whether nothing more may be asked; the first answer says so where no time is left."""
        return self.last is not None and super().spent

    def begin(self) -> None:
        self._open(1, self._highest, -math.inf)

    def _open(self, low: int, high: int, rank: float) -> None:
        if low <= high:
            self.push(_Range(rank=rank, number=low, high=high))

    def close(self, rank: float) -> None:
        self.closed.append(-self.objective.sign * rank)

    @cached_property
    def _highest(self) -> int:
        """Return a speed that none exceeds: by number of the fastest, and by budget."""
        pools, wish = self.problem.pools, self.wish
        fastest = max((pool.speed_units for pool in pools), default=1)
        most = fastest * wish.max_workers
        if wish.budget_usd_per_hour is not None and all(pool.usd_per_hour > 0 for pool in pools):
            worth = max((pool.speed_units / pool.usd_per_hour for pool in pools), default=1.0)
            most = min(most, math.ceil(wish.budget_usd_per_hour * worth * 1.001))
        return most

    def go_on(self, part: Part) -> None:
        """Ask about a range of speeds, and close or cut it by the answer."""
        assert isinstance(part, _Range)
        low, high, goal = part.number, part.high, self.goal
        asked = replace(self.problem, requirements=self._relaxed(low, high))
        answer, rank = self.answer(part, asked)
        placement = answer.placement
        if answer.status is Status.INFEASIBLE:
            self.closed += [] if goal is None else [goal]
        elif placement is not None and self._broken(placement):
            made = (p for p in repaired(placement, self.problem) if not violations(p, self.problem))
            for first in islice(made, 1):  # what other ranges have to beat
                self.offer(first, replace(answer, bound=None))
            if not answer.status.stopped or high > low + low // NARROW:
                self._cut(placement, replace(part, rank=rank))
            else:
                self.left.append(replace(part, rank=rank))
        else:
            if placement is not None:
                self.offer(placement, answer)
            if answer.status is Status.OPTIMAL and rank > -math.inf:
                self.close(rank)
            else:
                again = answer.status is not Status.FEASIBLE
                self.left.append(replace(part, rank=rank, again=again))
        bound = self._total_bound(answer.status)
        if self.options.on_bound is not None and bound is not None:
            self.options.on_bound(bound)

    def _cut(self, placement: Placement, part: _Range) -> None:
        """Exclude a placement that breaks a share: sum up the areas that it crowds beyond the caps
        of the range, or else cut the range above its speed.
        """
        parts, high = parts_of(placement, self.problem), part.high
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
            self.push(part)
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
        self._open(part.number, min(cut, high), part.rank)
        self._open(cut + 1, high, part.rank)

    def _several(self, parts: Sequence[SpeedPart]) -> Iterator[Crowd]:
        """Yield areas of several kinds: a cap on each does not limit them together."""
        for limit in self.wish.max_shares:
            kinds = Counter(limit.pattern(part.place) for part in parts)
            yield from ((limit, area) for area, count in kinds.items() if count > 1)

    def _relaxed(self, low: int, high: int) -> Requirements:
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

    def _broken(self, placement: Placement) -> bool:
        wish, parts = self.wish, parts_of(placement, self.problem)
        return any(broken_shares(wish.max_shares, wish.on_demand_floor, parts))

    def _proof(self, status: Status, bound: float | None) -> tuple[ModeProof, ...]:
        """Return what is proved of the strategies that spread workers at all."""
        rows = super()._proof(status, bound)
        return tuple(row for row in rows if (row.strategy, row.local_steps) in self.modes)

    def _total_bound(self, status: Status) -> float | None:
        """Return what no placement beats; None where something open has no bound."""
        open_ = (*self.left, *(part for *_, part in self.open))
        bounds = [-self.objective.sign * part.rank for part in open_]
        if not all(map(math.isfinite, bounds)):
            return None
        known = [] if self.known is None else [self.known]
        return self.objective.best([*self.closed, *bounds, *known])


def repaired(placement: Placement, problem: Problem) -> Iterator[Placement]:
    """Yield placements that keep the shares, with fewer and fewer workers, of one without a hub.
    Other limits are not looked at.
    """
    if traits(placement.exchange.strategy).hub:
        return
    wish, counts = problem.requirements, Counter[WorkerGroup]()
    for group in placement.groups:
        counts[replace(group, count=1, inner=None)] += group.count
    for _ in range(MOST_STEPS):
        made = _placement(placement, counts, problem)
        if made is None:
            return
        parts = parts_of(made, problem)
        broken = dict(broken_shares(wish.max_shares, wish.on_demand_floor, parts))
        gone: WorkerGroup | None
        if not broken:
            yield made
            gone = max(counts, key=lambda group: group.market != "on_demand")
        elif "on-demand" in broken:
            gone = next((group for group in counts if group.market != "on_demand"), None)
            twin = None if gone is None else _on_demand(gone, problem)
            if twin is not None:
                counts[replace(twin, inner=None)] += 1
            gone = None if twin is None else gone
        else:
            shares = wish.max_shares
            areas = {area for limit in shares for area, _ in crowded(limit, parts)}
            full = (g for g in counts if any(limit.pattern(g.place) in areas for limit in shares))
            gone = next(full, None)
        if gone is None:
            return
        counts[gone] -= 1
        counts = +counts  # without those that are none any more


def _placement(
    placement: Placement, counts: Counter[WorkerGroup], problem: Problem
) -> Placement | None:
    """Return some workers with the exchange of a placement; None where they cannot have it."""
    workers = counts.total()
    if workers < 1:
        return None
    strategy = placement.exchange.strategy if workers > 1 else NO_EXCHANGE
    steps = placement.exchange.local_steps if workers > 1 else 1
    exchange = exchange_for(strategy, workers, problem, local_steps=steps)
    groups = tuple(replace(group, count=count) for group, count in counts.items())
    return replanned(Placement(groups=groups, exchange=exchange), problem).canonical()


def _on_demand(group: WorkerGroup, problem: Problem) -> WorkerGroup | None:
    """Return one worker on demand that is otherwise like those of a group."""
    wanted = "on_demand", group.place, group.gpu, group.gpu_count
    for offer in (pool.offer for pool in problem.pools):
        if (offer.market, offer.place, offer.gpu, offer.gpu_count) == wanted:
            pool = problem.pool(offer, group.machines)
            return None if pool is None else pool.group(1)
    return None
