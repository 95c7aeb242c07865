"""Replay: policies over a trace from many starts, beside the offline optimum."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import chain, islice
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from placer.advice.policy.policies import POLICIES, Rule, State, start, step
from placer.advice.policy.trace import Job, Market, Observation, Trace
from placer.advice.runner.runner import Opener, answers, here
from placer.documents.schemas import worlds
from placer.documents.schemas.worlds import Policy
from placer.errors import PlacerError, unknown
from placer.records import replace
from placer.report.shown import Shown
from placer.units import format_plain

Array = npt.NDArray[Any]
MOST_LEVELS = 5_000
"""Steps of progress; with more, a step is longer and the optimum a bound from below."""
PART = 16
"""Starts of one policy that one process runs at a time."""
ASSUMPTION = "on-demand machines are always available"
SLOW_REFORM_H = 0.2
LOW_EFFICIENCY = 0.85


def offline_optimum(
    launched: Array, usd_per_hour: Array, tick_h: float, job: Job, market: Market
) -> float:
    """Return the least dollars with which the job finishes in one place at a time.

    Launches and prices are from the job's beginning to its deadline; shape (ticks, zones). Dynamic
    programming backwards over ticks, places, hours waited since the start there, and progress in
    steps that divide tick, restart, work and deadline. Where no such step is long enough, restart
    and work are rounded down: the value is then a bound from below.
    """
    second, levels = _step_s(tick_h, job)
    ticks = ticks_of(job, tick_h)
    whole = round(tick_h * 3600) // second
    last = math.ceil(job.deadline_h * 3600 / second - 1e-6) - (ticks - 1) * whole
    restart = int(job.restart_h * 3600 / second + 1e-6)
    od, usd = market.on_demand, second / 3600 * job.machines
    prices = np.hstack([usd_per_hour[:ticks], np.full((ticks, 1), market.on_demand_usd_per_hour)])
    there = np.hstack([launched[:ticks] >= job.machines, np.ones((ticks, 1), dtype=bool)])
    egress = job.checkpoint_gib * np.array(market.egress_usd_per_gib)
    stages = max(1, math.ceil(restart / whole))
    running = np.full((od + 1, stages + 1, levels), np.inf)
    idle, fresh = np.full((od + 1, levels), np.inf), np.full(levels, np.inf)
    for tick in range(ticks - 1, -1, -1):
        hours = last if tick == ticks - 1 else whole
        run = np.full((od + 1, stages + 1, levels), np.inf)
        at = np.flatnonzero(there[tick])
        price = usd * prices[tick, at][:, None]
        for stage in range(stages + 1):
            waits = min(hours, max(0, restart - stage * whole))
            after = running[at, min(stage + 1, stages)]
            run[at, stage] = _tick_usd(after, waits, hours - waits, price)
        begun = np.stack([(row[:, None] + run[:, 0]).min(0) for row in egress])
        idle, fresh = np.minimum(begun, idle), np.minimum(run[:, 0].min(0), fresh)
        running = np.minimum(run, idle[:, None])
    return float(fresh[0])


def _tick_usd(after: Array, waits: int, works: int, price: Array) -> Array:
    """Return the dollars of one tick and all after it, by progress; the last step is level - 1."""
    levels = after.shape[1]
    left = levels - np.arange(levels)
    built: Array = price * np.minimum(waits + works, waits + left)
    if works < levels:
        built[:, : levels - works] += after[:, works:]
    return built


def _step_s(tick_h: float, job: Job) -> tuple[int, int]:
    """Return the seconds of a step and the steps of the whole work."""
    whole = [round(hours * 3600) for hours in (tick_h, job.restart_h, job.work_h, job.deadline_h)]
    work = int(job.work_h * 3600 + 1e-6)
    step = math.gcd(*whole)
    if work // step > MOST_LEVELS:
        least = max(1, math.ceil(work / MOST_LEVELS))
        step = next((s for s in range(least, whole[0]) if whole[0] % s == 0), whole[0])
    return step, max(1, work // step)


def offline_bound(
    launched: Array, usd_per_hour: Array, tick_h: float, job: Job, market: Market
) -> float:
    """Return dollars that no policy undercuts, however many places it holds.

    Machine-hours are bought where and when they do the most work for a dollar, without starts,
    egress or a quorum: each tick offers the lower convex hull of speed and price over one place and
    over several, and the whole is a fractional knapsack.
    """
    pieces = []
    for tick in range(ticks_of(job, tick_h)):
        hours = min(tick_h, job.deadline_h - tick * tick_h)
        hull = _hull(launched[tick].tolist(), usd_per_hour[tick].tolist(), job, market)
        pieces += [(usd, hours * speed) for usd, speed in hull]
    total, left = 0.0, job.work_h
    for usd, work in sorted(pieces):
        taken = min(work, left)
        total, left = total + usd * taken, left - taken
        if left <= 0:
            break
    return total


def _hull(
    launched: list[int], usd: list[float], job: Job, market: Market
) -> list[tuple[float, float]]:
    """Return the edges of the lower hull of speed and dollars an hour: USD per work, and speed."""
    offers = [*zip(usd, launched, strict=True), (market.on_demand_usd_per_hour, job.machines)]
    points = [
        (job.speed(min(count, job.machines), 1), min(count, job.machines) * price)
        for price, count in offers
        if count
    ]
    machines = cost = 0.0
    most = job.machines / job.efficiency
    for price, count in sorted(offers):
        more = min(count, most - machines)
        machines, cost = machines + more, cost + more * price
        points.append((job.speed(machines, 2), cost))
    edges: list[tuple[float, float]] = []
    at = (0.0, 0.0)
    while True:
        ahead = [point for point in points if point[0] > at[0] + 1e-12]
        if not ahead:
            return edges
        slope, _, best = min(((y - at[1]) / (x - at[0]), -x, (x, y)) for x, y in ahead)
        edges.append((slope, best[0] - at[0]))
        at = best


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One job from one start; ``end`` is its state when the work was done or time was up."""

    first: int
    end: State
    missed: bool


