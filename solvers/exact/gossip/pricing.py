"""Lagrangian bounds on the weighted speed of the site groups of so many regions, within a price and
a total speed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._market.arrays import Array, Indices, Mask, Rows
from .site_groups import SiteGroups

SHRINKS = (1.0, 0.45, 0.2, 0.09, 0.04, 0.018)
"""Widths of the grids of multipliers, one around the best of the one before."""
PRICE_STEPS = np.array([1 / 8, 1 / 4, 1 / 2, 1.0, 2.0])
"""Prices of a dollar that are tried first, over the mean speed of a dollar."""
SPEED_STEPS = np.array([0.0, 0.25, 0.5, 0.75])
"""Prices of a samples/s that are tried first."""
SPEED = 0.98
"""Price of a samples/s at most, over the most that any counts."""
MOST_NUMBERS = 500_000
"""Numbers of one array."""


class Cases(Rows, frozen=True, kw_only=True):
    """Sets of placements that are bounded side by side.

    ``weight`` and ``usd`` are what a samples/s of each site group is worth at most, and what the
    site group pays besides its machines at least; shape (cases, site groups). ``most_speed``,
    ``most_usd``: of all site groups together; ``fewest``, ``most``: regions; shape (cases,).
    ``most_usd_per_speed``: of what counts.
    ``first``: a place that has workers, by position among the places, and ``open``: the others that
    may have some; shapes (cases,) and (cases, places). None: any places.
    """

    weight: Array
    usd: Array
    most_speed: Array
    most_usd: float
    most_usd_per_speed: float
    fewest: Indices
    most: Indices
    first: Indices | None = None
    open: Mask | None = None


class Prices(Rows, frozen=True, kw_only=True):
    """Prices of a dollar and of a samples/s of each case; shape (cases, prices)."""

    dollar: Array
    speed: Array

    def best(self, at: Indices) -> tuple[Array, Array]:
        """Return one pair for each case."""
        rows = np.arange(len(at))
        return self.dollar[rows, at], self.speed[rows, at]


class Pricing:
    """Bounds of cases over the site groups of one market.

    ``site_groups``: all site groups, those of one place side by side. ``check``: called between
    arrays; ends a bound that takes too long. For every price of a dollar and of a samples/s, both
    at least 0, what the site groups are worth less what they cost, plus both limits at these
    prices, is at least the weighted speed that is within the limits. The least over all prices that
    are tried counts; any choice of them is valid.
    """

    def __init__(self, site_groups: SiteGroups, check: Callable[[], None]) -> None:
        self.site_groups, self.check = site_groups, check
        self.starts = np.flatnonzero(np.diff(site_groups.place, prepend=-1))

    def bounds(self, cases: Cases, needed: float) -> tuple[Array, Array, Array]:
        """Return weighted speeds, refined while above ``needed``, and both prices there."""
        count = len(cases.fewest)
        reached: Array = cases.most_speed * cases.weight.max(axis=1, initial=0.0)
        alive = np.flatnonzero(reached >= needed)
        limits = needed / max(cases.most_usd, 1e-9), 1 / max(cases.most_usd_per_speed, 1e-9)
        middle = np.full(count, max(limits))
        speed, first = np.zeros(count), True
        most = np.maximum(cases.weight.max(axis=1, initial=0.0), 1e-9)
        for shrink in SHRINKS:
            if len(alive) == 0:
                break
            prices = (
                _first_prices(middle[alive])
                if first
                else _near(middle[alive], speed[alive], shrink, most[alive])
            )
            least, dollar, own = self._least(cases.at(alive), prices)
            better = least < reached[alive]
            at = alive[better]
            reached[at], middle[at], speed[at] = least[better], dollar[better], own[better]
            if first:
                middle[alive], speed[alive] = dollar, own
            first = False
            alive = alive[reached[alive] >= needed]
        return reached, middle, speed

    def near(self, cases: Cases, dollar: Array, speed: Array, needed: float) -> Mask:
        """Return which cases stay open at some prices and around them; shape (cases,)."""
        reached = self.reached(cases, Prices(dollar=dollar[:, None], speed=speed[:, None]))[:, 0]
        most = np.maximum(cases.weight.max(axis=1, initial=0.0), 1e-9)
        for shrink in SHRINKS[1:4]:
            alive = np.flatnonzero(reached >= needed)
            if not len(alive):
                break
            prices = _near(dollar[alive], speed[alive], shrink, most[alive])
            least, *own = self._least(cases.at(alive), prices)
            better = alive[least < reached[alive]]
            dollar[better], speed[better] = (each[least < reached[alive]] for each in own)
            reached[alive] = np.minimum(least, reached[alive])
        return reached >= needed

    def _least(self, cases: Cases, prices: Prices) -> tuple[Array, Array, Array]:
        """Return the least bound of each case over its prices, and where it is."""
        pairs, site_groups = prices.dollar.shape[1], len(self.site_groups.place)
        step = max(1, MOST_NUMBERS // (pairs * site_groups))
        parts = []
        for first in range(0, len(cases.fewest), step):
            self.check()
            rows = np.arange(first, min(first + step, len(cases.fewest)))
            own = prices.at(rows)
            reached = self.reached(cases.at(rows), own)
            at = np.argmin(reached, axis=1)
            parts.append((reached[np.arange(len(at)), at], *own.best(at)))
        least, dollar, speed = (np.concatenate(part) for part in zip(*parts, strict=True))
        return least, dollar, speed

    def worth(self, cases: Cases, prices: Prices) -> Array:
        """Return the worth of the best site group of each place; shape (cases, prices, places)."""
        dollar = prices.dollar[:, :, None]
        weight = np.maximum(0.0, cases.weight[:, None, :] - prices.speed[:, :, None])
        values = self.site_groups.values(weight, dollar) - dollar * cases.usd[:, None, :]
        # Site groups that lack partners, or whose sends no price covers, are never chosen.
        dead = (cases.weight <= 0) | ~np.isfinite(cases.usd)
        values = np.where(dead[:, None, :], -np.inf, values)
        return np.maximum.reduceat(values, self.starts, axis=2)

    def reached(self, cases: Cases, prices: Prices) -> Array:
        """Return the bound of each case at each of its prices; shape (cases, prices)."""
        worth = self.worth(cases, prices)
        fewest, most = cases.fewest, np.minimum(cases.most, worth.shape[2])
        reached: Array = prices.speed * cases.most_speed[:, None]
        if cases.first is not None and cases.open is not None:
            reached = reached + worth[np.arange(len(worth)), :, cases.first]
            worth = np.where(cases.open[:, None, :], worth, -np.inf)
            fewest, most = fewest - 1, most - 1
        reached = reached + _top(-np.sort(-worth, axis=2), fewest, most)
        return within(reached, prices.dollar, cases.most_usd, cases.most_usd_per_speed)


def within(
    reached: Array, dollar: Array | float, most_usd: float, most_usd_per_speed: float
) -> Array:
    """Add what limits allow of dollars at a price: by the hour, and by what counts, where with x of
    it x <= reached + price x.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        free = 1 - dollar * most_usd_per_speed
        by_speed = np.where(free > 0, reached / free, np.inf)
        usd = np.where(np.asarray(dollar) > 0, dollar * most_usd, 0.0)
        by_hour = np.where(usd < np.inf, reached + usd, np.inf)
    return np.minimum(by_hour, by_speed)


