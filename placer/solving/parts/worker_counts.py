"""The best placement of workers with a plan: one question for each number of them.

Workers with a plan have equal parts of a step, in whole sequences, so that their speed depends on
how many they are. Where their number is known, every number of machines and every plan has one
speed, and the question is like any other. A bound from below on the calculation, and on how long an
exchange takes by the workers themselves, tells which numbers are worth asking about, and which
machines then keep up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

from placer.cost_model.dollars import usd_per_million_samples
from placer.cost_model.estimate import by_each_plan, estimate
from placer.cost_model.limits import evaluated
from placer.cost_model.timing.least_steps import LeastSteps
from placer.market.scaled_market import with_scaled_use
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Narrowed
from placer.problem.workers.islands import StepPart
from placer.problem.workers.pool import Pool
from placer.problem.workers.worker_sizes import ROUNDING, Ladder, Size
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.parts.drafts import Drafts, divisions, numbers
from placer.solving.parts.search import SAME, Ask, Part, PartSearch
from placer.solving.result import Result
from placer.units import SECONDS_PER_HOUR
from placer.workload.inner_plan import InnerPlan

FEW = 2
"""Numbers of workers, each twice the one before, of a search whose answer is only compared with."""
SHARES = 16
"""Steps in which the prices of use become smaller: each is a market of its own, which is kept."""
EVERY_STEP_SHARE = 0.25
"""Share of the time for the question without local steps."""
PLANS = 300
"""Slower plans that are asked about, one by one; the bound of more stays as it is."""
CLOSED = 0.9
"""Share of the gap in which nothing better is looked for; in the rest a machine less may be."""


def best_worker_count(
    problem: Problem, ask: Ask, options: SolveOptions, solver: str, *, proves: bool
) -> Result:
    """Find the best placement of workers with a plan, and prove it. A number of workers is asked
    about by the seconds of their slowest: first bounded, then with one question for each. Where all
    are equally fast it has these workers alone; where they may be unlike it has faster ones too,
    timed as if they waited so long: that is true of all placements with such a slowest worker, and
    bounds them. Plans that are slower than the fastest of the same machines are asked about where
    they may be better, since they pay for fewer steps.
    """
    own = replace(options, certificate=False)
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
        return _CountSearch(problem, ask, own, solver, proves=proves).run()


class _Count(Part, frozen=True, kw_only=True):
    """Some workers, as many as ``number``: the question is about such that reach a ``goal``; with
    ``part_s`` their slowest does its part of a step in so many seconds, ``planned`` if by a plan of
    its own, else by the fastest.
    """

    part_s: float | None = None
    goal: float | None = None
    planned: bool = False


class _CountSearch(PartSearch):
    """The best answer so far, and the numbers of workers and speeds that are open. ``plans`` counts
    those by which workers are asked about beside their fastest.
    """

    plans = 0

    @property
    def closed_gap(self) -> float:
        """Relative distance from the best in which nothing better is looked for."""
        return CLOSED * self.options.gap

    @property
    def skips(self) -> bool:
        """A search whose answer is only compared with asks about few numbers."""
        return self.options.node_limit is not None

    def begin(self) -> None:
        quick = self.options.beat is None and not self.options.first
        for draft in self._drafts() if quick else ():
            self.offer(draft)
        wish = self.problem.requirements
        steps = (wish.min_local_steps or 1) == 1 < (wish.max_local_steps or 1)
        if steps and quick and self.options.proof == "full" and not self.skips:
            self.offer_narrower(EVERY_STEP_SHARE, max_local_steps=None)
        for workers in self._among:
            if self.allowed.spent:  # nothing is known of so many or more
                self.left.append(_Count(rank=-math.inf, number=workers))
                break
            self._bound(workers)

    @property
    def _among(self) -> Sequence[int]:
        wish = self.problem.requirements
        most = min(wish.max_workers, self.problem.batch, wish.max_machines or wish.max_workers)
        fewest = max(wish.min_workers, wish.min_regions)
        if self.skips:
            return [fewest * 2**k for k in range(FEW) if fewest * 2**k <= most]
        return range(fewest, most + 1)

    def end(self) -> None:
        while self._drop_one():
            pass

    def _drafts(self) -> Iterator[Placement]:
        # Workers of several regions have many drafts, and are here only compared with.
        few = self.skips and self.problem.requirements.min_regions > 1
        for workers in self._among if few else numbers(self.problem):
            if self.spent:
                return
            sizes = self._asking(workers).worker_sizes(workers)

            def worth_s(size: Size, workers: int = workers) -> float:
                return self._most_part_s(size, workers, self._longest_s)

            yield from Drafts(self.problem, workers, worth_s).of(sizes, self.objective)

    def _drop_one(self) -> bool:
        """Leave out a machine that buys nothing; return whether there was one."""
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
        self.keep(fewer, estimate(fewer, self.problem), value, best)
        self.known = known
        return True

    def go_on(self, part: Part) -> None:
        assert isinstance(part, _Count)
        known = part.part_s is not None or part.goal == self.goal
        if part.asked is None or not known:  # something better was found since
            self._bound(part.number)
        elif part.part_s is None:
            self._divide(part, part.asked, self._fastest(part, part.asked))
        elif part.planned:
            self.work(part, part.asked)
        else:
            self._ask(part, part.asked)

    def _ask(self, part: _Count, asked: Problem) -> None:
        """Ask about some workers; where an hour has a price that a slower plan may keep, first as
        if they paid for no more steps than the goal needs. What is sent is paid by the step, so
        that a slower plan pays less in an hour. The fastest plan that pays for the steps of a
        slower one alone is no worse than that. A step takes at least what these workers calculate,
        so that the share of the prices is too small, never too large: where nothing is found there
        is nothing, by any plan.
        """
        limited = self.problem.requirements.budget_usd_per_hour is not None
        if not self.proves or self.skips or not (limited or self.objective.name == "cost"):
            self.work(part, asked)
            return
        assert part.part_s is not None
        share = min(1.0, part.part_s / self._longest_s) * (1 - SAME)
        share = math.floor(share * SHARES) / SHARES
        market = with_scaled_use(asked.catalog, share)
        waiting = replace(asked, catalog=market).with_pools(asked.requirements, asked.pools)
        answer, rank = self.answer(part, waiting)
        if answer.status is Status.INFEASIBLE:
            return
        if answer.placement is not None:
            self.offer(answer.placement, answer)
        if not answer.status.settled:
            self.left.append(replace(part, rank=rank, again=answer.status.stopped))
        elif self._beats(answer):
            self.work(part, asked)
            if answer.placement is not None:
                self._offer_slower(answer.placement)
            slower = self._slower(part, asked) if self._beats(answer) else []
            if slower is None:
                self.left.append(replace(part, rank=rank, again=False))
            else:
                self._divide(part, asked, slower)

    def _beats(self, answer: Result) -> bool:
        if answer.value is None or self.known is None:
            return True
        return self.objective.better(answer.value, self.known, SAME)

    def _offer_slower(self, placement: Placement) -> None:
        able = [
            (self.objective.score(outcome), number, slower)
            for number, slower in enumerate(by_each_plan(placement, self.problem, self._longest_s))
            for outcome, broken in (evaluated(slower, self.problem),)
            if outcome is not None and not broken
        ]
        if able:
            self.offer(min(able)[2])

    def _bound(self, workers: int) -> None:
        """Open a number of workers with its bound as of now, if worth it."""
        asked, goal = self._asking(workers), self.goal
        sizes, step_s = asked.worker_sizes(workers), self._least_steps.step_s
        timed = [
            (
                step_s(each.calculation_s, self._host(each), workers, each.machines),
                each.usd_per_hour,
            )
            for each in sizes
        ]
        rank = self._rank(timed, workers)
        if rank is not None and self.worth(rank):
            self.push(_Count(rank=rank, number=workers, asked=asked, goal=goal))

    def _fastest(self, part: _Count, asked: Problem) -> Sequence[Pool]:
        """Return all workers of a question by the fastest plan of each."""
        longest_s = self._longest_s
        return asked.sized(
            part.number, lambda size: self._most_part_s(size, part.number, longest_s)
        )

    def _slower(self, part: _Count, asked: Problem) -> Sequence[Pool] | None:
        """Return the workers of a question by every plan that is slower than their fastest; None
        where these are too many to be asked about, or unlike.
        """
        if self.problem.mixes_workers:
            return None
        question, step = asked.island_question, StepPart(asked.batch, part.number)
        assert question is not None
        assert part.part_s is not None
        machines = {(id(pool.offer), pool.machines): pool for pool in asked.pools}.values()
        plans, found = set[InnerPlan](), list[Pool]()
        for pool in machines:
            least_s = part.part_s * (1 + SAME)
            inside = question.plans_within(pool.offer, pool.machines, step, self._longest_s)
            plans.update(inside)
            if self.plans + len(plans) > PLANS:
                return None
            every = (asked.pool(pool.offer, pool.machines, inner, part.number) for inner in inside)
            found += [p for p in every if p and asked.part_s(p, part.number) > least_s]
        self.plans += len(plans)
        return found

    def _divide(self, part: _Count, asked: Problem, every: Sequence[Pool]) -> None:
        """Open one question for each speed that the slowest of some workers may have."""
        groups: dict[tuple[float, object], list[Pool]] = {}
        for pool in every:
            seconds = asked.part_s(pool, part.number)
            kind = pool.kind if asked.uniform else None
            groups.setdefault((float(f"{seconds:.9g}"), kind), []).append(pool)
        mixed = self.problem.mixes_workers
        for (seconds, _), alike in groups.items():
            slowest = max(asked.part_s(pool, part.number) for pool in alike)
            pools = (
                tuple(p for p in every if asked.part_s(p, part.number) <= slowest)
                if mixed
                else tuple(alike)
            )
            least_s = self._least_s(seconds * (1 - SAME), pools, part.number)
            paid = Ladder.of((pool.usd_per_hour, pool.max_count) for pool in pools)
            timed = [(least_s, paid.usd(part.number) / part.number)]
            rank, regions = self._rank(timed, part.number), {pool.place for pool in pools}
            few = len(regions) < self.problem.requirements.min_regions
            if rank is None or few or not self.worth(rank):
                continue
            wish = replace(
                asked.requirements,
                narrowed=Narrowed(most_s=slowest, least_s=slowest if mixed else 0.0),
            )
            question = asked.with_pools(wish, () if mixed else pools)
            if mixed:  # timed as if they waited for the slowest
                slowed = (question.pool(p.offer, p.machines, p.inner, part.number) for p in pools)
                question = asked.with_pools(wish, tuple(p for p in slowed if p is not None))
            rank = max(rank, part.rank)
            self.push(
                _Count(
                    rank=rank,
                    number=part.number,
                    asked=question,
                    part_s=slowest,
                    planned=part.part_s is not None,
                )
            )

    @cached_property
    def _least_steps(self) -> LeastSteps:
        return LeastSteps(self.problem)

    def _most_part_s(self, size: Size, workers: int, step_s: float) -> float:
        """Return the most seconds of a part of a step of a worker of some size, of a step of so
        many.
        """
        host = self._host(size)
        return self._least_steps.most_part_s(step_s, host, workers, size.machines)

    def _host(self, size: Size) -> str:
        return self.problem.averaging_class(size.kind.offers[0], size.machines)

    def _least_s(self, part_s: float, pools: Sequence[Pool], workers: int) -> float:
        """Return the least seconds of a step of some workers of which each takes ``part_s``. Where
        no region has so many that can be paid, they are of several.
        """
        budget = self.problem.requirements.budget_usd_per_hour
        by_place: dict[str, list[tuple[float, int]]] = {}
        for pool in pools:
            by_place.setdefault(pool.place, []).append((pool.usd_per_hour, pool.max_count))
        most = math.inf if budget is None else budget * (1 + ROUNDING)
        apart = not any(
            Ladder.of(rows).usd(workers) <= most
            for rows in by_place.values()
            if sum(count for _, count in rows) >= workers
        )
        free_share = max(pool.free_share for pool in pools)
        return min(
            self._least_steps.step_s(
                part_s, host, workers, machines, apart=apart, free_share=free_share
            )
            for host, machines in {(pool.host, pool.machines) for pool in pools}
        )

    def _rank(self, timed: Sequence[tuple[float, float]], workers: int) -> float | None:
        """Return a bound on the value of a question by seconds and prices, lowest is best; None if
        it holds nothing. All wait for the slowest: a step takes so long that as many
        workers as there are can be paid which are no slower.
        """
        budget, batch = self.problem.requirements.budget_usd_per_hour, self.problem.batch
        each = math.inf if budget is None else budget / workers * (1 + ROUNDING)
        least_s = min((seconds for seconds, usd in timed if usd <= each), default=None)
        if least_s is None or all(usd == math.inf for _, usd in timed):  # so many do not exist
            return None
        if self.objective.by_sample:
            # Of unlike workers each is paid for as long as the slowest works, and so for its own.
            work = min(seconds * usd for seconds, usd in timed)
            usd = usd_per_million_samples(workers * work, batch / self.multiplier)
            value = self.objective.from_usd_per_million(usd)
        else:
            usd = workers * min(usd for _, usd in timed)
            value = self.objective.value_at(batch / least_s / self.multiplier, usd, 0.0)
        return -self.objective.sign * value

    def _asking(self, workers: int) -> Problem:
        """Return the question about some workers, with limits of only better ones."""
        wish, goal = self.problem.requirements, self.goal
        budget = wish.budget_usd_per_hour
        if goal is not None and self.objective.name == "cost":
            budget = min(goal * (1 + ROUNDING), math.inf if budget is None else budget)
        usd_s = min(
            (z for z in (wish.max_usd_per_million_samples, self._cheapest) if z is not None),
            default=math.inf,
        )
        most_usd_s = usd_s * self.problem.batch * SECONDS_PER_HOUR / 1e6 / self.multiplier
        own = replace(
            wish,
            min_workers=workers,
            max_workers=workers,
            narrowed=Narrowed(most_s=self._longest_s, most_usd_s=most_usd_s, few_sizes=self.skips),
            budget_usd_per_hour=budget if budget is None or budget > 0 else None,
        )
        return replace(self.problem, requirements=own)

    @property
    def _longest_s(self) -> float:
        """Seconds of a step above which nothing is worth finding."""
        goal, floors = self.goal, [self.problem.requirements.floor_samples_per_second or 0.0]
        if goal is not None and self.objective.by_speed:
            floors.append(self.objective.to_searched(goal))
        floor = self.multiplier * max(floors) * (1 - ROUNDING)
        return self.problem.batch / floor if floor > 0 else math.inf

    @property
    def _cheapest(self) -> float | None:
        """USD per million samples that are worth finding, where these are the objective."""
        goal = self.goal if self.objective.by_sample else None
        return None if goal is None else self.objective.usd_per_million(goal)

    def is_open(self, answer: Result, rank: float) -> bool:
        """Unlike workers that wait for a slower one than there is may be better."""
        return self.problem.mixes_workers and self.worth(rank)

    def tie(self, placement: Placement) -> float:
        """Return -SAME for smaller workers: of equal runs theirs is the plainer."""
        known = self.best and self.best.placement
        smaller = known and placement.groups[0].machines < known.groups[0].machines
        return -SAME if smaller else 0.0

    def variants(self, placement: Placement) -> Iterator[Placement]:
        """Yield a placement, and its machines divided into workers otherwise."""
        yield placement
        if self.options.break_ties:
            longest_s = math.inf
            if self.known is not None and self.objective.by_speed:
                speed = self.objective.to_searched(self.known) * self.multiplier
                longest_s = self.problem.batch / speed * (1 + SAME)
            yield from divisions(placement, self.problem, longest_s=longest_s)
