"""Drafts of as many machines of one device in each of many regions: where a quota leaves little in
each, or regions work at their own pace.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

import numpy as np

from placer.problem.exchange import traits
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import NEVER_USD, Array, Indices
from .._mode import Mode
from .draft import Judge
from .like_machines import LikeMachines
from .one_place import promise

Team = tuple[int, ...]
"""Rows of `LikeMachines`, one for each region."""
DRAFTED = 8
"""Drafts of regions at their own pace whose exchanges are worked out."""
DEVICES = 6
"""Devices of which drafts of regions that wait for each other are worked out."""
ALIKE = 2
"""Teams of as many such regions, as the slowest link is often the same."""
LOOKED_AT = 12
"""Rows of teams among which these are looked for."""
TEAMS = 200
"""Regions of a device that are looked at."""
REGIONS = (2, 3, 4, 5, 6, 8, 10, 12)
"""Regions that wait for each other."""
TOGETHER = (1, 2, 4)
"""Machines in each of many regions that wait for each other."""
ABOUT = 0.1
"""Share by which prices of machines differ that cost about as much."""
SENDS_DECIDE = 0.01
"""Share by which drafts differ of which the one whose regions lie nearest to each other is taken:
what regions send to each other is hidden behind their steps, or nearly so.
"""


class ManyRegions:
    """Teams of regions with machines of one device, by rough rounds. ``pair_s``: seconds of a
    gradient from place to place; shape (places, places).
    """

    def __init__(self, judge: Judge, like: LikeMachines, pair_s: Array) -> None:
        self.judge, self.like = judge, like
        self.pair_s = np.maximum(pair_s, pair_s.T)

    def promising(self, modes: list[Mode]) -> Iterator[tuple[Mode, Team, int]]:
        """Yield teams with their exchange and the number of machines in each region: single ones
        where regions work at their own pace, and several where all wait for the slowest link: that
        pays where one region may not have all, or has little.
        """
        paced = [mode for mode in modes if traits(mode.strategy).transport == "region-gossip"]
        for mode in sorted(paced, key=lambda mode: mode.local_steps)[-1:]:
            found = [row for own in self._devices(1) for row in self._paced(mode, own)]
            yield from ((mode, team, 1) for _, team in sorted(found)[:DRAFTED])
        wish = self.judge.wish
        waits = wish.min_regions > 1 or wish.has_quotas
        leaders = [mode for mode in modes if traits(mode.strategy).transport == "leaders"]
        for mode in leaders if waits else ():
            for count in TOGETHER:
                every = (list(self._waiting(mode, own, count)) for own in self._devices(count))
                for teams in sorted(filter(None, every))[:DEVICES]:
                    for worth, team in teams:
                        # What was ranked meanwhile may be better.
                        if worth < self.judge.target.best_key[0]:
                            yield mode, team, count

    def _devices(self, count: int) -> Iterator[Indices]:
        """Yield the teams of each device that have so many machines, the cheapest ones."""
        like = self.like
        if count < like.usd.shape[1]:
            there = np.isfinite(like.usd[:, count])
            for device in dict.fromkeys(like.device[there].tolist()):
                self.judge.target.check_time()
                own = np.flatnonzero(there & (like.device == device))
                yield own[np.argsort(like.usd[own, count], kind="stable")[:TEAMS]]

    def _paced(self, mode: Mode, own: Indices) -> Iterator[tuple[float, Team]]:
        """Yield the best regions that send to each other in turn, and of those that are about as
        good the ones that lie nearest to each other; cheap ones join first.
        """
        like = self.like
        most = self._payable(mode, own, 1)
        if not most:
            return
        usd = like.usd[own, 1]
        dear = np.floor(usd / max(usd.min(), 1e-9) / ABOUT)
        order, away_s = _joined(self._apart(own), dear, most, np.add)
        pairs = np.arange(1, most + 1) * np.arange(most) / 2
        apart_s = away_s.cumsum(axis=1) / np.maximum(pairs, 1)
        round_s = np.maximum(mode.samples / like.speed[own, 1][order].cumsum(axis=1), apart_s)
        sent_usd = self._leaving_usd[like.place[own]][order].cumsum(axis=1)
        best, value = self._promise(mode, own[order], round_s, sent_usd, 1)
        near = best[value[best] <= value[best[:1]] + SENDS_DECIDE * np.abs(value[best[:1]])]
        near = near[np.argsort(apart_s.ravel()[near], kind="stable")]
        for k in dict.fromkeys([*best[:1].tolist(), *near[:1].tolist()]):
            row, last = divmod(k, most)
            yield float(value[k]), tuple(sorted(own[order[row, : last + 1]].tolist()))

    def _waiting(self, mode: Mode, own: Indices, count: int) -> Iterator[tuple[float, Team]]:
        """Yield the best so many regions that average through one machine each, more and more of
        them.
        """
        like = self.like
        most = min(self._payable(mode, own, count), REGIONS[-1])
        if not most:
            return
        order, away_s = _joined(self._apart(own), np.zeros(len(own)), most, np.maximum)
        slowest_s = np.maximum.accumulate(away_s, axis=1)
        calculation = mode.samples / like.speed[own, count][order].cumsum(axis=1)
        # Each sends its part to every other, there and back.
        share = 1 / np.arange(1, most + 1)
        round_s = mode.round_s(calculation, 2 * slowest_s * share)
        sent_usd = 2 * (1 - share) * self._leaving_usd[like.place[own]][order].cumsum(axis=1)
        best, value = self._promise(mode, own[order], round_s, sent_usd, count)
        for regions in REGIONS:
            each: dict[Team, float] = {}
            for k in best[best % most == regions - 1][:LOOKED_AT].tolist():
                team = tuple(sorted(own[order[k // most, :regions]].tolist()))
                each.setdefault(team, float(value[k]))
            yield from ((worth, team) for team, worth in islice(each.items(), ALIKE))

    def _payable(self, mode: Mode, own: Indices, count: int) -> int:
        """Return over how many regions machines, the cheapest first, may beat the best so far if
        they exchanged for free.
        """
        like, wish = self.like, self.judge.wish
        most = min(wish.max_regions, self.judge.most // count, len(own))
        cheapest = own[None, :most]
        free_s = mode.samples / like.speed[cheapest, count].cumsum(axis=1)
        regions, _ = self._promise(mode, cheapest, free_s, np.zeros(free_s.shape), count)
        return int(regions.max(initial=-1)) + 1

    @cached_property
    def _leaving_usd(self) -> Array:
        """What a gradient to the cheapest other place costs, finite: 0 times it is 0; shape
        (places,).
        """
        prices = self.judge.market.prices
        others = np.where(np.eye(len(prices), dtype=bool), np.inf, prices).min(axis=1)
        return np.minimum(self.judge.problem.gradient_bytes * others, NEVER_USD)

    def _apart(self, own: Indices) -> Array:
        place = self.like.place[own]
        return self.pair_s[np.ix_(place, place)]

    def _promise(
        self, mode: Mode, teams: Indices, round_s: Array, sent_usd: Array, count: int
    ) -> tuple[Indices, Array]:
        """Return what keeps the limits and may beat the best so far, best first, and the objective
        of all; shapes (kept,) and (teams x regions,): of each row the first regions, more of them
        in each column.
        """
        usd, carbon = (
            table[teams, count].cumsum(axis=1) for table in (self.like.usd, self.like.carbon)
        )
        speed = mode.samples / mode.multiplier / round_s
        usd = usd + SECONDS_PER_HOUR / round_s * sent_usd
        order, value = promise(self.judge, speed.ravel(), usd.ravel(), carbon.ravel())
        return order[value[order] < self.judge.target.best_key[0]], value


def _joined(away: Array, dear: Array, most: int, join: np.ufunc) -> tuple[Indices, Array]:
    """Return a row of regions from each one on, in which the cheapest comes next, of these the
    nearest to all before; and how far each is from those, by all distances joined. Shapes
    (regions, most).

    >>> line = np.abs(np.subtract.outer([0.0, 1.0, 5.0], [0.0, 1.0, 5.0]))
    >>> order, apart = _joined(line, np.zeros(3), 3, np.maximum)
    >>> order.tolist(), apart.tolist()[2]
    ([[0, 1, 2], [1, 0, 2], [2, 1, 0]], [0.0, 4.0, 5.0])
    """
    at, reach = np.arange(len(away)), away.copy()
    order, apart = np.zeros((len(away), most), dtype=np.intp), np.zeros((len(away), most))
    order[:, 0], key = at, np.broadcast_to(dear * (away.max() * len(away) + 1), away.shape).copy()
    key[at, at] = np.inf
    for k in range(1, most):
        order[:, k] = joined = np.argmin(key + reach, axis=1)
        apart[:, k] = reach[at, joined]
        key[at, joined], reach = np.inf, join(reach, away[joined])
    return order, apart
