"""The frontier of cost against throughput: points, what is proved about each, where it bends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from msgspec import to_builtins

from placer.cost_model.dollars import usd_per_million_samples
from placer.cost_model.estimate import Estimate
from placer.cost_model.reduced_problem import used_by_all
from placer.documents.result_parts import data_document, request_document, written
from placer.documents.schemas import PARETO_SCHEMA, many
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.report.shown import Shown
from placer.solving.answer import Warn
from placer.solving.result import Result, option_document

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
        usd, speed = cost_of(estimate), estimate.effective_samples_per_second.value
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


def cost_of(estimate: Estimate) -> float:
    """Return what a placement costs: USD/h."""
    return estimate.usd_per_hour.total


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
