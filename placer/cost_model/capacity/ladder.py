"""A run that climbs a ladder: the first placement that launches, another one when it is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from placer.units import SECONDS_PER_HOUR

Array = npt.NDArray[Any]
STEADY_STEPS = 3
"""Steps in which a cheaper placement was there before a run moves back to it."""
WORTH = 0.9
"""A run moves back where a sample takes at most this share of what it takes now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rung:
    """One placement of a ladder. ``there`` tells when all of its machines can be had; shape (steps,
    draws). ``start_h`` are the hours that each start takes and that are paid for. ``certain``: its
    machines are assumed to be there at any time. ``spent_per_sample`` is what a sample takes of
    what is to be little (dollars, hours or grams); None: dollars.
    """

    samples_per_s: float
    usd_per_hour: float
    start_h: float
    there: Array
    certain: bool = False
    spent_per_sample: float | None = None

    @property
    def wanted(self) -> float:
        """What a sample takes of what is to be little."""
        if self.spent_per_sample is not None:
            return self.spent_per_sample
        return self.usd_per_hour / (self.samples_per_s * SECONDS_PER_HOUR)


@dataclass(frozen=True, kw_only=True, slots=True)
class Runs:
    """How a run ends in each scenario. ``hours`` until it is done, infinite where it is not by the
    last step; ``usd`` paid until then; ``left`` samples are not done; ``starts`` and ``busy_h``,
    hours on each rung; shapes (draws,), and (rungs, draws).
    """

    hours: Array
    usd: Array
    starts: Array
    busy_h: Array
    left: Array

    def chance(self, hours: float) -> float:
        """Return the share of the scenarios that are done within some hours."""
        return float((self.hours <= hours).mean())

    def tail_usd(self, share: float) -> float:
        """Return the mean cost of the dearest scenarios, such a share of all (CVaR)."""
        count = max(1, round(share * len(self.usd)))
        return float(np.sort(self.usd)[-count:].mean())


def climb(rungs: Sequence[Rung], samples: float, deadline_h: float, step_h: float) -> Runs:
    """Run a ladder, the most wanted rung first, in every scenario. A run stays where it is until
    its machines are lost, then starts on the first rung that is there, or waits and pays nothing.
    It moves back to a rung before it that was there for `STEADY_STEPS` and takes less for a sample;
    and for good to a certain one as soon as another step elsewhere would leave too little time
    until the deadline.
    """
    # What is certain is not hurried to: it is there when time runs out as well.
    there = np.stack(
        [rung.there & (not rung.certain or at == 0) for at, rung in enumerate(rungs)], 2
    )
    steps, draws, _ = there.shape
    rate = np.array([rung.samples_per_s * SECONDS_PER_HOUR for rung in rungs])
    price, start = (
        np.array([getattr(rung, name) for rung in rungs]) for name in ("usd_per_hour", "start_h")
    )
    wanted = np.array([rung.wanted for rung in rungs])
    certain = next((at for at, rung in enumerate(rungs) if rung.certain), None)
    at_rung = np.full(draws, -1)
    steady = np.zeros((draws, len(rungs)), dtype=int)
    left, over = np.full(draws, float(samples)), np.zeros(draws)
    usd, starts = np.zeros(draws), np.zeros(draws, dtype=int)
    hours, busy = np.full(draws, math.inf), np.zeros((len(rungs), draws))
    settled = np.zeros(draws, dtype=bool)
    every = np.arange(draws)
    for step in range(steps):
        now, open_ = there[step], ~np.isfinite(hours)
        if not open_.any():
            break
        steady = np.where(now, steady + 1, 0)
        chosen = _chosen(at_rung, now, steady, wanted)
        if certain is not None:
            spare_h = deadline_h - (step + 1) * step_h - start[certain]
            settled |= open_ & (left > np.maximum(0.0, spare_h) * rate[certain])
            chosen = np.where(settled, certain, chosen)
        begun = open_ & (chosen != at_rung) & (chosen >= 0)
        over = np.where(begun, start[chosen], over)
        starts += begun
        at_rung = np.where(open_, chosen, at_rung)
        runs = open_ & (at_rung >= 0)
        idle = np.minimum(over, step_h)
        over = np.where(runs, over - idle, over)
        each = np.where(runs, rate[at_rung], 0.0)
        need_h = np.divide(left, each, out=np.full(draws, math.inf), where=each > 0)
        works = np.where(runs, np.minimum(step_h - idle, need_h), 0.0)
        left = left - works * each
        spent = np.where(runs, idle + works, 0.0)
        usd += spent * np.where(runs, price[at_rung], 0.0)
        busy[at_rung[runs], every[runs]] += spent[runs]
        done = runs & (need_h <= step_h - idle)
        hours = np.where(done, step * step_h + spent, hours)
    return Runs(hours=hours, usd=usd, starts=starts, busy_h=busy, left=left)


def _chosen(at_rung: Array, now: Array, steady: Array, per_sample: Array) -> Array:
    """Return the rung of each scenario for the next step, -1 where none is there."""
    draws, count = now.shape
    first = np.where(now.any(axis=1), now.argmax(axis=1), -1)
    stays = (at_rung >= 0) & now[np.arange(draws), at_rung]
    chosen = np.where(stays, at_rung, first)
    for better in range(count - 1, -1, -1):
        less = per_sample[better] <= WORTH * per_sample[np.maximum(at_rung, 0)]
        back = stays & (better < at_rung) & (steady[:, better] > STEADY_STEPS) & less
        chosen = np.where(back, better, chosen)
    return chosen
