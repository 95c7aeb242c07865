"""Choices of one option of each place within a budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..._market.arrays import Array, Indices

MOST = 4_000
"""Sums of one front, unless fewer are asked for."""
NEAR = 1e-5
"""Share of its gains that the best choice may miss: thinned fronts promise a little too much."""
SUMS = 2_000
"""Sums that count as one node: they take about as long."""


@dataclass(frozen=True, kw_only=True)
class Items:
    """Options of one place: what each adds at most, and what it costs at least; shape
    (options,).
    """

    gain: Array
    usd: Array


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a choice keeps: its gains are ``needed`` at least, and it costs ``most_usd`` at most.

    Notes
    -----
    ``dollar`` is a price at which choices are dropped early; any one is valid.
    """

    needed: float
    most_usd: float
    dollar: float


class Knapsack:
    """Choices of one option of each place.

    Parameters
    ----------
    items
        Options place by place, each with one at least.
    terms
        What a choice keeps.
    tick
        Called now and then; ends a search that takes too long.
    most
        Sums of one front; more are joined with their neighbours, which errs high.
    room
        Fronts end where joined sums promise about so much too much: `reached` is infinite then.

    Notes
    -----
    The sums of the last places that nothing beats in price and in gain are worked out place by
    place (Nemhauser & Ullmann, 1969). Those that no choice of the other places completes, at the
    price of a dollar, are dropped.
    """

    def __init__(
        self,
        items: Sequence[Items],
        terms: Terms,
        tick: Callable[[], None],
        most: int = MOST,
        room: float = np.inf,
    ) -> None:
        self.items, self.terms, self.tick, self.most = items, terms, tick, most
        self.room = room
        self.fronts = self._fronts()

    @property
    def reached(self) -> float:
        """The gains that no choice exceeds; minus infinity if none keeps the terms."""
        if len(self.fronts) <= len(self.items):
            return np.inf
        gain = self.fronts[0].gain
        return float(gain[-1]) if len(gain) else -np.inf

    def _fronts(self) -> list[Items]:
        """Return the best sums of the places from each one on, the last ones of none; without the
        first places where joined sums promise too much.
        """
        items, terms = self.items, self.terms
        worth = [own.gain - terms.dollar * own.usd for own in items]
        best = np.array([own.max() for own in worth])
        paid = terms.dollar * terms.most_usd if terms.dollar > 0 else 0.0
        cheapest = np.concatenate([[0.0], np.cumsum([own.usd.min() for own in items])])
        spare = paid + float(best.sum()) - terms.needed
        front, joined = Items(gain=np.zeros(1), usd=np.zeros(1)), 0.0
        found = [front]
        for k in range(len(items) - 1, -1, -1):
            for _ in range(1 + len(front.gain) * len(items[k].gain) // SUMS):
                self.tick()
            gain = (front.gain[:, None] + items[k].gain).ravel()
            usd = (front.usd[:, None] + items[k].usd).ravel()
            kept = gain - terms.dollar * usd >= float(best[k:].sum()) - spare
            kept &= usd <= terms.most_usd - cheapest[k]
            front = best_items(gain[kept], usd[kept])[0]
            if len(front.gain) > self.most:
                joined += float(front.gain[-1] - front.gain[0]) / self.most
                front = _thinned(front, self.most)
            found.append(front)
            if joined > self.room:
                break
        return found[::-1]

    def best(self, left: float) -> tuple[int, ...] | None:
        """Return the options of each place that gain most at a price of at most ``left``, nearly;
        None if there are none.
        """
        front = self.fronts[0]
        end = int(np.searchsorted(front.usd, left, side="right"))
        if end == 0:
            return None
        most = float(front.gain[end - 1])
        least = most - NEAR * abs(most)
        return next(self.choices(lambda: least, left), None)

    def choices(
        self, needed: Callable[[], float], left: float | None = None
    ) -> Iterator[tuple[int, ...]]:
        """Yield the options of each place that may be an improvement, those first that come first.

        Parameters
        ----------
        needed
            The least gains; they may rise meanwhile.
        left
            The most that they cost, where that is less than the terms say.
        """
        every = Sums(speeds=[np.zeros(len(own.gain)) for own in self.items])
        for chosen in self.found(needed, every, self.terms.most_usd if left is None else left):
            if chosen:
                yield chosen

    def found(
        self, needed: Callable[[], float], sums: Sums, left: float
    ) -> Iterator[tuple[int, ...]]:
        """Yield the options of each place as `choices` does, of which a further figure has a sum
        within some ends; and no option at each step, so that steps can be counted.
        """
        items = [
            list(zip(own.gain.tolist(), own.usd.tolist(), each.tolist(), strict=True))
            for own, each in zip(self.items, sums.speeds, strict=True)
        ]
        fronts = [(own.usd.tolist(), own.gain.tolist()) for own in self.fronts]
        low, high = sums.later()
        chosen: list[int] = []

        def descend(at: int, gain: float, left: float, total: float) -> Iterator[tuple[int, ...]]:
            self.tick()
            if at == len(items):
                yield tuple(chosen)
                return
            yield ()
            (usd, gains), least = fronts[at + 1], needed()
            for k, (own, price, each) in enumerate(items[at]):
                end = bisect_right(usd, left - price)
                if (
                    end
                    and gain + own + gains[end - 1] >= least
                    and low[at + 1] <= total + each <= high[at + 1]
                ):
                    chosen.append(k)
                    yield from descend(at + 1, gain + own, left - price, total + each)
                    chosen.pop()

        yield from descend(0, 0.0, left, 0.0)


def good_choice(items: Sequence[Items], terms: Terms, most: int) -> tuple[int, ...] | None:
    """Return a good choice of one option of each place that keeps the terms, nearly the best one;
    None where none is found.

    Notes
    -----
    As `Knapsack`, but sums that are left out stand for nothing: those that are kept are choices.
    """
    worth = [own.gain - terms.dollar * own.usd for own in items]
    best = np.cumsum([0.0, *(own.max() for own in worth[::-1])])[::-1]
    cheapest = np.cumsum([0.0, *(own.usd.min() for own in items[::-1])])[::-1]
    least = terms.needed - terms.dollar * terms.most_usd
    gain, usd = np.zeros(1), np.zeros(1)
    steps: list[tuple[Indices, Indices]] = []
    for k, own in enumerate(items):
        gains, costs = (gain[:, None] + own.gain).ravel(), (usd[:, None] + own.usd).ravel()
        kept = gains - terms.dollar * costs + best[k + 1] >= least
        kept &= costs <= terms.most_usd - cheapest[k + 1]
        at = np.flatnonzero(kept)
        if len(at) == 0:
            return None
        at = at[best_items(gains[at], costs[at])[1]]
        if len(at) > most:
            at = at[np.linspace(0, len(at) - 1, most).astype(np.intp)]
        gain, usd = gains[at], costs[at]
        steps.append((at // len(own.gain), at % len(own.gain)))
    if gain[-1] < terms.needed:
        return None
    chosen, row = [], len(gain) - 1
    for before, option in steps[::-1]:
        chosen.append(int(option[row]))
        row = int(before[row])
    return tuple(chosen[::-1])


@dataclass(frozen=True, kw_only=True)
class Sums:
    """A further figure of the options of each place, and the ends of its sum."""

    speeds: Sequence[Array]
    ends: tuple[float, float] = (-np.inf, np.inf)

    def later(self) -> tuple[list[float], list[float]]:
        """Return least and most that the places before each one have together, where those from it
        on can still do the rest.
        """
        least = np.cumsum([0.0, *(own.min() for own in self.speeds[::-1])])[::-1]
        most = np.cumsum([0.0, *(own.max() for own in self.speeds[::-1])])[::-1]
        return (self.ends[0] - most).tolist(), (self.ends[1] - least).tolist()


def best_items(gain: Array, usd: Array) -> tuple[Items, Indices]:
    """Return the items of which none costs less and gains as much, the cheapest first, and which
    they are.
    """
    order = np.lexsort((-gain, usd))
    ranked = gain[order]
    before = np.maximum.accumulate(np.concatenate([[-np.inf], ranked]))[:-1]
    kept = order[ranked > before]
    return Items(gain=gain[kept], usd=usd[kept]), kept


def _thinned(front: Items, most: int) -> Items:
    """Return at most so many sums; each of them costs no more and gains no less than those that it
    stands for.
    """
    count = len(front.gain)
    if count <= most:
        return front
    ends = np.linspace(0, count, most + 1).astype(np.intp)
    return Items(gain=front.gain[ends[1:] - 1], usd=front.usd[ends[:-1]])
