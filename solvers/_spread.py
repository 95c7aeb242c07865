"""First drafts over several regions: pairs of neighbours, screened as arrays by a rough round, and the places where data stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placer.exchange import traits
from placer.timing.transfer import transfer_seconds
from placer.units import SECONDS_PER_HOUR

from ._draft import NEVER, Draft, Judge
from ._equal import promise
from ._market import Array, Indices
from ._mode import Mode
from ._near import NearPlaces

SIDES = (1, 2, 4, 8)
"""Equal machines on either side of a pair."""
PAIRS = 8
"""Pairs of each kind that are ranked in full."""


@dataclass(frozen=True)
class Side:
    """The machines that each place would give to a pair: pool, samples/s and USD/h of all of them; shape (places,)."""

    count: int
    pool: Indices
    speed: Array
    usd: Array


class SpreadDrafts:
    """Drafts over two regions, or over all where data must stay.

    Parameters
    ----------
    judge, near
        The market with its limits, and which of its places are neighbours.
    """

    def __init__(self, judge: Judge, near: NearPlaces) -> None:
        self.judge, self.near, self.market = judge, near, judge.market
        pairs = sorted({(min(i, j), max(i, j)) for i, row in enumerate(near.neighbours) for j in row})
        self.pairs: Indices = np.array(pairs, dtype=np.intp).reshape(-1, 2)
        network, problem, names = judge.problem.network, judge.problem, self.market.places
        streams, same_zone = problem.requirements.streams, problem.requirements.same_zone
        both = [((names[i], names[j]), (names[j], names[i])) for i, j in pairs]
        size = problem.gradient_bytes
        self.seconds = np.array([max(transfer_seconds(size, network.link(*way), streams) for way in ways) for ways in both])
        self.usd = np.array([sum(size * network.usd_per_byte(*way, same_zone=same_zone) for way in ways) for ways in both])

    def of(self, modes: list[Mode]) -> list[Draft]:
        """Rank the most promising drafts of some modes."""
        if self.judge.needed:
            return self._where_data_stays(modes)
        found: dict[Draft, None] = {}
        for steps in sorted({mode.local_steps for mode in modes} & {1, max((mode.local_steps for mode in modes), default=1)}):
            alike = [mode for mode in modes if mode.local_steps == steps]
            for pools in self._pairs(alike[0]):
                for mode in alike:
                    for draft in self._exchanged(pools, mode):
                        found[draft] = None
        return sorted(found, key=lambda draft: (self.judge.rank(draft), draft.counts, draft.mode))

    def _exchanged(self, counts: dict[int, int], mode: Mode) -> list[Draft]:
        """The draft with each hub of a mode, as far as it may be."""
        places = tuple(sorted({self.market.pools[i].offer.place for i in counts}))
        if len(places) < traits(mode.strategy).least_regions:
            return []
        drafts = [Draft.of(counts, (mode.strategy, mode.local_steps), hub) for hub in self.judge.hubs.of(mode.strategy, places)[:3]]
        return [draft for draft in drafts if self.judge.rank(draft) < NEVER]

    def _pairs(self, mode: Mode) -> list[dict[int, int]]:
        """Machines of the best pairs by a rough round: calculation, and what one pair of workers sends over the link."""
        found: dict[tuple[tuple[int, int], ...], dict[int, int]] = {}
        if not len(self.pairs):
            return []
        a, b = self.pairs.T
        for side in self._sides():
            speed, usd = side.speed[a] + side.speed[b], side.usd[a] + side.usd[b]
            there = (side.pool[a] >= 0) & (side.pool[b] >= 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                communication = self.seconds / side.count
                calculation = mode.samples / np.where(there, speed, np.nan)
                seconds = np.maximum(calculation, communication) if mode.overlap else calculation + communication
                total = usd + SECONDS_PER_HOUR / seconds * self.usd * side.count
            order, _ = promise(self.judge, np.nan_to_num(mode.samples / mode.multiplier / seconds), np.nan_to_num(total, nan=np.inf))
            relaxed = order if order.size else np.lexsort((total, -np.nan_to_num(mode.samples / seconds)))[:PAIRS]
            for k in relaxed[:PAIRS]:
                if there[k]:
                    i, j = int(side.pool[a[k]]), int(side.pool[b[k]])
                    found[(i, side.count), (j, side.count)] = {i: side.count, j: side.count}
        return list(found.values())

    def _sides(self) -> list[Side]:
        """The fastest machines that half the budget pays, and those with the best value, by their number."""
        market, found = self.market, []
        half = self.judge.target.budget_usd_per_hour / max(2, self.judge.wish.min_regions)
        for count in SIDES:
            able = np.flatnonzero((market.cap >= count) & (market.usd * count <= half))
            for order in (
                able[np.lexsort((market.usd[able], -market.speed[able]))],
                able[np.lexsort((able, market.usd[able] / market.speed[able]))],
            ):
                pool = np.full(len(market.places), -1)
                places, first = np.unique(market.place_of[order], return_index=True)
                pool[places] = order[first]
                found.append(Side(count, pool, market.speed[pool] * count, market.usd[pool] * count))
        return found

    def _where_data_stays(self, modes: list[Mode]) -> list[Draft]:
        """One machine or more at every place where data must stay: the best value, and the fastest."""
        market, found = self.market, []
        homes = [place for place, name in enumerate(market.places) if name in self.judge.needed]
        for choose in (0, 1):
            for count in SIDES[:3]:
                counts = {}
                for place in homes:
                    pools = self.near.pools(place)
                    if pools:
                        pool = pools[0] if choose == 0 else max(pools, key=lambda i: market.speed[i])
                        counts[pool] = min(count, int(market.cap[pool]))
                found += [draft for mode in modes for draft in self._exchanged(counts, mode)]
        return sorted(dict.fromkeys(found), key=lambda draft: (self.judge.rank(draft), draft.counts, draft.mode))
