"""Drafts whose machines all have one device, by tables: an instant answer where a step is divided
equally.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from placer.problem.exchange import traits
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import Array, Indices
from .._mode import Mode
from .draft import Draft, Judge
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
MANY = 8
"""Drafts of machines by themselves in many regions, two of a device."""
ABOUT = 0.1
"""Share by which prices of machines differ that cost about as much."""
SENDS_DECIDE = 0.01
"""Share by which drafts differ of which the one whose regions lie nearest to each other is taken:
what regions send to each other is hidden behind their steps, or nearly so.
"""


class LikeMachines:
    """What machines of one device in one place cost and do: a team, the best for its price first.

    ``machine`` is the pool of each, -1 where there are no more; shape (teams, most). ``usd``,
    ``speed`` and ``carbon`` are those of the first n, infinite dollars where there are fewer; shape
    (teams, most + 1).
    """

    def __init__(self, judge: Judge) -> None:
        market, device = judge.market, np.array(judge.device, dtype=np.intp)
        devices = int(device.max(initial=-1)) + 1
        order = np.lexsort((market.usd / market.speed, device, market.place_of))
        team_of = market.place_of * devices + device
        count = np.minimum(market.cap, judge.most).astype(np.intp)[order]
        if not all(kind.supplied for kind in market.pools.kinds):
            # A quota that machine types share, as each by itself is within it.
            bucket = team_of * (market.pools.bucket_of.max(initial=-1) + 1) + market.pools.bucket_of
            room = market.pools.figures(lambda pool: pool.gpu_quota // pool.gpus)
            count = _within(count, bucket[order], room[order])
        count = _within(count, team_of[order], np.full(len(count), judge.most))
        machine = np.repeat(order, count)
        teams, row = np.unique(team_of[machine], return_inverse=True)
        column = _rank(team_of[machine])
        self.place, self.device = teams // devices, teams % devices
        self.machine = np.full((len(teams), judge.most), -1)
        self.machine[row, column] = machine
        self.usd = self._sums(market.usd, np.inf)
        self.speed = self._sums(market.speed, 0.0)
        self.carbon = self._sums(market.carbon, 0.0)

    @staticmethod
    def of(judge: Judge) -> LikeMachines:
        """Return the teams of a market, which do not depend on limits."""
        kept = judge.market.kept
        if "like machines" not in kept:
            kept["like machines"] = LikeMachines(judge)
        teams: LikeMachines = kept["like machines"]
        return teams

    def _sums(self, each: Array, beyond: float) -> Array:
        built = np.zeros((len(self.machine), self.machine.shape[1] + 1))
        np.where(self.machine >= 0, each[self.machine], beyond).cumsum(axis=1, out=built[:, 1:])
        return built

    def counts(self, team: int, machines: int) -> dict[int, int]:
        """Count the first machines of a team by pool."""
        pools, counts = np.unique(self.machine[team, :machines], return_counts=True)
        return dict(zip(pools.tolist(), counts.tolist(), strict=True))


def _rank(groups: Indices) -> Indices:
    """Return how many of the same group stand before each; equal groups stand together."""
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(len(groups)) - np.repeat(first, np.diff(first, append=len(groups)))


def _within(count: Indices, groups: Indices, room: Indices) -> Indices:
    """Return how many of some machines the room of their group takes, those that stand first.

    >>> _within(np.array([3, 4, 5]), np.array([7, 2, 7]), np.array([4, 2, 4])).tolist()
    [3, 2, 1]
    """
    order = np.argsort(groups, kind="stable")
    own, sorted_groups = count[order], groups[order]
    before = own.cumsum() - own
    first = np.flatnonzero(np.diff(sorted_groups, prepend=-1))
    before -= np.repeat(before[first], np.diff(first, append=len(own)))
    built = np.empty_like(count)
    built[order] = np.clip(room[order] - before, 0, own)
    return built


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
        return [
            {
                pool: n
                for one, many in zip(team, count, strict=True)
                for pool, n in like.counts(one, many).items()
            }
            for _, team, count in sorted(found)[:DRAFTED]
        ]

    def of(self, modes: list[Mode], most: int) -> list[Draft]:
        """Rank drafts of a few regions, and of many where each of them works at its own pace."""
        return super().of(modes, most) + self.single_machines(modes)

    def single_machines(self, modes: list[Mode]) -> list[Draft]:
        """Rank drafts of single machines in many regions that work at their own pace, if a mode has
        such.
        """
        apart = [mode for mode in modes if traits(mode.strategy).transport == "region-gossip"]
        seldom = max(apart, key=lambda mode: mode.local_steps, default=None)
        if seldom is not None and not self.judge.needed:
            return [d for counts in self._many(seldom) for d in self._exchanged(counts, seldom)]
        return []

    def _many(self, mode: Mode) -> list[dict[int, int]]:
        """List single machines of one device in as many regions as pay: they need no average within
        one. Those that cost about as much come in the order of their distance from some region.
        """
        judge, like, samples = self.judge, LikeMachines.of(self.judge), mode.samples
        pair_s, prices = np.maximum(self.pair_s, self.pair_s.T), self.market.prices
        away_usd = np.where(np.eye(len(prices), dtype=bool), np.inf, prices).min(axis=1)
        sent_usd = judge.problem.gradient_bytes * away_usd
        usd, speed, carbon = like.usd[:, 1], like.speed[:, 1], like.carbon[:, 1]
        found: list[tuple[float, tuple[int, ...]]] = []
        for device in dict.fromkeys(like.device.tolist()):
            own = np.flatnonzero((like.device == device) & (like.machine[:, 0] >= 0))
            away = pair_s[np.ix_(like.place[own], like.place[own])]
            cheapest = max(usd[own].min(initial=np.inf), 1e-9)
            dear = np.broadcast_to(np.floor(usd[own] / cheapest / ABOUT), away.shape)
            order = np.lexsort((away, dear))[:, : min(judge.wish.max_regions, judge.most)]
            teams, partners = own[order], np.maximum(np.arange(order.shape[1]), 1)
            sends = np.take_along_axis(away, order, axis=1).cumsum(axis=1) / partners
            round_s = np.maximum(samples / speed[teams].cumsum(axis=1), sends)
            egress = SECONDS_PER_HOUR / round_s * sent_usd[like.place[teams]].cumsum(axis=1)
            figures = usd[teams].cumsum(axis=1) + egress, carbon[teams].cumsum(axis=1)
            counted = samples / mode.multiplier / round_s
            best, value = promise(judge, counted.ravel(), *(each.ravel() for each in figures))
            about = best[value[best] <= value[best[:1]] + SENDS_DECIDE * np.abs(value[best[:1]])]
            rows, last = np.divmod(about[:LOOKED_AT], order.shape[1])
            members = [order[row, : end + 1] for row, end in zip(rows, last, strict=True)]
            apart_s = [away[np.ix_(each, each)].mean() for each in members]
            found += [
                (float(value[about[k]]), tuple(sorted(own[members[k]].tolist())))
                for k in dict.fromkeys((0, int(np.argmin(apart_s))) if members else ())
            ]
        return [
            {pool: 1 for team in teams for pool in like.counts(team, 1)}
            for _, teams in sorted(found)[:MANY]
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
        at, chosen = np.nonzero(usd <= min(judge.target.budget_usd_per_hour, 1e12))
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
