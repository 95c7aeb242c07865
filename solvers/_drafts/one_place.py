"""First drafts in one place: single machines, equal ones, and mixes by value or by speed."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import islice

import numpy as np
from msgspec import Struct

from placer.cost_model.estimate import evaluate
from placer.cost_model.timing.least_steps import LeastSteps
from placer.cost_model.timing.transfers import averaging_seconds
from placer.problem.exchange import traits
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import Array, Indices, Mask
from .._market.shared_tables import APART
from .._mode import Mode
from .draft import NEVER, Draft, Judge


def seconds_of_hosts(judge: Judge) -> Array:
    """Return seconds of an average of most workers by host; shape (pools,)."""
    problem = judge.problem
    known = {
        host: averaging_seconds(
            [host], problem.gradient_bytes, judge.most, problem.profile.tensors, problem.calibration
        )
        for host in judge.market.hosts
    }
    return judge.market.pools.figures(lambda pool: known[pool.host])


COUNTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64)
"""Numbers of equal machines that are tried, beside as many as the budget pays."""
PROBES = (2, 8)
"""Numbers of workers at which the exchange of a place is worked out, beside the most that may run;
between them it is taken as a line.
"""
PLACES = 24
"""Places or classes of hosts whose exchange is worked out."""
DRAFTS = 6
"""Drafts of a mode that are ranked."""
EXCHANGED = tuple(
    sorted(
        APART
        - {
            "budget_usd",
            "budget_usd_per_hour",
            "deadline_s",
            "max_carbon_g_per_hour",
            "max_regions",
            "min_regions",
            "min_samples_per_second",
            "min_workers",
            "most_usd_per_million_samples",
            "objective",
        }
    )
)
"""Wishes that may change an exchange within one region, beside those that keep markets apart."""
SINGLES = 40
"""Single machines that are ranked at most."""
KEPT_SINGLES = 3
"""Single machines from which drafts are grown."""


class Exchanges(Struct, frozen=True, dict=True):
    """Seconds and USD of an exchange of few, more and most equal machines."""

    seconds: tuple[float, float, float]
    usd: tuple[float, float, float]
    server_usd_per_hour: float
    hub: tuple[str | None, str | None]


def single_machines(judge: Judge) -> list[Draft]:
    """Rank single machines, best promise first, until none can improve."""
    market, mode = judge.market, (judge.problem.modes or (("all-reduce", 1),))[0]
    drafts: list[Draft] = []
    order, values = promise(judge, market.alone, market.usd, market.carbon)
    able = (
        [i for i in order.tolist() if market.required_machines.allows_alone(i)]
        if judge.rules
        else order
    )
    for i in able[:SINGLES]:
        enough = len(drafts) >= KEPT_SINGLES or judge.target.best_key[0] < values[i]
        if judge.target.best is not None and enough:
            break
        draft = Draft.of({int(i): 1}, mode)
        if judge.rank(draft) < NEVER:
            drafts.append(draft)
    return drafts[:KEPT_SINGLES]


def promise(judge: Judge, speed: Array, usd: Array, carbon: Array) -> tuple[Indices, Array]:
    """Return what keeps the limits, best first, and the objective of all, lowest is best."""
    target = judge.target
    target.check_time()
    each = usd / speed * 1e6 / SECONDS_PER_HOUR
    value = {
        "throughput": -speed,
        "cost": usd,
        "cost-per-sample": each,
        "total": target.objective.from_usd_per_million(1.0) * each,
        "carbon": carbon,
    }[target.objective.name]
    within = (usd <= target.budget_usd_per_hour * (1 + 1e-6)) & (
        speed >= target.floor_samples_per_second * (1 - 1e-6)
    )
    if target.limit_usd_per_sample < np.inf:
        within &= usd <= target.limit_usd_per_sample * SECONDS_PER_HOUR * speed * (1 + 1e-6)
    within &= carbon <= target.limit_carbon_g_per_hour * (1 + 1e-6)
    keep = np.flatnonzero(within)
    second = usd if target.objective.name in ("throughput", "carbon") else -speed
    return keep[np.lexsort((keep, second[keep], value[keep]))], value


class OnePlaceDrafts:
    """Machines of one place: equal ones in every number, and mixes of kinds. ``hubs``: places of a
    hub that are tried.
    """

    hubs = PLACES

    def __init__(self, judge: Judge) -> None:
        self.judge, market = judge, judge.market
        self._promised: dict[float, tuple[Indices, Array]] = {}
        budget = judge.target.budget_usd_per_hour
        payable = (
            np.full(len(market.pools), 1e9)
            if budget == np.inf
            else budget // np.maximum(market.usd, 1e-9)
        )
        has_data = self._complete()
        cap = np.where(has_data, np.minimum(market.cap, judge.most), 0)
        columns = np.column_stack([np.tile(COUNTS, (len(cap), 1)), np.minimum(payable, cap), cap])
        self.pool, column = np.nonzero(
            (columns <= cap[:, None]) & (columns >= max(2, judge.wish.min_workers))
        )
        count = columns[self.pool, column]
        self.mixes = self._mixes(has_data)
        self.equal = len(self.pool)
        pools = (
            np.concatenate([list(mix) for mix in self.mixes])
            if self.mixes
            else np.array([], dtype=np.intp)
        )
        machines = (
            np.concatenate([[*mix.values()] for mix in self.mixes])
            if self.mixes
            else np.array([], dtype=np.intp)
        )
        owner = np.repeat(np.arange(len(self.mixes)), [len(mix) for mix in self.mixes])

        def sums(values: Array) -> Array:
            return np.bincount(owner, weights=values, minlength=len(self.mixes))

        self.speed = np.concatenate(
            [market.speed[self.pool] * count, sums(market.speed[pools] * machines)]
        )
        self.usd = np.concatenate(
            [market.usd[self.pool] * count, sums(market.usd[pools] * machines)]
        )
        self.carbon = np.concatenate(
            [market.carbon[self.pool] * count, sums(market.carbon[pools] * machines)]
        )
        kept = np.ones(len(self.usd), dtype=bool)
        for taken, row in zip(market.joint, judge.problem.joint_limits, strict=True):
            both = np.concatenate([taken[self.pool] * count, sums(taken[pools] * machines)])
            kept &= both <= row.most
        self.count = np.concatenate([count, sums(machines)])
        self.usd[~kept] = np.inf  # no budget pays for what a joint limit forbids
        # The slowest host of a mix slows the exchange of all.
        slow = seconds_of_hosts(judge) if self.mixes else np.array([])
        slowest = [max(mix, key=lambda pool: float(slow[pool])) for mix in self.mixes]
        self.pool = np.concatenate([self.pool, slowest]).astype(np.intp)

    def _complete(self) -> Mask:
        """Return at which places all data and required machines are; shape (pools,)."""
        market = self.judge.market
        holds = np.array([self.judge.needed <= {place} for place in market.places])
        return holds[market.place_of] & market.required_machines.complete(market.place_of)

    def counts(self, cell: int) -> dict[int, int]:
        """Count the machines of a draft by pool."""
        if cell >= self.equal:
            return self.mixes[cell - self.equal]
        return {int(self.pool[cell]): int(self.count[cell])}

    def picked(self, cells: list[int]) -> list[int]:
        """Return the drafts that are ranked, of those in the order of their promise."""
        return cells[:DRAFTS]

    def drafts(self, mode: Mode) -> list[Draft]:
        """Rank the most promising drafts of a mode; none if even free exchanges lose."""
        if mode.multiplier not in self._promised:  # the same for most modes
            speed = self.speed / mode.multiplier
            self._promised[mode.multiplier] = promise(self.judge, speed, self.usd, self.carbon)
        order, values = self._promised[mode.multiplier]
        if self.judge.target.best is not None:
            order = order[values[order] < self.judge.target.best_key[0]]
            if traits(mode.strategy).transport in ("store", "regional-stores", "server"):
                order = self._within_reach(mode, order)
        if not order.size:
            return []
        keys = self._keys(mode)
        chosen = list(dict.fromkeys(keys[self.pool[order]].tolist()))
        chosen = chosen[: self.hubs if traits(mode.strategy).hub else PLACES]
        known = {
            key: self._exchanges(mode, int(self.pool[order][keys[self.pool[order]] == key][0]))
            for key in chosen
        }
        able = sorted(key for key in chosen if known[key] is not None)
        cells = order[np.isin(keys[self.pool[order]], able)]
        rows = np.array(
            [(*e.seconds, *e.usd, e.server_usd_per_hour) for e in map(known.get, able) if e]
        )
        table = rows.reshape(-1, 7)[np.searchsorted(able, keys[self.pool[cells]])]
        best, _ = self._promise(mode, cells, table)
        drafts: list[Draft] = []
        for cell in self.picked(cells[best].tolist()):
            counts, exchange = self.counts(cell), known[int(keys[self.pool[cell]])]
            assert exchange is not None
            draft = Draft.of(counts, (mode.strategy, mode.local_steps), exchange.hub)
            fewer = (
                draft.changed({i: -1}) for i in counts
            )  # a server may need the room of a worker
            drafts += islice((d for d in (draft, *fewer) if self.judge.rank(d) < NEVER), 1)
        return drafts

    def _within_reach(self, mode: Mode, cells: Indices) -> Indices:
        """Return the drafts that may beat the best with the shortest exchange through any hub."""
        least, transport = self._least_steps, traits(mode.strategy).transport
        count, at = np.unique(self.count[cells], return_inverse=True)
        communication = [least.exchange_s(transport, "", int(workers)) for workers in count]
        seconds = mode.round_s(mode.samples / self.speed[cells], np.array(communication)[at])
        speed = mode.samples / mode.multiplier / seconds
        kept, values = promise(self.judge, speed, self.usd[cells], self.carbon[cells])
        return cells[kept[values[kept] < self.judge.target.best_key[0]]]

    @cached_property
    def _least_steps(self) -> LeastSteps:
        return LeastSteps(self.judge.problem)

    def _mixes(self, has_data: Array) -> list[dict[int, int]]:
        """List what each place gives by value, or by speed, within quotas and budget."""
        market, budget = self.judge.market, self.judge.target.budget_usd_per_hour
        by_carbon = self.judge.target.objective.name == "carbon"
        mixes: list[dict[int, int]] = []
        value = (market.carbon if by_carbon else market.usd) / market.speed
        has_data = has_data & self._may_win(value)[market.place_of]
        place_of, prices = market.place_of.tolist(), market.usd.tolist()
        for order in (
            np.lexsort((value, market.place_of)),
            np.lexsort((-market.speed, market.place_of)),
        ):
            place = None
            mix: dict[int, int]
            used: dict[tuple[str, ...], int]
            for i in order[has_data[order] & (market.usd[order] <= budget)].tolist():
                if place_of[i] != place:
                    self.judge.target.check_time()
                    place, mix, used = place_of[i], {}, {}
                    usd, left = 0.0, self.judge.most
                payable = math.inf if prices[i] <= 0 else (budget - usd) / prices[i]
                if left == 0 or payable < 1:  # so it is with most of a place
                    continue
                pool = market.pools[i]
                room = min(
                    int(market.cap[i]), (pool.gpu_quota - used.get(pool.bucket, 0)) // pool.gpus
                )
                count = int(min(room, payable, left))
                for taken, row in zip(market.joint, self.judge.problem.joint_limits, strict=True):
                    spent = sum(n * taken[k] for k, n in mix.items())
                    if taken[i] > 0:
                        count = min(count, int((row.most - spent) // taken[i]))
                if count > 0:
                    mix = {**mix, i: count}
                    used[pool.bucket] = used.get(pool.bucket, 0) + count * pool.gpus
                    usd, left = usd + count * prices[i], left - count
                    if len(mix) > 1 and self.judge.most - left >= self.judge.wish.min_workers:
                        mixes.append(mix)
        return mixes

    def _may_win(self, value: Array) -> Array:
        """Return at which places a mix could beat the best so far; shape (places,)."""
        judge, target = self.judge, self.judge.target
        least = np.full(len(judge.market.places), np.inf)
        np.minimum.at(least, judge.market.place_of, value)
        if target.best is None or not judge.problem.modes:
            return np.full(len(least), True)
        least = least * min(Mode(judge.problem, *mode).multiplier for mode in judge.problem.modes)
        if target.objective.name == "throughput":
            return least * -target.best_key[0] < target.budget_usd_per_hour
        bound: Array = least * (
            target.floor_samples_per_second
            if target.objective.name in ("cost", "carbon")
            else target.objective.from_usd_per_million(1e6 / SECONDS_PER_HOUR)
        )
        return bound < target.best_key[0]

    def _promise(self, mode: Mode, cells: Indices, table: Array) -> tuple[Indices, Array]:
        count, calculation = self.count[cells], mode.samples / self.speed[cells]
        communication = self._between(table[:, :3], count)
        exchange_usd, server = self._between(table[:, 3:6], count), table[:, 6]
        seconds = mode.round_s(calculation, communication)
        usd = self.usd[cells] + server + SECONDS_PER_HOUR / seconds * np.maximum(0.0, exchange_usd)
        speed = mode.samples / mode.multiplier / seconds
        return promise(self.judge, speed, usd, self.carbon[cells])

    def _between(self, known: Array, count: Array) -> Array:
        """Interpolate between the numbers of workers that are known; shape (cells,)."""
        (few, more), most = PROBES, self._most_probed
        first = known[:, 0] + (known[:, 1] - known[:, 0]) * (count - few) / (more - few)
        rest = known[:, 1] + (known[:, 2] - known[:, 1]) * (count - more) / (most - more)
        return np.where(count <= more, first, rest)

    @property
    def _most_probed(self) -> int:
        return max(PROBES[1] + 1, self.judge.most)

    def _keys(self, mode: Mode) -> Indices:
        """Return what an exchange depends on: host, or place of a hub; shape (pools,)."""
        market = self.judge.market
        if traits(mode.strategy).hub:
            return market.place_of
        return market.class_of

    def _exchanges(self, mode: Mode, pool: int) -> Exchanges | None:
        """Work out the exchange of equal machines of a pool three times; None if it cannot be had.

        A ring takes hardly longer with 64 workers than with 8, and a server eight times as long.
        Where so many cannot be had at all, what came before goes on.
        """
        wish, fitted = self.judge.wish, self.judge.problem.calibration
        key = (
            *(mode.strategy, mode.local_steps, pool, id(fitted)),
            *(getattr(wish, name) for name in EXCHANGED),
        )
        # While the calibration is held, its id is its own.
        built: Exchanges | None
        built, _ = self.judge.market.exchanges.get(key, lambda: (self._probed(mode, pool), fitted))
        return built

    def _probed(self, mode: Mode, pool: int) -> Exchanges | None:
        judge, place = self.judge, self.judge.market.pools[pool].place
        hubs = judge.hubs.of(mode.strategy, (place,))
        if not hubs:
            return None
        rows = []
        for count in (*PROBES, self._most_probed):
            placement = judge.placement(
                Draft.of({pool: count}, (mode.strategy, mode.local_steps), hubs[0])
            )
            if placement is None and count in PROBES:
                return None
            if placement is None:
                break
            outcome = evaluate(placement, judge.problem)
            server = outcome.usd.compute - count * judge.market.pools[pool].usd_per_hour
            rows.append(
                (
                    outcome.step.communication,
                    (outcome.usd.total - outcome.usd.compute)
                    * outcome.step.total
                    / SECONDS_PER_HOUR,
                    server,
                )
            )
        few, more = rows[:2]
        further = (self._most_probed - PROBES[1]) / (PROBES[1] - PROBES[0])
        onward = tuple(m + (m - f) * further for f, m in zip(few, more, strict=True))
        most = rows[2] if len(rows) > len(PROBES) else onward
        return Exchanges(
            seconds=(few[0], more[0], most[0]),
            usd=(few[1], more[1], most[1]),
            server_usd_per_hour=few[2],
            hub=hubs[0],
        )
