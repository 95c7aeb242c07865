"""First drafts over several regions: neighbours, ranked by a rough round, and the places where data
stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from msgspec import Struct

from placer.problem.exchange import traits
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import Array, Indices, Mask
from .._mode import Mode
from .draft import NEVER, Draft, Judge
from .neighbours import NearPlaces
from .one_place import promise

SIDES = (1, 2, 4, 8)
"""Equal machines in each region."""
LARGE = (4, 16)
"""Equal machines in one region, beside a single one in each other."""
MOST_REGIONS = 6
"""Regions of such a draft; more are added later."""


class Side(Struct, frozen=True, dict=True):
    """The machine that each place would give: pool, -1 for none, samples/s and USD/h; shape
    (places,).
    """

    pool: Indices
    speed: Array
    usd: Array


class Teams(Struct, frozen=True, dict=True):
    """Machines for each set of places: pool and number in each region; shape (sets, regions)."""

    pool: Indices
    count: Array
    side: Side
    sets: Indices

    @property
    def there(self) -> Mask:
        """Whether each region of a set has machines; shape (sets,)."""
        built: Mask = np.all((self.pool >= 0) & (self.count > 0), axis=1)
        return built

    @property
    def even(self) -> bool:
        """Whether each region has as many machines as any other."""
        return bool(np.all(self.count == self.count[:, :1]))

    @property
    def speed(self) -> Array:
        """Samples/s of all machines; shape (sets,)."""
        built: Array = (self.count * self.side.speed[self.sets]).sum(axis=1)
        return built

    @property
    def usd(self) -> Array:
        """USD/h of all machines; shape (sets,)."""
        built: Array = (self.count * self.side.usd[self.sets]).sum(axis=1)
        return built


class SeveralRegionDrafts:
    """Drafts over as many regions as there must be, two at least, or over all where data must stay.

    Parameters
    ----------
    judge, near
        The market with its limits, and which of its places are neighbours.
    """

    def __init__(self, judge: Judge, near: NearPlaces) -> None:
        self.judge, self.near, self.market = judge, near, judge.market
        self.sets = self._sets(min(max(2, judge.wish.min_regions), MOST_REGIONS))
        problem, places = judge.problem, self.market.places
        speed, size = (
            problem.network.speeds(places, problem.requirements.streams),
            problem.gradient_bytes,
        )
        self.ways = list(permutations(range(self.sets.shape[1]), 2))
        links = [(self.sets[:, a], self.sets[:, b]) for a, b in self.ways]
        self.seconds: Array = size / np.min([speed[link] for link in links], axis=0)
        self.usd: Array = size * np.array([self.market.prices[link] for link in links])

    def _sets(self, regions: int) -> Indices:
        """List the pairs of neighbours, each with the places that lie nearest to all of it; shape
        (sets, regions).
        """
        rows = {(min(i, j), max(i, j)) for i, row in enumerate(self.near.neighbours) for j in row}
        sets: Indices = np.array(sorted(rows), dtype=np.intp).reshape(-1, 2)
        for _ in range(min(regions, len(self.market.places)) - 2):
            away = self.near.km[sets].sum(axis=1)
            np.put_along_axis(away, sets, np.inf, axis=1)
            nearest = np.argmin(away, axis=1)
            reached = np.take_along_axis(away, nearest[:, None], axis=1)[:, 0] < np.inf
            grown = np.sort(np.column_stack([sets, nearest])[reached], axis=1)
            # Asked for indices too, NumPy does not load its masked arrays: a tenth of its import.
            sets, _ = np.unique(grown, axis=0, return_index=True)
        return sets

    def of(self, modes: list[Mode], most: int) -> list[Draft]:
        """Rank the most promising drafts of some modes: so many of each number of machines in every
        region, and one of each number beside single machines.
        """
        if self.judge.needed:
            return self._where_data_stays(modes)
        drafts: dict[Draft, None] = {}
        for steps in sorted(
            {mode.local_steps for mode in modes}
            & {1, max((mode.local_steps for mode in modes), default=1)}
        ):
            alike = [mode for mode in modes if mode.local_steps == steps]
            for counts in self._promising(alike[0], most):
                for mode in alike:
                    for draft in self._exchanged(counts, mode):
                        drafts[draft] = None
        return sorted(drafts, key=lambda draft: (self.judge.rank(draft), draft.counts, draft.mode))

    def _exchanged(self, counts: dict[int, int], mode: Mode) -> list[Draft]:
        """Return the draft with each hub of a mode, as far as it may be."""
        places = tuple(sorted({self.market.pools[i].place for i in counts}))
        if len(places) < traits(mode.strategy).least_regions:
            return []
        drafts = [
            Draft.of(counts, (mode.strategy, mode.local_steps), hub)
            for hub in self.judge.hubs.of(mode.strategy, places)[:3]
        ]
        return [draft for draft in drafts if self.judge.rank(draft) < NEVER]

    def _promising(self, mode: Mode, most: int) -> list[dict[int, int]]:
        """List the machines of the best sets by a rough round: calculation, and what one pair of
        workers sends over the slowest link.
        """
        mixes: dict[tuple[tuple[int, int], ...], dict[int, int]] = {}
        if not len(self.sets):
            return []
        for teams in self._teams():
            self.judge.target.check_time()
            there, workers = teams.there, teams.count.sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                communication = self.seconds * 2 / workers
                calculation = mode.samples / np.where(there, teams.speed, np.nan)
                seconds = mode.round_s(calculation, communication)
                # Each worker sends its part of the gradient to every other, there and back.
                crossing = sum(
                    usd * teams.count[:, a] * teams.count[:, b]
                    for usd, (a, b) in zip(self.usd, self.ways, strict=True)
                )
                egress = SECONDS_PER_HOUR / seconds * 2 * crossing / workers
            speed = np.nan_to_num(mode.samples / mode.multiplier / seconds)
            order, _ = promise(
                self.judge, speed, np.nan_to_num(teams.usd + egress, nan=np.inf, posinf=np.inf)
            )
            if not order.size:
                order = np.argsort(-speed, kind="stable")
            for k in order[: most if teams.even else 1]:
                if there[k]:
                    numbers = teams.count[k].astype(int).tolist()
                    counts = dict(zip(teams.pool[k].tolist(), numbers, strict=True))
                    mixes[tuple(counts.items())] = counts
        return list(mixes.values())

    def _teams(self) -> Iterator[Teams]:
        """Yield as many machines in each region, then, of the best value, many in one region and a
        single one in each other: however many there are, they send little more over the links.
        """
        budget, regions = self.judge.target.budget_usd_per_hour, self.sets.shape[1]
        for count in SIDES:
            for side in self._sides(count, budget / regions):
                pool = side.pool[self.sets]
                yield Teams(pool, np.full(pool.shape, float(count)), side, self.sets)
        *_, side = self._sides(1, budget / regions)
        pool = side.pool[self.sets]
        for large in range(regions):
            most = self.market.cap[pool[:, large]]
            for count in LARGE:
                counts = np.ones(pool.shape)
                counts[:, large] = np.where(most >= count, count, 0)
                yield Teams(pool, counts, side, self.sets)

    def _sides(self, count: int, part_usd: float) -> Iterator[Side]:
        """Yield the fastest machines of each place of which a part of the budget pays so many, and
        those with the best value.
        """
        market = self.market
        able = np.flatnonzero((market.cap >= count) & (market.usd * count <= part_usd))
        for order in (
            able[np.lexsort((market.usd[able], -market.speed[able]))],
            able[np.lexsort((able, market.usd[able] / market.speed[able]))],
        ):
            pool = np.full(len(market.places), -1)
            places, first = np.unique(market.place_of[order], return_index=True)
            pool[places] = order[first]
            yield Side(pool, market.speed[pool], market.usd[pool])

    def _where_data_stays(self, modes: list[Mode]) -> list[Draft]:
        """Return one machine or more at every place where data must stay: the best value, and the
        fastest.
        """
        market, drafts = self.market, []
        homes = [place for place, name in enumerate(market.places) if name in self.judge.needed]
        for choose in (0, 1):
            for count in SIDES[:3]:
                counts = {}
                for place in homes:
                    pools = self.near.pools(place)
                    if pools:
                        pool = (
                            pools[0] if choose == 0 else max(pools, key=lambda i: market.speed[i])
                        )
                        counts[pool] = min(count, int(market.cap[pool]))
                drafts += [draft for mode in modes for draft in self._exchanged(counts, mode)]
        return sorted(
            dict.fromkeys(drafts),
            key=lambda draft: (self.judge.rank(draft), draft.counts, draft.mode),
        )
