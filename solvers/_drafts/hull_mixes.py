"""First drafts where money is left once all workers that may run are the best for their price: two
kinds of one place, the cheaper and the faster neighbour on the hull of price and speed.

What runs out beside the money is the number of workers, or a joint limit such as the sequences of a
step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placer.cost_model.timing.transfers import averaging_seconds
from placer.solving import allowance

from .._market.arrays import Array, Indices
from .._market.market import Market
from .draft import Judge

SHARES = (1.0, 0.9, 0.75, 0.6, 0.5, 0.35, 0.25)
"""Numbers of workers that are tried, as shares of the most."""


def hull_mixes(judge: Judge, able: Array) -> Iterator[dict[int, int]]:
    """Yield mixes of two kinds whose price is just within the budget.

    Parameters
    ----------
    judge
        Its market and limits.
    able
        Which pools may be used; shape (pools,).

    Notes
    -----
    Each of M units, such as workers, goes to one kind: the best mix but for rounding lies on the
    hull of price and speed of a unit, between the two corners around budget / M. A slow host slows
    the exchange of all, so each class of hosts is tried as the slowest.
    """
    market, budget, most = judge.market, judge.target.budget_usd_per_hour, judge.most
    if budget == np.inf or most < 2:
        return
    seconds = seconds_of_hosts(judge)
    limits = [(np.ones(len(market.pools)), float(most))]
    limits += [
        (taken, float(row.most))
        for taken, row in zip(market.joint, judge.problem.joint_limits, strict=True)
    ]
    seen: set[tuple[tuple[int, int], ...]] = set()
    # The same for every budget, floor and objective: side questions differ in these.
    hulls: dict[tuple[bytes, int], list[int]] = market.kept.setdefault("hulls", {})
    for place in range(len(market.places)):
        allowance.check()
        here = able & (market.place_of == place) & (market.usd > 0)
        for limit, (taken, whole) in enumerate(limits):
            mine = np.flatnonzero(here & (taken > 0))
            if not len(mine) or whole * (market.usd[mine] / taken[mine]).min() >= budget:
                continue
            for slowest in np.unique(seconds[mine]).tolist():
                pools = mine[seconds[mine] <= slowest]
                known = pools.tobytes(), limit
                if known not in hulls:
                    hulls[known] = _hull(market, pools, taken)
                corners = hulls[known]
                for share in SHARES:
                    mix = _mix(judge, corners, taken, share * whole)
                    key = tuple(sorted(mix.items()))
                    if len(mix) > 1 and key not in seen:
                        seen.add(key)
                        yield mix


def seconds_of_hosts(judge: Judge) -> Array:
    """Return how long an average of as many workers as may run takes with the host of each pool;
    shape (pools,).
    """
    problem = judge.problem
    known = {
        host: averaging_seconds(
            [host],
            problem.gradient_bytes,
            judge.most,
            problem.profile.tensors,
            problem.calibration,
        )
        for host in set(judge.market.host_of)
    }
    return np.array([known[host] for host in judge.market.host_of])


def _hull(market: Market, pools: Indices, taken: Array) -> list[int]:
    """Return the pools on the upper hull of speed over price, both for a unit of what they take,
    from the best speed for its price to the fastest.
    """
    usd, speed = market.usd / np.maximum(taken, 1e-12), market.speed / np.maximum(taken, 1e-12)
    order = pools[np.lexsort((-speed[pools], usd[pools]))]
    first = int(order[int(np.argmax(speed[order] / usd[order]))])
    corners = [first]
    for i in order[usd[order] > usd[first]].tolist():
        if speed[i] <= speed[corners[-1]]:
            continue
        while len(corners) > 1 and _below(usd, speed, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    return corners


def _below(usd: Array, speed: Array, a: int, b: int, c: int) -> bool:
    """Tell whether b lies below the line from a to c."""
    return bool(
        (speed[c] - speed[a]) * (usd[b] - usd[a]) >= (speed[b] - speed[a]) * (usd[c] - usd[a])
    )


def _mix(judge: Judge, corners: list[int], taken: Array, whole: float) -> dict[int, int]:
    """Return as many of the faster neighbour as the budget allows beside the cheaper one, of so
    many units; empty where the cheapest corner is too dear, or the fastest within the budget.
    """
    market, budget = judge.market, judge.target.budget_usd_per_hour
    below = [i for i in corners if whole * market.usd[i] <= budget * taken[i]]
    if not below or len(below) == len(corners):
        return {}
    cheap, fast = below[-1], corners[len(below)]
    unit = market.usd[cheap] / taken[cheap]
    count = (budget - whole * unit) / (market.usd[fast] - taken[fast] * unit)
    fewer = int(min(count, market.cap[fast], judge.most))
    rest = (whole - fewer * taken[fast]) / taken[cheap]
    other = int(min(rest, market.cap[cheap], judge.most - fewer))
    return {pool: count for pool, count in ((cheap, other), (fast, fewer)) if count > 0}
