"""State of a job between ticks, what changes it, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from placer.advice.policy.trace import Job, Market, Observation
from placer.records import replace

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
