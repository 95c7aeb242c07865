"""A training job with a deadline, its market, and capacity and prices of zones tick by tick."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from placer.errors import PlacerError
from placer.market.launch_log import LaunchLog

Array = npt.NDArray[Any]
RESTART_H = 0.2
"""Hours that new machines are paid before they work: start, image, checkpoint (assumed)."""
REFORM_H = 0.05
"""Hours that an island is paid without work when its number of machines changes (assumed)."""
EFFICIENCY = 0.95
"""Speed of a job in several places over that in one, with local steps (assumed)."""
QUORUM = 0.5
"""Share of the machines below which the job stands still (assumed)."""
CHECKPOINT_GIB = 50.0
EXCHANGE_GIB_PER_H = 16.0
MOST_MACHINES = 4_096
LEAST, MOST = math.ulp(0.0), math.nextafter(math.inf, 0.0)
"""The least figure above 0, and the largest that is not infinite."""
FIGURES = (
    (("work_h", "deadline_h"), LEAST, MOST, "is not a number of hours", "give hours above 0"),
    (
        ("restart_h", "reform_h", "checkpoint_gib", "exchange_gib_per_h"),
        0,
        MOST,
        "is not possible",
        "give 0 or more",
    ),
    (("efficiency", "quorum"), LEAST, 1, "is not a share", "give more than 0, at most 1"),
)
"""Least and most of some fields of a job, with what is said of others."""
STEADY_TICKS, STEADY_H = 3, 0.5
"""Ticks and hours over which machines must be there before a job that runs takes them."""
MEMORY_H = 48.0
"""Hours over which lives are averaged."""
PRIOR_H = 3.0
"""One life of so many hours is assumed before any is seen."""
LEAST_TICK_H = 1 / 60
MOST_TICKS = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Work that so many machines together do in ``work_h`` hours, and the deadline.

    Half of the machines do half of the work in an hour; below ``quorum`` they do none. In several
    places the speed is ``efficiency`` times that, and never more than that of all machines.
    ``checkpoint_gib`` goes to each new place, ``exchange_gib_per_h`` to and from every place but
    one while there are several.
    """

    machines: int
    work_h: float
    deadline_h: float
    restart_h: float = RESTART_H
    reform_h: float = REFORM_H
    efficiency: float = EFFICIENCY
    quorum: float = QUORUM
    checkpoint_gib: float = CHECKPOINT_GIB
    exchange_gib_per_h: float = EXCHANGE_GIB_PER_H

    def __post_init__(self) -> None:
        """Refuse a job that not even on-demand machines finish."""
        if not 1 <= self.machines <= MOST_MACHINES:
            raise PlacerError(
                f"a job of {self.machines} machines", f"give 1 to {MOST_MACHINES:,} machines"
            )
        for names, low, high, wrong, hint in FIGURES:
            for name in names:
                value = getattr(self, name)
                if not low <= value <= high:
                    raise PlacerError(f"{name} {value} {wrong}", hint)
        if self.deadline_h < self.work_h + self.restart_h - 1e-9:
            raise PlacerError(
                f"{self.work_h:g} h of work and a start of {self.restart_h:g} h do not fit in "
                f"{self.deadline_h:g} h",
                "give a later deadline, or more machines",
            )

    def speed(self, working: float, places: int) -> float:
        """Return the hours of work that so many working machines do in one hour, held in some
        places.

        >>> job = Job(machines=16, work_h=24, deadline_h=30)
        >>> job.speed(16, 1), job.speed(16, 2), job.speed(8, 1)
        (1.0, 0.95, 0.5)
        """
        whole = working / self.machines * (self.efficiency if places > 1 else 1.0)
        return min(1.0, whole)


@dataclass(frozen=True, kw_only=True, slots=True)
class Market:
    """Zones with spot machines, and one place with on-demand machines.

    Places are the zones in order, and last the on-demand place. ``egress_usd_per_gib`` has the
    shape (places, places). On-demand machines are taken to be there whenever they are wanted.
    """

    zones: tuple[str, ...]
    on_demand_place: str
    on_demand_usd_per_hour: float
    egress_usd_per_gib: tuple[tuple[float, ...], ...]
    source: str = ""

    @property
    def on_demand(self) -> int:
        """Number of the on-demand place."""
        return len(self.zones)

    @property
    def places(self) -> tuple[str, ...]:
        """Names of all places."""
        return (*self.zones, f"{self.on_demand_place} (on-demand)")


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known when a tick begins; one entry a zone.

    ``launched``: spot machines that there are. ``steady``: the fewest of the last half hour.
    ``life_h``: how long enough machines have lasted lately. ``usd_per_hour``: price of one.
    """

    launched: tuple[int, ...]
    steady: tuple[int, ...]
    life_h: tuple[float, ...]
    usd_per_hour: tuple[float, ...]


def steady(launched: Array, tick_h: float) -> Array:
    """Return the fewest machines of the last half hour, or three ticks; shape (ticks, zones)."""
    built: Array = launched.copy()
    for back in range(1, max(STEADY_TICKS, round(STEADY_H / tick_h))):
        built[back:] = np.minimum(built[back:], launched[: len(launched) - back])
    return built


def lives_h(enough: Array, tick_h: float, memory_h: float = MEMORY_H) -> Array:
    """Return how many hours enough machines, shape (ticks, zones), have lasted lately, at each
    tick.

    (hours with enough + 3) / (ends + 1): the mean life with one life of 3 h assumed.
    """
    back = max(1, round(memory_h / tick_h))
    ends = np.zeros(enough.shape, dtype=float)
    ends[1:] = enough[:-1] & ~enough[1:]

    def recent(values: Array, last: int) -> Array:
        total = np.cumsum(values, axis=0, dtype=float)
        built: Array = total.copy()
        built[last:] -= total[:-last]
        return built

    built: Array = (recent(enough, back + 1) * tick_h + PRIOR_H) / (recent(ends, back) + 1.0)
    return built


def observed(launched: Array, usd_per_hour: Array, tick_h: float, job: Job) -> list[Observation]:
    """Return what is known at each tick of some launches; shapes (ticks, zones)."""
    enough = launched >= min(job.machines, int(launched.max(initial=1)))
    columns = (launched, steady(launched, tick_h), lives_h(enough, tick_h), usd_per_hour)
    return [
        Observation(
            launched=tuple(there), steady=tuple(held), life_h=tuple(lives), usd_per_hour=tuple(usd)
        )
        for there, held, lives, usd in zip(*(column.tolist() for column in columns), strict=True)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Machines and prices at each tick; shape (ticks, zones).

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

        ``censored``: a zone that launched all that were asked for counts as one with any number.
        """
        launched = self.launched
        if censored:
            launched = np.where(launched >= self.most, max(self.most, job.machines), launched)
        return observed(launched, self.usd_per_hour, self.tick_h, job)


def trace_of(log: LaunchLog, usd_per_hour: Array, tick_h: float | None = None) -> Trace:
    """Put a log of launches on a grid.

    Spot prices are those at each observation; shape (observations, zones) or (zones,). Without
    ``tick_h`` a tick is the median time between observations. Raises PlacerError if the log has one
    observation, or would have too many ticks.
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
    repeated = np.concatenate([[False], at[1:] == at[:-1]])
    seen = (log.launched[at] >= 0) & ~repeated[:, None]
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
        carried=1.0 - float(seen.mean()),
    )