def _top(ranked: Array, fewest: Indices, most: Indices) -> Array:
    """Sum the best ``fewest`` .. ``most`` of the last axis; shape (cases, prices)."""
    padded = np.concatenate([np.zeros((*ranked.shape[:2], 1)), ranked], axis=2)
    rows = np.arange(len(ranked))
    must = np.cumsum(padded, axis=2)[rows, :, np.minimum(fewest, ranked.shape[2])]
    may = np.cumsum(np.maximum(padded, 0.0), axis=2)
    high, low = np.maximum(most, 0), np.clip(fewest, 0, ranked.shape[2])
    built = must + np.maximum(0.0, may[rows, :, high] - may[rows, :, low])
    able = (fewest <= most)[:, None]
    return np.where(able, built, -np.inf)


def _first_prices(middle: Array) -> Prices:
    dollar, speed = np.meshgrid(PRICE_STEPS, SPEED_STEPS)
    return Prices(
        dollar=middle[:, None] * dollar.ravel(),
        speed=np.broadcast_to(speed.ravel(), (len(middle), dollar.size)),
    )


def _near(middle: Array, speed: Array, shrink: float, most: Array) -> Prices:
    """Return prices around some. With less for a samples/s, a dollar buys as much at a lower price:
    ``most`` is what any samples/s counts.
    """
    steps = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    factor, shift = np.meshgrid(2.0 ** (2 * shrink * steps), shrink * 0.5 * steps)
    highest = SPEED * most[:, None]
    own = np.clip(speed[:, None] + shift.ravel(), 0.0, highest)
    left = (most[:, None] - own) / (most[:, None] - np.minimum(speed[:, None], highest))
    return Prices(dollar=middle[:, None] * factor.ravel() * left, speed=own)