class Replay(worlds.Replay, Shown, frozen=True):
    """Policies over one trace."""

    def __repr__(self) -> str:
        names = ", ".join(one.policy for one in self.policies)
        return f"<Replay of {names} from {len(self.starts)} starts>"

    def policy(self, name: str) -> Policy:
        """Return the figures of one policy; PlacerError if it was not replayed."""
        by_name = {one.policy: one for one in self.policies}
        if name not in by_name:
            raise unknown("policy", name, by_name)
        return by_name[name]


def _policy(name: str, runs: Sequence[Run], job: Job, trace: Trace) -> Policy:
    """Take the means of the runs of one policy from many starts, and the dearest run."""

    def mean(figure: str) -> float:
        return fmean(getattr(run.end, figure) for run in runs)

    worst = max(runs, key=lambda run: run.end.usd)
    return Policy(
        policy=name,
        usd=mean("usd"),
        worst_usd=worst.end.usd,
        worst_start=_minute(trace.time(worst.first)),
        missed=sum(run.missed for run in runs),
        moves=mean("moves"),
        machines_lost=mean("lost"),
        checkpoint_usd=mean("checkpoint_usd"),
        exchange_usd=mean("exchange_usd"),
        on_demand_hours=mean("on_demand_h") / job.machines,
        idle_hours=mean("idle_h"),
        several_places_hours=mean("spread_h"),
        on_demand_for_good=sum(run.end.for_good for run in runs),
    )


