"""Placements of an all-reduce over several regions that may improve: numbers of workers, levels of
the slowest pair, and who may take part.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from placer.problem.exchange.allreduce import pair_bytes
from placer.solving import allowance
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices, Mask
from ..._market.grid import Grid
from ..._target import Target
from ..bounds.dendrogram import Dendrograms
from ..bounds.few_machines import FEW, FewMachines
from ..bounds.neighbourhoods import ALIKE, Neighbourhoods
from ..bounds.relaxation import Family, Relaxation, margin, priced_rows
from .cliques import maximal_cliques

FIRST = 4
"""Numbers of workers that are bounded together at first, twice as many each time."""
MOST_BYTES = 2**26
"""Of the sums of all places that are held at once, at most."""
MOST_CLIQUES = 64
"""More sets of places that are all near each other are looked at as one."""
FINE = 0.25
"""Levels are as fine as this share of the gap, but not finer than makes a difference."""
ROUNDING = 1e-9
"""Relative slack of a level against rounding."""
SUMS_OF_A_NODE = 200_000
"""Best sums of places that take as long as a node of a tree."""
TIGHTEST = 3
"""Rows that are tried first: those with the least to spare cut most."""


class Frame(Struct, frozen=True, kw_only=True, dict=True):
    """Placements of so many workers in some of the ``places``, whose slowest pair or busiest
    worker takes at least ``below`` seconds for a byte of each pair and at most ``level``.
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
        self.dendrograms = Dendrograms(self.market.both_ways, self.places)
        self._few: dict[tuple[int, ...], FewMachines] = {}

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
            for below, level in self._bands(target, some):
                target.check_time()
                slowest = max(below, fastest)
                inside = self.near.open(target, some, below, level)
                inside &= margin(total, self._needed(target, weights, some, slowest)) >= 0
                self._drop_few(target, some, inside, slowest)
                yield from self._narrowed(target, rows, some, inside, below, level)
                yield None

    def _bands(self, target: Target, workers: Indices) -> list[tuple[float, float]]:
        """Return the levels of the slowest pair or busiest worker with what each is above."""
        if len(workers) == 0:
            return []
        bands = self.near.bands(target, workers)
        busiest = float(self.relaxation.machine_wan[self.places].max()) * int(workers.max())
        if bands and self.relaxation.flat:
            bands[-1] = bands[-1][0], max(bands[-1][1], busiest)
        return bands

    def _narrowed(
        self,
        target: Target,
        rows: Indices,
        workers: Indices,
        inside: Mask,
        below: float,
        level: float,
    ) -> Iterator[Frame | None]:
        """Yield the frames of a level: sets of places that are all near each other, cut into finer
        levels while that makes a difference to a round.
        """
        for chosen in self._cliques(inside, level):
            if not self.grid.least.keys() <= {*self.places[chosen].tolist()}:
                continue
            member = np.zeros(len(self.places), dtype=bool)
            member[chosen] = True
            open_ = np.flatnonzero(inside[member].sum(axis=0) > 1)
            values = self._levels(chosen, workers[open_], below, level)
            if len(values) == 0 or len(open_) == 0:  # of a lower level, or too few places
                continue
            target.check_time()
            least, level_ = max(float(values[0]), self.relaxation.fastest_pair), float(values[-1])
            some, within = workers[open_], inside[:, open_] & member[:, None]
            reached = self._reached(target, rows, some, least, within, level_)
            needed = self._needed(target, self.grid.weights[rows], some, least)
            left = margin(reached, needed) >= 0
            some, within = some[left], within[:, left]
            if len(some) == 0:
                continue
            each = pair_bytes(self.relaxation.problem.gradient_bytes, 1) / float(some.min())
            alike = max(ALIKE, FINE * target.slack) * self.mode.seconds_at(target.min_speed)
            if (level_ - least) * each > alike:
                middle = float(values[(len(values) - 1) // 2])
                for low, high in ((below, middle), (middle, level_)):
                    yield from self._narrowed(target, rows, some, within, low, high)
                continue
            for at in range(len(some)):
                frame = Frame(
                    workers=int(some[at]),
                    below=least,
                    level=level_,
                    places=tuple(self.places[within[:, at]].tolist()),
                )
                yield frame
            yield None

    def _levels(self, chosen: Indices, workers: Indices, below: float, level: float) -> Array:
        """List what the slowest pair or the busiest worker may take within a level, in order."""
        values = self.near.wan[np.ix_(chosen, chosen)][np.triu_indices(len(chosen), 1)]
        if self.relaxation.flat and len(workers):
            sent = np.arange(1, int(workers.max()))
            loads = np.outer(self.relaxation.machine_wan[self.places[chosen]], sent).ravel()
            values = np.concatenate([values, loads])
        above = values > below if below > 0 else values >= 0
        return ascending(values[above & (values <= level)])

    def _cliques(self, inside: Mask, level: float) -> list[Indices]:
        """List the sets of open places of which every pair takes no longer than a level; all of
        them as one where such sets are many.
        """
        places = np.flatnonzero(inside.any(axis=1))
        near = self.near.wan[np.ix_(places, places)] <= level
        sets = maximal_cliques(near, MOST_CLIQUES)
        return [places] if sets is None else [places[chosen] for chosen in sets]

    def _drop_few(self, target: Target, workers: Indices, inside: Mask, wan: float) -> None:
        """Leave out, in place, numbers of workers of which whole machines reach no improvement
        where the slowest pair takes so long at least.
        """
        for at in np.flatnonzero((workers <= FEW) & inside.any(axis=0)).tolist():
            places = tuple(self.places[inside[:, at]].tolist())
            if not self._whole_machines_reach(target, int(workers[at]), places, wan):
                inside[:, at] = False

    def _whole_machines_reach(
        self, target: Target, workers: int, places: tuple[int, ...], wan: float
    ) -> bool:
        """Return whether so many whole machines of some places may be an improvement whose slowest
        pair takes so long at least.
        """
        ends = np.zeros((2, self.grid.weights.shape[1]))
        ends[0, 0] = ends[1, 1] = 1.0
        needed = self._needed(target, ends, np.array([workers]), wan)[:, 0]
        if not np.isfinite(needed).all():  # nothing reaches it, or dollars do not count
            return not np.any(needed == np.inf)
        few = self._few.get(places)
        if few is None:
            inside = self.market.pools_of_hosts(self.family.hosts)
            inside &= np.isin(self.market.place_of, places)
            few = self._few[places] = FewMachines(self.market, inside)
        return few.reach(workers, usd=-float(needed[1]), speed=float(needed[0]))

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
        self,
        target: Target,
        rows: Indices,
        workers: Indices,
        wan: float,
        inside: Mask,
        level: float = np.inf,
    ) -> Array:
        """Return the best sums within some places, whose pairs pay for being apart, minus infinity
        where one shows that there is no improvement; no worker takes longer than a level for all
        that it sends; shape (rows, workers).
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
                rows[part], workers[left], charge[among], needed[among], inside[:, left], level
            )
            left = left[margin(built[among], needed[among]) >= 0]
        return built

    def _sums(
        self,
        rows: Indices,
        workers: Indices,
        charge: Array,
        needed: Array,
        inside: Mask,
        level: float,
    ) -> Array:
        """Return the best sums of so many workers with the price of their pairs; shape (rows,
        workers).
        """
        most, places = int(workers.max()), np.flatnonzero(inside.any(axis=1))
        size = len(rows) * len(workers) * len(places) * (most + 1)
        self.relaxation.target.tables += 1 + size // SUMS_OF_A_NODE
        leaves = [
            self.leaf(rows, workers, charge, needed, at, inside[at], level)
            for at in places.tolist()
        ]
        total = self.dendrograms.of(places).all_together(leaves, charge, most)
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
        level: float = np.inf,
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
        if self.relaxation.flat:  # each of them sends to all workers elsewhere
            possible &= rest * float(self.relaxation.machine_wan[place]) <= level * (1 + ROUNDING)
        possible[:, 0] = True
        possible &= counts >= self.grid.least.get(place, 0)
        worth = np.where(possible, worth, -np.inf)
        last = np.flatnonzero(possible.any(axis=0))
        return worth[:, :, : int(last[-1]) + 1] if len(last) else worth[:, :, :1]


def ascending(values: Array) -> Array:
    """Return different values in order; `np.unique` would load masked arrays."""
    ranked = np.sort(values)
    first = np.ones(len(ranked), dtype=bool)
    first[1:] = ranked[1:] > ranked[:-1]
    built: Array = ranked[first]
    return built
