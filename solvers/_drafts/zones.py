"""First answers zone by zone: regions that lie near each other, at a price of a dollar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer.cost_model.estimate import evaluate
from placer.problem.exchange import traits
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import Array, Indices, Mask
from .._mode import Mode
from .ascent import GROUPS, Ascent, Found, OutOfWorkError
from .candidates import TRANSPORTS
from .draft import Judge
from .fleet import Changes, Fleet, Stock

REACH = (0.1, 0.3)
"""Quantiles of the distances between places within which a zone lies; then all places."""
BEST_KINDS = 3
"""Pools of each place that may join, for each efficiency."""
EFFICIENCIES = (1.0, 0.6, 0.3)
"""Shares of its own speed that a machine is taken to add, where pools are chosen."""
PAIRED = 40
"""Pools whose pairs are tried to begin with."""
TUNED = 3
"""Numbers of local steps that are climbed with in one zone."""
HALVINGS = 5
"""Prices of a dollar that are tried in each zone."""
LEAST_PRICE, MOST_PRICE = 0.05, 1.5
"""Prices of a dollar, as multiples of the samples/s that one buys in the best answer."""
LEAST_USD = 1e-9
"""Dollars below which machines count as free."""
MIDDLE = 0.6
"""Efficiency at which places are ranked."""


Zone = tuple[int, ...]
"""Places that lie near each other, by index."""


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long a search goes on.

    ``work`` is how many pairs of slots may be looked at, ``zones`` how many of each reach, and
    ``deepened`` in how many plans the price of a dollar is bisected.
    """

    work: float
    zones: int
    deepened: int


EFFORT = Effort(work=2.5e8, zones=3, deepened=8)
"""About three seconds at most."""


