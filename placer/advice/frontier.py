"""The frontier of cost against throughput: its ends first, then what the largest open box holds."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from math import log, sqrt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import to_builtins

from placer.advice.recommendation.notes import warnings_of
from placer.advice.recommendation.other_answers import nearest
from placer.cost_model.dollars import usd_per_million_samples
from placer.cost_model.estimate import Estimate
from placer.cost_model.objective import objective_named
from placer.cost_model.reduced_problem import used_by_all
from placer.documents.result_parts import data_document, request_document, written
from placer.documents.schemas import PARETO_SCHEMA, many
from placer.errors import PlacerError
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.report.shown import Shown
from placer.solving import allowance
from placer.solving.allowance import Reason
from placer.solving.answer import SolveOptions, Status, Warn
from placer.solving.result import Result, option_document
from placer.solving.solve import prepare, require_pools, solve

if TYPE_CHECKING:
    import pandas as pd

LEAST_USD_PER_HOUR = 1e-6
"""What owned machines count as on a log scale."""
FIGURES = many.FrontierPoint.__struct_fields__[:-2]
"""Figures of a point that a row has too: all but placement and estimate."""


class Ending(StrEnum):
    """Why no further point was looked for.

    ``complete``: there is no other point, within the gap. ``points``: there are as many as were
    asked for. ``open``: nothing more was found, but it is not proved that there is nothing.
    """

    COMPLETE = "complete"
    POINTS = "points"
    OPEN = "open"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    INTERRUPTED = "interrupted"
    NOTHING = "nothing"


class FrontierPoint(many.FrontierPoint[Placement, Estimate], frozen=True):
    """One placement that no other one found beats in both cost and throughput."""

    def __repr__(self) -> str:
        return f"<FrontierPoint {self.placement.headline}: {self.estimate.headline}>"

    @staticmethod
    def of(
        placement: Placement,
        estimate: Estimate,
        *,
        most_samples_per_second: float | None,
        least_usd_per_hour: float | None,
        asked_gap: float,
        before: FrontierPoint | None = None,
    ) -> FrontierPoint:
        """Work out the figures of a point by its bounds and the point before.

        Its status is optimal if the asked gap is proved, time_limit if a wider one is, else
        feasible.
        """
        usd, speed = estimate.usd_per_hour.total, estimate.effective_samples_per_second.value
        marginal = gap = None
        if before is not None:
            more = speed - before.samples_per_second
            marginal = usd_per_million_samples(usd - before.usd_per_hour, more)
        if most_samples_per_second is not None and least_usd_per_hour is not None:
            saved = 0.0 if usd <= 0 else 1 - least_usd_per_hour / usd
            gap = max(0.0, most_samples_per_second / speed - 1, saved)
        status: Literal["optimal", "time_limit", "feasible"] = "feasible"
        if gap is not None:
            status = "time_limit" if gap > asked_gap + 1e-7 else "optimal"
        return FrontierPoint(
            usd_per_hour=usd,
            samples_per_second=speed,
            usd_per_million_samples=usd_per_million_samples(usd, speed),
            marginal_usd_per_million_samples=marginal,
            least_usd_per_hour=least_usd_per_hour,
            most_samples_per_second=most_samples_per_second,
            gap=gap,
            status=status,
            placement=placement,
            estimate=estimate,
        )


@dataclass(frozen=True, kw_only=True)
class Frontier(Shown):
    """Cost against throughput: points from the cheapest to the fastest, each dearer and faster than
    the one before.

    ``solves`` counts searches. If nothing fits, there are no points and ``failed`` is the result
    that says why, with the nearest placements that fit after one change.
    """

    problem: Problem = field(repr=False)
    points: tuple[FrontierPoint, ...]
    ending: Ending
    solver: str
    gap: float
    seconds: float
    solves: int
    failed: Result | None = None
    warnings: tuple[Warn, ...] = ()

    def __repr__(self) -> str:
        if not self.points:
            return "<Frontier without points>"
        low, high = self.points[0].estimate, self.points[-1].estimate
        return f"<Frontier of {len(self.points)} points: {low.headline} to {high.headline}>"

    @property
    def knee(self) -> int | None:
        """Position of the knee; None if the frontier bends nowhere. See `knee_of`."""
        pairs = [(point.usd_per_hour, point.samples_per_second) for point in self.points]
        return knee_of([usd for usd, _ in pairs], [speed for _, speed in pairs])

    @property
    def best_value(self) -> int | None:
        """Position of the point with the lowest price of a sample; None if there are no points."""
        prices = [point.usd_per_million_samples for point in self.points]
        return prices.index(min(prices)) if prices else None

    @property
    def proved(self) -> bool:
        """Whether each point is proved to the gap that was asked for."""
        return bool(self.points) and all(point.status == "optimal" for point in self.points)

    @property
    def marginal_usd_per_million_samples(self) -> tuple[float | None, ...]:
        """Price of a million samples more than the point before gives, USD; None for the first."""
        return tuple(point.marginal_usd_per_million_samples for point in self.points)

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.pareto/v1`` document."""
        problem, failed = self.problem, self.failed
        nearest = () if failed is None else failed.nearest
        request = request_document(problem)
        del request["objective"]
        return {
            "schema": PARETO_SCHEMA,
            "request": request,
            "data": data_document(problem),
            "axes": {"cost": "usd_per_hour", "gain": "samples_per_second"},
            "status": str(self.ending) if failed is None else str(failed.status),
            "proved": self.proved,
            "gap": self.gap,
            "solver": {
                "name": self.solver,
                "seconds": round(self.seconds, 6),
                "solves": self.solves,
            },
            "knee": self.knee,
            "best_value": self.best_value,
            "points": written(self.points, problem),
            "nearest": [option_document(option, option.label, problem) for option in nearest],
            "warnings": [to_builtins(warning) for warning in self.warnings],
        }

    def to_saved(self) -> dict[str, Any]:
        """Build the document of ``placer pareto -o``: every point can be priced again."""
        used = used_by_all(self.problem, [point.placement for point in self.points])
        return {**self.to_dict(), "problem": used.to_dict()}

    def rows(self) -> list[dict[str, Any]]:
        """List one flat row for each point, from the cheapest on."""
        return [
            {
                **{name: getattr(point, name) for name in FIGURES},
                "mark": self.mark(at),
                "workers": " + ".join(group.spec for group in point.placement.groups),
                "exchange": point.placement.exchange.strategy,
                "local_steps": point.placement.exchange.local_steps,
            }
            for at, point in enumerate(self.points)
        ]

    def mark(self, at: int) -> str:
        """Return what stands out: ``knee``, ``value`` (lowest price of a sample), both."""
        marks = (("knee", self.knee), ("value", self.best_value))
        return " ".join(word for word, where in marks if where == at)

    def to_frame(self) -> pd.DataFrame:
        """Build a table of `rows` (pandas)."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def to_shown(self) -> dict[str, Any]:
        """Build the document that a report is drawn from: with the rows of the price book."""
        return self.to_saved()


def knee_of(costs: Sequence[float], speeds: Sequence[float]) -> int | None:
    """Find where a frontier bends most: beyond it, one percent more cost buys less speed than
    before.

    Costs in USD/h and samples/s both rise; shape (points,). Returns the position of the point that
    lies furthest above the chord between the two ends; None if there are fewer than three points,
    or none lies above it. Satopaa, Albrecht, Irwin and Raghavan (2011), "Finding a 'Kneedle' in a
    Haystack", with both axes normalised to 0..1; of equal distances the cheapest counts. The axes
    are logarithmic: budgets span decades, a constant price of a sample is then a straight line, and
    the dearest point does not squeeze all others into a corner.

    >>> knee_of([1, 2, 8], [100, 200, 220])  # twice the speed, then nearly nothing
    1
    >>> knee_of([1, 2, 4], [100, 200, 400]) is None
    True
    """
    if len(costs) < 3:
        return None
    across = _normalised([math.log(max(cost, LEAST_USD_PER_HOUR)) for cost in costs])
    up = _normalised([math.log(speed) for speed in speeds])
    above = [y - x for x, y in zip(across, up, strict=True)]
    best = max(range(len(above)), key=lambda i: (above[i], -i))
    return best if above[best] > 1e-9 else None


def _normalised(values: list[float]) -> list[float]:
    low, high = values[0], values[-1]
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]


LEAST_STEP = 1e-6
"""Budgets that differ by less count as the same."""
LEAST_SLICE_S = 0.1
"""Seconds that a search gets at least."""
RESCUE_S = 1.0
"""Seconds of a heuristic that improves what a stopped search left."""
HALVES = 2
"""Searches of one point: the fastest within a budget, then the cheapest as fast."""
LEAST_SHARE = 0.05
"""Share of the time left for one search at least. Few budgets are far harder: they come last."""
ALMOST = 1e-12
"""Relative difference up to which budgets and speeds count as equal."""
MOST_POINTS = 1_000
"""More points are a slip of the keyboard."""


class Spot(NamedTuple):
    """A placement with its estimate: USD/h and samples/s."""

    placement: Placement
    estimate: Estimate
    usd: float
    speed: float

    @staticmethod
    def of(result: Result) -> Spot:
        """Take the placement of an answer."""
        placement, got = result.found
        return Spot(placement, got, got.usd_per_hour.total, got.effective_samples_per_second.value)


class Trace:
    """The points so far and what is known between them; grows in place.

    ``tried`` is the highest budget known to bring nothing faster than a point; ``closing`` says
    that the next budget lies just below the neighbour. ``caps`` are pairs (budget, samples/s that
    nothing within it exceeds), ``floors`` pairs (samples/s, USD/h that nothing as fast goes below).
    """

    def __init__(self, problem: Problem, solver: str, options: SolveOptions, points: int) -> None:
        self.problem, self.solver, self.options, self.wanted = problem, solver, options, points
        self.budget = problem.requirements.budget_usd_per_hour or float("inf")
        self.floor = problem.requirements.min_samples_per_second
        self.step = max(options.gap, LEAST_STEP)
        self.answer = prepare(problem, solver)
        self.deadline = time.monotonic() + options.time_limit_s
        self.found: list[Spot] = []
        self.tried: dict[Placement, float] = {}
        self.closing: set[Placement] = set()
        self.caps: list[tuple[float, float]] = []
        self.floors: list[tuple[float, float]] = []
        self.solves, self.interrupted = 0, False
        self.failed: Result | None = None

    def run(self) -> Ending:
        """Find the ends, then what lies between, until nothing is open or it is stopped."""
        try:
            if self._cheapest():
                if self.budget * (1 - LEAST_STEP) > self.found[0].usd:
                    self._ask(self.budget)
                while len(self.found) < self.wanted and not self._stopped():
                    budget = self._next_budget()
                    if budget is None:
                        break
                    self._ask(budget)
                self._prove()
        except KeyboardInterrupt:
            self.interrupted = True
        return self._ending()

    def _ending(self) -> Ending:
        stopped = self._stopped()
        if self.interrupted:
            return Ending.INTERRUPTED
        if not self.found:
            return Ending.NOTHING
        if self._complete():
            return Ending.COMPLETE
        if len(self.found) >= self.wanted:
            return Ending.POINTS
        if allowance.current().spent is Reason.MEMORY:
            return Ending.MEMORY_LIMIT
        return Ending.TIME_LIMIT if stopped else Ending.OPEN

    def proved_points(self) -> Iterator[FrontierPoint]:
        """Yield the points from the cheapest on, each with the best bounds of all searches."""
        before: FrontierPoint | None = None
        for placement, got, usd, speed in self.found:
            most = [bound for budget, bound in self.caps if budget >= usd * (1 - ALMOST)]
            least = [bound for at, bound in self.floors if at <= speed * (1 + ALMOST)]
            least += [budget for budget, bound in self.caps if bound < speed and budget < usd]
            before = FrontierPoint.of(
                placement,
                got,
                most_samples_per_second=max(speed, min(most)) if most else None,
                least_usd_per_hour=min(usd, max(least)) if least else None,
                asked_gap=self.options.gap,
                before=before,
            )
            yield before

    def _cheapest(self) -> bool:
        """Find the cheapest placement, and the fastest that costs as little."""
        first = self._solve("cost", self.budget, self.floor, None)
        if first.placement is None:
            self.failed = first
            return False
        if first.bound is not None:
            self.floors.append((self.floor or 0.0, first.bound))
        start = Spot.of(first)
        if self._stopped():
            self._keep(start, start.usd)
        else:
            self._ask_fastest(max(start.usd, LEAST_USD_PER_HOUR), start, tie=False)
        return True

    def _ask(self, budget: float) -> None:
        """Find the fastest placement within a budget, and the cheapest as fast."""
        most = max(budget, LEAST_USD_PER_HOUR) * (1 + ALMOST)
        below = next(spot for spot in reversed(self.found) if spot.usd <= most)
        self._ask_fastest(budget, below, tie=True)

    def _ask_fastest(
        self, budget: float, start: Spot, *, tie: bool, share: float | None = None
    ) -> None:
        asked = self._solve("throughput", budget, self.floor, start.placement, share)
        result, fastest = self._rescued(asked), start
        if result.placement is not None:  # else a heuristic without luck; the start fits
            fastest = Spot.of(result)
            if result.bound is not None:
                self.caps.append((budget, result.bound))
        if fastest.speed <= start.speed * (1 + ALMOST) and start.placement in self.tried:
            self._nothing_new(start, budget)
        elif tie and not self._stopped():
            self._ask_cheapest(fastest, budget, None, fastest.speed)
        else:
            self._keep(fastest, budget)

    def _ask_cheapest(
        self, known: Spot, budget: float, share: float | None, floor: float | None
    ) -> None:
        """Find the cheapest placement that reaches a floor within the budget; one is known."""
        result = self._solve("cost", budget, floor, known.placement, share)
        if result.bound is not None:
            self.floors.append((floor or 0.0, result.bound))
        cheapest = known if result.placement is None else Spot.of(result)
        as_fast = cheapest.speed >= known.speed * (1 - LEAST_STEP)
        self._keep(cheapest, budget if as_fast else cheapest.usd)

    def _nothing_new(self, below: Spot, budget: float) -> None:
        """Close the part of a box up to a budget."""
        self.tried[below.placement] = max(self.tried[below.placement], budget)
        self.closing.add(below.placement)

    def _keep(self, spot: Spot, budget: float) -> None:
        """Add a point that no other one beats, and drop those that it beats."""
        self.tried[spot.placement] = max(budget, self.tried.get(spot.placement, 0.0))
        better = [s for s in self.found if s.usd <= spot.usd and s.speed >= spot.speed]
        if better:
            self._nothing_new(max(better, key=lambda s: s.speed), budget)
            return
        kept = [s for s in self.found if not (spot.usd <= s.usd and spot.speed >= s.speed)]
        self.found = sorted([*kept, spot], key=lambda s: s.usd)
        at = self.found.index(spot)
        if at:
            self.closing.discard(self.found[at - 1].placement)

    def _prove(self) -> None:
        """Spend what time is left on unproved points, the widest gap first, each once."""
        unproved = [point for point in self.proved_points() if point.status == "time_limit"]
        if not (self._cheap_end_proved() or self._stopped()):
            budget = max(self.found[0].usd, LEAST_USD_PER_HOUR)
            self._ask_cheapest(self.found[0], budget, 1 / (len(unproved) + 1), self.floor)
        for k, point in enumerate(sorted(unproved, key=lambda p: -(p.gap or 0.0))):
            spot = next((s for s in self.found if s.placement == point.placement), None)
            if self._stopped() or spot is None:
                continue
            share, budget = 1 / (len(unproved) - k), self.tried[point.placement]
            faster = point.samples_per_second * (1 + self.options.gap + LEAST_STEP)
            if (point.most_samples_per_second or 0.0) <= faster:
                self._ask_cheapest(spot, budget, share, point.samples_per_second)
                continue
            if spot is not self.found[-1]:
                budget = max(point.usd_per_hour, LEAST_USD_PER_HOUR)
            self._ask_fastest(budget, spot, tie=False, share=share)

    def _complete(self) -> bool:
        """Return whether it is proved that there are no further points within the gap."""
        gap = self.options.gap
        if (
            self._next_budget() is not None
            or not self._cheap_end_proved()
            or any(point.status != "optimal" for point in self.proved_points())
        ):
            return False
        ends = [*(above.usd * (1 - self.step) for above in self.found[1:]), self.budget]
        for below, high in zip(self.found, ends, strict=True):
            caps = (bound for budget, bound in self.caps if budget >= high * (1 - ALMOST))
            above = next((s for s in self.found if s.usd > below.usd), None)
            if min(caps, default=float("inf")) > below.speed * (1 + gap + LEAST_STEP) and (
                above is None or above.speed > below.speed * (1 + gap)
            ):
                return False
        return True

    def _cheap_end_proved(self) -> bool:
        """Return whether nothing that fits costs less than the cheapest point, within the gap."""
        least = max((bound for at, bound in self.floors if at <= (self.floor or 0.0)), default=-1.0)
        usd = self.found[0].usd * (1 - self.options.gap - LEAST_STEP)
        return least >= usd - LEAST_USD_PER_HOUR * LEAST_STEP

    def _next_budget(self) -> float | None:
        """Return the budget in the largest open box; None if all boxes are closed."""
        best: tuple[float, float] | None = None
        for below, above in pairwise(self.found):
            low = max(self.tried[below.placement], below.usd, LEAST_USD_PER_HOUR)
            high = above.usd * (1 - self.step)
            if low >= high or above.speed <= below.speed * (1 + self.options.gap):
                continue
            size = log(high / low) * log(above.speed / below.speed)
            closing = below.placement in self.closing or high < low * (1 + 4 * self.step)
            if best is None or size > best[0]:
                best = size, high if closing else sqrt(low * high)
        return None if best is None else best[1]

    def _solve(
        self,
        objective: str,
        budget: float,
        floor: float | None,
        start: Placement | None,
        share: float | None = None,
    ) -> Result:
        """Ask one question in a share of the time that is left."""
        left = self.deadline - time.monotonic()
        if share is None:
            share = max(LEAST_SHARE, 1 / (HALVES * self.wanted))
        limits = replace(
            self.problem.requirements,
            objective=objective,
            budget_usd_per_hour=None if budget == float("inf") else budget,
            min_samples_per_second=floor,
        )
        seconds = max(LEAST_SLICE_S, left * share)
        options = replace(self.options, start=start, time_limit_s=seconds, break_ties=False)
        if not objective_named(objective).by_speed:
            options = options.deaf  # it hears samples/s
        result = self.answer(replace(self.problem, requirements=limits), options)
        self.solves += 1
        self.interrupted |= result.interrupted
        return result

    def _rescued(self, result: Result) -> Result:
        """Improve what a stopped search left by a heuristic: its bound still holds."""
        if not result.status.stopped or self._stopped():
            return result
        seconds = min(RESCUE_S, self.deadline - time.monotonic())
        options = replace(self.options, start=result.placement, time_limit_s=seconds)
        tried = solve(result.problem, "local_search", options)
        self.interrupted |= tried.interrupted
        if tried.placement is None or (
            result.placement is not None and Spot.of(tried).speed <= Spot.of(result).speed
        ):
            return result
        return replace(result, placement=tried.placement, estimate=tried.estimate)

    def _stopped(self) -> bool:
        spent = allowance.current().spent
        self.interrupted |= spent is Reason.CANCELLED
        return spent is not None or self.interrupted or time.monotonic() >= self.deadline


def frontier(
    problem: Problem, solver: str = "exact", options: SolveOptions | None = None, points: int = 12
) -> Frontier:
    """Find at most so many points between the cheapest placement and the fastest one.

    The problem's budget and floor are the ends; its objective is not used. Options give the gap of
    every point, and time and seed of all. Ctrl-C and the time limit leave the points so far;
    without a proof of the solver there are no bounds. The epsilon-constraint method with boxes
    (Hamacher, Pedersen and Ruzika, 2007): between two neighbours lies a box of budgets and speeds
    of which nothing is known. The largest box, in the logarithms of both, is asked next: the
    fastest placement within a budget of its middle, then the cheapest as fast. An answer that costs
    less than the budget is the answer for every budget between, so that part of the box is closed.
    A middle that brings nothing new is followed by a budget just below the dearer neighbour, which
    closes the box or finds a neighbour of it. Raises PlacerError if there are too few points or too
    many, or the request admits no machine at all.
    """
    if not 2 <= points <= MOST_POINTS:
        raise PlacerError(
            f"points is {points}", f"give 2 to {MOST_POINTS:,}: the two ends and what lies between"
        )
    require_pools(problem)
    options = options or SolveOptions(time_limit_s=60.0)
    started = time.perf_counter()
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
        trace = Trace(problem, solver, options, points)
        ending = trace.run()
    proved = tuple(trace.proved_points())
    failed = None if proved else trace.failed
    if failed is not None:
        failed = replace(failed, problem=problem, seconds=time.perf_counter() - started)
    if failed is not None and failed.status is Status.INFEASIBLE:
        failed = replace(
            failed,
            nearest=nearest(problem, solver, options),
            warnings=warnings_of(problem, None, None),
        )
    each = (warnings_of(problem, point.placement, point.estimate) for point in proved)
    warned = {warning.message: warning for warnings in each for warning in warnings}
    return Frontier(
        problem=problem,
        points=proved,
        ending=ending,
        solver=solver,
        gap=options.gap,
        seconds=time.perf_counter() - started,
        solves=trace.solves,
        failed=failed,
        warnings=tuple(warned.values()),
    )
