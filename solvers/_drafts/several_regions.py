"""First drafts of several regions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

import numpy as np

from placer.problem.exchange import traits
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import Array, Indices
from .._mode import Mode
from .draft import NEVER, Draft, Judge
from .neighbourhood import NearPlaces
from .one_place import promise

SIDES = (1, 2, 4, 8)
"""Equal machines in each region."""
LARGE = (4, 16)
"""Equal machines in one region, beside a single one in each other."""
GOOD = 2
"""Exchanges of each probed set that are ranked with the other sets."""
MOST_REGIONS = 6
"""Regions of such a draft; more are added later."""


class SeveralRegionDrafts:
    """Drafts over as many regions as there must be, or over all where data must stay. ``probed``:
    sets, the most promising first, that are ranked with every exchange.
    """

    probed = math.inf

    def __init__(self, judge: Judge, near: NearPlaces) -> None:
        self.judge, self.near, self.market = judge, near, judge.market
        self.sets = self._sets(min(max(2, judge.wish.min_regions), MOST_REGIONS))
        problem, places = judge.problem, self.market.places
        speed = problem.network.speeds(places, problem.requirements.streams)
        size = problem.gradient_bytes
        self.pair_s: Array = size / speed
        np.fill_diagonal(self.pair_s, 0.0)
        self.ways = list(permutations(range(self.sets.shape[1]), 2))
        links = [(self.sets[:, a], self.sets[:, b]) for a, b in self.ways]
        self.seconds: Array = np.max([self.pair_s[link] for link in links], axis=0)
        self.usd: Array = size * np.array([self.market.prices[link] for link in links])

    def _sets(self, regions: int) -> Indices:
        """List pairs of neighbours with the nearest places; shape (sets, regions)."""
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
        """Rank the most promising even drafts of some modes, and one uneven of each kind."""
        if self.judge.needed:
            return self._where_data_stays(modes)
        drafts: dict[Draft, None] = {}
        for steps in sorted(
            {mode.local_steps for mode in modes}
            & {1, max((mode.local_steps for mode in modes), default=1)}
        ):
            alike = [mode for mode in modes if mode.local_steps == steps]
            good: set[tuple[str, int]] = set()
            for number, counts in enumerate(self._promising(alike[0], most)):
                if number == self.probed:
                    alike = [m for m in alike if (m.strategy, m.local_steps) in good] or alike
                made = [draft for mode in alike for draft in self._exchanged(counts, mode)]
                good |= {draft.mode for draft in sorted(made, key=self.judge.rank)[:GOOD]}
                drafts |= dict.fromkeys(made)
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
        return [
            draft
            for draft in drafts
            if self.judge.may_win(draft) and self.judge.rank(draft) < NEVER
        ]

    def _promising(self, mode: Mode, most: int) -> list[dict[int, int]]:
        """List the machines of the best sets by a rough round over the slowest link."""
        mixes: dict[tuple[tuple[int, int], ...], dict[int, int]] = {}
        if not len(self.sets):
            return []
        market = self.market
        for pool, count in self._teams():
            self.judge.target.check_time()
            there = np.all((pool >= 0) & (count > 0), axis=1)
            even = bool(np.all(count == count[:, :1]))
            together = np.where(there, (count * market.speed[pool]).sum(axis=1), np.nan)
            speed, egress = self._figures(mode, slice(None), count, together)
            usd = (count * market.usd[pool]).sum(axis=1) + egress
            usd, carbon = (
                np.nan_to_num(each, nan=np.inf, posinf=np.inf)
                for each in (usd, (count * market.carbon[pool]).sum(axis=1))
            )
            order, _ = promise(self.judge, speed, usd, carbon)
            if not order.size:
                order = np.argsort(-speed, kind="stable")
            for k in order[: most if even else 1]:
                if there[k]:
                    numbers = count[k].astype(int).tolist()
                    counts = dict(zip(pool[k].tolist(), numbers, strict=True))
                    mixes[tuple(counts.items())] = counts
        return list(mixes.values())

    def _figures(
        self, mode: Mode, sets: Indices | slice, count: Array, together: Array
    ) -> tuple[Array, Array]:
        """Return the samples/s of some sets by a rough round, and what they pay for egress in
        USD/h, for so many machines of each region and the speed of all; shapes (sets,).
        """
        workers = count.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Each worker sends its part of the gradient to every other, there and back, or the
            # whole to its neighbour: a region has two of the R (R - 1) ways between all.
            each, part = (np.minimum(count, 1), workers - 1) if mode.ring else (count, 1)
            communication = self.seconds[sets] * 2 * part / workers
            seconds = mode.round_s(mode.samples / together, communication)
            crossing = sum(
                usd * each[:, a] * each[:, b]
                for usd, (a, b) in zip(self.usd[:, sets], self.ways, strict=True)
            )
            if mode.ring:
                crossing = crossing * part / max(1, count.shape[1] - 1)
            egress = SECONDS_PER_HOUR / seconds * 2 * crossing / workers
        return np.nan_to_num(mode.samples / mode.multiplier / seconds), egress

    def _teams(self) -> Iterator[tuple[Indices, Array]]:
        """Yield the pool of each region of each set, -1 for none, and how many machines: as many in
        each, then, of the best value, many in one region and a single one in each other: however
        many there are, they send little more over the links. Shapes (sets, regions).
        """
        budget, regions = self.judge.target.budget_usd_per_hour, self.sets.shape[1]
        for count in SIDES:
            for side in self._sides(count, budget / regions):
                yield side[self.sets], np.full(self.sets.shape, float(count))
        *_, side = self._sides(1, budget / regions)
        pool = side[self.sets]
        for large in range(regions):
            most = self.market.cap[pool[:, large]]
            for count in LARGE:
                counts = np.ones(pool.shape)
                counts[:, large] = np.where(most >= count, count, 0)
                yield pool, counts

    def _sides(self, count: int, part_usd: float) -> Iterator[Indices]:
        """Yield each place's fastest machines that fit a budget, and the best for it."""
        market = self.market
        able = np.flatnonzero((market.cap >= count) & (market.usd * count <= part_usd))
        for order in (
            able[np.lexsort((market.usd[able], -market.speed[able]))],
            able[np.lexsort((able, market.usd[able] / market.speed[able]))],
        ):
            pool = np.full(len(market.places), -1)
            places, first = np.unique(market.place_of[order], return_index=True)
            pool[places] = order[first]
            yield pool

    def _where_data_stays(self, modes: list[Mode]) -> list[Draft]:
        """Return machines at every place where data must stay."""
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
