"""Branch and bound over parts: each part is one program, each solution of it is priced by the one
model.

A part is pruned when its program is infeasible or its bound no better than the incumbent within the
gap. Else it is split: by the number of workers, by the seconds of a round at what its solution
really takes, by a tangent, or by leaving out the one vector of counts that was just priced. Every
rule leaves the bound valid whatever the program misses.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

import msgspec

from placer.cost_model.estimate import Outcome, evaluate
from placer.cost_model.limits import TOLERANCE, violations
from placer.cost_model.objective import objective_of
from placer.problem.admitted_exchanges import exchange_for, exchanges_of
from placer.problem.datasets import needs_place
from placer.problem.exchange import traits
from placer.problem.placement import NO_EXCHANGE, Placement
from placer.problem.problem import Problem
from placer.problem.workers.pool import groups_of
from placer.records import replace
from placer.solving.answer import Answer, SolveOptions, Status
from placer.units import SECONDS_PER_HOUR

from .. import local_search
from .frame import Frame, Part
from .goal import PER_SAMPLE
from .linear import CONSTANT, Engine, Model, Solved, broken
from .rounds import coarse_program, program
from .site_groups import SiteGroup

LEAST_GAP = 1e-5
"""Programs are solved in floating point, or in scaled integers: nothing closer is claimed to be
proved.
"""
COARSE_POOLS = 30
"""Markets with more pools get a bound for each exchange before their places are looked at."""
COARSE_SHARE = 4
"""One such bound takes at most this part of the time."""
MOST_PRICED_HUBS = 4
"""Hubs of one program for which its solution is priced."""
DRAFT_SHARE = 0.1
"""Share of the time for a first placement."""
PROGRAM_SHARE = 0.03
"""A program takes at most this part of the time before its part is cut without a solution."""
LEAST_PROGRAM_S = 1.0
"""A program takes no less than this."""
MORE_PATIENCE = 4.0
"""How much longer a program may take that cannot be cut."""
REPORT_EVERY_S = 0.5
"""How often the bound is reported."""
CLOSE = 1e-6
"""Relative difference of a program and the model that no tangent can mend."""


class StoppedError(Exception):
    """Raised when time or nodes run out."""


@dataclass
class Search:
    """Incumbent, open parts and the bound of what is open.

    Mutable. Keys are minimised and comparable between frames: seconds of a sample that counts,
    USD/h, or USD per million samples. ``heap`` holds (key, number, part).
    """

    problem: Problem
    options: SolveOptions
    engine: Engine
    deadline: float
    say: Callable[..., None]
    best: Placement | None = None
    best_key: float = inf
    tried: int = 0
    nodes: int = 0
    solved: int = 0
    started: bool = False
    working: tuple[float, ...] = ()
    heap: list[tuple[float, int, Part]] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """Gap that is proved."""
        return max(self.options.gap, LEAST_GAP)

    @property
    def cutoff(self) -> float:
        """Key below which a placement is worth finding."""
        return (
            self.best_key / (1 + self.gap)
            if self.problem.requirements.objective == "throughput"
            else self.best_key * (1 - self.gap)
        )

    def offer(self, placement: Placement) -> Outcome | None:
        """Price a placement, keep it if it is better; None if it has no price."""
        self.tried += 1
        if any(
            place not in placement.places
            for place in needs_place(self.problem.requirements.datasets)
        ):
            return None
        outcome = evaluate(placement, self.problem)
        key = _key(outcome, self.problem)
        if key < self.best_key and not violations(placement, self.problem):
            self.best, self.best_key = placement.canonical(), key
            self.say(
                better=self.value_of(key),
                placement=msgspec.to_builtins(self.best),
                bound=self.bound(),
                candidates=self.tried,
            )
        return outcome

    def left_open(self) -> tuple[str, ...]:
        """Name the strategies with parts that are open, with their local steps."""
        modes = {
            (part.frame.strategy, part.frame.local_steps)
            for key, _, part in self.heap
            if key < self.cutoff
        }
        return tuple(name if h == 1 else f"{name} H={h}" for name, h in sorted(modes))

    def offer_draft(self) -> None:
        """Start from what a heuristic finds: no bound rests on it."""
        seconds = DRAFT_SHARE * self.options.time_limit_s
        found = local_search.solve(self.problem, replace(self.options, time_limit_s=seconds))
        if found.placement is not None:
            self.offer(found.placement)

    def bound(self) -> float | None:
        """Return the objective value that no placement beats; None if nothing is known."""
        if not self.started:
            return None
        value = self.value_of(
            min([self.cutoff, *(key for key, _, _ in self.heap[:1]), *self.working])
        )
        return value if value < inf else None

    def value_of(self, key: float) -> float:
        """Return the objective value of a key."""
        return (
            key
            if self.problem.requirements.objective != "throughput"
            else 1 / key
            if key > 0
            else inf
        )

    def push(self, key: float, part: Part) -> None:
        """Keep a part for later unless it cannot improve."""
        if key < self.cutoff and part.low <= part.high and part.least_s < part.most_s:
            self.nodes += 1
            heapq.heappush(self.heap, (key, self.nodes, part))

    def run(self) -> bool:
        """Work through all parts, best bound first; False if it was stopped."""
        self.started, reported_s = True, time.monotonic()
        while self.heap and self.heap[0][0] < self.cutoff:
            limit = self.options.node_limit
            if time.monotonic() > self.deadline or (limit is not None and self.solved >= limit):
                return False
            key, number, part = heapq.heappop(self.heap)
            self.working = (key,)
            try:
                self._work(key, part)
            except StoppedError:
                heapq.heappush(self.heap, (key, number, part))
                return False
            self.working = ()
            if time.monotonic() > reported_s + REPORT_EVERY_S:
                reported_s = time.monotonic()
                self.say(bound=self.bound(), candidates=self.tried)
        self.heap.clear()
        return True

    def coarse_key(self, part: Part) -> float:
        """Return the key that nothing in any place of an exchange beats."""
        site_group = SiteGroup(self._narrowed(part), coarse=True)
        coarse_program(site_group)
        left = min(self.deadline - time.monotonic(), self.options.time_limit_s / COARSE_SHARE)
        solved = self.engine(site_group.model, left)
        return (
            inf
            if solved.status == "infeasible"
            else max(0.0, solved.bound * _unit(part.frame) * (1 - CLOSE))
        )

    def _work(self, floor: float, part: Part) -> None:
        part = self._narrowed(part)
        site_group = SiteGroup(part)
        program(site_group)
        if site_group.model.hopeless:
            return
        solved = self._solve(site_group.model, part.patience)
        if solved is None:
            self._cut(floor, part)
            return
        if solved.status == "infeasible":
            return
        frame = part.frame
        key = max(floor, solved.bound * _unit(frame))
        if key >= self.cutoff:
            return
        self._split(key, part, site_group, solved)

    def _narrowed(self, part: Part) -> Part:
        """End seconds and goal of a part where floor and incumbent do."""
        frame, wish = part.frame, self.problem.requirements
        most, floor = part.most_s, wish.floor_samples_per_second
        if floor is not None:
            most = min(most, frame.samples / frame.multiplier / floor * (1 + 2 * TOLERANCE))
        if wish.objective == "throughput" and self.best is not None:
            most = min(most, self.cutoff / _unit(frame))
        cheapest = min((pool.usd_per_hour for pool in self.problem.pools), default=0.0)
        if (
            wish.objective in PER_SAMPLE and self.best is not None and cheapest > 0
        ):  # the machines alone cost C T of what a round may
            most = min(most, self.cutoff / _unit(frame) / (part.low * cheapest))
        goal = self.cutoff / _unit(frame) * (1 + CLOSE)
        return replace(part, most_s=most, most_goal=goal)

    def _solve(self, model: Model, patience: int) -> Solved | None:
        """Solve a program; None if it took too long.

        Raises StoppedError if the time is up, or the solver returned values that break its own
        rows.
        """
        self.solved += 1
        left = self.deadline - time.monotonic()
        share = max(LEAST_PROGRAM_S, PROGRAM_SHARE * self.options.time_limit_s)
        seconds = share * MORE_PATIENCE**patience
        solved = self.engine(model, min(left, seconds))
        if solved.status == "infeasible":
            return solved
        if solved.status == "optimal" and not broken(model, solved.values):
            return solved
        if solved.status == "optimal" or seconds >= left:
            raise StoppedError
        return None

    def _cut(self, key: float, part: Part) -> None:
        """Push the pieces of a part whose program took too long: fewer workers, hubs or regions
        make it smaller. What a stopped solver says is not read.
        """
        narrower = _narrower(part.frame)
        if part.low < part.high:
            middle = (part.low + part.high) // 2
            self.push(key, replace(part, high=middle))
            self.push(key, replace(part, low=middle + 1))
        elif narrower:
            for frame in narrower:
                self.push(key, replace(part, frame=frame))
        else:
            self.push(key, replace(part, patience=part.patience + 1))

    def _split(self, key: float, part: Part, site_group: SiteGroup, solved: Solved) -> None:
        """Price the counts of a solution, and push what is left of the part."""
        counts = tuple(round(solved.values[n]) for n in site_group.counts)
        workers = sum(counts)
        truth = None
        for single in part.frame.singles[:MOST_PRICED_HUBS]:
            placement = placement_of(site_group, counts, single)
            truth = None if placement is None else self.offer(placement)
        if part.frame.needs_workers and part.low < part.high:
            for low, high in (
                (part.low, workers - 1),
                (workers, workers),
                (workers + 1, part.high),
            ):
                self.push(key, replace(part, low=low, high=high))
            return
        narrower = _narrower(part.frame)
        if narrower:
            for frame in narrower:
                self.push(key, replace(part, frame=frame))
            return
        rest = replace(part, tried=(*part.tried, counts))
        if truth is None:
            self.push(key, rest)
            return
        seconds = truth.step.total
        program_s = sum(
            value * (1.0 if name == CONSTANT else solved.values[name])
            for name, value in site_group.round_s.items()
        )
        touches = _touches(part, site_group, counts)
        if touches and program_s < seconds * (1 - CLOSE):
            self.push(key, replace(part, touched=(*part.touched, *touches)))
            return
        at = seconds * (1 + CLOSE / 10)
        if part.least_s < seconds and at < part.most_s * (1 - CLOSE):
            self.push(key, replace(part, most_s=at))
            self.push(key, replace(part, least_s=at))
            return
        self.push(key, rest)


def _touches(
    part: Part, site_group: SiteGroup, counts: Sequence[int]
) -> tuple[tuple[str, float], ...]:
    """Return where new tangents of B / V would touch the counts of a solution."""
    speeds = {"all": 0.0}
    for pool, rate, count in zip(site_group.pools, site_group.rates, counts, strict=True):
        for name in ("all", pool.place):
            speeds[name] = speeds.get(name, 0.0) + rate * count
    return tuple((name, v) for name, v in speeds.items() if v > 0 and (name, v) not in part.touched)


def placement_of(site_group: SiteGroup, counts: Sequence[int], frame: Frame) -> Placement | None:
    """Return the placement of some counts; None if the frame has no exchange."""
    groups = groups_of(site_group.pools, counts)
    if not groups:
        return None
    at: dict[str, int] = {}
    for group in groups:
        at[group.place] = at.get(group.place, 0) + group.count
    for exchange in exchanges_of(frame.strategy, frame.local_steps, frame.problem, at):
        if (exchange.aggregator, exchange.storage) == (frame.aggregator, frame.storage):
            return Placement(groups=groups, exchange=exchange)
    return None


def frames(problem: Problem) -> Iterator[Frame]:
    """Yield every exchange that the request admits with its places, and its number of regions where
    the transport depends on it. All places of a function or server together are one frame.
    """
    wish = problem.requirements
    homes = sorted(problem.pools.places[1])
    for name, steps in problem.modes:
        chosen = traits(name)
        hubs: list[tuple[str | None, str | None]] = [(None, None)]
        if chosen.hub == "function":
            hubs = list(problem.aggregator_places)
        elif chosen.hub:
            hubs = [
                (place, None) for place in (homes if wish.aggregator is None else [wish.aggregator])
            ]
        if chosen.hub in ("function", "server") and len(hubs) > 1 and not wish.kept:
            near = tuple(sorted(hubs, key=lambda hub: _longitude(hub, problem)))
            yield Frame(problem=problem, strategy=name, local_steps=steps, hubs=near)
            continue
        numbers = _numbers_of_regions(problem, name)
        for aggregator, storage in hubs:
            for regions in numbers:
                yield Frame(
                    problem=problem,
                    strategy=name,
                    local_steps=steps,
                    aggregator=aggregator,
                    storage=storage,
                    regions=regions,
                )


def _narrower(frame: Frame) -> list[Frame]:
    """Return the parts of a frame of several hubs or numbers of regions."""
    if len(frame.hubs) > 1:
        half = len(frame.hubs) // 2
        parts = frame.hubs[:half], frame.hubs[half:]
        return [replace(frame, hubs=hubs) for hubs in parts]
    if frame.hubs:
        (single,) = frame.singles
        numbers = _numbers_of_regions(frame.problem, frame.strategy)
        return [replace(single, regions=number) for number in numbers]
    return []


def _numbers_of_regions(problem: Problem, name: str) -> list[int | None]:
    """List the numbers of regions of a strategy that are programs of their own."""
    wish = problem.requirements
    if traits(name).transport not in ("leaders", "region-hub", "region-gossip", "regional-stores"):
        return [None]
    homes = {*problem.pools.places[1]}
    most = min(len(homes), wish.max_regions, wish.max_workers)
    return list(range(max(2, wish.min_regions), most + 1))


def _nothing(**words: object) -> None:
    """Report nothing."""


def _longitude(hub: tuple[str | None, str | None], problem: Problem) -> tuple[float, str]:
    """Return a sort key of hubs that puts near ones beside each other."""
    region = problem.catalog.regions[str(hub[0])]
    return region.longitude_deg, str(hub)


def most_workers(problem: Problem) -> int:
    """Return the workers that range, batch, quotas and budget allow."""
    wish = problem.requirements
    most = min(wish.max_workers, problem.batch, sum(pool.max_count for pool in problem.pools))
    if wish.budget_usd_per_hour is None:
        return most
    left, count = wish.budget_usd_per_hour * (1 + 2 * TOLERANCE), 0
    for pool in sorted(problem.pools, key=lambda pool: pool.usd_per_hour):
        fit = most if pool.usd_per_hour <= 0 else int(left / pool.usd_per_hour + 1e-9)
        more = min(pool.max_count, fit, most - count)
        left, count = left - more * pool.usd_per_hour, count + more
    return count


def search(
    problem: Problem,
    options: SolveOptions,
    engine: Engine,
    say: Callable[..., None] = _nothing,
    *,
    draft: bool = True,
) -> Answer:
    """Find the best placement with programs that an engine solves.

    ``draft``: start from what a heuristic finds; without it the programs have to find all
    themselves. Returned: optimal within the gap, or `LEAST_GAP` if that is more; with a valid bound
    if it was stopped.
    """
    this = Search(
        problem=problem,
        options=options,
        engine=engine,
        deadline=time.monotonic() + options.time_limit_s,
        say=say,
    )
    wish = problem.requirements
    if options.start is not None:
        this.offer(options.start)
    if wish.min_workers == 1 == wish.min_regions:
        for pool in problem.pools:
            this.offer(
                Placement(groups=(pool.group(1),), exchange=exchange_for(NO_EXCHANGE, 1, problem))
            )
    if draft:
        this.offer_draft()
    most = most_workers(problem)
    coarse: dict[tuple[str, int], float] = {}
    for frame in frames(problem):
        part = Part(frame=frame, low=max(2, wish.min_workers), high=most)
        kind = (frame.strategy, frame.local_steps)
        if kind not in coarse:
            coarse[kind] = (
                this.coarse_key(part)
                if len(problem.pools) > COARSE_POOLS and part.low <= most
                else 0.0
            )
        this.push(coarse[kind], part)
    finished = this.run()
    proved = Status.INFEASIBLE if this.best is None else Status.OPTIMAL
    return Answer(
        status=proved if finished else Status.TIME_LIMIT,
        placement=this.best,
        bound=None if this.best is None else this.bound(),
        candidates=this.tried,
        left_open=this.left_open(),
    )


def _key(outcome: Outcome, problem: Problem) -> float:
    value = objective_of(problem.requirements).value(outcome)
    return 1 / value if problem.requirements.objective == "throughput" else value


def _unit(frame: Frame) -> float:
    """Return the key of one unit of the goal of a frame's programs."""
    objective = frame.problem.requirements.objective
    counted = frame.multiplier / frame.samples
    each = counted / SECONDS_PER_HOUR
    return {
        "throughput": counted,
        "cost": 1.0,
        "carbon": 1.0,
        "cost-per-sample": each * 1e6,
        "total": each * (frame.problem.requirements.samples or 1),
    }[objective]
