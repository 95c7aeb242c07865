"""Modes: a strategy with its local steps, and what a round of it is worth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from placer.cost_model.convergence import multiplier_of
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.problem import Problem


@dataclass(frozen=True)
class Mode:
    """A strategy and its number of local steps for one problem."""

    problem: Problem
    strategy: str
    local_steps: int

    @property
    def samples(self) -> int:
        """Samples from one exchange to the next, B in the bounds."""
        return self.problem.batch * self.local_steps

    @cached_property
    def multiplier(self) -> float:
        """Samples to target; speeds of the search are samples/s that count."""
        exchange = exchange_for(self.strategy, 1, self.problem, local_steps=self.local_steps)
        return multiplier_of(exchange, self.problem).value

    @property
    def overlap(self) -> bool:
        """Whether the exchange runs beside the calculation."""
        return exchange_for(self.strategy, 1, self.problem).overlap

    @property
    def streams(self) -> int:
        """TCP streams of each pair."""
        return self.problem.requirements.streams

    def seconds_at(self, samples_per_second: float) -> float:
        """Return the length of a round in which so many samples/s count."""
        return (
            self.samples / self.multiplier / samples_per_second
            if samples_per_second > 0
            else float("inf")
        )
