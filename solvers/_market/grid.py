"""Best weighted sums of every place and number of machines for a fine grid of multipliers."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from placer.solving import allowance

from .arrays import Array, Indices, Mask
from .market import Market

STEP = 1.2
"""Ratio of neighbouring multipliers."""
LIMITED = 4
"""Rows of emissions and joint quotas that a tree uses."""
BELOW, ABOVE = 0.25, 1.5
"""Multipliers that a tree uses, over the one that is tightest before egress and links: these make
speed dearer in dollars.
"""
JUST_BELOW = 0.8
"""The same of a first look: the tightest one, and the next one below it."""


class Grid(Struct, frozen=True, dict=True):
    """Rows (alpha, beta, gammas) and what machines of some hosts are worth in them."""

    market: Market
    hosts: frozenset[str]
    most: int

    @cached_property
    def weights(self) -> Array:
        """The market's rows of other limits, its ends, then multipliers by `STEP`."""
        market = self.market.weights
        ends, coarse = market[[0, -1]], market[(market[:, 0] > 0) & (market[:, 1] > 0), 1]
        low, high = coarse.min(), coarse.max()
        count = int(np.ceil(np.log(high / low) / np.log(STEP))) + 1
        steps = np.geomspace(low, high, count)
        multipliers = np.sort(np.concatenate([steps, self.market.multipliers]))
        fine = np.zeros((len(multipliers), market.shape[1]))
        fine[:, 0], fine[:, 1] = 1.0, multipliers
        return np.vstack([market[self._limited], ends, fine])

    @cached_property
    def _limited(self) -> Mask:
        return np.any(self.market.weights[:, 2:] > 0, axis=1)

    @cached_property
    def sums(self) -> Array:
        """Best sums of n machines in each place; shape (rows, places, most + 1); minus infinity
        where quotas do not allow n.
        """
        return self.market.place_sums(self.weights, self.hosts, self.most)

    @cached_property
    def least(self) -> dict[int, int]:
        """Fewest workers of each place that every placement uses: those that are required, and
        those that alone have required machines.
        """
        required = self.market.problem.requirements.required_places
        least = {at: 1 for at, place in enumerate(self.market.places) if place in required}
        for rule in self.market.required_machines.rules:
            owning = {*self.market.place_of[rule.owns].tolist()}
            if len(owning) == 1:
                (at,) = owning
                least[at] = max(least.get(at, 1), rule.count)
        return least

    @cached_property
    def steps(self) -> Array:
        """What each further machine of a place adds; shape (rows, places, most)."""
        rows, places, counts = self.sums.shape
        allowance.reserve(self.sums.nbytes)
        built = np.empty((rows, places, counts - 1))
        for row, sums in zip(built, self.sums, strict=True):  # row by row, to look at the clock
            allowance.check()
            with np.errstate(invalid="ignore"):
                np.subtract(sums[:, 1:], sums[:, :-1], out=row)
            row[~np.isfinite(row)] = -np.inf
        return built

    @cached_property
    def everywhere(self) -> Array:
        """Best sums of n machines anywhere; shape (rows, most + 1)."""
        units = self.steps.reshape(len(self.weights), -1)
        size = units.shape[1]
        taken = min(self.most, size)
        built = np.full((len(units), self.most + 1), -np.inf)
        built[:, 0] = 0.0
        for row, own in zip(built, units, strict=True):
            allowance.check()
            top = np.partition(own, size - taken)[size - taken :] if taken < size else own
            row[1 : taken + 1] = np.cumsum(np.sort(top)[::-1])
        return built

    def rows(self, needed: Array, workers: int, *, few: bool = False) -> Indices:
        """Choose the rows for a number of workers: the ends, those around the multiplier that asks
        most, and the tightest of the other limits.

        ``needed``: thresholds of an improvement before egress and links; shape (rows,). ``few``:
        whether the multiplier that asks most and those just below it are enough.
        """
        first = int(self._limited.sum())
        own = (
            self.weights[:, 1]
            if first == 0
            else np.maximum(self.weights[:, 1], self.weights[:, 2:].max(axis=1))
        )
        with np.errstate(invalid="ignore"):
            spare = (self.everywhere[:, workers] - needed) / np.maximum(own, 1e-12)
        # Rows are chosen by how little is to spare in them. Any choice is valid: a row that is left
        # out can only cut less.
        limited = np.argsort(spare[:first], kind="stable")[:LIMITED]
        ends, spare_usd = np.array([first, first + 1]), spare[first + 2 :]
        if not np.isfinite(spare_usd).any():
            return np.concatenate([limited, ends])
        multipliers = self.weights[first + 2 :, 1]
        best = multipliers[int(np.nanargmin(spare_usd))]
        if few:
            near = (multipliers >= best * JUST_BELOW) & (multipliers <= best)
            return first + 2 + np.flatnonzero(near)
        near = (multipliers >= best * BELOW) & (multipliers <= best * ABOVE)
        return np.concatenate([limited, ends, first + 2 + np.flatnonzero(near)])


def grid_of(market: Market, hosts: frozenset[str], most: int) -> Grid:
    """Return the grid of some hosts and a largest number of machines; the market keeps it."""
    kept: dict[tuple[frozenset[str], int], Grid] = market.tables.setdefault("grids", {})
    if (hosts, most) not in kept:
        kept[hosts, most] = Grid(market, hosts, most)
    return kept[hosts, most]
