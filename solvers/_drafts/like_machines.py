"""What machines of one device in one place cost and do, by their number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._market.arrays import Array, Indices
from .draft import Judge


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

    def together(self, teams: Sequence[int], machines: Sequence[int]) -> dict[int, int]:
        """Count the first machines of some teams by pool."""
        each = (self.counts(one, many) for one, many in zip(teams, machines, strict=True))
        return {pool: n for counts in each for pool, n in counts.items()}


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
