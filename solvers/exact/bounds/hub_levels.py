"""Bounds of placements whose regions meet at a hub: all hubs and numbers of regions at once, level
by level of the slowest way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer.cost_model.timing.plain_streams import share_seconds
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Mask
from ..._market.grid import Grid
from ..._target import Target
from .region_rounds import RegionRounds
from .relaxation import Family, margin, priced_rows

LEVELS = 16
"""Levels of the slowest way to the hub and back."""


@dataclass(frozen=True, kw_only=True)
class Frames:
    """Hubs and numbers of regions at one level, with at most so many workers in a region.

    Notes
    -----
    ``near`` says which places the level allows, shape (hubs, places); the slowest way takes
    ``least_s`` at least and ``most_s`` at most; ``fewest`` is how many workers some region has at
    least.
    """

    near: Mask
    least_s: float
    most_s: float
    fewest: int
    most: int


class HubLevels:
    """Hubs of one family of hosts.

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
    With the hub h known, region p pays for both ways to h in every round, whatever the others are:
    a plain multiple-choice knapsack, one item a region. The slowest way is above the level before
    and at most that of the level, so places beyond are out, and the seconds left for the
    calculation say what the machines must reach. Weights of the Lagrangian are the grid's.
    """

    def __init__(self, rounds: RegionRounds, grid: Grid, family: Family) -> None:
        self.rounds, self.grid, self.family = rounds, grid, family
        self.market, self.mode = rounds.market, rounds.mode
        self.places = np.array(self.market.family_places(grid.hosts), dtype=np.intp)
        wanted = self.market.problem.requirements.aggregator
        names = self.market.places
        self.hubs = np.array(
            [at for at, p in enumerate(self.places) if wanted in (None, names[p])], dtype=np.intp
        )
        problem = rounds.problem
        sent = [problem.network.machine_bytes_per_s(names[p], problem.lanes) for p in self.places]
        self.load_s = share_seconds(1.0, 1.0) * rounds.size / np.array(sent)

    @cached_property
    def ways(self) -> Array:
        """Seconds of one gradient to a hub and of the mean back, 0 of the hub itself; shape (hubs,
        places).
        """
        direct = self.rounds.leader_pairs.star.direct[np.ix_(self.places, self.places)]
        both: Array = direct + direct.T
        return both[self.hubs]

    @cached_property
    def usd(self) -> Array:
        """Egress of a round for each region of a hub; shape (hubs, places)."""
        both = self.market.both_ways[np.ix_(self.places, self.places)]
        built: Array = self.rounds.size * both[self.hubs]
        return built

    def regions(self, target: Target, most_regions: int) -> Mask:
        """Return whether some placement over so many regions may be an improvement, for 0 to
        ``most_regions``; shape (regions + 1,).
        """
        open_ = np.zeros(most_regions + 1, dtype=bool)
        if len(self.hubs) == 0:
            return open_
        for frames in self.frames(target):
            target.check_time()
            open_[1:] |= (self.margins(frames, target, most_regions) >= 0).any(axis=0)
        return open_

    def frames(self, target: Target) -> Iterator[Frames]:
        """Yield levels that leave time for a calculation, with powers of two of workers."""
        round_s = self.mode.seconds_at(target.min_speed)
        edges = self._edges(round_s)
        fewest, room = 1, self.grid.most - 1
        while fewest <= room:
            most = min(2 * fewest - 1, room)
            inside = self.inside_s(fewest)
            for below, edge in zip([0.0, *edges[:-1]], edges, strict=True):
                if inside + below > round_s:
                    break
                yield Frames(
                    near=self.ways <= edge, least_s=below, most_s=edge, fewest=fewest, most=most
                )
            fewest = most + 1

    def _edges(self, round_s: float) -> list[float]:
        """Return the upper ends of the levels: where each way alone takes a round, only that of a
        hub that stays alone.
        """
        other = np.arange(len(self.places)) != self.hubs[:, None]
        within = self.ways[other & (self.ways <= round_s)]
        if len(within) == 0:
            return [0.0]
        steps = np.linspace(within.min(), within.max(), LEVELS)
        # The next way that there is, so that no level is empty.
        ranked = np.sort(within)
        at = np.searchsorted(ranked, steps * (1 - 1e-12))
        return sorted({float(way) for way in ranked[np.minimum(at, len(ranked) - 1)]})

    def margins(self, frames: Frames, target: Target, most_regions: int) -> Array:
        """Return the margins over an improvement; shape (hubs, most_regions)."""
        rows = priced_rows(self.grid.weights, self.mode, target)
        weights = self.grid.weights[rows]
        worth = self.worth(frames.most)[rows]
        rounds_per_hour = (
            SECONDS_PER_HOUR * self.mode.multiplier / self.mode.samples * target.min_speed
        )
        paid = weights[:, 1] * rounds_per_hour
        with np.errstate(invalid="ignore"):
            charge = np.where(paid[:, None, None] > 0, paid[:, None, None] * self.usd, 0.0)
        each = worth[:, None, :] - charge
        hubs = np.arange(len(self.hubs))
        own = each[:, hubs, self.hubs]
        others = np.where(frames.near[None], each, -np.inf)
        others[:, hubs, self.hubs] = -np.inf
        reached = np.full((len(rows), len(hubs), most_regions), -np.inf)
        reached[:, :, 0] = own
        for row, best, alone in zip(reached, others, own, strict=True):
            target.check_time()
            ranked = -np.sort(-best, axis=1)[:, : most_regions - 1]
            row[:, 1 : ranked.shape[1] + 1] = alone[:, None] + np.cumsum(ranked, axis=1)
        counts = np.arange(1, most_regions + 1)
        inside = self.inside_s(frames.fewest)
        way = np.maximum(frames.least_s, 2 * np.outer(self.load_s[self.hubs], counts - 1))
        seconds = (inside + way).ravel()
        needed = target.thresholds(
            self.mode,
            weights,
            seconds,
            np.zeros(len(seconds)),
            min(self.market.data_usd[p] for p in self.places),
            np.zeros(len(seconds)),
        )
        return margin(reached.reshape(len(rows), -1), needed).reshape(len(hubs), most_regions)

    def inside_s(self, fewest: int) -> float:
        """Return the least seconds of a round inside a region with so many workers."""
        averaging = self.rounds.fastest_averaging(tuple(self.places.tolist()), self.family)
        built = self.rounds.inside_s(np.array([fewest]), averaging[[fewest]], 1, self.family)
        return float(np.max(built))

    def worth(self, most: int) -> Array:
        """Return the most that one to so many machines of a place are worth; shape (rows,
        places).
        """
        if most not in self._kept:
            self._kept[most] = self.grid.sums[:, self.places, 1 : most + 1].max(axis=2)
        return self._kept[most]

    @cached_property
    def _kept(self) -> dict[int, Array]:
        return {}
