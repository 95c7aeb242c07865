"""What holds for every target batch size of an interval: one question that is no harder than that
of any of its batches.

Take one placement and let its batch grow from b to c. A round with c samples takes at least as long
as one with b, and at most c / b times as long: calculation grows with the batch, everything else
stays. Samples/s therefore do not fall, and egress, which is paid by the round, does not get dearer
by the hour. Samples to target grow by (B_crit + c) / (B_crit + b), and data that is paid by the
sample costs at most c / b times as much by the hour. So the largest batch of an interval, with
limits that are looser by these factors, admits every placement that any of its batches admits, and
no value is better than the one there times the factors.

Two strategies need more room. Functions wait longer for the last gradient of a larger batch: theirs
are free and unlimited here. Pushes to a parameter server share its line as they come, and starts
that lie further apart may end them sooner: both of its factors are c / b on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from placer.cost_model.convergence import batch_factor
from placer.cost_model.objective import objective_of
from placer.market.catalog import Catalog
from placer.market.network.graph import network_of
from placer.problem.exchange import traits
from placer.problem.placement import NO_EXCHANGE
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace

ROUNDING = 1e-9
"""Limits are looser by this share as well, for sums in floating point."""
ENDLESS_S = 1e12
"""Seconds that no function runs."""


def with_batch(problem: Problem, batch: int) -> Problem:
    """Return the question with one target batch size."""
    return replace(problem, requirements=replace(problem.requirements, target_batch_size=batch))


def strategies(problem: Problem) -> tuple[str, ...]:
    """List the strategies that a question admits, one worker alone among them."""
    wish = problem.requirements
    names = dict.fromkeys(name for name, _ in problem.modes if wish.max_workers > 1)
    return (*((NO_EXCHANGE,) if wish.min_workers == 1 else ()), *names)


def is_monotone(problem: Problem) -> bool:
    """Tell whether the workers of a question are the same at every batch: the plan inside an
    island, and with it its speed, depends on the sequences of a step.
    """
    return problem.profile.architecture is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """All batches of a problem from ``low`` to ``high`` under one strategy, and the value that
    nothing there beats; None if none is known. One batch may have all strategies: None.
    """

    problem: Problem
    strategy: str | None
    low: int
    high: int
    bound: float | None = None

    @property
    def middle(self) -> int:
        """Return the batch that halves the span in the geometric mean, below ``high``."""
        return min(self.high - 1, max(self.low, math.isqrt(self.low * self.high)))

    @property
    def question(self) -> Problem:
        """Return the question that admits whatever any batch of the span does."""
        own = with_batch(self.problem, self.high)
        if self.strategy is None:
            return own
        wish = own.requirements
        if self.strategy == NO_EXCHANGE:
            wish = replace(wish, max_workers=1)
        else:
            wish = replace(wish, exchange=self.strategy, min_workers=max(2, wish.min_workers))
        if self.low == self.high:
            return replace(own, requirements=wish)
        slower, dearer = self._factors(self.low)
        catalog = own.catalog
        if traits(self.strategy).hub == "function":
            catalog = _with_free_functions(catalog)
        return replace(own, catalog=catalog, requirements=_looser(wish, slower, dearer))

    @property
    def is_of_its_end(self) -> bool:
        """Tell whether the question asks what that of its largest batch asks of the strategy: no
        machine is free, and no limit is looser.
        """
        wish = self.problem.requirements
        slower, dearer = self._factors(self.low)
        paced = (
            wish.min_samples_per_second,
            wish.deadline_s,
            wish.budget_usd,
            wish.most_usd_per_million_samples,
        )
        same = dearer == 1 and (slower == 1 or all(limit is None for limit in paced))
        return same and traits(self.strategy or NO_EXCHANGE).hub != "function"

    @property
    def slack(self) -> float:
        """Return by which share the question may be better than its batches."""
        slower, dearer = self._factors(self.low)
        return slower * dearer - 1

    def value_ahead(self, low: int, value: float) -> float:
        """Return what no batch from ``low`` on beats, if nothing beats a value in the question."""
        return self._moved(value, *self._factors(low))

    def value_behind(self, value: float) -> float:
        """Return what the question must reach for a batch to reach a value."""
        slower, dearer = self._factors(self.low)
        return self._moved(value, 1 / slower, 1 / dearer)

    def least_closed(self, bound: float, goal: float) -> int:
        """Return the smallest batch from which on no batch beats a goal; one past it if none."""
        objective = objective_of(self.problem.requirements)

        def is_open(batch: int) -> bool:
            return objective.better(self.value_ahead(batch, bound), goal)

        if is_open(self.high):
            return self.high + 1
        low, high = self.low, self.high
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if is_open(middle) else (low, middle)
        return low

    def _factors(self, low: int) -> tuple[float, float]:
        """Return by how much samples/s may be more at a batch from ``low`` on, and USD/h less."""
        if low == self.high or self.strategy is None:
            return 1.0, 1.0
        growth = self.high / low
        slower, before = (
            batch_factor(with_batch(self.problem, batch)) for batch in (self.high, low)
        )
        slower /= before
        server = traits(self.strategy).transport == "server"
        dearer = growth if server or self.problem.data_store is not None else 1.0
        return slower * (growth if server else 1.0), dearer

    def _moved(self, value: float, slower: float, dearer: float) -> float:
        """Return a value as it may be at best by factors of speed and price."""
        objective = objective_of(self.problem.requirements)
        if objective.by_speed:
            return value * slower if objective.maximised else value / slower
        if objective.name == "carbon":  # of machines, whatever the batch
            return value
        return value / dearer / (slower if objective.by_sample else 1.0)


def _looser(wish: Requirements, slower: float, dearer: float) -> Requirements:
    speed, money = slower * (1 + ROUNDING), dearer * (1 + ROUNDING)
    factors = {
        "min_samples_per_second": 1 / speed,
        "deadline_s": speed,
        "budget_usd_per_hour": money,
        "budget_usd": money * speed,
        "most_usd_per_million_samples": money * speed,
    }
    given = {name: getattr(wish, name) for name in factors}
    return replace(
        wish, **{name: factors[name] * value for name, value in given.items() if value is not None}
    )


def _with_free_functions(catalog: Catalog) -> Catalog:
    """Return the catalog with free, endless functions and free polls; built once."""
    free: Catalog | None = catalog.memo.get("free-functions")
    if free is None:
        free = replace(
            catalog,
            functions=tuple(
                replace(f, usd_per_gib_second=0.0, usd_per_vcpu_second=0.0, max_seconds=ENDLESS_S)
                for f in catalog.functions
            ),
            stores=tuple(replace(s, usd_per_thousand_reads=0.0) for s in catalog.stores),
        )
        free.memo["network"] = network_of(catalog)  # it knows neither
        catalog.memo["free-functions"] = free
    return free
