"""The optimum of a job in hindsight, in one place at a time, and a bound for any number of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from placer.advice.policy.trace import Job, Market

Array = npt.NDArray[Any]
MOST_LEVELS = 5_000
"""Steps of progress; with more, a step is longer and the optimum a bound from below."""


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
    ticks = math.ceil(job.deadline_h / tick_h - 1e-9)
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
    ticks, pieces = math.ceil(job.deadline_h / tick_h - 1e-9), []
    for tick in range(ticks):
        hours = min(tick_h, job.deadline_h - tick * tick_h)
        pieces += [
            (usd, hours * speed)
            for usd, speed in _hull(
                launched[tick].tolist(), usd_per_hour[tick].tolist(), job, market
            )
        ]
    pieces.sort()
    total, left = 0.0, job.work_h
    for usd, work in pieces:
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
