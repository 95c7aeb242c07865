"""Whole machines of one place: what each number of heads reaches for its dollars."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from placer.solving import allowance

from ..._market.arrays import Array, Indices
from ..._market.market import Market
from ..._market.required_machines import best_of
from ..leaves.fronts import units_at

CENT = 1e-6
"""USD/h; egress that differs by less is the same."""


class Choices(Struct, frozen=True, kw_only=True, dict=True):
    """Choices of machines: how many heads, their speed, their dollars with egress, the egress among
    them, and the choices of both parts; shape (choices,) each, sorted by heads.
    """

    heads: Indices
    speed: Array
    usd: Array
    egress: Array
    one: Indices
    other: Indices

    def values(self, weights: Array) -> Array:
        """Return the weighted sums; shape (rows, choices)."""
        built: Array = weights[:, :1] * self.speed - weights[:, 1:2] * self.usd
        return built

    def at(self, chosen: Indices) -> Choices:
        """Select some of the choices."""
        return Choices(
            heads=self.heads[chosen],
            speed=self.speed[chosen],
            usd=self.usd[chosen],
            egress=self.egress[chosen],
            one=self.one[chosen],
            other=self.other[chosen],
        )

    def runs(self) -> list[tuple[int, int, int]]:
        """List each number of heads with its first choice and the end of its choices."""
        first = np.flatnonzero(np.diff(self.heads, prepend=-1) != 0).tolist()
        ends = [*first, len(self.heads)][1:]
        return list(zip(self.heads[first].tolist(), first, ends, strict=True))

    @staticmethod
    def all_of(parts: list[Choices]) -> Choices:
        """Put several lists of choices into one."""
        none, nothing = np.zeros(0, dtype=np.intp), np.zeros(0)
        empty = Choices(
            heads=none, speed=nothing, usd=nothing, egress=nothing, one=none, other=none
        )
        parts = parts or [empty]
        return Choices(
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name in Choices.__struct_fields__
            }
        )


def best_choices(choices: Choices, usd_per_speed: float) -> Choices:
    """Keep the choices that no other of as many heads with as much egress beats, in order of heads.

    Parameters
    ----------
    usd_per_speed
        Dollars of egress that one more sample/s brings along, at most: a slower choice that just
        keeps a budget is not lost.
    """
    return choices.at(
        nondominated(
            choices.heads,
            np.round(choices.egress / CENT).astype(np.int64),
            choices.speed,
            choices.usd + usd_per_speed * choices.speed,
        )
    )


class PlaceFront:
    """Choices of machines of one place, pool after pool.

    Parameters
    ----------
    market
        Pools.
    place
        Index of the place.
    hosts
        Classes of hosts that may be used.
    heads
        Heads of 0, 1, ... machines of the place; the last number is the most that count.
    egress
        What these pay among themselves in dollars an hour; infinite where they cannot meet.
    """

    def __init__(
        self, market: Market, place: int, hosts: frozenset[str], heads: Indices, egress: Array
    ) -> None:
        self.market, self.heads, self.egress = market, heads, egress
        self.units = units_at(market, place, hosts)

    def choices(
        self, weights: Array, floor: Array, outside: Array, usd_per_speed: float, limit: int
    ) -> Choices | None:
        """Return the choices that may be part of an improvement; None if there are too many.

        Parameters
        ----------
        outside
            Best sums of all other places, by the heads of this one; shape (rows, heads).
        """
        units, market = self.units, self.market
        most, able = len(self.heads) - 1, np.isfinite(self.egress)
        counts, egress = np.arange(most + 1), np.where(able, self.egress, 0.0)
        ahead_of = outside[:, self.heads] - weights[:, 1:2] * egress - floor[:, None]
        ahead_of[:, ~able] = -np.inf
        values = market.values_at(weights, units.pools)
        open_pools = self._open(values, ahead_of, most)
        stages = self._stages(values, most, open_pools)
        n, devices = np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)
        speed, usd = np.zeros(1), np.zeros(1)
        self.trail: list[tuple[int, Indices, Indices]] = []
        # What lies ahead of k machines: the best of m more here and of all elsewhere.
        rows = np.arange(len(weights))[:, None, None]
        total = counts[:, None] + counts
        shifted = np.where(total <= most, ahead_of[rows, np.minimum(total, most)], -np.inf)
        for pool, quota, fresh, later in stages:
            allowance.check()
            size = market.pools[pool].gpus
            if fresh:
                devices = np.zeros_like(devices)
            ahead = (shifted + later[:, None, : most + 1]).max(axis=2)
            cap = int(min(market.cap[pool], most, quota // size if quota else most))
            added = np.arange(cap + 1)[:, None]
            fits = (n + added <= most) & (devices + added * size <= quota)
            count, parent = np.nonzero(fits)
            new_n, new_devices = n[parent] + count, devices[parent] + count * size
            new_speed = speed[parent] + count * market.speed[pool]
            new_usd = usd[parent] + count * market.usd[pool]
            open_ = np.ones(len(count), dtype=bool)
            for row in range(len(weights)):
                open_ &= (
                    weights[row, 0] * new_speed - weights[row, 1] * new_usd + ahead[row, new_n] >= 0
                )
            kept = np.flatnonzero(open_)
            key = new_usd + usd_per_speed * new_speed
            kept = kept[nondominated(new_n[kept], new_devices[kept], new_speed[kept], key[kept])]
            if len(kept) > limit:
                return None
            n, devices = new_n[kept], new_devices[kept]
            speed, usd = new_speed[kept], new_usd[kept]
            self.trail.append((pool, parent[kept], count[kept]))
        built = Choices(
            heads=self.heads[n],
            speed=speed,
            usd=usd + egress[n],
            egress=egress[n],
            one=np.arange(len(n)),
            other=np.zeros(len(n), dtype=np.intp),
        )
        return best_choices(built, usd_per_speed)

    def _open(self, values: Array, ahead: Array, most: int) -> set[int]:
        """Return the pools of which a machine may be in an improvement: beside the best others of
        the place that reaches every threshold.
        """
        if most < 1:
            return set()
        each, machines = self.units.increments(values, most)
        others = best_of(each, most - 1, machines)
        with np.errstate(invalid="ignore"):
            beside = (others + ahead[:, 1:]).max(axis=1)
        open_ = np.all(values + beside[:, None] >= 0, axis=0).tolist()
        return {pool for pool, at in self.units.column.items() if open_[at]}

    def _stages(
        self, values: Array, most: int, open_: set[int]
    ) -> list[tuple[int, int, bool, Array]]:
        """List the open pools with their quota, whether a new quota begins, and the best weighted
        sums of m machines of those that come later; shape (rows, most + 1).
        """
        units, market = self.units, self.market
        row = values[0]
        worth = {pool: row[at] for pool, at in units.column.items() if pool in open_}
        left = [some for bucket in units.buckets if (some := [i for i in bucket if i in worth])]
        buckets = [
            sorted(bucket, key=worth.__getitem__)
            for bucket in sorted(left, key=lambda pools: max(worth[i] for i in pools))
        ]
        stages = []
        later = values[:, :0]
        for pools in buckets:
            for at, pool in enumerate(pools):
                every = later
                if at:
                    own = units.of_pools(values, pools[:at], most)
                    every = np.concatenate([later, own], axis=1)
                stages.append(
                    (pool, market.pools[pool].gpu_quota, at == len(pools) - 1, best_of(every, most))
                )
            own = units.of_pools(values, pools, most)
            later = np.concatenate([later, own], axis=1)
            later = -np.sort(-later, axis=1)[:, :most]
        return stages[::-1]

    def machines(self, choice: int) -> list[tuple[int, int]]:
        """List the pools and counts of a choice of the last question."""
        found = []
        for pool, parent, count in reversed(self.trail):
            if count[choice]:
                found.append((pool, int(count[choice])))
            choice = int(parent[choice])
        return found


def nondominated(first: Indices, second: Indices, speed: Array, usd: Array) -> Indices:
    """Return which choices no other beats that is equal in two numbers, in order of the first."""
    order = np.lexsort((-speed, usd, second, first))
    if len(order) < 2:
        return order
    group = np.cumsum(
        (np.diff(first[order], prepend=0) != 0) | (np.diff(second[order], prepend=0) != 0)
    )
    # Groups lie further apart than any speed, so that one running maximum does.
    lifted = speed[order] + group * (2.0 * float(speed.max()) + 1.0)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(lifted)[:-1]])
    kept: Indices = order[lifted > before]
    return kept
