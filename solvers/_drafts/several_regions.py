"""First drafts over several regions: neighbours, ranked by a rough round, and the places where data
stays.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from msgspec import Struct

from placer.problem.exchange import traits
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import Array, Indices
from .._mode import Mode
from .draft import NEVER, Draft, Judge
from .neighbours import NearPlaces
from .one_place import promise

SIDES = (1, 2, 4, 8)
"""Equal machines in each region."""
MOST_REGIONS = 6
"""Regions of such a draft; more are added later."""


class Side(Struct, frozen=True, dict=True):
    """The machines that each place would give: pool, samples/s and USD/h of all of them; shape
    (places,).
    """

    count: int
    pool: Indices
    speed: Array
    usd: Array


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
        ways = [
            (self.sets[:, a], self.sets[:, b])
            for a, b in permutations(range(self.sets.shape[1]), 2)
        ]
        self.seconds: Array = size / np.min([speed[way] for way in ways], axis=0)
        self.usd: Array = np.sum([size * self.market.prices[way] for way in ways], axis=0)

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
        """Rank the most promising drafts of some modes: so many of each number of machines."""
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
        regions = self.sets.shape[1]
        for side in self._sides():
            there = np.all(side.pool[self.sets] >= 0, axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                communication = self.seconds * 2 / (regions * side.count)
                calculation = mode.samples / np.where(
                    there, side.speed[self.sets].sum(axis=1), np.nan
                )
                seconds = mode.round_s(calculation, communication)
                egress = SECONDS_PER_HOUR / seconds * self.usd * 2 * side.count / regions
            speed = np.nan_to_num(mode.samples / mode.multiplier / seconds)
            order, _ = promise(
                self.judge,
                speed,
                np.nan_to_num(side.usd[self.sets].sum(axis=1) + egress, nan=np.inf, posinf=np.inf),
            )
            if not order.size:
                order = np.argsort(-speed, kind="stable")
            for row in self.sets[[k for k in order[:most] if there[k]]].tolist():
                counts = {int(side.pool[place]): side.count for place in row}
                mixes[tuple(counts.items())] = counts
        return list(mixes.values())

    def _sides(self) -> list[Side]:
        """Return the fastest machines that their part of the budget pays, and those with the best
        value, by their number.
        """
        market, sides = self.market, []
        part = self.judge.target.budget_usd_per_hour / max(2, self.judge.wish.min_regions)
        for count in SIDES:
            self.judge.target.check_time()
            able = np.flatnonzero((market.cap >= count) & (market.usd * count <= part))
            for order in (
                able[np.lexsort((market.usd[able], -market.speed[able]))],
                able[np.lexsort((able, market.usd[able] / market.speed[able]))],
            ):
                pool = np.full(len(market.places), -1)
                places, first = np.unique(market.place_of[order], return_index=True)
                pool[places] = order[first]
                sides.append(
                    Side(count, pool, market.speed[pool] * count, market.usd[pool] * count)
                )
        return sides

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
