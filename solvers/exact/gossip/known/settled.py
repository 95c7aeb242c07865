"""Placements of places that are all known: the machines of each place, then all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...._market.arrays import Array, Indices
from ...._market.market import Market
from ..knapsack import Items, Knapsack, Sums, Terms, best_items
from .front import Front, front_of

ROOM = 1e-9
"""Relative room for sums that are added in another order."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """Machines of one place.

    Notes
    -----
    ``worth`` is what they add to the bound at most; ``reached`` their samples/s that count, ``usd``
    what they and their sends cost at least.
    """

    pools: tuple[tuple[int, int], ...]
    worth: float
    reached: float
    speed: float
    usd: float


@dataclass(frozen=True, kw_only=True)
class Place:
    """What is known of one place: its number, the numbers of machines that it may have, its
    cheapest sends, and what a samples/s counts by seconds of an average.
    """

    place: int
    machines: frozenset[int]
    usd: float
    home_usd: float
    weight: Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What all machines together keep: at least ``needed`` samples/s that count, at most
    ``most_usd``, and samples/s from ``speeds``; with the ``prices`` of a dollar and of a samples/s.
    """

    needed: float
    most_usd: float
    speeds: tuple[float, float]
    prices: tuple[float, float]

    @property
    def base(self) -> float:
        """What the limits are worth at the prices."""
        dollar, _ = self.prices
        return (dollar * self.most_usd if dollar > 0 else 0.0) + self.speed

    @property
    def speed(self) -> float:
        """What the limit on the samples/s is worth: its upper end has a price, or its lower one a
        price below 0.
        """
        speed = self.prices[1]
        return speed * self.speeds[0 if speed < 0 else 1]


