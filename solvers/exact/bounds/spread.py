"""Placements of an all-reduce over several regions that may improve: numbers of workers, levels of
the slowest pair, and who may take part.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct

from placer.problem.exchange.allreduce import pair_bytes
from placer.solving import allowance
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices, Mask
from ..._market.grid import Grid
from ..._target import Target
from .dendrogram import Dendrogram
from .few_machines import FEW, FewMachines
from .neighbourhoods import Neighbourhoods
from .relaxation import Family, Relaxation, margin, priced_rows

FIRST = 4
"""Numbers of workers that are bounded together at first, twice as many each time."""
MOST_BYTES = 2**26
"""Of the sums of all places that are held at once, at most."""
MANY = 0.8
"""With a larger share of the places left, sums over them are not worked out anew."""
TIGHTEST = 3
"""Rows that are tried first: those with the least to spare cut most."""


class Frame(Struct, frozen=True, kw_only=True, dict=True):
    """Placements of so many workers in some of the ``places``, whose slowest pair takes more than
    ``below`` seconds a byte and at most ``level``.
    """

    workers: int
    below: float
    level: float
    places: tuple[int, ...]


class Spread:
    """All-reduce over several regions with the hosts of one family.

    Parameters
    ----------
    relaxation
        Links and averages.
    grid
        Best sums of the hosts.
    family
        Classes of hosts.
    """

    def __init__(self, relaxation: Relaxation, grid: Grid, family: Family) -> None:
        self.relaxation, self.grid, self.family = relaxation, grid, family
        self.market, self.mode = relaxation.market, relaxation.mode
        self.near = Neighbourhoods(relaxation, grid, family)
        self.places = self.near.places
        self._few: dict[tuple[int, ...], FewMachines] = {}

    @cached_property
    def dendrogram(self) -> Dendrogram:
        """All places of the family, by the price of their pairs."""
        return Dendrogram(self.market.both_ways[np.ix_(self.places, self.places)])

    def frames(self, target: Target, workers: Indices) -> Iterator[Frame | None]:
        """Yield what may be an improvement; the numbers of workers that come first are looked at
        first. None after each part of the work, when another way may have its turn.
        """
        step, size = FIRST, 8 * len(self.places) * len(self.grid.weights)
        while len(workers):
            step = min(step, max(1, MOST_BYTES // (size * int(workers.max()))))
            some, workers = workers[:step], workers[step:]
            step *= 2
            # First as if all places were near each other: one table for all levels.
            fastest = self.relaxation.fastest_pair
            anywhere = np.ones((len(self.places), len(some)), dtype=bool)
            rows = priced_rows(self.grid.weights, self.mode, target)
            weights = self.grid.weights[rows]
            total = self._reached(target, rows, some, fastest, anywhere)
            yield None
            left = margin(total, self._needed(target, weights, some, fastest)) >= 0
            some, total = some[left], total[:, left]
            for below, level in self.near.bands(target, some) if len(some) else []:
                target.check_time()
                slowest = max(below, fastest)
                inside = self.near.open(target, some, below, level)
                inside &= margin(total, self._needed(target, weights, some, slowest)) >= 0
                if 0 < inside.sum() < MANY * inside.size:
                    near = self._reached(target, rows, some, slowest, inside)
                    needed = self._needed(target, weights, some, slowest)
                    inside &= margin(near, needed) >= 0
                for at in np.flatnonzero(inside.any(axis=0)).tolist():
                    frame = Frame(
                        workers=int(some[at]),
                        below=below,
                        level=level,
                        places=tuple(self.places[inside[:, at]].tolist()),
                    )
                    if self._whole_machines_reach(target, frame, slowest):
                        yield frame
                yield None

    def _whole_machines_reach(self, target: Target, frame: Frame, wan: float) -> bool:
        """Return whether whole machines may be an improvement in a frame whose slowest pair takes
        so long at least.
        """
        if frame.workers > FEW:
            return True
        ends = np.zeros((2, self.grid.weights.shape[1]))
        ends[0, 0] = ends[1, 1] = 1.0
        needed = self._needed(target, ends, np.array([frame.workers]), wan)[:, 0]
        if not np.isfinite(needed).all():  # nothing reaches it, or dollars do not count
            return not np.any(needed == np.inf)
        few = self._few.get(frame.places)
        if few is None:
            inside = self.market.pools_of_hosts(self.family.hosts)
            inside &= np.isin(self.market.place_of, frame.places)
            few = self._few[frame.places] = FewMachines(self.market, inside)
        return few.reach(frame.workers, usd=-float(needed[1]), speed=float(needed[0]))

    def _needed(self, target: Target, weights: Array, workers: Indices, wan: float) -> Array:
        """Return the thresholds of an improvement whose slowest pair takes so long at least; shape
        (rows, workers).
        """
        each = pair_bytes(self.relaxation.problem.gradient_bytes, 1) / workers
        nothing = np.zeros(len(workers))
        return target.thresholds(
            self.mode,
            weights,
            self.family.averaging_s[workers] + wan * each,
            nothing,
            min(self.market.data_usd[p] for p in self.places),
            nothing,
        )

    def _reached(
        self, target: Target, rows: Indices, workers: Indices, wan: float, inside: Mask
    ) -> Array:
        """Return the best sums within some places, whose pairs pay for being apart, minus infinity
        where one shows that there is no improvement; shape (rows, workers).
        """
        weights = self.grid.weights[rows]
        needed = self._needed(target, weights, workers, wan)
        each = pair_bytes(self.relaxation.problem.gradient_bytes, 1) / workers
        per_hour = SECONDS_PER_HOUR * self.mode.multiplier / self.mode.samples * target.min_speed
        charge = weights[:, 1:2] * (per_hour * each)
        everywhere = self.grid.everywhere[rows][:, workers]
        with np.errstate(invalid="ignore"):  # no so many machines, or a threshold nobody reaches
            spare = (everywhere - needed).min(axis=1) / weights.max(axis=1)
        order = np.argsort(spare, kind="stable")
        left, built = np.flatnonzero(inside.any(axis=0)), np.full(needed.shape, -np.inf)
        for part in (order[:TIGHTEST], order[TIGHTEST:]):
            if len(part) == 0 or len(left) == 0:
                break
            among = np.ix_(part, left)
            built[among] = self._sums(
                rows[part], workers[left], charge[among], needed[among], inside[:, left]
            )
            left = left[margin(built[among], needed[among]) >= 0]
        return built

    def _sums(
        self, rows: Indices, workers: Indices, charge: Array, needed: Array, inside: Mask
    ) -> Array:
        """Return the best sums of so many workers with the price of their pairs; shape (rows,
        workers).
        """
        most = int(workers.max())
        leaves = [
            self.leaf(rows, workers, charge, needed, at, inside[at])
            for at in range(len(self.places))
        ]
        total = self.dendrogram.all_together(leaves, charge, most)
        reached = np.full((len(rows), len(workers)), -np.inf)
        there = np.flatnonzero(workers < total.shape[2])
        reached[:, there] = total[:, there, workers[there]]
        return reached

    def leaf(
        self,
        rows: Indices,
        workers: Indices,
        charge: Array,
        needed: Array,
        at: int,
        inside: Mask,
    ) -> Array:
        """Return the best sums of 0, 1, ... workers of one place less what its own pairs pay, minus
        infinity where no improvement has so many; shape (rows, workers, counts).
        """
        place, most = int(self.places[at]), int(workers.max())
        allowance.reserve(8 * len(rows) * len(workers) * (most + 1))
        own = self.grid.sums[rows, place, : most + 1]
        counts = np.arange(most + 1)
        rest = workers[:, None] - counts
        others = np.where(rest >= 0, self.grid.everywhere[rows][:, np.maximum(rest, 0)], -np.inf)
        worth = np.repeat(own[:, None], len(workers), axis=1)
        price = float(self.market.prices[place, place])
        if np.isfinite(price):
            worth = worth - charge[:, :, None] * (price * counts * (counts - 1))
        elif price == np.inf:  # a network that carries nothing there
            worth[:, :, 2:] = -np.inf
        # With the best machines of everywhere for the others there is no improvement, in some row.
        possible = np.all(worth + others >= needed[:, :, None], axis=0)
        possible &= inside[:, None] & (counts < workers[:, None])  # several regions
        possible[:, 0] = True
        possible &= counts >= self.grid.least.get(place, 0)
        worth = np.where(possible, worth, -np.inf)
        last = np.flatnonzero(possible.any(axis=0))
        return worth[:, :, : int(last[-1]) + 1] if len(last) else worth[:, :, :1]