class ZoneSearch:
    """Searches zone by zone for plans of strategies with local steps."""

    def __init__(self, judge: Judge, effort: Effort = EFFORT) -> None:
        self.judge, self.market = judge, judge.market
        self.stock = Stock(judge)
        self.effort, self.ascent = effort, Ascent(self.stock, effort.work)
        modes = [Mode(judge.problem, *mode) for mode in judge.problem.modes]
        self.modes: dict[str, list[Mode]] = {}
        for mode in modes:
            chosen = traits(mode.strategy)
            if chosen.local_steps and chosen.transport in TRANSPORTS:
                self.modes.setdefault(mode.strategy, []).append(mode)

    def run(self) -> None:
        """Search until all work is used up, and offer what is found, however the search ends."""
        if not self._suits:
            return
        try:
            with suppress(OutOfWorkError):
                for row in _in_turn(self._look_over())[: self.effort.deepened]:
                    self._deepen(*row)
        finally:
            self._offer()

    @property
    def _suits(self) -> bool:
        """Whether several workers may be in any places: not where data or wishes name them."""
        wish = self.judge.wish
        named = wish.datasets or wish.required_places or wish.used
        return bool(self.modes) and self.judge.most > 1 and not named

    def _look_over(self) -> list[tuple[Zone, list[Mode], Found]]:
        """Climb once in each zone with each strategy; best first."""
        price = self._price()
        tried: list[tuple[Zone, list[Mode], Found]] = []
        for zone in self._zones(price):
            reached = self._reached(zone)
            for every in self.modes.values():
                modes = [mode for mode in every if self._may_win(reached / mode.multiplier)]
                if not modes:
                    continue
                self.ascent.best = None
                found = self._first(zone, modes, price)
                if found is not None:
                    tried.append((zone, modes, found))
                    self._offer()
        tried.sort(key=lambda row: -row[-1].value)
        plans = {row[-1].draft: row for row in reversed(tried)}
        return sorted(plans.values(), key=lambda row: -row[-1].value)

    def _reached(self, zone: Zone) -> float:
        """Return the samples/s that budget, dollar or gram buys if exchanges took no time."""
        market, target = self.market, self.judge.target
        mine = np.isin(market.place_of, zone)
        speed = market.speed[mine]
        spent = np.maximum(self._spent[mine], LEAST_USD)
        if not self.ascent.aim.objective.by_speed:
            return float((speed / spent).max())
        order = np.argsort(spent / speed, kind="stable")
        count = self.stock.cap[mine][order]
        before = np.concatenate([[0.0], np.cumsum(count * spent[order])[:-1]])
        left = np.maximum(0.0, target.budget_usd_per_hour - before)
        return float((np.minimum(count, left / spent[order]) * speed[order]).sum())

    def _may_win(self, reached: float) -> bool:
        """Return whether samples/s that count could beat the best so far."""
        target, objective = self.judge.target, self.ascent.aim.objective
        if target.best is None:
            return True
        if objective.by_speed:
            return reached > target.min_speed
        if objective.by_sample:
            return 1 / SECONDS_PER_HOUR / reached < target.max_usd_per_sample
        return target.floor_samples_per_second / reached < abs(target.best_value)

    @cached_property
    def _spent(self) -> Array:
        """USD/h of one machine, or its emissions where these count; shape (pools,)."""
        return self.market.carbon if self.ascent.aim.by_carbon else self.market.usd

    def _offer(self) -> None:
        """Evaluate the best plan in full, and keep it if it is within the limits and better."""
        judge, found = self.judge, self.ascent.best
        placement = None if found is None else judge.placement(found.draft)
        if found is None or placement is None:
            return
        judge.target.offer(placement)
        if judge.target.best is placement:
            judge.best = found.draft

    def _price(self) -> float:
        """Return the samples/s that a dollar an hour, or a gram, buys in the best answer so far."""
        target, market = self.judge.target, self.market
        if target.best is not None:
            outcome = evaluate(target.best, self.judge.problem)
            spent = outcome.carbon_g_per_hour if self.ascent.aim.by_carbon else outcome.usd.total
            return outcome.samples_per_second / max(spent or 0.0, LEAST_USD)
        return float((market.alone / np.maximum(self._spent, LEAST_USD)).max())

    def _kinds(self, places: Indices, price: float, mode: Mode, most: int = BEST_KINDS) -> Indices:
        """List the pools of some places that are worth most at a price, at several efficiencies."""
        market = self.market
        able = np.isin(market.place_of, places) & (
            market.usd <= self.judge.target.budget_usd_per_hour
        )
        able &= self.stock.cap > 0
        pools = np.flatnonzero(able)
        chosen = np.zeros(len(market.pools), dtype=bool)
        for share in EFFICIENCIES:
            worth = (share / mode.multiplier * market.speed - price * self._spent)[pools]
            order = pools[np.lexsort((-worth, market.place_of[pools]))]
            first = np.searchsorted(market.place_of[order], market.place_of[order])
            chosen[order[np.arange(len(order)) - first < most]] = True
        return np.flatnonzero(chosen)

    def _zones(self, price: float) -> list[Zone]:
        """List zones around the best neighbours, those of a provider, then all places."""
        market, apart = self.market, self.stock.rounds.apart_s
        everywhere = np.arange(len(market.places))
        mode = next(iter(self.modes.values()))[0]
        worth = market.speed / mode.multiplier * MIDDLE - price / 2 * self._spent
        best = np.zeros(len(everywhere))
        np.maximum.at(best, market.place_of, np.maximum(0.0, worth))
        zones: list[Zone] = []
        for near in (*self._near(apart), self._provided):
            left = best.copy()
            for _ in range(self.effort.zones):
                sums = near @ left
                seed = int(np.argmax(sums))
                if sums[seed] <= 0:
                    break
                inside = near[seed]
                zones.append(tuple(np.flatnonzero(inside).tolist()))
                left[inside] = 0.0
        zones.append(tuple(everywhere.tolist()))
        return list(dict.fromkeys(zones))

    @staticmethod
    def _near(apart: Array) -> Iterator[Mask]:
        """Yield which places are within some reach of each other; shape (places, places)."""
        pairs = apart[np.triu_indices(len(apart), 1)]
        for reach in REACH if len(pairs) else ():
            yield apart <= np.quantile(pairs, reach)

    @cached_property
    def _provided(self) -> Mask:
        """Which places have the same provider: cheap traffic; shape (places, places)."""
        names = np.array([place.split("/", maxsplit=1)[0] for place in self.market.places])
        return names[:, None] == names

    def _first(self, zone: Zone, modes: list[Mode], price: float) -> Found | None:
        """Climb once at half the price of a dollar from the best pair, with most local steps."""
        mode = modes[-1]
        fleet = self._pair(zone, mode, price / 2)
        if fleet is None:
            return None
        pools = self._kinds(np.array(zone), price / 2, mode)
        fleet = self.ascent.climb(fleet, mode, price / 2, self.ascent.priced(price / 2), pools, ())
        self.ascent.climb(fleet, mode, price / 2, self.ascent.priced(price / 2), pools, GROUPS)
        self._tune(modes)
        return self.ascent.best

    def _pair(self, zone: Zone, mode: Mode, price: float) -> Fleet | None:
        """Return the best two machines of a zone, in one region or two."""
        market, empty = self.market, Fleet(self.stock, {})
        pools = self._kinds(np.array(zone), price, mode, 1)
        worth = market.speed[pools] / mode.multiplier - price * market.usd[pools]
        pools = pools[np.argsort(-worth, kind="stable")[:PAIRED]]
        a, b = np.triu_indices(len(pools), 1)
        pairs = Changes(np.stack([pools[a], pools[b]], axis=1), np.ones((len(a), 2), dtype=np.intp))
        twice = pools[self.stock.cap[pools] > 1]
        twins = Changes(twice[:, None], np.full((len(twice), 1), 2, dtype=np.intp))
        both = Changes.joined([pairs, twins])
        if not len(both):
            return None
        rounds, lacking = self.ascent.timed(empty, mode, both, price)
        value = np.where(np.isfinite(lacking), self.ascent.priced(price)(rounds) - lacking, -np.inf)
        top = int(np.argmax(value))
        if value[top] == -np.inf:
            return None
        return empty.changed(both.pool[top], both.count[top])

    def _deepen(self, zone: Zone, modes: list[Mode], found: Found) -> None:
        """Bisect the price of a dollar, then improve the best within the limits."""
        before, self.ascent.best = self.ascent.best, found
        try:
            self._improve(np.array(zone), modes, self._bisect(zone, found))
        finally:
            if before is not None and before.value > self.ascent.best.value:
                self.ascent.best = before

    def _bisect(self, zone: Zone, found: Found) -> float:
        """Climb at prices of a dollar between far too low and too high; return the last one."""
        ascent, mode, fleet = self.ascent, found.mode, found.fleet
        low, high = (share * self._price() for share in (LEAST_PRICE, MOST_PRICE))
        price = low
        for _ in range(HALVINGS):
            price = (low * high) ** 0.5
            pools = self._kinds(np.array(zone), price, mode)
            fleet = ascent.climb(fleet, mode, price, ascent.priced(price), pools, GROUPS)
            low, high = (price, high) if self._too_dear(fleet, mode, price) else (low, price)
        return price

    def _improve(self, places: Indices, modes: list[Mode], price: float) -> None:
        """Climb within the limits, with other local steps where these are better."""
        ascent = self.ascent
        for _ in range(TUNED):
            best = ascent.best
            assert best is not None
            pools = self._kinds(places, price, best.mode, 2)
            ascent.climb(
                best.fleet, best.mode, price, ascent.limited(abs(best.value)), pools, GROUPS
            )
            self._tune(modes)
            self._offer()
            if ascent.best is None or ascent.best.mode == best.mode:
                break

    def _tune(self, modes: list[Mode]) -> None:
        """Try the best machines with other local steps."""
        best = self.ascent.best
        if best is None:
            return
        for mode in modes:
            self.ascent.timed(best.fleet, mode, Changes.none(), 0.0)

    def _too_dear(self, fleet: Fleet, mode: Mode, price: float) -> bool:
        """Return whether a dollar must be dearer: too much is spent, or reached."""
        rounds, _ = self.ascent.timed(fleet, mode, Changes.none(), price)
        target = self.judge.target
        if self.ascent.aim.objective.by_speed:
            return bool(rounds.usd[0] > target.budget_usd_per_hour)
        return bool(rounds.speed[0] >= target.floor_samples_per_second)


def _in_turn(tried: list[tuple[Zone, list[Mode], Found]]) -> list[tuple[Zone, list[Mode], Found]]:
    """Order plans so that the best of each strategy come first, then the second ones, and so on."""
    seen: dict[str, int] = {}
    ranked = []
    for place, row in enumerate(tried):
        strategy = row[-1].mode.strategy
        seen[strategy] = seen.get(strategy, 0) + 1
        ranked.append((seen[strategy], place, row))
    ranked.sort(key=lambda each: each[:2])
    return [row for _, _, row in ranked]
