"""Runs of a policy over a trace, from one start or from many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from placer.advice.policy.job import Job, Market, Observation
from placer.advice.policy.policies import Policy, Rule, step
from placer.advice.policy.state import State, start
from placer.errors import PlacerError
from placer.units import format_plain


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One job from one start; ``end`` is its state when the work was done or time was up."""

    first: int
    end: State
    missed: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Runs of one policy from many starts; means, and the dearest run.

    Notes
    -----
    Hours of on-demand machines are those of all machines together: machine-hours over machines.
    """

    policy: Policy
    runs: tuple[Run, ...]
    machines: int

    @property
    def usd(self) -> float:
        """Mean dollars to finish."""
        return self._mean("usd")

    @property
    def worst(self) -> Run:
        """The dearest run."""
        return max(self.runs, key=lambda run: run.end.usd)

    @property
    def missed(self) -> int:
        """Runs that did not finish by the deadline."""
        return sum(run.missed for run in self.runs)

    @property
    def moves(self) -> float:
        """Mean number of times that the checkpoint went to another place."""
        return self._mean("moves")

    @property
    def lost(self) -> float:
        """Mean number of machines that were taken away."""
        return self._mean("lost")

    @property
    def checkpoint_usd(self) -> float:
        """Mean egress of checkpoints."""
        return self._mean("checkpoint_usd")

    @property
    def exchange_usd(self) -> float:
        """Mean egress of exchanges between places."""
        return self._mean("exchange_usd")

    @property
    def on_demand_h(self) -> float:
        """Mean hours on on-demand machines."""
        return self._mean("on_demand_h") / self.machines

    @property
    def idle_h(self) -> float:
        """Mean hours in which nothing is held."""
        return self._mean("idle_h")

    @property
    def spread_h(self) -> float:
        """Mean hours in several places."""
        return self._mean("spread_h")

    @property
    def for_good(self) -> int:
        """Runs that ended with on-demand machines for good."""
        return sum(run.end.for_good for run in self.runs)

    def _mean(self, name: str) -> float:
        return fmean(getattr(run.end, name) for run in self.runs)


def simulate(
    observations: Sequence[Observation],
    tick_h: float,
    first: int,
    rule: Rule,
    job: Job,
    market: Market,
) -> Run:
    """Run a job from one tick on, until its work is done or its deadline is there."""
    state, tick = start(market), first
    while not state.finished(job) and state.now_h < job.deadline_h - 1e-9:
        _, state = step(state, observations[tick], tick_h, rule, job, market)
        tick += 1
    return Run(first=first, end=state, missed=not state.finished(job))


def ticks_of(job: Job, tick_h: float) -> int:
    """Return the ticks until the deadline, the last one perhaps in part."""
    return math.ceil(job.deadline_h / tick_h - 1e-9)


def starts_of(ticks: int, tick_h: float, job: Job, every_h: float) -> range:
    """Return the ticks at which jobs begin: all that have their deadline within the trace.

    Raises
    ------
    PlacerError
        If the trace is shorter than the deadline.
    """
    needed = ticks_of(job, tick_h)
    if needed > ticks:
        raise PlacerError(
            f"a trace of {format_plain(ticks * tick_h, 4)} h, where the deadline is "
            f"{format_plain(job.deadline_h, 4)} h away",
            "give a longer trace, less work or an earlier deadline",
        )
    return range(0, ticks - needed + 1, max(1, round(every_h / tick_h)))
