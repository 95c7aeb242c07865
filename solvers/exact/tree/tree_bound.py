"""Rows of the bound of a tree of regions, and the best sums of machines in them."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..._market.arrays import Array, Indices
from ..._market.grid import Grid
from ..bounds.exchange_pattern import ExchangePattern
from ..bounds.relaxation import Relaxation

if TYPE_CHECKING:
    from ..gossip.paces import PacedSums, Paces

GROUPS = np.array([0, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513])
"""First numbers of machines of groups that are priced together where regions wait."""


class TreeBound:
    """Rows of the Lagrangian bound for one number of workers, with the sums that they take.

    ``few``: whether a few rows are enough, for a first look at the root. Every row alone is a valid
    bound, so that a tree may use any subset of the grid's rows: fewer rows cut less, never too
    much. ``least`` has the places that must be used, with their fewest workers.
    """

    def __init__(
        self,
        relaxation: Relaxation,
        grid: Grid,
        exchange_pattern: ExchangePattern,
        *,
        paces: Paces | None = None,
        few: bool = False,
    ) -> None:
        self.relaxation, self.grid, self.exchange_pattern = relaxation, grid, exchange_pattern
        self.market, self.target, self.mode = relaxation.market, relaxation.target, relaxation.mode
        self.data_usd = min(self.market.data_usd)
        workers, home_usd = exchange_pattern.workers, np.full(1, exchange_pattern.home_usd)
        # Least seconds of any place where some region must have the mean number of workers: used to
        # choose rows, not to cut.
        least_s = float(
            np.nanmin(exchange_pattern.own_s[:, -(-workers // exchange_pattern.most) :])
        )
        needed = self.needed(grid.weights, np.full(1, least_s), home_usd)[:, 0]
        self.rows = grid.rows(needed, workers, few=few)
        self.weights = grid.weights[self.rows]
        self.least = grid.least
        self.paces = paces

    @cached_property
    def sums(self) -> Array:
        """Best sums of the rows; shape (rows, places, workers + 1)."""
        return self.grid.sums[self.rows, :, : self.exchange_pattern.workers + 1]

    @cached_property
    def steps(self) -> Array:
        """What each further machine adds to them; shape (rows, places, workers)."""
        return self.grid.steps[self.rows, :, : self.exchange_pattern.workers]

    @cached_property
    def _paced_sums(self) -> PacedSums:
        from ..gossip.paces import PacedSums  # few questions have regions that wait

        return PacedSums(self.grid, self.rows)

    def paced(self, speed: float, places: Indices, shares: Array, counts: Indices) -> Array:
        """Return the best sums of machines that do no more than shares of their speed, which wait
        for sends; shape (rows, places, counts).

        ``speed``: of all machines, as `Paces.speed` has it. Averages of more machines leave less.
        """
        assert self.paces is not None
        starts, parts = GROUPS[len(counts) > GROUPS].tolist(), []
        for first, end in pairwise([*starts, len(counts)]):
            left = self.paces.averaging(speed, places, counts[first:end]).max(axis=1)
            own = np.minimum(shares, left)
            parts.append(self._paced_sums.at(places, own, counts[first:end]))
        return np.concatenate(parts, axis=2)

    def needed(self, weights: Array, communication_s: Array, egress_usd: Array) -> Array:
        """Return the thresholds; infinite where the egress is; shape (rows, communication)."""
        # Arithmetic with infinite egress would give nan, which is not a threshold.
        finite = np.isfinite(egress_usd)
        known = finite.all()
        thresholds = self.target.thresholds(
            self.mode,
            weights,
            communication_s,
            egress_usd if known else np.where(finite, egress_usd, 0.0),
            self.data_usd,
            np.zeros(len(communication_s)),
        )
        return thresholds if known else np.where(finite, thresholds, np.inf)