class Settled:
    """Enumeration of the machines of known places.

    Parameters
    ----------
    market
        Pools and quotas.
    averaging
        Seconds of an average by class of host and machines.
    tick
        Called at each step; ends an enumeration that takes too long.
    """

    def __init__(
        self, market: Market, averaging: dict[str, Array], tick: Callable[[], None]
    ) -> None:
        self.market, self.averaging, self.tick = market, averaging, tick

    def best(
        self, places: Sequence[Place], limits: Limits, needed: Callable[[], float], most: int
    ) -> tuple[float, list[dict[int, int]]]:
        """Return the most samples/s that count which machines of the places reach within the
        limits, minus infinity where they do not reach what is needed, and up to ``most`` choices
        of machines by pool that come close.
        """
        dollar, speed = limits.prices
        if not all(place.machines for place in places):
            return -np.inf, []
        every = [self._fronts(place, speed) for place in places]
        if not all(len(items.gain) for items, _ in every):
            return -np.inf, []
        terms = Terms(
            needed=limits.needed * (1 - ROOM) - limits.speed,
            most_usd=limits.most_usd * (1 + ROOM),
            dollar=dollar,
        )
        knapsack = Knapsack([items for items, _ in every], terms, self.tick)
        found = []
        for chosen in knapsack.choices(lambda: needed() * (1 - ROOM) - limits.speed):
            found.append(
                {
                    pool: count
                    for k, (_, machines) in zip(chosen, every, strict=True)
                    for pool, count in machines(k).items()
                }
            )
            if len(found) == most:
                break
        return knapsack.reached + limits.speed, found

    def options(
        self, places: Sequence[Place], limits: Limits, most: int | None = None
    ) -> list[list[Option]] | None:
        """List the machines that each place may have, the best first; none of a place where there
        is no improvement.

        Parameters
        ----------
        most
            None is returned where a place would have more.
        """
        slack = self._slack(places, limits)
        if slack is None:
            return [[]]
        (best, spare), found = slack, []
        for place, own in zip(places, best, strict=True):
            every = self._options(place, limits, own - spare)
            some = list(every if most is None else islice(every, most + 1))
            if most is not None and len(some) > most:
                return None
            found.append(sorted(some, key=lambda option: -option.worth))
        return found

    def knapsack(self, options: list[list[Option]], limits: Limits) -> Knapsack:
        """Return the choice of one option of each place; each has one at least."""
        dollar, _ = limits.prices
        return Knapsack(
            [
                Items(
                    gain=np.array([option.worth + dollar * option.usd for option in own]),
                    usd=np.array([option.usd for option in own]),
                )
                for own in options
            ],
            Terms(
                needed=limits.needed * (1 - ROOM) - limits.speed,
                most_usd=limits.most_usd * (1 + ROOM),
                dollar=dollar,
            ),
            self.tick,
        )

    def _fronts(self, place: Place, price: float) -> tuple[Items, Callable[[int], dict[int, int]]]:
        """Return the machines of a place of which none cost less and gain as much, at a price of a
        samples/s, and what each of them is.
        """
        market = self.market
        pools = np.flatnonzero(market.place_of == place.place)
        gain, usd, where = [], [], []
        fronts: list[Front] = []
        for machines in sorted(place.machines):
            seconds = np.array([self._averaging(int(i), machines) for i in pools])
            for slowest in np.unique(seconds).tolist():
                own = pools[seconds <= slowest]
                front = front_of(self.market, own, max(place.machines), self.tick)
                at = np.flatnonzero(front.machines == machines)
                gain.append(max(0.0, place.weight(slowest) - price) * front.speed[at])
                usd.append(front.usd[at] + self._sends(place, machines))
                where += [(len(fronts), int(k)) for k in at]
                fronts.append(front)
        items, kept = best_items(np.concatenate(gain), np.concatenate(usd))

        def machines_of(item: int) -> dict[int, int]:
            front, at = where[int(kept[item])]
            return fronts[front].machines_of(at)

        return items, machines_of

    def placements(
        self,
        options: list[list[Option]],
        limits: Limits,
        knapsack: Knapsack,
        needed: Callable[[], float],
    ) -> Iterator[dict[int, int]]:
        """Yield machines by pool that may be an improvement, of some options of each place; no
        machines at each step, so that steps can be counted.

        Parameters
        ----------
        needed
            As in the limits; it may rise meanwhile.
        """
        low, high = limits.speeds
        sums = Sums(
            speeds=[np.array([option.speed for option in own]) for own in options],
            ends=(low * (1 - ROOM), high * (1 + ROOM)),
        )
        least, most = lambda: needed() * (1 - ROOM) - limits.speed, knapsack.terms.most_usd
        for chosen in knapsack.found(least, sums, most):
            found = [own[k] for own, k in zip(options, chosen, strict=False)]
            if found and self._within(found, limits):
                yield dict(part for option in found for part in option.pools)
            else:
                yield {}

    def _slack(self, places: Sequence[Place], limits: Limits) -> tuple[list[float], float] | None:
        """Return what each place is worth at most, and how much less all of them may be worth."""
        best = []
        for place in places:
            own = self._most(place, limits)
            if own == -np.inf:
                return None
            best.append(own)
        spare = limits.base + sum(best) - limits.needed * (1 - ROOM)
        return None if spare < 0 else (best, spare + ROOM * abs(limits.base))

    def _most(self, place: Place, limits: Limits) -> float:
        """Return an upper bound of what a place is worth: as many of its best machine as it may
        have, averaging as fast as any of its hosts.
        """
        market = self.market
        pools = np.flatnonzero(market.place_of == place.place)
        dollar, speed = limits.prices
        most = -np.inf
        for machines in place.machines:
            seconds = min(self._averaging(int(i), machines) for i in pools)
            weight = max(0.0, place.weight(seconds) - speed)
            worth = weight * market.speed[pools] - dollar * market.usd[pools]
            own = machines * float(worth.max()) - dollar * self._sends(place, machines)
            most = max(most, own)
        return most

    def _sends(self, place: Place, machines: int) -> float:
        return place.usd + (machines - 1) * place.home_usd

    def _averaging(self, pool: int, machines: int) -> float:
        if machines < 2:
            return 0.0
        return float(self.averaging[self.market.host_of[pool]][machines])

    def _options(self, place: Place, limits: Limits, least: float) -> Iterator[Option]:
        """Yield the machines of a place that are worth so much at least."""
        market = self.market
        pools = np.flatnonzero(market.place_of == place.place)
        for machines in sorted(place.machines):
            seconds = np.array([self._averaging(int(i), machines) for i in pools])
            # By the slowest host, so that the weight is known while machines are taken.
            for slowest in np.unique(seconds).tolist():
                weight = place.weight(slowest)
                own = pools[seconds <= slowest]
                yield from self._mixes(
                    place,
                    own,
                    seconds[seconds <= slowest] == slowest,
                    machines,
                    weight,
                    limits,
                    least,
                )

    def _mixes(
        self,
        place: Place,
        pools: Indices,
        slow: np.ndarray,
        machines: int,
        weight: float,
        limits: Limits,
        least: float,
    ) -> Iterator[Option]:
        market, (dollar, price) = self.market, limits.prices
        each = max(0.0, weight - price) * market.speed[pools] - dollar * market.usd[pools]
        order = np.argsort(-each, kind="stable")
        sends = self._sends(place, machines)
        taken: list[tuple[int, int]] = []
        quota: dict[tuple[str, ...], int] = {}

        def descend(at: int, left: int, worth: float) -> Iterator[Option]:
            self.tick()
            if left == 0:
                if any(slow[order[k]] for k, _ in taken):
                    speed = sum(n * float(market.speed[pools[order[k]]]) for k, n in taken)
                    usd = sum(n * float(market.usd[pools[order[k]]]) for k, n in taken)
                    yield Option(
                        pools=tuple((int(pools[order[k]]), n) for k, n in taken),
                        worth=worth,
                        reached=weight * speed,
                        speed=speed,
                        usd=usd + sends,
                    )
                return
            if at == len(order):
                return
            # The rest is worth no more than as many of the next one, the best of those that remain.
            if worth + left * float(each[order[at]]) < least:
                return
            index = int(pools[order[at]])
            pool = market.pools[index]
            free = (pool.gpu_quota - quota.get(pool.bucket, 0)) // pool.gpus
            for count in range(min(left, int(market.cap[index]), free), -1, -1):
                if count:
                    taken.append((at, count))
                    quota[pool.bucket] = quota.get(pool.bucket, 0) + count * pool.gpus
                yield from descend(at + 1, left - count, worth + count * float(each[order[at]]))
                if count:
                    taken.pop()
                    quota[pool.bucket] -= count * pool.gpus

        yield from descend(0, machines, -dollar * sends)

    def _within(self, chosen: list[Option], limits: Limits) -> bool:
        usd, speed = sum(o.usd for o in chosen), sum(o.speed for o in chosen)
        reached = sum(o.reached for o in chosen)
        return (
            usd <= limits.most_usd * (1 + ROOM)
            and reached >= limits.needed * (1 - ROOM)
            and speed >= limits.speeds[0] * (1 - ROOM)
        )
