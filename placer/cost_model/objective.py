"""Objectives: the value of a placement, its unit, and which of two values is better."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from placer.cost_model.dollars import usd_per_million_samples
from placer.cost_model.estimate import Estimate, Outcome
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.units import SECONDS_PER_HOUR

SAME = 1e-9
"""Relative difference up to which a value and its bound count as equal."""
ANY_CARBON_G_PER_HOUR = 1e12
"""A limit on emissions that leaves out only machines whose emissions nobody knows."""
NO_VALUE = 1e-12
"""Values below count as this in a relative gap: a placement may cost and emit nothing."""


class Objective(Struct, frozen=True, kw_only=True):
    """One objective: the value of a placement, and the direction that is better. ``unit`` is that
    of `value`; ``quantity`` names what more or less is wanted of, in words for a sentence.
    ``maximised`` says that a higher value is better. ``by_speed`` says that the value depends on
    samples/s alone, so that the fastest placement is the best; ``by_sample`` that it is the price
    of a sample. ``samples`` is how many are to count, ``lead_s`` the time before the first, and
    ``startup_s`` the paid part of it; only ``time`` and ``total`` need them.

    >>> from placer.problem.requirements import Requirements
    >>> fast = objective_of(Requirements())
    >>> fast.unit, fast.better(100.0, 90.0), fast.loss(90.0, 100.0)
    ('samples/s', True, 0.1)
    >>> cheap = objective_of(Requirements(objective="cost"))
    >>> cheap.unit, cheap.better(100.0, 90.0), cheap.loss(1.5, 1.0)
    ('USD/h', False, 0.5)
    """

    name: str
    unit: str
    quantity: str
    maximised: bool = False
    by_speed: bool = False
    by_sample: bool = False
    samples: int | None = None
    startup_s: float = 0.0
    lead_s: float = 0.0

    def value(self, outcome: Outcome | Estimate) -> float:
        """Return the value of an evaluated placement; see `value_at`."""
        if isinstance(outcome, Estimate):
            speed, usd = outcome.effective_samples_per_second.value, outcome.usd_per_hour
            known = outcome.carbon_g_per_hour
            carbon = None if known is None else known.value
        else:
            speed, usd, carbon = outcome.samples_per_second, outcome.usd, outcome.carbon_g_per_hour
        return self.value_at(speed, usd.total, carbon, usd.compute)

    def value_at(
        self,
        samples_per_second: float,
        usd_per_hour: float,
        carbon_g_per_hour: float | None,
        machines_usd_per_hour: float = 0.0,
    ) -> float:
        """Return the value in ``unit``; infinite where emissions count and nobody knows them.
        Samples count towards the target; machines alone are paid while they start.
        """
        if self.name == "throughput":
            return samples_per_second
        if self.name == "cost":
            return usd_per_hour
        if self.name == "time":
            return (self.samples or 1) / samples_per_second + self.lead_s
        if self.name == "carbon":
            return float("inf") if carbon_g_per_hour is None else carbon_g_per_hour
        each = usd_per_million_samples(usd_per_hour, samples_per_second)
        if self.name == "total":
            started = machines_usd_per_hour * self.startup_s / SECONDS_PER_HOUR
            return each * (self.samples or 1) / 1e6 + started
        return each

    def score(self, outcome: Outcome) -> tuple[float, float]:
        """Return a sort key, lowest first: ties in speed go to the cheaper, else the faster."""
        if self.by_speed:
            return -outcome.samples_per_second, outcome.usd.total
        return self.value(outcome), -outcome.samples_per_second

    def gain(self, value: float, reference: float) -> float:
        """Return by how much a value is better than a reference, in ``unit``; negative if worse."""
        return value - reference if self.maximised else reference - value

    def better(self, value: float, reference: float, slack: float = 0.0) -> bool:
        """Return whether a value is better than a reference by more than a share of it."""
        return self.gain(value, reference) > slack * abs(reference)

    @property
    def short_unit(self) -> str:
        """Unit for the head of a column."""
        return self.unit.replace(" per million samples", "/M")

    @property
    def sign(self) -> float:
        """Factor that turns values, one or an array, so that the highest is the best."""
        return 1.0 if self.maximised else -1.0

    def best(self, values: Iterable[float]) -> float | None:
        """Return the best of some values or bounds; None if there are none."""
        return max(values, default=None) if self.maximised else min(values, default=None)

    def loss(self, value: float, best: float) -> float:
        """Return the loss as a share of the best: infinite if the best is 0."""
        worse = -self.gain(value, best)
        if worse == 0:
            return 0.0
        return worse / best if best else float("inf")

    def regret(self, value: float, best: float) -> float | None:
        """Return the loss against the best value: 0 if it is not worse, None if the best is 0.

        Half of the samples/s are given up; a price of 3 where 2 would do is half as much again.

        >>> from placer.problem.requirements import Requirements
        >>> objective_of(Requirements()).regret(50.0, 100.0)
        0.5
        >>> objective_of(Requirements(objective="cost")).regret(3.0, 2.0)
        0.5
        """
        worse = -self.gain(value, best)
        if worse <= 0:
            return 0.0
        return worse / best if best else None

    def improvement(self, new: float, old: float) -> float:
        """Return the share by which a new value is better; of the new samples/s, else of the old
        figure. Both are the share of time, money or emissions that the same samples no longer take.

        >>> from placer.problem.requirements import Requirements
        >>> objective_of(Requirements()).improvement(100.0, 80.0)
        0.2
        >>> objective_of(Requirements(objective="cost")).improvement(4.0, 5.0)
        0.2
        """
        whole = new if self.maximised else old
        return self.gain(new, old) / whole if whole else 0.0

    def beats_bound(self, value: float, bound: float, slack: float = SAME) -> bool:
        """Return whether a value is better than a bound allows: one of the two is then wrong.
        ``slack``: relative slack for the rounding of both. Values around 0 have an absolute slack
        of `SAME`, as sums of prices that cancel are no closer.
        """
        return self.gain(value, bound) > max(SAME, slack * max(abs(value), abs(bound)))

    def ahead(self, value: float, slack: float) -> float:
        """Return the value that is better than a given one by a share of it, the least time by a
        share of the samples/s that are searched.
        """
        if self.searched != self.name:
            return self.from_searched(self.to_searched(value) * (1 + slack))
        return value * (1 + slack) if self.maximised else value * (1 - slack)

    def demand(self, value: float, wish: Requirements) -> Requirements:
        """Return the wishes with a limit that only values as good as one above 0 keep."""
        if self.by_speed:
            floor = self.to_searched(value)
            return replace(
                wish, min_samples_per_second=max(floor, wish.min_samples_per_second or 0.0)
            )
        name = _LIMITS[self.name]
        limit: dict[str, Any] = {name: min(value, getattr(wish, name) or float("inf"))}
        return replace(wish, **limit)

    @property
    def searched(self) -> str:
        """Name of the objective that solvers search: the least time is the most samples/s."""
        return "throughput" if self.by_speed else self.name

    def from_searched(self, value: float) -> float:
        """Return the value of this objective that a value of the searched one stands for."""
        if self.searched == self.name:
            return value
        return (self.samples or 1) / value + self.lead_s

    def to_searched(self, value: float) -> float:
        """Return the searched value for one of this objective: `from_searched` inverted."""
        if self.searched == self.name:
            return value
        left_s = value - self.lead_s
        return (self.samples or 1) / left_s if left_s > 0 else float("inf")

    def usd_per_million(self, value: float) -> float:
        """Return the USD per million samples of a value ``by_sample``."""
        return value / (self.samples or 1) * 1e6 if self.name == "total" else value

    def from_usd_per_million(self, usd: float) -> float:
        """Return the value ``by_sample`` at a price of a million samples."""
        return usd * (self.samples or 1) / 1e6 if self.name == "total" else usd


_LIMITS = {
    "cost": "budget_usd_per_hour",
    "cost-per-sample": "most_usd_per_million_samples",
    "carbon": "max_carbon_g_per_hour",
    "total": "budget_usd",
}
"""Field of `Requirements` that limits the value of an objective."""

_OBJECTIVES = {
    objective.name: objective
    for objective in (
        Objective(
            name="throughput", unit="samples/s", quantity="samples/s", maximised=True, by_speed=True
        ),
        Objective(name="cost", unit="USD/h", quantity="USD/h"),
        Objective(
            name="cost-per-sample",
            unit="USD per million samples",
            quantity="USD per sample",
            by_sample=True,
        ),
        Objective(name="total", unit="USD in all", quantity="USD in all", by_sample=True),
        Objective(name="time", unit="seconds", quantity="time", by_speed=True),
        Objective(name="carbon", unit="g CO2e/h", quantity="g CO2e/h"),
    )
}


def aimed_at(wish: Requirements, name: str) -> Requirements:
    """Return the wishes with another objective that admits the same machines. The objective
    ``carbon`` leaves out machines whose emissions nobody knows. A limit that no placement reaches
    does the same.
    """
    if wish.counts_carbon and name != "carbon" and wish.max_carbon_g_per_hour is None:
        return replace(wish, objective=name, max_carbon_g_per_hour=ANY_CARBON_G_PER_HOUR)
    return replace(wish, objective=name)


def objective_named(name: str) -> Objective:
    """Return the objective of a name; `Requirements` refuses unknown names."""
    return _OBJECTIVES[name]


def objective_of(wish: Requirements) -> Objective:
    """Return the objective of some wishes, with the number of samples where it counts."""
    objective = objective_named(wish.objective)
    if wish.objective not in ("time", "total"):
        return objective
    return replace(objective, samples=wish.samples, startup_s=wish.startup_s, lead_s=wish.lead_s)


def gap_between(value: float, bound: float) -> float:
    """Return the relative distance of a value from its bound; 0 is proved optimal."""
    return abs(bound - value) / max(abs(value), NO_VALUE)
