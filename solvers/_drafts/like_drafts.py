"""Drafts whose machines all have one device, by tables: an instant answer where a step is divided
equally.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from .._market.arrays import NEVER_USD, Array, Indices
from .._mode import Mode
from .draft import Draft, Judge
from .like_machines import LikeMachines
from .many_regions import ManyRegions
from .one_place import COUNTS, OnePlaceDrafts, promise
from .several_regions import SeveralRegionDrafts

BESIDE_EXCHANGES = (1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5)
"""Speeds that are tried, over a floor: an exchange takes its part of the time."""
NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 48)
"""Machines in each region, or in one of them beside a single one in each other."""
DEVICES = 8
"""Devices of which machines in several regions are drafted."""
FEW = (1, 2, 4, 16)
"""Numbers by which these are chosen."""
PROVIDERS = 2
"""Drafts of a device, of as many providers."""
LOOKED_AT = 200
"""The best of a device, among which these are looked for."""
DRAFTED = 10
"""Drafts of several regions whose exchanges are worked out."""


class LikePlaceDrafts(OnePlaceDrafts):
    """Machines of one device in one place, in many numbers."""

    hubs = 4

    def __init__(self, judge: Judge) -> None:
        self.judge, self.like, self._promised = judge, LikeMachines.of(judge), {}
        like, budget = self.like, judge.target.budget_usd_per_hour
        payable = ((like.usd <= budget) & np.isfinite(like.usd)).sum(axis=1) - 1
        payable[~self._complete()[like.machine[:, 0]]] = 0
        floor = judge.target.floor_samples_per_second
        reached = [(like.speed < share * floor).sum(axis=1) for share in BESIDE_EXCHANGES]
        columns = np.column_stack([np.tile(COUNTS, (len(payable), 1)), payable, *reached])
        team, column = np.nonzero(
            (columns <= payable[:, None]) & (columns >= max(2, judge.wish.min_workers))
        )
        cells = np.unique(team * (judge.most + 1) + columns[team, column], return_index=True)[0]
        self.team, self.count = np.divmod(cells, judge.most + 1)
        self.pool = like.machine[self.team, 0]
        self.speed, self.usd, self.carbon = (
            table[self.team, self.count] for table in (like.speed, like.usd, like.carbon)
        )
        for taken, row in zip(judge.market.joint, judge.problem.joint_limits, strict=True):
            both = like._sums(taken, 0.0)[self.team, self.count]
            self.usd = np.where(both <= row.most, self.usd, np.inf)

    def counts(self, cell: int) -> dict[int, int]:
        """Count the machines of a draft by pool."""
        return self.like.counts(int(self.team[cell]), int(self.count[cell]))

    def picked(self, cells: list[int]) -> list[int]:
        """Return the first of each device and number of machines, as the same ones stand in many
        places.
        """
        first: dict[tuple[int, int], int] = {}
        for cell in cells[:LOOKED_AT]:
            first.setdefault((int(self.like.device[self.team[cell]]), int(self.count[cell])), cell)
        return super().picked([*first.values()])


class LikeRegionDrafts(SeveralRegionDrafts):
    """Machines of one device over several regions: as many in each, or many beside single ones."""

    probed = 3

    def _promising(self, mode: Mode, most: int) -> list[dict[int, int]]:
        like, numbers = LikeMachines.of(self.judge), self._numbers()
        if not len(numbers):
            return []
        found: list[tuple[float, tuple[int, ...], tuple[int, ...]]] = []
        for device in self._devices(mode, like, numbers):
            order, value, team, count = self._promised(mode, like, device, numbers)
            first: dict[str, int] = {}  # links of one provider are alike
            for k in order[:LOOKED_AT].tolist():
                place = self.market.places[like.place[team[k, 0]]]
                first.setdefault(place.split("/")[0], k)
            found += [
                (float(value[k]), tuple(team[k].tolist()), tuple(count[k].tolist()))
                for k in [*first.values()][:PROVIDERS]
            ]
        return [like.together(team, count) for _, team, count in sorted(found)[:DRAFTED]]

    def of(self, modes: list[Mode], most: int) -> list[Draft]:
        """Rank drafts of a few regions, and of many."""
        return super().of(modes, most) + self.over_many(modes)

    def over_many(self, modes: list[Mode]) -> list[Draft]:
        """Rank drafts of as many machines in each of many regions."""
        if self.judge.needed:
            return []
        like = LikeMachines.of(self.judge)
        return [
            draft
            for mode, teams, count in ManyRegions(self.judge, like, self.pair_s).promising(modes)
            for draft in self._exchanged(like.together(teams, [count] * len(teams)), mode)
        ]

    def _promised(
        self, mode: Mode, like: LikeMachines, device: int, numbers: Indices
    ) -> tuple[Indices, Array, Indices, Indices]:
        """Return the payable drafts of a device, best first, by a rough round over the slowest
        link: their order, the objective of all, and their teams and numbers of machines; shapes
        (within limits,), (payable,) and (payable, regions).
        """
        judge = self.judge
        judge.target.check_time()
        team_at = np.full(len(self.market.places), -1)
        own = np.flatnonzero(like.device == device)
        team_at[like.place[own]] = own
        teams = team_at[self.sets]
        sets = np.flatnonzero(np.all(teams >= 0, axis=1))
        teams = teams[sets][:, None]
        usd = like.usd[teams, numbers].sum(axis=2)
        at, chosen = np.nonzero(usd <= min(judge.target.budget_usd_per_hour, NEVER_USD))
        count, team = numbers[chosen], teams[at, 0]
        speed, egress = self._figures(
            mode, sets[at], count.astype(np.float64), like.speed[team, count].sum(axis=1)
        )
        carbon = like.carbon[team, count].sum(axis=1)
        return *promise(judge, speed, usd[at, chosen] + egress, carbon), team, count

    def _numbers(self) -> Indices:
        """List machines of each region; shape (choices, regions)."""
        regions, most = self.sets.shape[1], self.judge.most
        rows = {(n,) * regions for n in NUMBERS}
        rows |= {
            tuple(n if other == large else 1 for other in range(regions))
            for n, large in product(NUMBERS, range(regions))
        }
        within = [row for row in rows if self.judge.wish.min_workers <= sum(row) <= most]
        return np.array(sorted(within), dtype=np.intp).reshape(-1, regions)

    def _devices(self, mode: Mode, like: LikeMachines, numbers: Indices) -> list[int]:
        """List the devices that promise most with few numbers of machines: alone some do more for
        their price than over the links of the places that have them.
        """
        few = numbers[np.isin(numbers, FEW).all(axis=1)]
        best = {}
        for device in dict.fromkeys(like.device.tolist()):
            order, value, *_ = self._promised(mode, like, device, few if len(few) else numbers)
            if order.size:
                best[device] = float(value[order[0]])
        return sorted(best, key=best.__getitem__)[:DEVICES]
