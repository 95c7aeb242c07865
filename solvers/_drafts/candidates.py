"""Many candidates at once: machines by place as arrays, and what their rounds take and cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer.cost_model.timing.transfers import (
    averaging_seconds,
    seconds_over,
    share_beside_averages,
    share_seconds,
)
from placer.problem.exchange import ring_step, traits
from placer.solving import allowance
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import NEVER_USD, Array, Indices, Mask
from .._market.market import Market
from .._mode import Mode

TRANSPORTS = frozenset({"butterfly", "region-gossip", "region-hub"})
"""Transports that `CandidateRounds` knows: those of the strategies with local steps."""
TYPICAL_WORKERS = 8
"""Workers at which classes of hosts are ordered by averaging time and links to sites are timed."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Machines of some candidates by slot, one slot for each region; a slot without workers is
    empty.

    ``place``, ``workers``, ``speed``, ``host`` and ``lanes`` have shape (candidates, slots): index
    of the place, workers, samples/s together, rank of the slowest class of hosts, and machines of
    the smallest worker as a row of `CandidateRounds`. ``usd``, ``carbon`` and ``data_usd`` have
    shape (candidates,): USD/h and g/h of all machines, and samples/s times USD per sample read. The
    first ``base`` slots have the same places in all candidates.
    """

    base: int
    place: Indices
    workers: Indices
    speed: Array
    host: Indices
    lanes: Indices
    usd: Array
    carbon: Array
    data_usd: Array


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """Samples/s that count, USD/h, g/h and slot of the hub; shape (candidates,)."""

    speed: Array
    usd: Array
    carbon: Array
    hub: Indices


class CandidateRounds:
    """Rounds of candidates in the forms of `placer.cost_model.timing.round_seconds`, as arrays.

    Only a guide to the search, and nothing is proved with it: classes of hosts that change places
    as workers join, stores that hold workers back and places of data are left out. What it finds is
    evaluated by `Judge.rank` before it is offered.
    """

    def __init__(self, market: Market) -> None:
        self.market, self.problem = market, market.problem
        self.size = self.problem.gradient_bytes
        self.lanes = sorted({self._lanes(pool.machines) for pool in market.pools})

    def _lanes(self, machines: int) -> int:
        return min(machines, self.problem.lanes)

    @cached_property
    def lanes_of(self) -> Indices:
        """Row of each pool in the tables by lanes; shape (pools,)."""
        lanes = [self.lanes.index(self._lanes(pool.machines)) for pool in self.market.pools]
        return np.array(lanes, dtype=np.intp)

    @cached_property
    def _classes(self) -> list[str]:
        """Classes of averaging time, fastest first."""
        hosts = sorted(self.market.hosts)
        return sorted(hosts, key=lambda host: self._average_s(host, TYPICAL_WORKERS))

    @cached_property
    def _periods_s(self) -> Array:
        """Seconds from one average to the next at least, by rank of the hosts; shape (ranks,)."""
        hosts = self.problem.calibration.hosts
        return np.array([hosts[h].least_period_s if h in hosts else 0.0 for h in self._classes])

    @cached_property
    def host_rank(self) -> Indices:
        """Rank of each pool's class of hosts, 0 the fastest; shape (pools,)."""
        rank = {host: number for number, host in enumerate(self._classes)}
        return np.array([rank[host] for host in self.market.host_of], dtype=np.intp)

    def _average_s(self, host: str, workers: int) -> float:
        problem = self.problem
        return averaging_seconds(
            [host], self.size, workers, problem.profile.tensors, problem.calibration
        )

    def _averaging_s(self, most: int) -> Array:
        """Return the seconds of an average; shape (ranks of hosts, workers + 1)."""
        known: Array = self.__dict__.setdefault("_averages", np.zeros((len(self._classes), 0)))
        if known.shape[1] <= most:
            more = range(known.shape[1], max(most + 1, 2 * known.shape[1], 16))
            rows: Array = np.zeros((len(self._classes), len(more)))
            for at, workers in enumerate(more):
                allowance.check()
                rows[:, at] = [self._average_s(host, workers) for host in self._classes]
            known = self.__dict__["_averages"] = np.hstack([known, rows])
        return known

    @cached_property
    def _machine(self) -> Array:
        """Bytes/s of one worker by lanes and place; shape (lanes, places)."""
        machine, places = self.problem.network.machine_bytes_per_s, self.market.places
        return np.array([[machine(place, lanes) for place in places] for lanes in self.lanes])

    @cached_property
    def _stream_s(self) -> Array:
        """Seconds per byte of one pair of workers; shape (lanes, places, places)."""
        streams = self.problem.requirements.streams
        network, places = self.problem.network, self.market.places
        return 1.0 / np.array([network.speeds(places, streams, lanes) for lanes in self.lanes])

    @cached_property
    def _pair_s(self) -> Array:
        """The same in an average, slower direction; shape (lanes, places, places)."""
        return np.maximum(self._one_way_s, self._one_way_s.transpose(0, 2, 1))

    @cached_property
    def _one_way_s(self) -> Array:
        """The same in an average; shape (lanes, places, places)."""
        built: Array = self._stream_s * self.market.line_factors(TYPICAL_WORKERS)
        return built

    @cached_property
    def _way_s(self) -> Array:
        """Seconds of one gradient over plain streams; shape (lanes, places, places)."""
        return seconds_over(self._rtts_s, self.size * self._stream_s)

    @cached_property
    def _send_s(self) -> Array:
        """The same, not faster than both machines; shape (lanes, places, places)."""
        own = 1.0 / self._machine
        slower = np.maximum(own[:, :, None], own[:, None, :])
        return seconds_over(self._rtts_s, self.size * np.maximum(self._stream_s, slower))

    @cached_property
    def apart_s(self) -> Array:
        """Seconds of one gradient between two places, slower direction; shape (places, places)."""
        built: Array = np.maximum(self._send_s[0], self._send_s[0].T)
        np.fill_diagonal(built, 0.0)
        return built

    def of(self, mode: Mode, some: Candidates, price: float = 0.0) -> Rounds:
        """Time and price rounds; ``price``: samples/s that a dollar is worth to choose hubs."""
        transport = traits(mode.strategy).transport
        timed = {
            "butterfly": self._butterfly,
            "region-gossip": self._gossip,
            "region-hub": self._hub,
        }[transport]
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds, egress = timed(mode, some)
            whole = some.speed.sum(axis=1)
            usd = (
                some.usd.reshape(-1, *[1] * (seconds.ndim - 1))
                + SECONDS_PER_HOUR / seconds * egress
                + (SECONDS_PER_HOUR * some.data_usd / whole).reshape(-1, *[1] * (seconds.ndim - 1))
                * (mode.samples / seconds)
            )
            speed = mode.samples / mode.multiplier / seconds
        speed = np.nan_to_num(speed)
        usd = np.nan_to_num(np.minimum(usd, NEVER_USD), nan=NEVER_USD)
        hub = np.zeros(len(whole), dtype=np.intp)
        if seconds.ndim > 1:
            hub = np.where(speed > 0, speed - price * usd, -np.inf).argmax(axis=1)
            rows = np.arange(len(hub))
            speed, usd = speed[rows, hub], usd[rows, hub]
        return Rounds(speed=speed, usd=usd, carbon=some.carbon, hub=hub)

    def _pairs(self, table: Array, some: Candidates) -> Array:
        """Gather a table by lanes and two places; shape (candidates, slots, slots)."""
        src, dst = some.place[:, :, None], some.place[:, None, :]
        lanes = np.minimum(some.lanes[:, :, None], some.lanes[:, None, :])
        return table[0][src, dst] if len(table) == 1 else table[lanes, src, dst]

    def _inside_usd(self, some: Candidates, used: Mask) -> Array:
        """Return the dollars of a byte that each follower of a region sends inside it, summed."""
        home = np.diagonal(self.market.prices)[some.place]
        return np.where(used, (some.workers - 1) * home, 0.0).sum(axis=1)

    def _crossing(self, some: Candidates, weights: Array) -> Array:
        """Sum weight x weight x egress price over pairs of slots; shape (candidates,)."""
        at = some.place[0, : some.base]
        mine = weights[:, : some.base]
        built: Array = ((mine @ self._both_ways[np.ix_(at, at)]) * mine).sum(axis=1) / 2
        for slot in range(some.base, some.place.shape[1]):
            prices = self._both_ways[some.place[:, slot, None], some.place[:, :slot]]
            built = built + weights[:, slot] * (weights[:, :slot] * prices).sum(axis=1)
        return built

    @cached_property
    def _both_ways(self) -> Array:
        """Egress price of a byte each way, finite: 0 times it is 0; shape (places, places)."""
        return np.nan_to_num(self.market.both_ways, posinf=NEVER_USD)

    def _slowest(self, some: Candidates, used: Mask) -> Array:
        """Return the seconds per byte of the slowest pair of used slots; shape (candidates,)."""
        if len(self.lanes) > 1:
            both = used[:, :, None] & used[:, None, :] & _apart(used.shape[1])
            return np.where(both, self._pairs(self._pair_s, some), 0.0).max(axis=(1, 2))
        at, base = some.place[0, : some.base], some.base
        built: Array = np.zeros(len(used))
        if base > 1:
            without = _largest_without(self._pair_s[0][np.ix_(at, at)])
            empty = ~used[:, :base]
            first = np.where(empty.any(axis=1), empty.argmax(axis=1), base)
            last = np.where(empty.any(axis=1), base - 1 - empty[:, ::-1].argmax(axis=1), base)
            built = without[first, last]
        for slot in range(base, some.place.shape[1]):
            ways = self._pair_s[0][some.place[:, slot, None], some.place[:, :slot]]
            mine = np.where(used[:, :slot] & used[:, slot, None], ways, 0.0)
            built = np.maximum(built, mine.max(axis=1, initial=0.0))
        return built

    def _butterfly(self, mode: Mode, some: Candidates) -> tuple[Array, Array]:
        used, workers = some.workers > 0, some.workers.sum(axis=1)
        several = used.sum(axis=1) > 1
        shard = self.size / np.maximum(workers, 1)
        home = np.diagonal(self.market.prices)[some.place]
        inside = np.where(used, some.workers * (some.workers - 1) * home, 0.0).sum(axis=1)
        if mode.ring:
            between, crossing = self._around(mode, some, used, workers)
            inside = np.where(several, (workers - 1) * self._inside_usd(some, used), inside)
        else:
            leaving = np.where(used, workers[:, None] - some.workers, 0)
            load = (leaving / self._machine[some.lanes, some.place]).max(axis=1)
            slowest = np.maximum(self._slowest(some, used), load)
            between = np.where(several, 2 * shard * slowest, 0.0)
            crossing = self._crossing(some, some.workers.astype(np.float64))
        host = np.where(used, some.host, 0).max(axis=1)
        averaging = self._averaging_s(int(workers.max(initial=1)))[host, workers]
        calculation = mode.samples / some.speed.sum(axis=1)
        before = 0.0 if mode.overlap else calculation
        waiting = np.where(workers > 1, np.maximum(self._periods_s[host] - before, 0.0), 0.0)
        seconds: Array = mode.round_s(calculation, waiting + averaging + between)
        return np.where(workers > 1, seconds, np.inf), 2 * shard * (crossing + inside)

    def _around(
        self, mode: Mode, some: Candidates, used: Mask, workers: Indices
    ) -> tuple[Array, Array]:
        """Return the seconds of the edges of a ring between regions, in the order of their places,
        and the sum of their prices, in bytes of a pair; shapes (candidates,).
        """
        regions, at = used.sum(axis=1), np.arange(used.shape[1])
        order = np.argsort(np.where(used, some.place, len(self.market.places)), axis=1)
        following = np.where(at + 1 < regions[:, None], at + 1, 0)
        src, lanes = (np.take_along_axis(part, order, axis=1) for part in (some.place, some.lanes))
        dst = np.take_along_axis(src, following, axis=1)
        lanes = np.minimum(lanes, np.take_along_axis(lanes, following, axis=1))
        if ring_step(self.problem.transport) < 0:
            src, dst = dst, src
        edges = (at < regions[:, None]) & (regions > 1)[:, None]
        own = np.where(used, 1 / self._machine[some.lanes, some.place], 0.0).max(axis=1)
        pace = np.maximum(np.where(edges, self._one_way_s[lanes, src, dst], 0.0).max(axis=1), own)
        edge = 2 * self.size * (1 - 1 / np.maximum(workers, 1))
        ways = np.where(edges, self._rtts_s[src, dst], 0.0)
        usd = np.where(edges, self._one_way_usd[src, dst], 0.0)
        waits = mode.ring_messages * ways.sum(axis=1)
        between: Array = np.where(regions > 1, pace * edge + waits, 0.0)
        return between, (workers - 1) * usd.sum(axis=1)

    @cached_property
    def _rtts_s(self) -> Array:
        """Round-trip times; shape (places, places)."""
        return self.problem.network.rtts_s(self.market.places)

    @cached_property
    def _one_way_usd(self) -> Array:
        """Egress price of a byte, finite: 0 times it is 0; shape (places, places)."""
        return np.nan_to_num(self.market.prices, posinf=NEVER_USD)

    def _gossip(self, mode: Mode, some: Candidates) -> tuple[Array, Array]:
        used, steps = some.workers > 0, mode.local_steps
        regions, whole = used.sum(axis=1), some.speed.sum(axis=1)
        averaging = self._averaging_s(int(some.workers.max(initial=1)))[some.host, some.workers]
        partners = np.maximum(regions - 1, 1)
        calculation = np.where(used, self.problem.batch / whole[:, None], 1.0)
        send = self._waits(some, used, np.zeros(used.shape)) / partners[:, None]
        beside = share_beside_averages(np.where(send > 0, send, 1.0), calculation, averaging)
        card = self.size * share_seconds(1.0, 1.0) / self._machine[some.lanes, some.place]
        own = steps * (calculation + averaging) + beside * card
        period = self._waits(some, used, own) / partners[:, None]
        pace = np.where(used, some.speed / whole[:, None] / period, 0.0).sum(axis=1)
        crossing = self._crossing(some, used.astype(np.float64)) / partners
        inside = 2 * steps * self._inside_usd(some, used)
        return np.where(regions > 1, 1 / pace, np.inf), self.size * (crossing + inside)

    def _waits(self, some: Candidates, used: Mask, own: Array) -> Array:
        """Sum the longer of own steps and a send over partners; shape (candidates, slots)."""
        if len(self.lanes) > 1:
            both = used[:, :, None] & used[:, None, :] & _apart(used.shape[1])
            longer = np.maximum(self._pairs(self._send_s, some), own[:, :, None])
            return np.where(both, longer, 0.0).sum(axis=2)
        at, base, send = some.place[0, : some.base], some.base, self._send_s[0]
        present = used.astype(np.float64)
        built = np.zeros(own.shape)
        if base:
            # A place does not send to itself: what the diagonal adds, its own steps, is taken off.
            among = send[np.ix_(at, at)].copy()
            np.fill_diagonal(among, 0.0)
            longer = np.maximum(among, own[:, :base, None])
            built[:, :base] = np.matmul(longer, present[:, :base, None])[:, :, 0]
            built[:, :base] -= own[:, :base] * present[:, :base]
        for slot in range(base, own.shape[1]):
            there, others = some.place[:, slot, None], some.place[:, :slot]
            out = np.maximum(send[there, others], own[:, slot, None]) * present[:, :slot]
            into = np.maximum(send[others, there], own[:, :slot]) * present[:, slot, None]
            built[:, slot] += out.sum(axis=1)
            built[:, :slot] += into
        return built

    def _hub(self, mode: Mode, some: Candidates) -> tuple[Array, Array]:
        """Time and price the rounds with each slot as the hub; shape (candidates, slots)."""
        used, steps = some.workers > 0, mode.local_steps
        regions, whole = used.sum(axis=1), some.speed.sum(axis=1)
        averaging = self._averaging_s(int(some.workers.max(initial=1)))[some.host, some.workers]
        inside = steps * np.where(used, averaging, 0.0).max(axis=1)
        both = used[:, :, None] & used[:, None, :] & _apart(used.shape[1])
        ways = np.where(both, self._pairs(self._way_s, some), 0.0)
        machine = self._machine[some.lanes, some.place]
        one = self.size * share_seconds(1.0, 1.0) / machine
        shared = np.maximum(
            one * (regions - 1)[:, None], np.where(used, one, 0.0).max(axis=1)[:, None]
        )
        up, down = np.maximum(ways.max(axis=1), shared), np.maximum(ways.max(axis=2), shared)
        followers = np.maximum(some.workers - 1, 0)
        home_s = self._way_s[some.lanes, some.place, some.place]
        spread = np.where(followers > 0, np.maximum(home_s, followers * one), 0.0).max(axis=1)
        seconds = (mode.samples / whole + inside + spread)[:, None] + up + down
        prices = self.market.prices[some.place[:, :, None], some.place[:, None, :]]
        priced = np.where(both, prices, 0.0)
        crossing = priced.sum(axis=1) + priced.sum(axis=2)
        home = (2 * steps + 1) * self._inside_usd(some, used)
        wanted = self.problem.requirements.aggregator
        allowed = used & (regions > 1)[:, None]
        if wanted is not None:
            named = np.array([place == wanted for place in self.market.places])
            allowed &= named[some.place]
        return np.where(allowed, seconds, np.inf), self.size * (crossing + home[:, None])


def _apart(slots: int) -> Mask:
    return ~np.eye(slots, dtype=bool)


def _largest_without(table: Array) -> Array:
    """Return the largest entry outside the diagonal without two of the rows and their columns;
    shape (slots + 1, slots + 1); the last index leaves no row out.

    ``table``: symmetric; shape (slots, slots).

    >>> apart = np.array([[0.0, 3.0, 1.0], [3.0, 0.0, 2.0], [1.0, 2.0, 0.0]])
    >>> _largest_without(apart)[[3, 0, 1, 0], [3, 0, 1, 1]]
    array([3., 2., 1., 0.])
    """
    size = len(table)
    a, b = np.triu_indices(size, 1)
    order = np.argsort(-table[a, b], kind="stable")
    built, left = np.zeros((size + 1, size + 1)), np.ones((size + 1, size + 1), dtype=bool)
    for i, j in zip(a[order].tolist(), b[order].tolist(), strict=True):
        mine = left.copy()
        mine[[i, j], :] = mine[:, [i, j]] = False
        built[mine] = table[i, j]
        left &= ~mine
        if not left.any():
            break
    return built