def replay(
    trace: Trace,
    job: Job,
    market: Market,
    *,
    names: Sequence[str] = (),
    every_h: float = 2.0,
    offline: bool = True,
    starts: Sequence[int] | None = None,
    opened: Opener = here,
) -> Replay:
    """Run policies over a trace.

    ``names`` are of `POLICIES`; empty: all, the censored one where it differs. ``starts`` are ticks
    at which jobs begin; None: every so many hours, as long as the deadline is within the trace.
    Without ``offline`` there is no optimum and no bound. Raises PlacerError if a policy is unknown,
    or the trace is shorter than the deadline.
    """
    for name in names:
        if name not in POLICIES:
            raise unknown("policy", name, POLICIES)
    if starts is None:
        starts = starts_of(trace.ticks, trace.tick_h, job, every_h)
    if not starts:
        raise PlacerError("a replay without a start", "give at least one")
    differs = job.machines > trace.most  # what is censored
    usual = [name for name, policy in POLICIES.items() if differs or not policy.censored]
    chosen = [name for name in POLICIES if name in (names or usual)]
    dearer: list[tuple[str, Job]] = []
    if "span" in chosen:  # islands re-form slowly, or several places are slow
        slow_places = f"several places have {LOW_EFFICIENCY:g} of the speed of one"
        dearer = [
            (f"re-forming takes {SLOW_REFORM_H:g} h", replace(job, reform_h=SLOW_REFORM_H)),
            (slow_places, replace(job, efficiency=LOW_EFFICIENCY)),
        ]
    wanted = [*((name, job) for name in chosen), *(("span", changed) for _, changed in dearer)]
    parts = [tuple(starts[at : at + PART]) for at in range(0, len(starts), PART)]
    with opened((trace, market)) as runner:
        runs = answers(_runs, [(name, one, part) for name, one in wanted for part in parts], runner)
        summaries = [
            _policy(name, [*chain.from_iterable(islice(runs, len(parts)))], one, trace)
            for name, one in wanted
        ]
        pairs = list(answers(_offline, [(job, first) for first in starts if offline], runner))
    changed = summaries[len(chosen) :]
    return Replay(
        trace=worlds.Trace(
            zones=list(trace.zones),
            first=_minute(trace.first),
            ticks=trace.ticks,
            tick_hours=trace.tick_h,
            asked=trace.most,
            carried=trace.carried,
        ),
        job=worlds.ReplayJob(
            **{
                re.sub("_h$", "_hours", name.replace("_per_h", "_per_hour")): value
                for name, value in asdict(job).items()
            }
        ),
        market=worlds.ReplayMarket(
            on_demand_place=market.on_demand_place,
            on_demand_usd_per_hour=market.on_demand_usd_per_hour,
            source=market.source,
        ),
        starts=[_minute(trace.time(tick)) for tick in starts],
        policies=summaries[: len(chosen)],
        offline=worlds.Offline(
            optimum_usd=fmean(one for one, _ in pairs) if offline else None,
            bound_usd=fmean(one for _, one in pairs) if offline else None,
        ),
        sensitivity=[
            worlds.Sensitivity(change=words, span_usd=each.usd)
            for (words, _), each in zip(dearer, changed, strict=True)
        ],
        assumptions=[ASSUMPTION],
    )


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%MZ}"


def _runs(shared: tuple[Trace, Market], asked: tuple[str, Job, Sequence[int]]) -> tuple[Run, ...]:
    """Run one policy from some starts."""
    (trace, market), (name, job, starts) = shared, asked
    policy = POLICIES[name]
    seen = trace.observations(job, censored=policy.censored)
    cheapest, begun = trace.usd_per_hour.argmin(axis=1), start(job, market)
    return tuple(
        simulate(seen, trace.tick_h, first, policy.rule(int(cheapest[first])), begun)
        for first in starts
    )


def _offline(shared: tuple[Trace, Market], asked: tuple[Job, int]) -> tuple[float, float]:
    """Return the optimum and the bound of one start, in hindsight."""
    (trace, market), (job, first) = shared, asked
    rows = slice(first, first + ticks_of(job, trace.tick_h))
    given = (trace.launched[rows], trace.usd_per_hour[rows], trace.tick_h, job, market)
    return offline_optimum(*given), offline_bound(*given)


def simulate(
    seen: Sequence[Observation], tick_h: float, first: int, rule: Rule, state: State
) -> Run:
    """Run a job from one tick on, until its work is done or its deadline is there."""
    tick = first
    while not state.finished and state.now_h < state.job.deadline_h - 1e-9:
        _, state = step(state, seen[tick], tick_h, rule)
        tick += 1
    return Run(first=first, end=state, missed=not state.finished)


def ticks_of(job: Job, tick_h: float) -> int:
    """Return the ticks until the deadline, the last one perhaps in part."""
    return math.ceil(job.deadline_h / tick_h - 1e-9)


def starts_of(ticks: int, tick_h: float, job: Job, every_h: float) -> range:
    """Return the ticks at which jobs begin: all that have their deadline within the trace."""
    needed = ticks_of(job, tick_h)
    if needed > ticks:
        raise PlacerError(
            f"a trace of {format_plain(ticks * tick_h, 4)} h, where the deadline is "
            f"{format_plain(job.deadline_h, 4)} h away",
            "give a longer trace, less work or an earlier deadline",
        )
    return range(0, ticks - needed + 1, max(1, round(every_h / tick_h)))
