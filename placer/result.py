"""What a solver returns and what a user gets: status, bound, gap, the placement and its estimate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from placer.cost import UsdPerHour, usd_per_million_samples
from placer.estimate import Estimate
from placer.placement import Placement
from placer.problem import Problem
from placer.timing import StepSeconds


class Status(StrEnum):
    """How a solve ended."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    TIME_LIMIT = "time_limit"


@dataclass(frozen=True, kw_only=True, slots=True)
class SolveOptions:
    """Relative gap, seconds and seed that a solver gets."""

    gap: float = 0.001
    time_limit_s: float = 30.0
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a solver returns: a decision and a bound, not priced yet.

    Notes
    -----
    ``bound`` is on the objective (samples/s, USD/h or USD per million samples); None if nothing is
    proved. ``candidates`` counts placements that were evaluated.
    """

    status: Status
    placement: Placement | None
    bound: float | None
    candidates: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A placement that was considered, with its estimate and what is said about it."""

    placement: Placement
    estimate: Estimate
    label: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Solution:
    """One solver's checked and priced answer to one problem."""

    problem: Problem
    status: Status
    placement: Placement | None
    estimate: Estimate | None
    bound: float | None
    solver: str
    seconds: float
    candidates: int

    @property
    def value(self) -> float | None:
        """Value of the objective."""
        if self.estimate is None:
            return None
        return objective_value(self.problem.requirements.objective, self.estimate.step, self.estimate.usd_per_hour, self.problem)

    @property
    def gap(self) -> float | None:
        """Relative distance of the value from its bound; 0 is proved optimal."""
        value, bound = self.value, self.bound
        return None if value is None or bound is None else abs(bound - value) / max(abs(value), 1e-12)


def objective_value(objective: str, step: StepSeconds, usd: UsdPerHour, problem: Problem) -> float:
    """Objective of a placement: samples/s, USD/h or USD per million samples."""
    speed = problem.batch / step.total
    if objective == "throughput":
        return speed
    return usd.total if objective == "cost" else usd_per_million_samples(usd.total, speed)


def score(objective: str, step: StepSeconds, usd: UsdPerHour, problem: Problem) -> tuple[float, float]:
    """Sort key, lowest is best; ties in throughput go to the cheaper, ties in cost to the faster."""
    value = objective_value(objective, step, usd, problem)
    speed = problem.batch / step.total
    return (-value, usd.total) if objective == "throughput" else (value, -speed)
