"""Best weighted sums of every place and number of machines, for many prices of a dollar: what a tree takes its rows from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ._market import Array, Indices, Market

STEP = 1.2
"""Ratio of neighbouring multipliers."""
BELOW, ABOVE = 0.25, 1.5
"""Multipliers that a tree uses, over the one that is tightest before egress and links: these make speed dearer in dollars."""


@dataclass(frozen=True)
class Grid:
    """Rows (alpha, beta) and what machines of some hosts are worth in them.

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
        """Speed alone, price alone, then multipliers in steps of `STEP`; shape (rows, 2)."""
        ends = self.market.weights[[0, -1]]
        coarse = self.market.weights[1:-1, 1]
        count = int(np.ceil(np.log(coarse[-1] / coarse[0]) / np.log(STEP))) + 1
        fine = np.geomspace(coarse[0], coarse[-1], count)
        return np.vstack([ends, np.column_stack([np.ones(count), fine])])

    @cached_property
    def sums(self) -> Array:
        """Best sums of n machines in each place; shape (rows, places, most + 1); minus infinity where quotas do not allow n."""
        values = self.market.increments_at(self.weights)
        inside = self.market.of_hosts(self.hosts)
        place = self.market.place_of[self.market.units[1]][inside]
        return place_sums(values[:, inside], place, len(self.market.places), self.most)

    @cached_property
    def steps(self) -> Array:
        """What each further machine of a place adds; shape (rows, places, most)."""
        with np.errstate(invalid="ignore"):
            built: Array = np.nan_to_num(np.diff(self.sums, axis=2), nan=-np.inf, neginf=-np.inf)
        return built

    @cached_property
    def everywhere(self) -> Array:
        """Best sums of n machines anywhere; shape (rows, most + 1)."""
        units = self.steps.reshape(len(self.weights), -1)
        taken = min(self.most, units.shape[1])
        top = -np.partition(-units, taken - 1, axis=1)[:, :taken]
        built = np.full((len(units), self.most + 1), -np.inf)
        built[:, 0] = 0.0
        built[:, 1 : taken + 1] = np.cumsum(-np.sort(-top, axis=1), axis=1)
        return built

    def rows(self, needed: Array, workers: int) -> Indices:
        """Rows for a number of workers: the two ends, and those around the multiplier that asks most.

        Parameters
        ----------
        needed
            Thresholds of an improvement before egress and links; shape (rows,).
        """
        with np.errstate(invalid="ignore"):
            spare_usd = ((self.everywhere[:, workers] - needed) / np.maximum(self.weights[:, 1], 1e-12))[2:]
        if not np.isfinite(spare_usd).any():
            return np.arange(2)
        best = self.weights[2 + int(np.nanargmin(spare_usd)), 1]
        near = (self.weights[2:, 1] >= best * BELOW) & (self.weights[2:, 1] <= best * ABOVE)
        return np.concatenate([np.arange(2), 2 + np.flatnonzero(near)])


def place_sums(values: Array, place: Indices, places: int, most: int) -> Array:
    """Largest sums of n increments of each place.

    Parameters
    ----------
    values, place
        Increments by row, shape (rows, units), and the place of each; shape (units,).

    Returns
    -------
    Array
        Shape (rows, places, most + 1); minus infinity where a place has fewer than n.

    Examples
    --------
    >>> place_sums(np.array([[3.0, 1.0, 2.0]]), np.array([0, 1, 0]), 2, 2)
    array([[[  0.,   3.,   5.],
            [  0.,   1., -inf]]])
    """
    built = np.full((len(values), places, most + 1), -np.inf)
    built[:, :, 0] = 0.0
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(places + 1))
    for at in range(places):
        own = values[:, order[ends[at] : ends[at + 1]]]
        taken = min(most, own.shape[1])
        built[:, at, 1 : taken + 1] = np.cumsum(-np.sort(-own, axis=1)[:, :taken], axis=1)
    return built
