"""Steepest ascent over changes of a fleet, many at once: at a price of a dollar, then within the
limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from placer.cost_model.limits import TOLERANCE
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import Array, Indices
from .._mode import Mode
from .._target import Target
from .candidates import Rounds
from .draft import Draft
from .fleet import Changes, Fleet, Stock

Worth = Callable[[Rounds], Array]
"""What candidates are worth; highest is best."""
GROUPS = (1, 2, 4, 8, 16)
"""Machines of one pool that join at once."""
NEW = 2
"""Machines that join at once where there were none."""
SWAPS = 400
"""Swaps of one machine or group for another that are timed, best first by the sum of both."""
EASED = 1.2
"""Multiple of the budget that an ascent at a price may reach."""
TOGETHER = (2, 3, 4, 6, 8)
"""Numbers of machines that join in one step."""
EXCESS = 3.0
"""Loss of the objective, as a multiple, where limits are missed by as much as they are."""
STEPS = 200
"""Changes of one ascent."""
SLOWEST = 1e-9
"""Samples/s below which nothing is reached."""
NOTHING = -1e300
"""What a fleet is worth that no exchange is admitted for."""
GAIN = 1e-7
"""Relative gain that is worth a step."""


class OutOfWorkError(Exception):
    """Raised when as many pairs of places have been looked at as a search may."""


@dataclass(frozen=True)
class Found:
    """The best candidate within the limits: its value (highest is best), machines and exchange."""

    value: float
    fleet: Fleet
    mode: Mode
    hub: int | None

    @property
    def draft(self) -> Draft:
        """The same as a draft."""
        places = self.fleet.stock.market.places
        hub = None if self.hub is None else places[self.hub]
        return Draft.of(self.fleet.counts, (self.mode.strategy, self.mode.local_steps), (hub, None))


class Aim:
    """Objective and limits of a target, for many candidates at once."""

    def __init__(self, target: Target) -> None:
        self.target, self.objective = target, target.objective

    @property
    def by_carbon(self) -> bool:
        """Whether emissions are what is spent."""
        return self.objective.name == "carbon"

    def spent(self, rounds: Rounds) -> Array:
        """Return USD/h, or emissions where these are minimised."""
        return rounds.carbon if self.by_carbon else rounds.usd

    def value(self, rounds: Rounds) -> Array:
        """Return the value of the objective, highest is best."""
        if self.objective.by_speed:
            return rounds.speed
        if self.objective.by_sample:
            started_s = self.target.startup_s_per_sample
            return -rounds.usd * (1 / np.maximum(rounds.speed, SLOWEST) + started_s)
        return -self.spent(rounds)

    def lacking(self, rounds: Rounds) -> Array:
        """Sum by how much the limits are missed, as shares of them."""
        target = self.target
        lacking = np.maximum(0.0, rounds.usd / target.budget_usd_per_hour - 1 - TOLERANCE)
        if target.limit_usd_per_sample < np.inf:
            paid_s = 1 / np.maximum(rounds.speed, SLOWEST) + target.startup_s_per_sample
            each = rounds.usd / SECONDS_PER_HOUR * paid_s
            lacking = lacking + np.maximum(0.0, each / target.limit_usd_per_sample - 1 - TOLERANCE)
        lacking = lacking + np.maximum(
            0.0, rounds.carbon / target.limit_carbon_g_per_hour - 1 - TOLERANCE
        )
        floor = target.floor_samples_per_second
        return lacking + (np.maximum(0.0, 1 - TOLERANCE - rounds.speed / floor) if floor else 0.0)


class Ascent:
    """Climbs from fleet to fleet within ``most_work`` pairs of slots, and keeps the best."""

    def __init__(self, stock: Stock, most_work: float) -> None:
        self.stock, self.market, self.judge = stock, stock.market, stock.judge
        self.aim = Aim(stock.judge.target)
        self.best: Found | None = None
        self.work, self.most_work = 0.0, most_work

    def timed(
        self, fleet: Fleet, mode: Mode, changes: Changes, price: float
    ) -> tuple[Rounds, Array]:
        """Time candidates and keep the best one within the limits; also return what they lack."""
        self.judge.target.check_time()
        some = fleet.candidates(changes)
        self.work += some.place.size * some.place.shape[1] + 20_000
        if self.work > self.most_work:
            raise OutOfWorkError
        rounds = self.stock.rounds.of(mode, some, price)
        wish, used = self.judge.wish, some.workers > 0
        regions, workers = used.sum(axis=1), some.workers.sum(axis=1)
        short = np.maximum(0.0, 1 - regions / wish.min_regions)
        short = short + np.maximum(0.0, 1 - workers / wish.min_workers)
        fits = fleet.within(changes) & (regions <= wish.max_regions)
        lacking = np.where(fits & (rounds.speed > 0), short, np.inf)
        value = np.where(lacking + self.aim.lacking(rounds) == 0, self.aim.value(rounds), -np.inf)
        top = int(np.argmax(value))
        if value[top] > (-np.inf if self.best is None else self.best.value):
            hub = (
                int(some.place[top, rounds.hub[top]])
                if mode.strategy == "model-averaging"
                else None
            )
            self.best = Found(
                float(value[top]), fleet.changed(changes.pool[top], changes.count[top]), mode, hub
            )
        return rounds, lacking

    def priced(self, price: float) -> Worth:
        """Return what candidates are worth at a price of a dollar, a little over budget at most."""
        most = EASED * self.judge.target.budget_usd_per_hour

        def worth(rounds: Rounds) -> Array:
            over = np.maximum(0.0, rounds.usd / most - 1)
            built: Array = rounds.speed - price * self.aim.spent(rounds)
            return built - EXCESS * rounds.speed * over

        return worth

    def limited(self, scale: float) -> Worth:
        """Return the value of the objective, less where limits are missed."""
        return lambda rounds: self.aim.value(rounds) - EXCESS * scale * self.aim.lacking(rounds)

    def climb(
        self,
        fleet: Fleet,
        mode: Mode,
        price: float,
        worth: Worth,
        pools: Indices,
        groups: tuple[int, ...],
    ) -> Fleet:
        """Follow the best change while one helps.

        ``price``: samples/s that a dollar an hour is worth, where hubs are chosen. ``pools``: pools
        that may join. ``groups``: machines that join at once; none: one machine a region.
        """
        for _ in range(STEPS):
            step = self._step(fleet, mode, price, worth, pools, groups)
            if step is None:
                break
            fleet = step
        return fleet

    def _worth(
        self, fleet: Fleet, mode: Mode, changes: Changes, price: float, worth: Worth
    ) -> Array:
        rounds, lacking = self.timed(fleet, mode, changes, price)
        with np.errstate(invalid="ignore"):
            plain = np.where(np.isfinite(lacking), worth(rounds), -np.inf)
            built: Array = plain - np.where(np.isfinite(lacking), lacking, 0) * (
                EXCESS * np.abs(np.where(np.isfinite(plain), plain, 0.0)) + 1e-9
            )
        return built

    def _step(
        self,
        fleet: Fleet,
        mode: Mode,
        price: float,
        worth: Worth,
        pools: Indices,
        groups: tuple[int, ...],
    ) -> Fleet | None:
        """Return the fleet after the best change; None if none helps."""
        joining, leaving = self._joining(fleet, pools, groups), self._leaving(fleet)
        single = Changes.joined(
            [Changes.none(), leaving, joining, self._replaced(fleet, pools, groups)]
        )
        found = self._worth(fleet, mode, single, price, worth)
        now = max(float(found[0]), NOTHING)
        top = int(np.argmax(found))
        if found[top] > now + GAIN * abs(now):
            several = self._together(joining, found[1 + len(leaving) :][: len(joining)] - now)
            if len(several):
                more = self._worth(fleet, mode, several, price, worth)
                most = int(np.argmax(more))
                if more[most] > found[top]:
                    return fleet.changed(several.pool[most], several.count[most])
            return fleet.changed(single.pool[top], single.count[top])
        out, into = found[1 : 1 + len(leaving)], found[1 + len(leaving) :][: len(joining)]
        swaps = self._swaps(leaving, joining, out - now, into - now)
        if not len(swaps):
            return None
        found = self._worth(fleet, mode, swaps, price, worth)
        top = int(np.argmax(found))
        if found[top] > now + GAIN * abs(now):
            return fleet.changed(swaps.pool[top], swaps.count[top])
        return None

    def _joining(self, fleet: Fleet, pools: Indices, groups: tuple[int, ...]) -> Changes:
        if not groups:
            free = pools[fleet.slot_of[self.market.place_of[pools]] < 0]
            return Changes(free[:, None], np.ones((len(free), 1), dtype=np.intp))
        pool, count = np.repeat(pools, len(groups)), np.tile(groups, len(pools))
        able = count + fleet.have(pool) <= self.stock.cap[pool]
        able &= (count <= NEW) | (fleet.slot_of[self.market.place_of[pool]] >= 0)
        return Changes(pool[able, None], count[able, None])

    @staticmethod
    def _leaving(fleet: Fleet) -> Changes:
        pool, count = fleet.pools, fleet.n
        several = count > 1
        half = np.maximum(1, count[several] // 4)
        return Changes(
            np.concatenate([pool, pool[several], pool[several]])[:, None],
            -np.concatenate([count, np.ones(int(several.sum()), dtype=np.intp), half])[:, None],
        )

    def _replaced(self, fleet: Fleet, pools: Indices, groups: tuple[int, ...]) -> Changes:
        """Replace all machines of a pool by others of its region: as many, as fast, as dear."""
        market = self.market
        others = pools[fleet.slot_of[market.place_of[pools]] >= 0]
        a, b = np.nonzero(market.place_of[fleet.pools][:, None] == market.place_of[others])
        old, new, count = fleet.pools[a], others[b], fleet.n[a]
        ways = [count]
        if groups:
            ways.append((count * market.speed[old] / market.speed[new]).astype(np.intp))
            ways.append(
                (count * market.usd[old] / np.maximum(market.usd[new], 1e-9)).astype(np.intp)
            )
        parts = []
        for n in ways:
            able = (old != new) & (n > 0) & (n <= self.stock.cap[new])
            parts.append(
                Changes(
                    np.stack([old[able], new[able]], axis=1),
                    np.stack([-count[able], n[able]], axis=1),
                )
            )
        return Changes.joined(parts)

    def _together(self, joining: Changes, gain: Array) -> Changes:
        """List the best machines that help, one for each of several places, to join at once."""
        order = np.argsort(-gain, kind="stable")
        order = order[gain[order] > 0][: 4 * TOGETHER[-1]]
        _, first = np.unique(self.market.place_of[joining.pool[order, 0]], return_index=True)
        best = order[np.sort(first)][: TOGETHER[-1]]
        pool, count = joining.pool[best, 0], joining.count[best, 0]
        sizes = [size for size in TOGETHER if size <= len(best)]
        return Changes(
            np.tile(pool, (len(sizes), 1)),
            np.where(np.arange(len(best)) < np.array(sizes)[:, None], count, 0).reshape(
                len(sizes), len(best)
            ),
        )

    @staticmethod
    def _swaps(leaving: Changes, joining: Changes, out: Array, into: Array) -> Changes:
        """List the swaps of one change for another that promise most: where gains add up."""
        if not len(leaving) or not len(joining):
            return Changes(np.zeros((0, 2), dtype=np.intp), np.zeros((0, 2), dtype=np.intp))
        total = out[:, None] + into
        total = np.where(leaving.pool == joining.pool.T, -np.inf, total)
        order = np.argsort(-total, axis=None, kind="stable")[:SWAPS]
        a, b = np.unravel_index(order[np.isfinite(total.ravel()[order])], total.shape)
        left, right = leaving[a], joining[b]
        return Changes(np.hstack([left.pool, right.pool]), np.hstack([left.count, right.count]))
