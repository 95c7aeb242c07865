"""A job, the market that it runs on, and its state: machines held, work done, dollars paid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from placer.errors import PlacerError
from placer.market.launch_log import LaunchLog
from placer.records import replace

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


Machines = tuple[int, ...]
"""Machines of each place: the zones in order, then the on-demand place."""
EPSILON_H = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A job at the beginning of a tick.

    ``wait_h`` are the hours that the machines of each place are paid before they work. ``last`` is
    the place that held the job last. ``for_good``: only on-demand machines from now on.
    """

    machines: Machines
    wait_h: tuple[float, ...]
    now_h: float = 0.0
    done_h: float = 0.0
    last: int | None = None
    for_good: bool = False
    machine_usd: float = 0.0
    checkpoint_usd: float = 0.0
    exchange_usd: float = 0.0
    on_demand_h: float = 0.0
    idle_h: float = 0.0
    spread_h: float = 0.0
    moves: int = 0
    lost: int = 0

    @property
    def usd(self) -> float:
        """Dollars so far."""
        return self.machine_usd + self.checkpoint_usd + self.exchange_usd

    def left_h(self, job: Job) -> float:
        """Hours of work that are left."""
        return max(0.0, job.work_h - self.done_h)

    def finished(self, job: Job) -> bool:
        """Whether all work is done."""
        return self.left_h(job) <= EPSILON_H

    def slack_h(self, job: Job) -> float:
        """Hours until the deadline that the work itself does not need."""
        return job.deadline_h - self.now_h - self.left_h(job)


def start(market: Market) -> State:
    """Return the state of a job that holds nothing."""
    count = market.on_demand + 1
    return State(machines=(0,) * count, wait_h=(0.0,) * count)


def places_of(machines: Sequence[int]) -> int:
    """Count the places in which machines are held."""
    return sum(count > 0 for count in machines)


def after_losses(state: State, seen: Observation, job: Job) -> State:
    """Take away the machines that are not there any more; what is left of an island re-forms."""
    machines, wait_h, lost = list(state.machines), list(state.wait_h), 0
    for zone, there in enumerate(seen.launched):
        if machines[zone] > there:
            lost += machines[zone] - there
            machines[zone] = there
            wait_h[zone] = max(wait_h[zone], min(job.reform_h, job.restart_h)) if there else 0.0
    if not lost:
        return state
    return replace(state, machines=tuple(machines), wait_h=tuple(wait_h), lost=state.lost + lost)


def changed(state: State, target: Machines, job: Job, market: Market) -> State:
    """Hold other machines: joiners wait a restart, their island re-forms, a new place gets the
    checkpoint.

    The wait of an island is the mean over its machines: they are paid for that many hours without
    work. Nothing takes longer than to start the whole island anew.
    """
    if target == state.machines:
        return state
    held = [place for place, count in enumerate(state.machines) if count]
    wait_h, usd, moves = list(state.wait_h), 0.0, 0
    for place, (before, count) in enumerate(zip(state.machines, target, strict=True)):
        if count == before:
            continue
        if count == 0:
            wait_h[place] = 0.0
        elif before == 0:
            wait_h[place] = job.restart_h
            usd += checkpoint_usd(state, place, job, market)
            moves += bool(held) or state.last not in (None, place)
        else:
            joined = max(0, count - before)
            mean = (wait_h[place] * (count - joined) + job.restart_h * joined) / count
            wait_h[place] = min(job.restart_h, mean + job.reform_h)
    return replace(
        state,
        machines=target,
        wait_h=tuple(wait_h),
        checkpoint_usd=state.checkpoint_usd + usd,
        moves=state.moves + moves,
    )


def checkpoint_usd(state: State, place: int, job: Job, market: Market) -> float:
    """Price the checkpoint that goes to a new place, from the cheapest that is held or the last."""
    sources = [at for at, count in enumerate(state.machines) if count]
    if not sources and state.last is not None:
        sources = [state.last]
    return job.checkpoint_gib * min(
        (market.egress_usd_per_gib[source][place] for source in sources), default=0.0
    )


def work_in(state: State, hours: float, job: Job) -> float:
    """Return the hours of work that the machines do in so many hours.

    Between two ends of a wait the speed is one; it is never more than that of all machines.
    """
    if sum(state.machines) < job.quorum * job.machines - EPSILON_H:
        return 0.0
    held = [pair for pair in zip(state.wait_h, state.machines, strict=True) if pair[1]]
    edges = sorted({0.0, hours, *(wait for wait, _ in held if 0 < wait < hours)})
    work = 0.0
    for begin, end in pairwise(edges):
        working = sum(count for wait, count in held if wait <= begin)
        work += (end - begin) * job.speed(working, len(held))
    return work


def hours_for(state: State, work_h: float, most_h: float, job: Job) -> float:
    """Return the hours after which so much work is done; at most ``most_h``."""
    if work_in(state, most_h, job) <= work_h:
        return most_h
    edges = sorted({min(wait, most_h) for wait in state.wait_h} | {0.0, most_h})
    for begin, end in pairwise(edges):  # between edges work grows evenly
        before, after = work_in(state, begin, job), work_in(state, end, job)
        if after > work_h:
            return begin + (end - begin) * (work_h - before) / (after - before)
    return most_h


def ran(
    state: State, hours: float, usd_per_hour: Sequence[float], job: Job, market: Market
) -> State:
    """Run the held machines for so many hours, or until the work is done."""
    left = state.left_h(job)
    work = work_in(state, hours, job)
    if work >= left - EPSILON_H:
        hours, work = hours_for(state, left, hours, job), left
    held = [place for place, count in enumerate(state.machines) if count]
    od = market.on_demand
    price = sum(
        state.machines[p] * (market.on_demand_usd_per_hour if p == od else usd_per_hour[p])
        for p in held
    )
    exchange = exchange_usd_per_hour(held, job, market)
    return replace(
        state,
        now_h=state.now_h + hours,
        done_h=state.done_h + work,
        wait_h=tuple(max(0.0, wait - hours) for wait in state.wait_h),
        last=held[0] if held else state.last,
        machine_usd=state.machine_usd + hours * price,
        exchange_usd=state.exchange_usd + hours * exchange,
        on_demand_h=state.on_demand_h + hours * state.machines[od],
        idle_h=state.idle_h + (0.0 if held else hours),
        spread_h=state.spread_h + (hours if len(held) > 1 else 0.0),
    )


def exchange_usd_per_hour(held: Sequence[int], job: Job, market: Market) -> float:
    """Price what the places exchange in an hour: to and from each of them but the first."""
    table = market.egress_usd_per_gib
    return job.exchange_gib_per_h * sum(
        table[held[0]][place] + table[place][held[0]] for place in held[1:]
    )
