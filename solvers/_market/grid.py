"""Best weighted sums of every place and number of machines, for a fine grid of Lagrange
multipliers.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from placer.solving import allowance

from .arrays import Array, Indices, Mask
from .best_sums import place_sums
from .conjugate import Conjugates
from .market import Market
from .required_machines import best_with

STEP = 1.2
"""Ratio of neighbouring multipliers."""
AT_ONCE = 1_000_000
"""Sums that are worked out between two looks at the clock."""
LIMITED = 4
"""Rows of emissions and joint quotas that a tree uses."""
BELOW, ABOVE = 0.25, 1.5
"""Multipliers that a tree uses, over the one that is tightest before egress and links: these make
speed dearer in dollars.
"""
JUST_BELOW = 0.8
"""The same of a first look: the tightest one, and the next one below it."""


class Grid(Struct, frozen=True, dict=True):
    """Rows (alpha, beta, gammas) and what machines of some hosts are worth in them.

    Parameters
    ----------
    market
        Pools.
    hosts
        Averaging classes that may be used.
    most
        Largest number of machines.
    """

    market: Market
    hosts: frozenset[str]
    most: int

    @cached_property
    def weights(self) -> Array:
        """The market's rows with other limits than the price, speed alone, price alone, then
        multipliers in steps of `STEP`.
        """
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
        limited: Mask = np.any(self.market.weights[:, 2:] > 0, axis=1)
        return limited

    @cached_property
    def sums(self) -> Array:
        """Best sums of n machines in each place; shape (rows, places, most + 1); minus infinity
        where quotas do not allow n.

        Notes
        -----
        Machines that must be used and can only be in one place are among its n.
        """
        rows, places = len(self.weights), len(self.market.places)
        allowance.reserve(2 * 8 * rows * places * (self.most + 1))
        built = np.empty((rows, places, self.most + 1))
        step = max(1, AT_ONCE // (places * (self.most + 1)))
        for some in (slice(first, first + step) for first in range(0, rows, step)):
            built[some] = self._sums_of(self.weights[some])
        return built

    def _sums_of(self, weights: Array) -> Array:
        values = self.market.increments_at(weights)[:, self._inside]
        machines = self.market.step_machines[self._inside]
        owner, place = self._owner, self.market.place_of[self._owner]
        built = place_sums(values, machines, place, len(self.market.places), self.most)
        for at in self._required:
            rules = self.market.required_machines.within(owner, place == at, place >= 0)
            built[:, at] = best_with(values, place == at, rules, self.most, machines)
        return built

    @cached_property
    def least(self) -> dict[int, int]:
        """Fewest machines of each place that every placement uses: where a worker must be, and what
        must be used and is only there.
        """
        required = self.market.problem.requirements.required_places
        named = {at: 1 for at, place in enumerate(self.market.places) if place in required}
        return named | self._required

    @cached_property
    def _required(self) -> dict[int, int]:
        """Machines that must be used and can only be in one place, by place."""
        owner, place = self._owner, self.market.place_of[self._owner]
        required = {}
        for at in np.unique(place).tolist() if self.market.required_machines.rules else ():
            count = sum(
                count
                for count, mine in self.market.required_machines.within(
                    owner, place == at, place >= 0
                )
                if np.any(mine)
            )
            if count:
                required[at] = count
        return required

    @cached_property
    def _inside(self) -> Mask:
        return self.market.of_hosts(self.hosts)

    @cached_property
    def _owner(self) -> Indices:
        """First pools of the buckets, step by step."""
        owner: Indices = self.market.step_owners[self._inside]
        return owner

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
    def conjugates(self) -> Conjugates:
        """Bounds where the number of regions is fixed."""
        return Conjugates(self.sums, self.steps)

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

        Parameters
        ----------
        needed
            Thresholds of an improvement before egress and links; shape (rows,).
        few
            Whether the multiplier that asks most and those just below it are enough.
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
