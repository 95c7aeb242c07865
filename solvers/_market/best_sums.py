"""Rows of the Lagrangian bound, and the largest weighted sums of n machines at some places, each by
one partial sort of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from placer.solving import allowance

from .arrays import Array, Indices, Mask
from .required_machines import best_of

BOTH = 24
"""Pairs of prices, of a dollar and of a limited sum, at which the bound is evaluated."""
MULTIPLIERS = 24
"""Prices of a dollar in samples/s at which the bound is evaluated."""
SHARES = (0.5, 1.0, 8.0)
"""What machines that must be used are worth more, over what they are behind others. The last one
rules out places that have none.
"""


def bound_rows(speed: Array, usd: Array, limited: Array, own: Sequence[float] = ()) -> Array:
    """Return the rows (alpha, beta, gammas) of the tests sum (alpha v - beta c - gamma g) n >=
    threshold; shape (rows, 2 + sums): speed alone, multipliers of the price, rows of each sum that
    some machine adds to, the price alone.

    ``speed``, ``usd``: samples/s and USD/h of one machine; shape (pools,). ``limited``: what one
    machine takes of each sum that has a limit, g: emissions, devices, and less than nothing of what
    must be used; shape (sums, pools). ``own``:
    further prices of a dollar, which a question has of its own.
    """
    # The range reaches beyond the worst and the best speed for a dollar: outside of it a row
    # decides as the ends do. Any finite set of multipliers gives valid bounds.
    ratio = speed / np.maximum(usd, 1e-6)
    grid = np.geomspace(ratio.min() / 20, ratio.max() * 5, MULTIPLIERS)
    multipliers = np.sort(np.concatenate([[0.0], grid, own]))
    priced = np.column_stack(
        [np.ones(len(multipliers)), multipliers, np.zeros((len(multipliers), len(limited)))]
    )
    return np.vstack(
        [
            priced,
            *_limited_rows(speed, limited),
            *_both_rows(speed, usd, limited),
            *_required_rows(speed, usd, limited, multipliers),
            [[0.0, 1.0, *np.zeros(len(limited))]],
        ]
    )


def _both_rows(speed: Array, usd: Array, limited: Array) -> list[Array]:
    """Return the rows (1, beta, gamma) of each limited sum, where budget and sum limit together;
    each of shape (rows, 2 + sums).

    For a price of a dollar between that of the best machine that takes nothing of the sum and that
    of the best of all, gamma is the least price of the sum at which no machine is worth more than
    it costs: the frontier on which the tightest pair of prices lies for each budget and each limit.
    """
    built = []
    ratio = speed / np.maximum(usd, 1e-6)
    for k, each in enumerate(limited):
        takes = each > 0
        if not takes.any():
            continue
        high = ratio[takes].max()
        low = max(high / 20, ratio[~takes].max(initial=0.0))
        if low >= high:
            continue
        rows = np.zeros((BOTH + 1, 2 + len(limited)))
        rows[:, 0] = 1.0
        rows[1:, 1] = np.geomspace(low, high, BOTH)
        rows[0, 1] = 0.0 if takes.all() else low
        left = speed[takes] - rows[:, 1:2] * usd[takes]
        rows[:, 2 + k] = (left / each[takes]).max(axis=1)
        built.append(rows)
    return built


def _limited_rows(speed: Array, limited: Array) -> list[Array]:
    """Return rows (1, 0, gamma) and (0, 0, 1) of each sum; shape (rows, 2 + sums)."""
    built = []
    for k, each in enumerate(limited):
        if np.any(each > 0):
            rows = np.zeros((MULTIPLIERS + 1, 2 + len(limited)))
            ratio = speed / np.maximum(each, 1e-6)
            rows[:-1, 0] = 1.0
            rows[:-1, 2 + k] = np.geomspace(
                ratio.min() / 20, ratio[each > 0].max() * 5, MULTIPLIERS
            )
            rows[-1, 2 + k] = 1.0
            built.append(rows)
    return built


def _required_rows(speed: Array, usd: Array, limited: Array, prices: Array) -> list[Array]:
    """Return the rows (1, beta, gammas) in which machines that must be used are worth more by
    shares of what they are behind the best other ones; of shape (rows, 2 + sums).

    A sum of at least c machines is one of at most -c, of which each takes -1. Where it is worth as
    much as any other machine, c of them cost what they lose against others, whatever n is.
    """
    owed = np.flatnonzero((limited < 0).any(axis=1))
    worth, built = speed - prices[:, None] * usd, []
    for share in SHARES if len(owed) else ():
        rows = np.zeros((len(prices), 2 + len(limited)))
        rows[:, 0], rows[:, 1] = 1.0, prices
        for k in owed.tolist():
            mine = limited[k] < 0
            best = worth[:, ~mine].max(axis=1, initial=0.0)[:, None]
            behind = ((best - worth[:, mine]) / -limited[k, mine]).min(axis=1)
            rows[:, 2 + k] = share * np.maximum(behind, 0.0)
        built.append(rows)
    return built


KEPT_SUMS = 1024
"""Answers that are kept, of some ten kB each."""
AT_ONCE = 1_000_000
"""Increments that are sorted at once, and sums of single places that are kept."""


class BestSums:
    """Linear relaxation of the covering problem at fixed n.

    ``values``: concave increments of every quota bucket; shape (rows, steps). ``machines``: how
    many machines each step stands for; shape (steps,). ``owner``, ``place``: first pool of each
    step's bucket, and its place; shape (steps,). ``of_hosts``: which steps are of pools whose hosts
    are of some classes.
    """

    def __init__(
        self,
        values: Array,
        machines: Indices,
        owner: Indices,
        place: Indices,
        of_hosts: Callable[[frozenset[str]], Mask],
        places: int,
    ) -> None:
        self.values, self.machines, self.owner, self.place = values, machines, owner, place
        self.of_hosts, self.places = of_hosts, places
        self._kept_sums = lru_cache(maxsize=KEPT_SUMS)(self._sums)
        self._kept_each: dict[tuple[frozenset[str], int], tuple[Indices, Array]] = {}

    def of(self, places: Indices, hosts: frozenset[str], most: int) -> Array:
        """Return the largest sum of exactly n machines at some places; shape (rows, most + 1);
        minus infinity where quotas do not allow n machines.

        ``places``: indices of places. The searches ask for the same places again and again.
        """
        return self._kept_sums(places.astype(np.intp).tobytes(), hosts, most)

    def of_each(self, places: Indices, hosts: frozenset[str], most: int, rows: Indices) -> Array:
        """Return the sums of `of` for each place alone, in some rows, which ascend; shape (rows,
        places, most + 1).

        What an improvement has for a dollar changes little from question to question, so the rows
        of the last one are kept.
        """
        if len(rows) * self.places * (most + 1) > AT_ONCE:
            return self._each(rows, hosts, most)[:, places]
        kept = self._kept_each.get((hosts, most))
        if kept is None or not np.isin(rows, kept[0]).all():
            kept = self._kept_each[hosts, most] = rows, self._each(rows, hosts, most)
        return kept[1][np.searchsorted(kept[0], rows)][:, places]

    def _each(self, rows: Indices, hosts: frozenset[str], most: int) -> Array:
        inside = self.of_hosts(hosts)
        values, machines, place = (
            each[..., inside] for each in (self.values[rows], self.machines, self.place)
        )
        return place_sums(values, machines, place, self.places, most)

    def _sums(self, places: bytes, hosts: frozenset[str], most: int) -> Array:
        # The sum keeps the quota of each bucket, but no joint quota, so it is at least that of any
        # n machines that can be had.
        inside = self._open_steps(places, hosts)
        allowance.reserve(3 * 8 * len(self.values) * int(inside.sum()))
        built = best_of(self.values[:, inside], most, self.machines[inside])
        built.setflags(write=False)
        return built

    def _open_steps(self, places: bytes, hosts: frozenset[str]) -> Mask:
        """Return which steps are of some places and hosts; shape (steps,)."""
        wanted = np.zeros(self.places, dtype=bool)
        wanted[np.frombuffer(places, dtype=np.intp)] = True
        return wanted[self.place] & self.of_hosts(hosts)


def place_sums(values: Array, machines: Indices, place: Indices, places: int, most: int) -> Array:
    """Return the largest sums of n machines of each place; shape (rows, places, most + 1); minus
    infinity where a place has fewer than n.

    ``values``, ``machines``, ``place``: increments by row, shape (rows, steps), the machines of
    each step and its place; shape (steps,).

    >>> once = np.array([1, 1, 1])
    >>> place_sums(np.array([[3.0, 1.0, 2.0]]), once, np.array([0, 1, 0]), 2, 2)
    array([[[  0.,   3.,   5.],
            [  0.,   1., -inf]]])
    """
    allowance.reserve(2 * 8 * len(values) * places * (most + 1))
    built = np.full((len(values), places, most + 1), -np.inf)
    built[:, :, 0] = 0.0
    # Where every bucket of a place has enough machines, its best one is taken each time.
    few = np.zeros(places, dtype=bool)
    few[place[machines < most]] = True
    order = np.argsort(place, kind="stable")
    ample = order[~few[place[order]]]
    if len(ample):
        there, starts = np.unique(place[ample], return_index=True)
        best = np.maximum.reduceat(values[:, ample], starts, axis=1)
        built[:, there, 1:] = best[:, :, None] * np.arange(1, most + 1)
    # Increments of a bucket fall, so that sorting those of a place never takes a later one of a
    # bucket before an earlier one.
    ends = np.searchsorted(place[order], np.arange(places + 1))
    for at in np.flatnonzero(few).tolist():
        allowance.check()
        part = order[ends[at] : ends[at + 1]]
        built[:, at] = best_of(values[:, part], most, machines[part])
    return built
