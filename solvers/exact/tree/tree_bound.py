"""Rows of the Lagrangian bound of one tree, with the best sums of every place."""

from __future__ import annotations

import numpy as np

from ..._market.arrays import Array
from ..._market.grid import Grid
from ..bounds.exchange_pattern import ExchangePattern
from ..bounds.relaxation import Relaxation


class TreeBound:
    """Rows of the Lagrangian bound for one number of workers, with the sums that they take.

    Parameters
    ----------
    relaxation
        Market, target and strategy.
    grid
        Best sums of the hosts that may be used.
    exchange_pattern
        How the regions meet.
    few
        Whether a few rows are enough, for a first look at the root.

    Notes
    -----
    Every row alone is a valid bound, so that a tree may use any subset of the grid's rows: fewer
    rows cut less, never too much. ``least`` has the places that must be used, with their fewest
    machines.
    """

    def __init__(
        self,
        relaxation: Relaxation,
        grid: Grid,
        exchange_pattern: ExchangePattern,
        *,
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
        self.sums = grid.sums[self.rows, :, : workers + 1]
        self.steps = grid.steps[self.rows, :, :workers]
        self.least = grid.least

    def needed(self, weights: Array, communication_s: Array, egress_usd: Array) -> Array:
        """Return the thresholds of an improvement; infinite where the egress is; shape (rows,
        communication).
        """
        # Arithmetic with infinite egress would give nan, which is not a threshold.
        finite = np.where(np.isfinite(egress_usd), egress_usd, 0.0)
        thresholds = self.target.thresholds(
            self.mode,
            weights,
            communication_s,
            finite,
            self.data_usd,
            np.zeros(len(communication_s)),
        )
        return np.where(np.isfinite(egress_usd), thresholds, np.inf)
