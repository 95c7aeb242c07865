"""Capacity and prices of zones on a grid of ticks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from placer.advice.policy.job import Job, Observation, observed
from placer.errors import PlacerError
from placer.market.launch_log import LaunchLog

Array = npt.NDArray[Any]
LEAST_TICK_H = 1 / 60
MOST_TICKS = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Machines and prices at each tick; shape (ticks, zones).

    Notes
    -----
    ``most`` is how many machines each zone was asked for. ``carried`` is the share of cells in
    which nobody looked: they have what the zone had last, 0 before anybody looked.
    """

    zones: tuple[str, ...]
    first: datetime
    tick_h: float
    launched: Array
    usd_per_hour: Array
    most: int
    carried: float

    @property
    def ticks(self) -> int:
        """Ticks of the trace."""
        return len(self.launched)

    def time(self, tick: int) -> datetime:
        """Return when a tick begins."""
        return self.first + timedelta(hours=tick * self.tick_h)

    def observations(self, job: Job, *, censored: bool = False) -> list[Observation]:
        """Return what a policy knows at each tick: nothing of what follows.

        Parameters
        ----------
        censored
            Read a zone that launched all machines that were asked for as one that has any number.
        """
        launched = self.launched
        if censored:
            launched = np.where(launched >= self.most, max(self.most, job.machines), launched)
        return observed(launched, self.usd_per_hour, self.tick_h, job)


def trace_of(log: LaunchLog, usd_per_hour: Array, tick_h: float | None = None) -> Trace:
    """Put a log of launches on a grid.

    Parameters
    ----------
    log
        The log.
    usd_per_hour
        Spot prices at each observation; shape (observations, zones) or (zones,).
    tick_h
        Hours of a tick; None: the median time between observations.

    Raises
    ------
    PlacerError
        If the log has one observation, or would have too many ticks.
    """
    if len(log.hours) < 2:
        raise PlacerError("a log of one observation is not a trace", "log launches for some hours")
    tick_h = float(np.median(np.diff(log.hours))) if tick_h is None else tick_h
    if tick_h < LEAST_TICK_H:
        raise PlacerError(
            f"ticks of {tick_h * 3600:.3g} s",
            "give ticks of a minute or more, such as --tick 10min",
        )
    tick_h = round(tick_h * 3600) / 3600
    # The last observation holds for one tick.
    count = int(log.hours[-1] / tick_h + 1e-6) + 1
    if count > MOST_TICKS:
        raise PlacerError(f"{count:,} ticks", f"give longer ticks: at most {MOST_TICKS:,} of them")
    at = np.searchsorted(log.hours, np.arange(count) * tick_h + 1e-6, side="right") - 1
    carried = log.launched.copy()
    for row in range(1, len(carried)):
        carried[row] = np.where(carried[row] < 0, carried[row - 1], carried[row])
    prices = np.broadcast_to(usd_per_hour, log.launched.shape)
    return Trace(
        zones=log.zones,
        first=log.first,
        tick_h=tick_h,
        launched=np.maximum(carried[at], 0),
        usd_per_hour=prices[at],
        most=log.most,
        carried=float(_unseen(log, at)),
    )


def _unseen(log: LaunchLog, at: Array) -> float:
    """Return the share of the grid's cells that no observation of their own fills."""
    repeated = np.concatenate([[False], at[1:] == at[:-1]])
    seen = (log.launched[at] >= 0) & ~repeated[:, None]
    return 1.0 - float(seen.mean())
