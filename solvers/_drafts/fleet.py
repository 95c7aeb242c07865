"""Machines of one draft as arrays, and the candidates that a few changes make of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._market.arrays import Array, Indices, Mask
from .candidates import CandidateRounds, Candidates
from .draft import Judge


@dataclass(frozen=True)
class Changes:
    """Pools and changes of their machines, 0 for none; shape (candidates, columns)."""

    pool: Indices
    count: Indices

    @staticmethod
    def joined(parts: list[Changes]) -> Changes:
        """Put changes with different numbers of columns together."""
        shape = sum(map(len, parts)), max(part.pool.shape[1] for part in parts)
        joined = Changes(np.zeros(shape, dtype=np.intp), np.zeros(shape, dtype=np.intp))
        first = 0
        for part in parts:
            mine = slice(first, first + len(part)), slice(part.pool.shape[1])
            joined.pool[mine], joined.count[mine] = part.pool, part.count
            first += len(part)
        return joined

    @staticmethod
    def none() -> Changes:
        """Return one candidate in which nothing changes."""
        return Changes(np.zeros((1, 1), dtype=np.intp), np.zeros((1, 1), dtype=np.intp))

    def __getitem__(self, rows: Indices | Mask) -> Changes:
        """Return some of the candidates."""
        return Changes(self.pool[rows], self.count[rows])

    def __len__(self) -> int:
        """Count the candidates."""
        return len(self.pool)


class Stock:
    """What the limits say of the pools, as arrays."""

    def __init__(self, judge: Judge) -> None:
        market = judge.market
        self.judge, self.market = judge, market
        self.rounds = CandidateRounds(market)
        self.bucket = market.pools.bucket_of
        self.gpus = market.pools.figures(lambda pool: pool.gpus).astype(np.intp)
        self.quota = np.zeros(self.bucket.max(initial=-1) + 1, dtype=np.intp)
        self.quota[self.bucket] = market.pools.figures(lambda pool: pool.gpu_quota)
        # Without a quota a billion free machines would stand for one dear one, and be timed.
        self.cap = np.minimum(market.cap, judge.most).astype(np.intp)
        self.joint_most = np.array([row.most for row in judge.problem.joint_limits])

    @cached_property
    def data_usd(self) -> Array:
        """Price of the way of one sample to a worker of each pool; shape (pools,)."""
        return np.asarray(self.market.data_usd_of)


class Fleet:
    """Machines of a draft, by pool."""

    def __init__(self, stock: Stock, counts: dict[int, int]) -> None:
        self.stock, self.counts = stock, {i: n for i, n in sorted(counts.items()) if n > 0}
        market, rounds = stock.market, stock.rounds
        self.pools = np.array(list(self.counts), dtype=np.intp)
        self.n = np.array(list(self.counts.values()), dtype=np.intp)
        self.place, slot = np.unique(market.place_of[self.pools], return_inverse=True)
        size = len(self.place)
        self.slot_of = np.full(len(market.places), -1, dtype=np.intp)
        self.slot_of[self.place] = np.arange(size)
        self.workers = np.bincount(slot, self.n, size).astype(np.intp)
        self.speed = np.bincount(slot, self.n * market.speed[self.pools], size)
        self.host, self.lanes = np.zeros(size, dtype=np.intp), np.zeros(size, dtype=np.intp)
        np.maximum.at(self.host, slot, rounds.host_rank[self.pools])
        self.lanes[:] = len(rounds.lanes)
        np.minimum.at(self.lanes, slot, rounds.lanes_of[self.pools])
        self.usd = float(self.n @ market.usd[self.pools])
        self.carbon = float(self.n @ market.carbon[self.pools])
        self.data_usd = float(self.n @ (market.speed * stock.data_usd)[self.pools])
        self._slot = slot

    def have(self, pools: Indices) -> Indices:
        """Return how many machines of some pools there are; of their shape."""
        held = np.zeros(len(self.stock.market.pools), dtype=np.intp)
        held[self.pools] = self.n
        return held[pools]

    def changed(self, row_pools: Indices, row_counts: Indices) -> Fleet:
        """Return the fleet with the changes of one candidate."""
        counts = dict(self.counts)
        for pool, count in zip(row_pools.tolist(), row_counts.tolist(), strict=True):
            counts[pool] = counts.get(pool, 0) + count
        return Fleet(self.stock, counts)

    def within(self, changes: Changes) -> Mask:
        """Return which candidates keep quotas, joint limits and numbers of workers and regions."""
        stock, judge = self.stock, self.stock.judge
        pool, count = changes.pool, changes.count
        there = self.have(pool)
        kept = np.all((there + count <= stock.cap[pool]) & (there + count >= 0), axis=1)
        used = np.bincount(
            stock.bucket[self.pools], self.n * stock.gpus[self.pools], len(stock.quota)
        ).astype(np.intp)
        bucket, taken = stock.bucket[pool], count * stock.gpus[pool]
        for at in range(pool.shape[1]):
            mine = np.where(bucket == bucket[:, at : at + 1], taken, 0).sum(axis=1)
            mark = bucket[:, at]
            kept &= (mine <= 0) | (used[mark] + mine <= stock.quota[mark])
        workers = self.n.sum() + count.sum(axis=1)
        kept &= workers <= judge.most
        for row, most in zip(stock.market.joint, stock.joint_most, strict=True):
            kept &= row[self.pools] @ self.n + (row[pool] * count).sum(axis=1) <= most
        return kept

    def candidates(self, changes: Changes) -> Candidates:
        """Return what some changes make of the fleet."""
        stock, market, rounds = self.stock, self.stock.market, self.stock.rounds
        pool, count = changes.pool, changes.count
        size, width, rows = len(self.place), pool.shape[1], len(pool)
        place_of = market.place_of[pool]
        slots = self._slots(place_of, count)
        shape = rows, size + width
        place, workers = np.zeros(shape, dtype=np.intp), np.zeros(shape, dtype=np.intp)
        host, lanes = np.zeros(shape, dtype=np.intp), np.zeros(shape, dtype=np.intp)
        speed = np.zeros(shape)
        lanes[:, size:] = len(rounds.lanes) - 1
        for built, own in (
            (place, self.place),
            (workers, self.workers),
            (speed, self.speed),
            (host, self.host),
            (lanes, self.lanes),
        ):
            built[:, :size] = own
        at = np.arange(rows)
        without = self._without()
        for column in np.argsort(
            [int(part.min(initial=0)) >= 0 for part in count.T], kind="stable"
        ):
            slot, p, n = slots[:, column], pool[:, column], count[:, column]
            live = n != 0
            place[at[live], slot[live]] = place_of[live, column]
            workers[at, slot] += n
            speed[at, slot] += n * market.speed[p]
            gone = live & (n < 0) & (self.have(p) + n == 0)
            host[at[gone], slot[gone]] = without[0][p[gone]]
            lanes[at[gone], slot[gone]] = without[1][p[gone]]
            more = n > 0
            mine = at[more], slot[more]
            host[mine] = np.maximum(host[mine], rounds.host_rank[p[more]])
            lanes[mine] = np.minimum(lanes[mine], rounds.lanes_of[p[more]])
        speed = np.where(workers > 0, np.maximum(speed, 0.0), 0.0)
        return Candidates(
            base=size,
            place=place,
            workers=workers,
            speed=speed,
            host=host,
            lanes=lanes,
            usd=self.usd + (count * market.usd[pool]).sum(axis=1),
            carbon=self.carbon + np.where(count != 0, count * market.carbon[pool], 0.0).sum(axis=1),
            data_usd=self.data_usd + (count * (market.speed * stock.data_usd)[pool]).sum(axis=1),
        )

    def _slots(self, place_of: Indices, count: Indices) -> Indices:
        """Return the slot of each change: that of its region, or a new one."""
        slots: Indices = self.slot_of[place_of]
        for column in range(slots.shape[1]):
            new = slots[:, column] < 0
            slots[new, column] = len(self.place) + column
            for before in range(column):
                alike = new & (place_of[:, before] == place_of[:, column]) & (count[:, before] != 0)
                slots[alike, column] = slots[alike, before]
        return slots

    def _without(self) -> tuple[Indices, Indices]:
        """Return hosts and lanes of a pool's region without it; shape (pools,)."""
        rounds = self.stock.rounds
        size = len(self.stock.market.pools)
        host, lanes = np.zeros(size, dtype=np.intp), np.full(size, len(rounds.lanes) - 1)
        for at, pool in enumerate(self.pools.tolist()):
            others = self.pools[(self._slot == self._slot[at]) & (self.pools != pool)]
            if len(others):
                host[pool] = rounds.host_rank[others].max()
                lanes[pool] = rounds.lanes_of[others].min()
        return host, lanes
