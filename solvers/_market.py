"""The pools as arrays, and the Lagrangian bound that every prune of `exact` uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from placer.estimate import sample_usd
from placer.problem import Pool, Problem

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

MULTIPLIERS = 24
"""Prices of a dollar in samples/s at which the bound is evaluated."""


@dataclass(frozen=True)
class Market:
    """Admitted pools without dominated ones.

    Notes
    -----
    A pool is dominated by a cheaper one with the same place, device, number of devices and market.
    """

    problem: Problem
    pools: tuple[Pool, ...]

    @staticmethod
    def of(problem: Problem) -> Market:
        """Keep the cheapest offer of each kind; the first of the book where prices tie."""
        kept: dict[tuple[object, ...], Pool] = {}
        for pool in problem.pools:
            offer = pool.offer
            kind = (offer.place, offer.gpu, offer.gpu_count, offer.market, offer.available)
            if kind not in kept or offer.usd_per_hour < kept[kind].offer.usd_per_hour:
                kept[kind] = pool
        return Market(problem, tuple(kept.values()))

    @cached_property
    def speed(self) -> Array:
        """Samples/s of one machine in a group; shape (pools,)."""
        return np.array([pool.shared.value for pool in self.pools])

    @cached_property
    def usd(self) -> Array:
        """USD/h of one machine; shape (pools,)."""
        return np.array([pool.offer.usd_per_hour for pool in self.pools])

    @cached_property
    def cap(self) -> Array:
        """Most machines of each pool; shape (pools,)."""
        wish = self.problem.requirements
        return np.array([float(min(pool.max_count, wish.max_workers)) for pool in self.pools])

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Places that have a pool, sorted."""
        return tuple(sorted({pool.offer.place for pool in self.pools}))

    @cached_property
    def place_of(self) -> Indices:
        """Index into `places` of each pool; shape (pools,)."""
        index = {place: i for i, place in enumerate(self.places)}
        return np.array([index[pool.offer.place] for pool in self.pools], dtype=np.intp)

    @cached_property
    def host_of(self) -> tuple[str, ...]:
        """Averaging class of each pool's host."""
        return tuple(self.problem.catalog.gpu(pool.offer.gpu).host for pool in self.pools)

    @cached_property
    def data_usd(self) -> tuple[float, ...]:
        """Price of reading one sample at each place, in the order of `places`."""
        return tuple(sample_usd(place, self.problem) for place in self.places)

    @cached_property
    def weights(self) -> Array:
        """Rows (alpha, beta) of the tests sum (alpha v - beta c) n >= threshold; the last is (0, 1)."""
        ratio = self.speed / np.maximum(self.usd, 1e-6)
        multipliers = np.geomspace(ratio.min() / 20, ratio.max() * 5, MULTIPLIERS)
        return np.vstack([np.column_stack([np.ones(MULTIPLIERS + 1), np.concatenate([[0.0], multipliers])]), [[0.0, 1.0]]])

    @cached_property
    def values(self) -> Array:
        """Alpha v - beta c of each row and pool; shape (rows, pools)."""
        built: Array = self.weights[:, :1] * self.speed - self.weights[:, 1:] * self.usd
        return built

    def best_sums(self, chosen: Indices, most: int) -> Array:
        """Largest sum (alpha v - beta c) of exactly n machines of the chosen pools, quotas within.

        Parameters
        ----------
        chosen
            Pools that may be used.
        most
            Largest n.

        Returns
        -------
        Array
            Shape (rows, most + 1); minus infinity where quotas do not allow n machines.

        Notes
        -----
        One sort per row: the linear relaxation of the covering problem at fixed n.
        """
        values, cap = self.values[:, chosen], self.cap[chosen]
        order = np.argsort(-values, axis=1, kind="stable")
        sizes = np.cumsum(cap[order], axis=1)
        sums = np.cumsum(np.take_along_axis(values, order, axis=1) * cap[order], axis=1)
        n = np.arange(most + 1, dtype=float)
        built = np.empty((len(values), most + 1))
        for row in range(len(values)):
            built[row] = np.interp(n, np.concatenate([[0.0], sizes[row]]), np.concatenate([[0.0], sums[row]]))
        built[:, n > cap.sum()] = -np.inf
        return built


def suffix_sums(values: Sequence[float], caps: Sequence[int], most: int) -> list[list[float]]:
    """Largest sum of exactly m machines among pools i, i+1, ...: one row per i, for m = 0 .. most.

    Examples
    --------
    >>> suffix_sums([3.0, 1.0], [1, 2], 2)
    [[0.0, 3.0, 4.0], [0.0, 1.0, 2.0], [0.0, -inf, -inf]]
    """
    rows = [[0.0] + [-np.inf] * most]
    units: list[float] = []
    for value, cap in zip(reversed(values), reversed(caps), strict=True):
        units = sorted([*units, *([value] * min(cap, most))], reverse=True)[:most]
        sums = [0.0]
        for unit in units:
            sums.append(sums[-1] + unit)
        rows.append(sums + [-np.inf] * (most + 1 - len(sums)))
    return rows[::-1]
