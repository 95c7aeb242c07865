"""Hierarchical all-reduce: numbers of regions, workers of the largest one, levels of the slowest
pair of leaders, and who may take part, whatever the number of workers is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from msgspec import Struct

from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices
from ..._market.grid import Grid
from ..._target import Target
from ..bounds.dendrogram import Dendrograms
from ..bounds.neighbourhoods import ALIKE, Neighbourhoods
from ..bounds.region_rounds import RegionRounds
from ..bounds.relaxation import Family, margin, priced_rows
from .cliques import maximal_cliques
from .spread import FINE, MOST_CLIQUES, ROUNDING, SUMS_OF_A_NODE, ascending


class LeaderFrame(Struct, frozen=True, kw_only=True, dict=True):
    """Placements over so many regions, all of them among the ``places``.

    Notes
    -----
    The largest region has ``fewest`` to ``most`` workers; the slowest pair of leaders or the
    busiest leader takes at least ``below`` seconds for a byte of each pair and at most ``level``.
    ``margin`` is what the best sums have to spare.
    """

    regions: int
    fewest: int
    most: int
    below: float
    level: float
    places: tuple[int, ...]
    margin: float


class LeaderFrames:
    """Frames of the hosts of one family.

    Parameters
    ----------
    rounds
        Bounds of a round inside the regions.
    grid
        Best sums of the hosts.
    family
        Classes of hosts.

    Notes
    -----
    A round takes what the largest region and the slowest pair of leaders take, so that the number
    of workers does not matter: each region has the machines that are worth most, up to the largest
    number of workers, and pays for the pairs of its leader. With the prices of a dendrogram the
    best sums over R regions are exact by dynamic programming.
    """

    def __init__(self, rounds: RegionRounds, grid: Grid, family: Family) -> None:
        self.rounds, self.grid, self.family = rounds, grid, family
        self.relaxation, self.market, self.mode = rounds.relaxation, rounds.market, rounds.mode
        self.near = Neighbourhoods(rounds.relaxation, grid, family)
        self.places = self.near.places
        self.load = self.relaxation.machine_wan[self.places]
        self.data_usd = min((self.market.data_usd[p] for p in self.places), default=0.0)
        self._worth: dict[int, Array] = {}
        self.dendrograms = Dendrograms(self.market.both_ways, self.places)

    @cached_property
    def home_usd(self) -> Array:
        """Egress of a round for each worker of a place that is no leader; shape (places,)."""
        return np.array([float(self.rounds.home_usd(np.array([p]), 1)) for p in self.places])

    def rounds_per_hour(self, target: Target) -> float:
        """Return the least rounds per hour of an improvement."""
        per_hour = SECONDS_PER_HOUR * self.mode.multiplier / self.mode.samples
        return per_hour * target.min_speed

    def pair_bytes(self, regions: Indices) -> Array:
        """Return what two leaders send each other in a round, each way."""
        built: Array = 2 * self.rounds.size / regions
        return built

    def frames(
        self, target: Target, regions: Indices, workers: Indices | None = None
    ) -> Iterator[LeaderFrame | None]:
        """Yield what may be an improvement over some numbers of regions; None after each part of
        the work.

        Parameters
        ----------
        workers
            Most workers over each number of regions, where that is known.
        """
        rows = priced_rows(self.grid.weights, self.mode, target)
        everywhere = np.arange(len(self.places))
        fewest, room = 1, min(self.grid.most, int(self.relaxation.room(self.family).max()))
        while fewest <= room:
            most, some = min(2 * fewest - 1, room), regions
            if workers is not None:  # one worker in each other region
                some = regions[workers - regions + 1 >= fewest]
            reached = self.reached(target, rows, everywhere, some, most, np.inf)
            fastest = self.relaxation.fastest_pair
            some = some[margin(reached, self.needed(target, rows, some, fewest, fastest)) >= 0]
            for below, level in self._bands(target, some):
                yield from self._narrowed(
                    target, rows, everywhere, some, (fewest, most), (below, level)
                )
                yield None
            fewest = most + 1

    def _bands(self, target: Target, regions: Indices) -> list[tuple[float, float]]:
        if len(regions) == 0:
            return []
        bands = self.near.bands(target, regions)
        if bands:
            busiest = float(self.load.max()) * int(regions.max())
            bands[-1] = bands[-1][0], max(bands[-1][1], busiest)
        return bands

    def _narrowed(
        self,
        target: Target,
        rows: Indices,
        inside: Indices,
        regions: Indices,
        largest: tuple[int, int],
        band: tuple[float, float],
    ) -> Iterator[LeaderFrame | None]:
        """Yield the frames of a band: sets of places that are all near each other, cut into finer
        levels and fewer workers while that makes a difference to a round.
        """
        below, level = band
        near = self.near.wan[np.ix_(inside, inside)] <= level
        sets = maximal_cliques(near, MOST_CLIQUES)
        for chosen in [inside] if sets is None else [inside[own] for own in sets]:
            some = regions[regions <= len(chosen)]
            if not self.grid.least.keys() <= {*self.places[chosen].tolist()} or len(some) == 0:
                continue
            values = self._levels(chosen, some, below, level)
            if len(values) == 0:
                continue
            target.check_time()
            least, top = max(float(values[0]), self.relaxation.fastest_pair), float(values[-1])
            reached = self.reached(target, rows, chosen, some, largest[1], top)
            needed = self.needed(target, rows, some, largest[0], least)
            margins = margin(reached, needed)
            some, margins = some[margins >= 0], margins[margins >= 0]
            if len(some) == 0:
                continue
            yield None
            alike = max(ALIKE, FINE * target.slack) * self.mode.seconds_at(target.min_speed)
            fewest, most = largest
            if self._inside_s(most, some) - self._inside_s(fewest, some) > alike:
                middle = (fewest + most) // 2
                for part in ((fewest, middle), (middle + 1, most)):
                    yield from self._narrowed(target, rows, chosen, some, part, (below, top))
            elif (top - least) * float(self.pair_bytes(some).max()) > alike:
                middle_s = float(values[(len(values) - 1) // 2])
                for low, high in ((below, middle_s), (middle_s, top)):
                    yield from self._narrowed(target, rows, chosen, some, largest, (low, high))
            else:
                for count, spare in zip(some.tolist(), margins.tolist(), strict=True):
                    yield LeaderFrame(
                        regions=count,
                        fewest=fewest,
                        most=most,
                        below=least,
                        level=top,
                        places=tuple(chosen.tolist()),
                        margin=spare,
                    )

    def _levels(self, chosen: Indices, regions: Indices, below: float, level: float) -> Array:
        """List what the slowest pair or the busiest leader may take within a level, in order."""
        pairs = self.near.wan[np.ix_(chosen, chosen)][np.triu_indices(len(chosen), 1)]
        values = np.concatenate([pairs, np.outer(self.load[chosen], regions - 1).ravel()])
        above = values > below if below > 0 else values >= 0
        return ascending(values[above & (values <= level)])

    def inside_s(self, fewest: int, regions: Indices) -> Array:
        """Return the least seconds of a round beside the pairs of leaders; shape (regions,)."""
        largest = np.full(len(regions), fewest)
        averaging = self.rounds.fastest_averaging(tuple(self.places.tolist()), self.family)
        return self.rounds.inside_s(largest, averaging[largest], regions, self.family)

    def _inside_s(self, largest: int, regions: Indices) -> float:
        return float(self.inside_s(largest, regions[:1])[0])

    def needed(
        self, target: Target, rows: Indices, regions: Indices, fewest: int, wan: float
    ) -> Array:
        """Return the thresholds of an improvement; shape (rows, regions)."""
        nothing = np.zeros(len(regions))
        return target.thresholds(
            self.mode,
            self.grid.weights[rows],
            self.inside_s(fewest, regions) + wan * self.pair_bytes(regions),
            nothing,
            self.data_usd,
            nothing,
        )

    def worth(self, target: Target, most: int) -> Array:
        """Return the most that one to so many machines of a place are worth; shape (rows,
        places).
        """
        if most not in self._worth:
            sums = self.grid.sums[:, self.places, 1 : most + 1]
            if np.any(self.home_usd > 0):
                paid = self.grid.weights[:, 1] * self.rounds_per_hour(target)
                followers = np.where(self.home_usd > 0, self.home_usd, 0.0)[:, None] * np.arange(
                    most
                )
                with np.errstate(invalid="ignore"):
                    followers = np.where(np.arange(most) > 0, followers, 0.0)
                    charge = paid[:, None, None] * followers
                    sums = np.where(paid[:, None, None] > 0, sums - charge, sums)
                return np.asarray(sums.max(axis=2))
            self._worth[most] = sums.max(axis=2)
        return self._worth[most]

    def leaves(
        self,
        target: Target,
        rows: Indices,
        chosen: Indices,
        regions: Indices,
        most: int,
        level: float,
    ) -> list[Array]:
        """Return what no or one region is worth at each place, minus infinity where a leader takes
        longer than a level; shape (rows, regions, 2) each.
        """
        worth = self.worth(target, most)[rows]
        built = []
        for at in chosen.tolist():
            own = np.zeros((len(rows), len(regions), 2))
            own[:, :, 1] = worth[:, at, None]
            busy = (regions - 1) * self.load[at] > level * (1 + ROUNDING)
            own[:, busy, 1] = -np.inf
            built.append(own)
        return built

    def charge(self, target: Target, rows: Indices, regions: Indices) -> Array:
        """Return what a byte each way between all pairs of leaders takes off; shape (rows,
        regions).
        """
        built: Array = (
            self.grid.weights[rows, 1:2] * self.rounds_per_hour(target) * self.pair_bytes(regions)
        )
        return built

    def reached(
        self,
        target: Target,
        rows: Indices,
        chosen: Indices,
        regions: Indices,
        most: int,
        level: float,
    ) -> Array:
        """Return the best sums over so many of some places; shape (rows, regions)."""
        built = np.full((len(rows), len(regions)), -np.inf)
        if len(regions) == 0 or len(chosen) < 2:
            return built
        size = len(rows) * len(regions) * len(chosen) * (int(regions.max()) + 1)
        target.tables += 1 + size // SUMS_OF_A_NODE
        leaves = self.leaves(target, rows, chosen, regions, most, level)
        total = self.dendrograms.of(chosen).all_together(
            leaves, self.charge(target, rows, regions), int(regions.max())
        )
        there = np.flatnonzero(regions < total.shape[2])
        built[:, there] = total[:, there, regions[there]]
        return built
