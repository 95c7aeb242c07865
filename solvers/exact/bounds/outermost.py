"""What no placement beats by the prices and speeds of machines alone: the bound of last resort."""

from __future__ import annotations

import math

import numpy as np

from placer.cost_model.convergence import batch_factor
from placer.cost_model.limits import TOLERANCE
from placer.problem.problem import Problem
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array
from ..._market.market import Market
from ..._mode import Mode
from ..._target import Target

PRICES = 24
"""Prices of a dollar, around what the best machine makes of one, of which the tightest counts."""
LEAST_USD = 1e-6
"""Machines that are paid for anyway count as this much an hour where speed is divided by price."""


def unbeatable_value(market: Market, target: Target) -> float:
    """Return a value that no placement within the limits of a target beats.

    Notes
    -----
    Machines that exchange nothing, as many as may run, of each pool no more than its cap. Quotas
    that pools share are left out. It takes one pass over the pools, so that a search that was
    stopped before any relaxation was worked out has a bound all the same.
    """
    name = target.objective.name
    counted = min(batch_factor(market.problem), least_multiplier(market.problem))
    speed = np.maximum(market.speed, market.alone * batch_factor(market.problem)) / counted
    if name == "throughput":
        return _most_speed(market, speed, target.budget_usd_per_hour)
    if name == "cost":
        return _least_usd(market, speed, target.floor_samples_per_second)
    if target.objective.by_sample:
        usd = float((_offers(market) / speed).min())
        read = SECONDS_PER_HOUR * counted * min(market.data_usd)
        return target.objective.value_at(1.0, usd + read, None)
    return _least_sum(market, market.carbon, market.problem.requirements.min_workers)


def least_multiplier(problem: Problem) -> float:
    """Return the least samples to target of any mode: what passes through the workers for each
    sample that counts.
    """
    return min(
        (Mode(problem, name, steps).multiplier for name, steps in problem.modes), default=1.0
    )


def _most_speed(market: Market, speed: Array, budget_usd: float) -> float:
    """Return the most samples/s that count which a budget pays for, by the tightest price of a
    dollar.
    """
    usd = _offers(market)
    if budget_usd == math.inf:
        return float(_worth(market, speed, usd, np.zeros(1))[0])
    prices = _prices(speed, usd)
    return float((prices * budget_usd * (1 + TOLERANCE) + _worth(market, speed, usd, prices)).min())


def _least_usd(market: Market, speed: Array, floor: float) -> float:
    """Return the least price of machines that reach a speed, and of as many as must be used."""
    usd, fewest = _offers(market), market.problem.requirements.min_workers
    least = _least_sum(market, usd, fewest)
    prices = _prices(speed, usd)
    prices = prices[prices > 0]
    if not len(prices):
        return least
    reached = (floor * (1 - TOLERANCE) - _worth(market, speed, usd, prices)) / prices
    return max(least, float(reached.max()))


def _worth(market: Market, speed: Array, usd: Array, prices: Array) -> Array:
    """Return the largest sum of v - price x c over as many machines as may run; shape (prices,)."""
    most = market.problem.requirements.max_workers
    left = np.maximum(0.0, speed - prices[:, None] * usd)
    order = np.argsort(-left, axis=1, kind="stable")
    taken = np.minimum(np.cumsum(market.cap[order], axis=1), most)
    counts = np.diff(taken, axis=1, prepend=0.0)
    built: Array = (np.take_along_axis(left, order, axis=1) * counts).sum(axis=1)
    return built


def _prices(speed: Array, usd: Array) -> Array:
    """Return prices of a dollar from nothing to what the best machine makes of one."""
    best = float((speed / np.maximum(usd, LEAST_USD)).max(initial=0.0))
    return np.concatenate([[0.0], best * np.geomspace(1e-3, 1.0, PRICES)])


def _least_sum(market: Market, each: Array, count: int) -> float:
    """Return the least sum of a figure over so many machines."""
    taken = np.minimum(market.cap, count).astype(np.intp)
    return float(np.sort(np.repeat(each, taken))[:count].sum())


def _offers(market: Market) -> Array:
    return np.array([pool.usd_per_hour for pool in market.pools])
