"""Pareto fronts of the machines of a known split of workers over regions: speed against price,
region by region.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from placer.problem.placement import WorkerGroup
from placer.problem.workers.pool import groups_of
from placer.records import replace
from placer.solving import allowance
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices, Mask, Rows
from ..._market.increments import PlaceUnits
from ..._market.market import Market
from ..._market.required_machines import best_of, best_sum
from ..bounds.relaxation import margin
from .leaf_bound import BREATH, LeafBound, Tree

TIGHT = 5
"""Rows of the bound that prune partial choices."""
FINE, ROUNDS = 8, 2
"""Prices of a dollar that are tried between the neighbours of the tightest one, and how often."""
SHARES = np.arange(1, FINE + 1) / (FINE + 1)
JOINED = 500_000
"""Pairs of choices of two regions that are looked at together, where memory allows."""
KEPT = 500_000
"""Choices that are kept exactly, where memory allows; more are thinned."""
FEW = 1_000
"""Choices that are kept, or looked at together, whatever memory is left."""
STATE_BYTES, SORTED = 48, 6
"""Bytes of a choice, and how many copies of it sorting and cutting make at once."""


class States(Rows, frozen=True, kw_only=True):
    """Choices of machines, not yet complete: how many, their speed, their price, where they came
    from; shapes (states,).

    ``devices`` are those that count against the quota of the pools at hand; ``pace`` says how long
    the hosts of these machines make an average and the time to the next one; ``parent`` is the
    state of the stage before, ``choice`` what was added to it.
    """

    machines: Indices
    devices: Indices
    speed: Array
    usd: Array
    pace: Indices
    parent: Indices
    choice: Indices

    @staticmethod
    def all_of(parts: list[States]) -> States:
        """Put several lists of states into one."""
        if len(parts) == 1:
            return parts[0]
        return States(
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name in States.__struct_fields__
            }
        )


NONE = np.zeros(1, dtype=np.intp)
NOTHING = States(
    machines=NONE,
    devices=NONE,
    speed=np.zeros(1),
    usd=np.zeros(1),
    pace=NONE,
    parent=NONE,
    choice=NONE,
)


class Fronts:
    """All choices of machines of one split that nothing beats, the best first.

    ``bound``: regions, number of workers, and thresholds of an improvement. ``split``: workers by
    region; shape (1, regions). ``hosts``: classes of hosts that may be used in each region; the
    slowest that each has decides the averaging time. ``egress_usd``: egress of one exchange, which
    the split fixes. ``prices``: prices of a dollar of which the tightest are known to be; None:
    they are looked for. Nemhauser and Ullmann (1969) with bounds: partial choices are kept if no
    other has at least the speed at no higher price; a dollar per hour of price counts with the
    egress that more speed brings along, so that a slower choice that just keeps a budget is not
    lost. Where rounds are paid, those with a slow host are fewer and may cost less, so that choices
    beat only others whose hosts are as slow. What cannot reach the thresholds of an improvement is
    cut by the best weighted sums of the rest.
    """

    def __init__(
        self,
        bound: LeafBound,
        hosts: tuple[frozenset[str], ...],
        split: Indices,
        egress_usd: float,
        prices: Array | None = None,
    ) -> None:
        self.prices = prices
        self.bound, self.hosts, self.split, self.market = bound, hosts, split, bound.market
        mode = bound.relaxation.mode
        # More speed brings more rounds, more egress and more data. Counting them with the price
        # keeps a slower choice that just stays within a budget.
        way = self.market.way_usd(bound.node.used)
        assert way is not None  # else speed and price alone do not decide
        self.usd_per_speed = SECONDS_PER_HOUR * (egress_usd / mode.samples + way)
        self.units = [
            units_at(self.market, place, own)
            for place, own in zip(bound.node.used, hosts, strict=True)
        ]
        self.periods, self.paces = self._paces()
        self.thinned = False
        self._choose_rows()

    def _paces(self) -> tuple[int, list[Indices]]:
        """Return how many periods the hosts have, and the pace of the pools in each region: the
        ranks of their hosts' averages and periods in one number; 0 where no round is paid.
        """
        market = self.market
        if self.usd_per_speed <= 0:
            return 1, [np.zeros(len(market.pools), dtype=np.intp)] * len(self.hosts)
        known = market.problem.calibration.hosts
        averages = self.bound.averages_s(self.hosts, self.split)
        own_s = {host: known[host].least_period_s for host in known}
        seconds = _ranks(s for own in averages for s in own.values())
        periods = _ranks(own_s.get(host, 0.0) for own in averages for host in own)
        return len(periods), [
            market.of_classes(
                {
                    host: seconds[average_s] * len(periods) + periods[own_s.get(host, 0.0)]
                    for host, average_s in own.items()
                }
            )
            for own in averages
        ]

    def slower(self, one: Indices, other: Indices) -> Indices:
        """Return the pace of machines together: the longer average, and the longer period."""
        built: Indices = np.maximum(one // self.periods, other // self.periods) * self.periods
        return built + np.maximum(one % self.periods, other % self.periods)

    def _choose_rows(self) -> None:
        """Choose rows: the ends, the tightest, and finer prices around these."""
        weights = self.market.weights
        if self.prices is not None:
            weights = np.vstack([weights[:1], _rows_of(self.prices, weights), weights[-1:]])
        ends = {0, len(weights) - 1}
        needed = self.bound.thresholds(self.split, weights)[:, 0]
        sums = self._sums(weights)
        spare = self._spare(weights, sums, needed)
        for _ in range(ROUNDS if self.prices is None else 0):
            at = int(spare.argmin())
            if not np.isfinite(spare[at]) or spare[at] < 0:  # says nothing, or cuts the leaf
                break
            fine = self._around(weights, at)
            more, own = self.bound.thresholds(self.split, fine)[:, 0], self._sums(fine)
            spare = np.concatenate([spare, self._spare(fine, own, more)])
            weights, needed = np.concatenate([weights, fine]), np.concatenate([needed, more])
            sums = np.concatenate([sums, own], axis=1)
        tight = np.argsort(spare, kind="stable")[:TIGHT]
        rows = np.array(sorted({*ends, *tight.tolist()}))
        # Nothing reaches an infinite threshold; one of minus infinity cuts nothing.
        self.hopeless = bool(np.any(needed == np.inf))
        finite = rows[np.isfinite(needed[rows])]
        rows = finite if len(finite) else rows[:1]
        self.weights, self.needed, self.spare = weights[rows], needed[rows], spare[rows]
        # Loose by rounding: sums of parts differ from the sum of the whole in the last digits.
        finite = np.where(np.isfinite(self.needed), self.needed, 0.0)
        slack = 1e-9 * np.maximum(1.0, np.abs(finite))
        self.floor = (self.needed - slack)[:, None]
        self.sums = list(sums[:, rows])
        self.total = np.sum(self.sums, axis=0)

    def _around(self, weights: Array, at: int) -> Array:
        """Return rows with prices of a dollar between those of the neighbours of one row."""
        price, now = weights[:, 1], weights[at, 1]
        others = price[(weights[:, 0] > 0) & (price > 0)]
        low = others[others < now].max(initial=0.0) or now / 2
        high = min(others[others > now].min(initial=np.inf), 2 * now)
        return _rows_of(low * (high / low) ** SHARES, weights)

    def _spare(self, weights: Array, sums: Array, needed: Array) -> Array:
        """Return what is to spare in each row in USD/h; infinite where it says nothing."""
        reached = sums.sum(axis=0)
        priced = (weights[:, 0] > 0) & (weights[:, 1] > 0)
        priced &= np.isfinite(reached) & np.isfinite(needed)
        with np.errstate(invalid="ignore", divide="ignore"):
            spare = (reached - needed) / np.maximum(weights[:, 1], 1e-9)
        return np.where(priced, spare, np.inf)

    def _sums(self, weights: Array) -> Array:
        """Return the best weighted sums of the machines of each region; shape (regions, rows)."""
        rows = []
        for units, count in zip(self.units, self.split[0].tolist(), strict=True):
            values = self.market.values_at(weights, units.pools)
            each, machines = units.increments(values, count)
            rows.append(best_sum(each, count, machines))
        return np.array(rows)

    def improvements(self) -> Tree:
        """Yield groups that may improve, in order of promise."""
        # These hosts are too few for the split, or its bound says that it cannot improve.
        if self.hopeless or not np.all(self.open(NOTHING, self.total[:, None])):
            return
        whole, trail = NOTHING, []
        for k in range(self.split.shape[1]):
            region = RegionFront(self, k)
            self.bound.target.tick()
            if len(region.states.speed) == 0:
                return
            whole = self._joined(whole, region.states, k)
            trail.append((whole, region))
            if len(whole.speed) == 0:
                return
            yield BREATH
        for at in self._order(whole):
            reached = (
                self.market.weights[:, 0] * whole.speed[at]
                - self.market.weights[:, 1] * whole.usd[at]
            )
            if margin(reached[:, None], self.bound.thresholds(self.split))[0] >= 0:
                yield self._groups(trail, int(at))
                # The groups are one of those that a thinned choice stands for. If they do not rule
                # out the others, nothing is proved here.
                if self.thinned:
                    needed = self.bound.thresholds(self.split)
                    self.bound.target.skipped |= bool(margin(reached[:, None], needed)[0] >= 0)

    def _joined(self, whole: States, region: States, k: int) -> States:
        """Combine every choice with every one of a further region; keep the best."""
        later = (
            np.sum(self.sums[k + 1 :], axis=0)
            if k + 1 < len(self.sums)
            else np.zeros(len(self.needed))
        )
        n, parts, held = len(region.speed), [], 0
        # In parts: the pairs of all choices may be more than memory holds, and most are cut.
        pair_bytes = STATE_BYTES + 3 * 8 * len(self.needed)
        pairs = FEW if n * len(whole.speed) <= FEW else fitting(JOINED, pair_bytes)
        step = max(1, pairs // n)
        for first in range(0, len(whole.speed), step):
            self.bound.target.check_time()
            some = np.arange(first, min(first + step, len(whole.speed)))
            parent, choice = np.repeat(some, n), np.tile(np.arange(n), len(some))
            built = States(
                machines=np.zeros(len(parent), dtype=np.intp),
                devices=np.zeros(len(parent), dtype=np.intp),
                speed=whole.speed[parent] + region.speed[choice],
                usd=whole.usd[parent] + region.usd[choice],
                pace=self.slower(whole.pace[parent], region.pace[choice]),
                parent=parent,
                choice=choice,
            )
            parts.append(self.best(built.at(np.flatnonzero(self.open(built, later[:, None])))))
            held += len(parts[-1].speed)
            if held > 2 * KEPT:
                parts = [self.fitted(self.best(States.all_of(parts)))]
                held = len(parts[0].speed)
        return self.fitted(self.best(States.all_of(parts)))

    def fitted(self, states: States) -> States:
        """Thin the states where they are more than memory allows: runs of neighbours that hold as
        many machines and devices become one choice, moved to the better side of all of them.

        An outer front: what a run becomes is at least as fast as any of it, and no dearer with the
        egress that its speed brings along, so whatever cuts it cuts the run. Its machines are those
        of the fastest of the run.
        """
        if len(states.speed) <= FEW:  # fits in any case: nothing is asked
            return states
        most = fitting(KEPT, SORTED * STATE_BYTES)
        if len(states.speed) <= most:
            return states
        self.thinned = True
        key = states.usd + self.usd_per_speed * states.speed
        order = np.lexsort((states.speed, key, states.pace, states.devices, states.machines))
        together = np.arange(len(order)) // -(-len(order) // most)
        parts = states.machines, states.devices, states.pace
        ends = [together, *(part[order] for part in parts)]
        starts = np.flatnonzero(
            np.any([np.diff(each, prepend=each[0] - 1) != 0 for each in ends], axis=0)
        )
        # The front is in order of speed as of price, so the last of a run is its fastest.
        last = order[np.append(starts[1:], len(order)) - 1]
        speed = np.maximum.reduceat(states.speed[order], starts)
        cheapest = np.minimum.reduceat(key[order], starts)
        return replace(states.at(last), speed=speed, usd=cheapest - self.usd_per_speed * speed)

    def open(self, states: States, ahead: Array) -> np.ndarray:
        """Return which states may reach every threshold with what lies ahead."""
        reached = self.weights[:, :1] * states.speed - self.weights[:, 1:2] * states.usd + ahead
        return np.all(reached >= self.floor, axis=0)

    def best(self, states: States) -> States:
        """Keep the states that no other of as many machines and devices, and as slow, beats."""
        if len(states.speed) < 2:
            return states
        key = states.usd + self.usd_per_speed * states.speed
        order = np.lexsort((-states.speed, key, states.pace, states.devices, states.machines))
        parts = states.machines, states.devices, states.pace
        starts = [np.diff(part[order], prepend=0) != 0 for part in parts]
        group = np.cumsum(np.any(starts, axis=0))
        # Groups are separated by a gap wider than any speed, so that one running maximum compares
        # only states of one group.
        lifted = states.speed[order] + group * (2.0 * float(states.speed.max()) + 1.0)
        before = np.concatenate([[-np.inf], np.maximum.accumulate(lifted)[:-1]])
        return states.at(order[lifted > before])

    def _order(self, whole: States) -> Indices:
        objective = self.bound.target.objective.name
        if objective == "throughput":
            return np.lexsort((whole.usd, -whole.speed))
        return np.argsort(
            whole.usd if objective == "cost" else whole.usd / whole.speed, kind="stable"
        )

    def _groups(self, trail: list[tuple[States, RegionFront]], at: int) -> tuple[WorkerGroup, ...]:
        """List the machines of a complete choice."""
        pools, counts = [], []
        for whole, region in reversed(trail):
            for pool, count in region.machines(int(whole.choice[at])):
                pools.append(self.market.pools[pool])
                counts.append(count)
            at = int(whole.parent[at])
        return groups_of(pools[::-1], counts[::-1])


def _rows_of(prices: Array, weights: Array) -> Array:
    """Return rows with other prices of a dollar, with as many columns as those of the market."""
    rows = np.zeros((len(prices), weights.shape[1]))
    rows[:, 0], rows[:, 1] = 1.0, prices
    return rows


class RegionFront:
    """Choices of machines of one region that nothing beats, pool after pool."""

    def __init__(self, fronts: Fronts, k: int) -> None:
        self.fronts, self.count = fronts, int(fronts.split[0, k])
        self.paces = fronts.paces[k]
        self.others = (fronts.total - fronts.sums[k])[:, None]
        self.states, self.trail = NOTHING, []
        for stage in self._stages(fronts.units[k]):
            self.states = self._extended(stage)
            self.trail.append((self.states, stage.pool))
            if len(self.states.speed) == 0:
                break
        if not self.trail:  # no machine may be among those of an improvement
            self.states = NOTHING.at(NONE[:0])

    def _stages(self, units: PlaceUnits) -> list[Stage]:
        """List the pools, quota by quota, with the best sums of those that come later."""
        market = self.fronts.market
        values = market.values_at(self.fronts.weights, units.pools)
        row = values[int(np.argmin(self.fronts.spare))].tolist()
        open_ = self._open(units, values).tolist()
        worth = {pool: row[at] for pool, at in units.column.items() if open_[at]}
        left = [own for pools in units.buckets if (own := [i for i in pools if i in worth])]
        # The best pools first: what is left after them is worth little, so that choices with few of
        # them are cut at once.
        buckets = [
            sorted(bucket, key=worth.__getitem__)
            for bucket in sorted(left, key=lambda pools: max(worth[i] for i in pools))
        ]
        later = self._later(units, values, buckets)
        stages: list[Stage] = []
        for pools in buckets:
            quota, size = market.pools[pools[0]].gpu_quota, 0
            for pool in pools:
                stages.append(Stage(pool, quota, size, next(later)))
                size = max(size, market.pools[pool].gpus)
        return stages[::-1]

    def _open(self, units: PlaceUnits, values: Array) -> Mask:
        """Return of which pools a machine may be in an improvement; shape (pools,)."""
        others = self.others[:, 0]
        if self.count > 1:
            each, machines = units.increments(values, self.count - 1)
            others = others + best_sum(each, self.count - 1, machines)
        return np.all(values + others[:, None] >= self.fronts.floor, axis=0)

    def _later(self, units: PlaceUnits, values: Array, buckets: list[list[int]]) -> Iterator[Array]:
        """Yield for each pool the best sums of those before it; shape (rows, count + 1)."""
        count = self.count
        if count <= units.enough:  # of each pool as many as are asked for: the best one alone
            columns = [units.column[pool] for pools in buckets for pool in pools]
            yield best_of(values[:, :0], count)
            for best in np.maximum.accumulate(values[:, columns], axis=1).T:
                yield best[:, None] * np.arange(count + 1)
            return
        later = values[:, :0]
        for pools in buckets:
            for at in range(len(pools)):
                every = later
                if at:
                    own = units.of_pools(values, pools[:at], count)
                    every = np.concatenate([later, own], axis=1)
                yield best_of(every, count)
            own = units.of_pools(values, pools, count)
            later = np.concatenate([later, own], axis=1)
            later = -np.sort(-later, axis=1)[:, :count]

    def _extended(self, stage: Stage) -> States:
        """Add machines of a pool to every choice so far, and keep what nothing beats."""
        market, before = self.fronts.market, self.states
        size, parts = market.pools[stage.pool].gpus, []
        speed, usd = market.speed[stage.pool], market.usd[stage.pool]
        pace = self.paces[stage.pool : stage.pool + 1]
        most = int(min(market.cap[stage.pool], self.count))
        # In parts, as with the pairs of two regions.
        step = max(1, JOINED // max(1, len(before.speed)))
        for first in range(0, most + 1, step):
            self.fronts.bound.target.check_time()
            counts = np.arange(first, min(first + step, most + 1))[:, None]
            fits = before.machines + counts <= self.count
            fits &= before.devices + counts * size <= stage.quota
            count, at = np.nonzero(fits)
            count += first
            built = States(
                machines=before.machines[at] + count,
                devices=before.devices[at] + count * size,
                speed=before.speed[at] + count * speed,
                usd=before.usd[at] + count * usd,
                pace=np.where(
                    count > 0, self.fronts.slower(before.pace[at], pace), before.pace[at]
                ),
                parent=at,
                choice=count,
            )
            ahead = stage.later[:, self.count - built.machines] + self.others
            parts.append(built.at(np.flatnonzero(self.fronts.open(built, ahead))))
        states = States.all_of(parts)
        # Devices count no more where machines to come cannot fill the quota, so that fewer choices
        # differ.
        devices = states.devices + (self.count - states.machines) * stage.largest_later
        kept = self.fronts.best(
            replace(states, devices=np.where(devices <= stage.quota, 0, states.devices))
        )
        return self.fronts.fitted(kept)

    def machines(self, state: int) -> list[tuple[int, int]]:
        """List the pools and counts of a complete choice."""
        machines = []
        for states, pool in reversed(self.trail):
            count = int(states.choice[state])
            machines += [(pool, count)] if count else []
            state = int(states.parent[state])
        return machines


class Stage(Struct, frozen=True, dict=True):
    """A pool, the quota that it shares, devices of the largest machine of that quota that comes
    later, and the best weighted sums of m machines that come later; shape (rows, count + 1).
    """

    pool: int
    quota: int
    largest_later: int
    later: Array


def units_at(market: Market, place: int, hosts: frozenset[str]) -> PlaceUnits:
    """Return the increments of a place's pools with some hosts; the market keeps them."""
    key = "units", place, hosts
    if key not in market.kept:
        buckets: dict[tuple[str, ...], list[int]] = {}
        for i in np.flatnonzero((market.place_of == place) & market.pools_of_hosts(hosts)).tolist():
            buckets.setdefault(market.pools[i].bucket, []).append(i)
        most = market.problem.requirements.max_workers
        market.kept[key] = PlaceUnits(list(buckets.values()), market.pools, market.cap, most)
    return market.kept[key]


def _ranks(figures: Iterable[float]) -> dict[float, int]:
    """Return the rank of each figure among the different ones."""
    return {figure: rank for rank, figure in enumerate(sorted({*figures}))}


def fitting(most: int, each_bytes: int) -> int:
    """Return how many fit into a quarter of the memory left, between `FEW` and ``most``."""
    return max(FEW, int(allowance.room_bytes(most=most * each_bytes) / each_bytes))
