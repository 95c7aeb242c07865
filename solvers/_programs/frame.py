"""What one program covers: an exchange with its places, and ranges of its numbers of workers and
seconds of a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from placer.cost_model.convergence import samples_to_target
from placer.cost_model.timing.site_groups import samples_per_round
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.datasets import needs_place
from placer.problem.exchange import strategy, traits
from placer.problem.placement import Exchange
from placer.problem.problem import Problem
from placer.records import replace


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One way to exchange with its places fixed; ``regions`` is the number of regions where the
    transport depends on it.

    A frame with several ``hubs``, pairs of aggregator and storage, stands for each of them: its
    coefficients are the best of theirs, so that one program bounds all. It has neither aggregator
    nor storage itself, and no number of regions.
    """

    problem: Problem
    strategy: str
    local_steps: int
    aggregator: str | None = None
    storage: str | None = None
    regions: int | None = None
    hubs: tuple[tuple[str | None, str | None], ...] = ()

    @cached_property
    def singles(self) -> tuple[Frame, ...]:
        """Return the frames of one hub each that this one stands for."""
        if not self.hubs:
            return (self,)
        return tuple(replace(self, aggregator=a, storage=s, hubs=()) for a, s in self.hubs)

    @cached_property
    def transport(self) -> str:
        """Name of the timing in `placer.cost_model.timing.round_seconds`."""
        return traits(self.strategy).transport

    @cached_property
    def exchange(self) -> Exchange:
        """An exchange of this frame, for what depends on neither workers nor hub."""
        if self.hubs:
            return self.singles[0].exchange
        return exchange_for(
            self.strategy,
            1,
            self.problem,
            self.aggregator,
            self.storage,
            local_steps=self.local_steps,
        )

    @cached_property
    def samples(self) -> int:
        """Samples of one round."""
        return samples_per_round(self.exchange, self.problem)

    @cached_property
    def multiplier(self) -> float:
        """Samples to target."""
        return samples_to_target(
            self.exchange, self.problem.requirements.samples_to_target, self.problem.profile
        ).value

    @cached_property
    def needs_workers(self) -> bool:
        """Whether coefficients depend on the number of workers."""
        return self.transport in ("butterfly", "store", "server", "regional-stores")

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Places with machines that this exchange may use."""
        stay, wish = needs_place(self.problem.requirements.datasets), self.problem.requirements
        places = sorted(self.problem.pools.places[1])
        if wish.datasets and not wish.data_moves:
            places = [place for place in places if place in stay]
        if self.transport == "regional-stores":
            places = [place for place in places if place in self.problem.serverless_places]
        return tuple(place for place in places if not self.leaks((place,)))

    def leaks(self, places: Sequence[str]) -> bool:
        """Return whether workers in these places alone already send what must stay."""
        problem, payload = self.problem, traits(self.strategy).payload
        if not problem.requirements.kept:
            return False
        at = dict.fromkeys(
            [*([self.aggregator] if self.transport == "region-hub" else []), *places], 1
        )
        phases = strategy(self.strategy).phases(
            [(str(p), n) for p, n in at.items()], problem.gradient_bytes, self.exchange
        )
        sends = [(t.src, t.dst) for phase in phases for t in phase.transfers]
        store = problem.data_store
        ways = {
            "raw-data": [] if store is None else [(store.place, place) for place in places],
            payload: sends,
        }
        return any(
            s in rule.places and d not in rule.places
            for rule in problem.requirements.kept
            for s, d in ways.get(rule.kind, ())
        )


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a frame: numbers of workers, seconds of a round, what its goal may be at most,
    counts that were tried, points where tangents touch, and how often its program may take longer
    than programs do.
    """

    frame: Frame
    low: int
    high: int
    least_s: float = 0.0
    most_s: float = inf
    most_goal: float = inf
    tried: tuple[tuple[int, ...], ...] = ()
    touched: tuple[tuple[str, float], ...] = ()
    patience: int = 0
