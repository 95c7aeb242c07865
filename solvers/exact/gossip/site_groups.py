"""Sends between regions, and site groups: so many machines of one place that average among each
other, and what they are worth at every price of a dollar.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from placer.cost_model.timing.transfers import seconds_over
from placer.solving import allowance

from ..._market.arrays import Array, Indices
from ..._market.market import Market
from ..._mode import Mode
from ..bounds.relaxation import Family


class Sends:
    """Sends of one gradient from place to place."""

    def __init__(self, market: Market, mode: Mode) -> None:
        self.market, self.mode, self.problem = market, mode, market.problem
        self.size = market.problem.gradient_bytes

    @cached_property
    def seconds(self) -> Array:
        """Least seconds of a send, row to column; shape (places, places).

        As between workers of as many machines as any has: those of fewer take longer.
        """
        network, places = self.problem.network, self.market.places
        streams, lanes = self.problem.requirements.streams, self.mode.lanes
        machine = np.array([network.machine_bytes_per_s(place, lanes) for place in places])
        slowest = np.minimum(
            network.speeds(places, streams, lanes), np.minimum(machine[:, None], machine)
        )
        with np.errstate(divide="ignore"):
            return seconds_over(network.rtts_s(places), self.size / slowest)

    @cached_property
    def usd(self) -> Array:
        """Price of a send, row to column; shape (places, places)."""
        return self.size * self.market.prices

    @cached_property
    def home_usd(self) -> Array:
        """Price of what one follower adds to a round inside each place; shape (places,)."""
        return 2 * self.mode.local_steps * self.size * np.diag(self.market.prices)


STEP = 1.15
"""Ratio of neighbouring prices of a dollar in samples/s: a chord errs by 0.25 % at most."""
CHEAPEST, DEAREST = 1 / 300, 1.3
"""Ends of the prices, over the most samples/s of any machine for a dollar an hour; beyond them a
chord errs high.
"""
SIZES = (1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 65, 129)
"""Fewest machines of site groups that are looked at together."""
TINY = 1e-300
"""Stands for a weight of 0 in a logarithm."""
AT_ONCE = 500
"""Site groups whose tables are filled between two looks at the clock."""


class SiteGroups(Struct, frozen=True, kw_only=True, dict=True):
    """All site groups of a market, those of one place side by side.

    ``tables`` hold the samples/s and USD/h of the best machines of a site group from each of
    ``prices`` (samples/s for a dollar an hour, 0 first) to the next, site group by site group: what
    speed - price x USD/h reaches at most is convex in the price, and a chord of it errs high.
    ``machines`` is the fewest of those that are looked at together, and ``averaging_s`` what one
    average of them takes at least; shape (site groups,).
    """

    place: Indices
    machines: Indices
    averaging_s: Array
    prices: Array
    tables: tuple[Array, Array]

    def values(self, weight: Array, price: Array) -> Array:
        """Return the most of weight x speed - price x USD/h of each site group.

        ``weight``: not below 0; shape (..., site groups). ``price``: of a dollar an hour, not below
        0; of a shape that fits.
        """
        at = self._rows + self._steps(weight, price)
        built: Array = weight * self.tables[0][at]
        built -= price * self.tables[1][at]
        return built

    def _steps(self, weight: Array, price: Array) -> Indices:
        """Return at which of the prices the machines of each site group are chosen."""
        last, step = len(self.prices) - 1, np.log(STEP)
        with np.errstate(divide="ignore"):
            at = (np.log(price) - np.log(self.prices[1])) / step + 1
        at = at - np.log(np.maximum(weight, TINY)) / step
        np.clip(at, 0, last, out=at)
        return at.astype(np.intp)

    @cached_property
    def _rows(self) -> Indices:
        """Where the row of each site group begins in the tables."""
        return np.arange(len(self.place)) * len(self.prices)


def site_groups_of(market: Market, families: Sequence[Family], most: int) -> SiteGroups:
    """Gather the site groups of a market.

    ``families``: hosts that may average with each other, and the seconds that it takes at least.
    ``most``: most machines of a site group.
    """
    best = float((market.speed / np.maximum(market.usd, 1e-6)).max())
    count = int(np.ceil(np.log(DEAREST / CHEAPEST) / np.log(STEP))) + 1
    prices = np.concatenate([[0.0], CHEAPEST * best * STEP ** np.arange(count)])
    weights = np.zeros((len(prices) + 1, market.weights.shape[1]))
    weights[:-1, 0], weights[:-1, 1] = 1.0, prices
    weights[-1, 1] = 1.0  # the price alone
    alone = np.arange(len(market.places))
    parts = [_Part(alone, [1], [0.0], market.place_sums(weights, market.hosts, 1)[:, :, 1:])]
    sizes = [size for size in SIZES[1:] if size <= most]
    for family in families if sizes else ():
        sums = market.place_sums(weights, family.hosts, most)
        slowest = {part.own for part in family.parts or (family,)}
        allowance.check()
        there = np.array([bool(slowest & here) for here in market.hosts_at]).nonzero()[0]
        most_of = np.maximum.reduceat(sums[:, there], sizes, axis=2)
        parts.append(_Part(there, sizes, np.minimum.reduceat(family.averaging_s, sizes), most_of))
    rows = [part.rows for part in parts]
    place, machines, averaging = (np.concatenate([row[k] for row in rows]) for k in range(3))
    order = np.lexsort((averaging, machines, place))
    every = np.concatenate([part.sums.reshape(len(weights), -1) for part in parts], axis=1).T
    order = order[np.isfinite(every[order, 0])]
    return SiteGroups(
        place=place[order],
        machines=machines[order],
        averaging_s=averaging[order],
        prices=prices,
        tables=_tables(every[order], prices),
    )


class _Part(NamedTuple):
    """Site groups of some places in some sizes, with what one average of each size takes at least;
    ``sums`` has the shape (prices, places, sizes).
    """

    places: Indices
    sizes: Sequence[int]
    averaging_s: Sequence[float] | Array
    sums: Array

    @property
    def rows(self) -> list[Array]:
        """Place, size and seconds of each site group."""
        shape, size = self.sums.shape[1:], np.array(self.sizes, dtype=np.intp)
        rows = self.places[:, None], size, np.asarray(self.averaging_s)
        return [np.broadcast_to(row, shape).ravel() for row in rows]


def _tables(sums: Array, prices: Array) -> tuple[Array, Array]:
    """Return the tables of `SiteGroups` for the best sums at each price, and of the price alone."""
    allowance.reserve(2 * 8 * len(sums) * len(prices))
    speed, usd = (np.empty((len(sums), len(prices))) for _ in range(2))
    for first in range(0, len(sums), AT_ONCE):
        allowance.check()
        every = sums[first : first + AT_ONCE]
        worth, cheapest = every[:, :-1], every[:, -1]
        slope = np.column_stack([np.diff(worth, axis=1) / np.diff(prices), cheapest])
        speed[first : first + AT_ONCE] = worth - prices * slope
        usd[first : first + AT_ONCE] = -slope
    return speed.ravel(), usd.ravel()
