"""Bounds of an all-reduce over several regions: who may take part, level by level of its slowest
pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from placer.problem.exchange.allreduce import pair_bytes
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices, Mask
from ..._market.grid import Grid
from ..._target import Target
from .relaxation import Family, Relaxation, margin, priced_rows

RATIO = 1.2
"""Ratio of neighbouring levels of the slowest pair."""
RANKS = (2, 4, 7, 12, 20, 35, 60)
"""Ranks among all machines whose worth is tried as the price of a worker."""
ALIKE = 0.001
"""Levels whose difference is at most this share of a round are one."""
NO_FINER = 0.5
"""Nor are those apart whose difference is at most this share of the gap to prove, where workers
take local steps: links decide little then.
"""
PEELS = 4
"""How often regions are left out and the bounds of the others worked out again, first without
egress.
"""
MANY = 0.8
"""With a larger share of the regions left, another round is not worth it."""


class Neighbourhoods:
    """All-reduce over several regions with the hosts of one family.

    Parameters
    ----------
    relaxation
        Links and averages.
    grid
        Best sums of the hosts.
    family
        Classes of hosts.

    Notes
    -----
    Where the slowest pair takes between two levels, all regions lie in the neighbourhood of each of
    them, and the round takes the lower level at least. With a price for each worker (Lagrangian on
    their number), region r with n of N workers is worth at most the best over n of its machines
    less n (N - n) times its cheapest pair. A region whose neighbourhood together is not worth an
    improvement is left out, which makes the neighbourhoods of others smaller.
    """

    def __init__(self, relaxation: Relaxation, grid: Grid, family: Family) -> None:
        self.relaxation, self.grid, self.family = relaxation, grid, family
        self.market, self.mode = relaxation.market, relaxation.mode
        self.places = np.array(self.market.family_places(grid.hosts), dtype=np.intp)
        at = np.ix_(self.places, self.places)
        self.wan, self.usd = relaxation.wan_matrix[at], self.market.both_ways[at] / 2

    @cached_property
    def levels(self) -> list[float]:
        """Upper ends of the levels of the slowest pair."""
        ranked = np.sort(self.wan[np.triu_indices(len(self.places), 1)])
        built = list[float]()
        for wan in ranked.tolist():
            if not built or wan > built[-1] * RATIO:
                built.append(wan)
        if built and built[-1] < ranked[-1]:
            built.append(float(ranked[-1]))
        return built

    def bands(self, target: Target, workers: Indices) -> list[tuple[float, float]]:
        """Return the levels of the slowest pair with what each is above; as one where that makes no
        difference to a round.
        """
        seconds = pair_bytes(self.relaxation.problem.gradient_bytes, 1) / float(workers.min())
        share = ALIKE if self.mode.local_steps == 1 else max(ALIKE, NO_FINER * target.slack)
        least = share * self.mode.seconds_at(target.min_speed)
        built, below = list[tuple[float, float]](), 0.0
        for level, further in zip(self.levels, [*self.levels[1:], np.inf], strict=True):
            # A placement of this level has a pair that is slower than the level before.
            if further == np.inf or (further - below) * seconds > least:
                built.append((below, level))
                below = level
        return built

    def open(self, target: Target, workers: Indices, below: float, level: float) -> Mask:
        """Return which regions an improvement may use for each number of workers, where the slowest
        pair takes more than one level and at most another; shape (places, workers).
        """
        rows = priced_rows(self.grid.weights, self.mode, target)
        weights = self.grid.weights[rows]
        each = pair_bytes(self.relaxation.problem.gradient_bytes, 1) / workers
        needed = target.thresholds(
            self.mode,
            weights,
            self.family.averaging_s[workers]
            + np.maximum(below, self.relaxation.load_wan(self.places, workers, 2)) * each,
            np.zeros(len(workers)),
            min(self.market.data_usd[p] for p in self.places),
            np.zeros(len(workers)),
        )
        everywhere = self.grid.everywhere[rows][:, workers]
        built = np.zeros((len(self.places), len(workers)), dtype=bool)
        alive = np.flatnonzero(margin(everywhere, needed) >= 0)
        if len(alive) == 0:
            return built
        # Rows with least to spare first: they cut most.
        spare = (everywhere[:, alive] - needed[:, alive]).min(axis=1) / weights.max(axis=1)
        order = np.argsort(spare, kind="stable")
        near = self.wan <= level
        np.fill_diagonal(near, False)
        per_hour = SECONDS_PER_HOUR * self.mode.multiplier / self.mode.samples * target.min_speed
        mask = np.ones((len(self.places), len(alive)), dtype=bool)
        for egress in (False, True):
            for _ in range(PEELS):
                before = int(mask.sum())
                inside, some = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
                if len(inside) == 0:
                    return built
                at, known = np.ix_(inside, inside), mask[np.ix_(inside, some)]
                pairs = np.where(near[at], self.usd[at], np.inf).min(axis=1)
                known &= np.isfinite(pairs)[:, None]  # who has no neighbour meets nobody
                pairs = np.where(np.isfinite(pairs), pairs, 0.0)
                for row in order.tolist():
                    target.check_time()
                    charge = weights[row, 1] * per_hour * each[alive[some]] * egress
                    for reached in self._reached(
                        int(rows[row]), inside, workers[alive[some]], pairs, charge, near[at], known
                    ):
                        known &= reached >= needed[row, alive[some]]
                    if not known.any():
                        return built
                mask[:] = False
                mask[np.ix_(inside, some)] = known
                if mask.sum() > MANY * before:
                    break
        built[:, alive] = mask
        return built

    def _reached(
        self,
        row: int,
        inside: Indices,
        workers: Indices,
        pairs: Array,
        charge: Array,
        near: Mask,
        mask: Mask,
    ) -> Iterator[Array]:
        """Yield, for each price of a worker, what each region reaches together with its
        neighbourhood at most; shape (places, workers).
        """
        sums = self.grid.sums[row, self.places[inside], 1 : int(workers.max())]
        sums = sums[:, : max(1, int(np.isfinite(sums).any(axis=0).sum()))]
        counts = np.arange(1, sums.shape[1] + 1)
        linked = near.astype(float)
        worth = sums[:, None]
        if charge.any():
            # n of N workers meet N - n others each, at the cheapest pair or dearer.
            met = counts * np.maximum(workers[:, None] - counts, 0) * charge[:, None]
            worth = np.where(counts < workers[:, None], worth - pairs[:, None, None] * met, -np.inf)
        for price in self._prices[row].tolist():
            own = (worth - price * counts).max(axis=2)
            yield own + linked @ np.where(mask, np.maximum(own, 0.0), 0.0) + price * workers

    @cached_property
    def _prices(self) -> Array:
        """Prices of a worker that are tried: none, and the worth of machines of some ranks; shape
        (rows, prices).
        """
        units = -np.sort(-self.grid.steps[:, self.places].reshape(len(self.grid.weights), -1))
        ranked = units[:, np.minimum(np.array(RANKS), units.shape[1]) - 1]
        ranked = np.where(np.isfinite(ranked), np.maximum(ranked, 0.0), 0.0)
        built: Array = np.column_stack([np.zeros(len(ranked)), ranked])
        return built
