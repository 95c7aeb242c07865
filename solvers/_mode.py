"""Modes: a strategy with its local steps, and what a round of it is worth."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from placer.cost_model.convergence import multiplier_of
from placer.cost_model.timing.site_groups import (
    hidden_seconds,
    most_calculation_seconds,
    overlap_window,
)
from placer.cost_model.timing.transfers import DIRECT
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import ring_messages, traits
from placer.problem.problem import Problem
from placer.workload.island.transports import HIDDEN_SHARE


class Mode(Struct, frozen=True, dict=True):
    """A strategy and its number of local steps for one problem."""

    problem: Problem
    strategy: str
    local_steps: int

    @cached_property
    def samples(self) -> int:
        """Samples from one exchange to the next, B in the bounds."""
        return self.problem.batch * self.local_steps

    @cached_property
    def multiplier(self) -> float:
        """Samples to target; speeds of the search are samples/s that count."""
        exchange = exchange_for(self.strategy, 1, self.problem, local_steps=self.local_steps)
        return multiplier_of(exchange, self.problem).value

    @cached_property
    def overlap(self) -> bool:
        """Whether the exchange runs beside the calculation."""
        return exchange_for(self.strategy, 1, self.problem).overlap

    @cached_property
    def window(self) -> float:
        """Share of the calculation beside which the exchange runs without staleness."""
        return overlap_window(
            exchange_for(self.strategy, 1, self.problem, local_steps=self.local_steps),
            free_share=self.problem.free_share,
        )

    @cached_property
    def ring(self) -> bool:
        """Whether workers in several regions average in a ring."""
        one = exchange_for(self.strategy, 1, self.problem, local_steps=self.local_steps)
        return one.in_ring

    @cached_property
    def ring_messages(self) -> int:
        """Messages, one after the other, of an average in a ring."""
        one = exchange_for(self.strategy, 1, self.problem, local_steps=self.local_steps)
        return ring_messages(self.problem.gradient_bytes, one)

    @cached_property
    def speed_and_price_decide(self) -> bool:
        """Whether, for known counts by region, a placement that is faster and not dearer is at
        least as good.

        It is, unless parts are equal, regions go at their own pace, data has its place, or machines
        are asked for by name. Where data comes from a store, see `Market.way_usd` too.
        """
        problem, wish, chosen = self.problem, self.problem.requirements, traits(self.strategy)
        two = not (wish.counts_carbon or problem.joint_limits)  # else a third figure counts
        free = not wish.datasets and not wish.used and two
        if problem.island_question is not None:  # links differ with the machines of an island
            free = free and len({kind.machines for kind in problem.pools.kinds}) < 2
        return (
            free
            and chosen.transport in ("butterfly", "leaders", "region-hub")
            and chosen.division != "equal"
        )

    def round_s(self, calculation_s: Any, communication_s: Any) -> Any:
        """Return the seconds of rounds; numbers or arrays of one shape."""
        if self.overlap:
            return np.maximum(calculation_s, communication_s)
        hidden = hidden_seconds(calculation_s, communication_s, self.window) if self.window else 0.0
        return calculation_s + communication_s - hidden

    def most_calculation_s(self, round_s: Any, communication_s: Any) -> Any:
        """Return the longest calculation of a round; not above 0 where there is none."""
        if self.overlap:
            return np.where(communication_s <= round_s, round_s, 0.0)
        return most_calculation_seconds(round_s, communication_s, self.window)

    def straight_rounds(self, communication_s: Any) -> list[tuple[float, Any]]:
        """List the (share, rest) whose longest share x calculation + rest is a round."""
        if not self.window or self.overlap:
            return [(1.0, communication_s)]
        least = 1 - HIDDEN_SHARE
        return [(1.0, least * communication_s), (1 - HIDDEN_SHARE * self.window, communication_s)]

    @cached_property
    def least_period_s(self) -> float:
        """Most seconds that a round waits for its hosts; bounds of seconds leave them out."""
        if traits(self.strategy).transport not in ("butterfly", "leaders"):
            return 0.0
        hosts = self.problem.calibration.hosts
        used = {kind.host for kind in self.problem.pools.kinds} & hosts.keys()
        return max((hosts[host].least_period_s for host in used), default=0.0)

    @property
    def lanes(self) -> int:
        """Pairs of machines of each pair of workers that send side by side, at most: those of the
        largest, which bounds the seconds of all from below.
        """
        return self.problem.lanes if traits(self.strategy).transport in DIRECT else 1

    def seconds_at(self, samples_per_second: float) -> float:
        """Return the length of a round in which so many samples/s count."""
        return (
            self.samples / self.multiplier / samples_per_second
            if samples_per_second > 0
            else float("inf")
        )
