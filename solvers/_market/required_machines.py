"""Machines that must be used: what they add to bounds, and which of them are still owed while
machines are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from msgspec import Struct

from placer.problem.contradictions import disjoint
from placer.problem.requirements import Used, uses
from placer.problem.workers.pool import Pool
from placer.solving import allowance

from .arrays import Array, Indices, Mask


class Rule(Struct, frozen=True, eq=False, dict=True):
    """At least ``count`` machines: which pools ``owns``; ``shares``: pools of their quotas."""

    count: int
    owns: Mask
    shares: Mask


class RequiredMachines(Struct, frozen=True, dict=True):
    """Rules of a market; bounds may add up ``apart``, of different quotas."""

    rules: tuple[Rule, ...]
    apart: tuple[Rule, ...]

    @staticmethod
    def of(used: Sequence[Used], pools: Sequence[Pool]) -> RequiredMachines:
        """Look up the pools of each rule."""
        made: dict[Used, Rule] = {}
        for rule in used:
            owns = np.array(
                [uses(rule, pool.place, pool.offer.device, pool.offer.market) for pool in pools],
                dtype=bool,
            )
            buckets = {pool.bucket for pool, own in zip(pools, owns, strict=True) if own}
            # Machines are asked for, islands are counted: the largest island errs low.
            largest = max(
                (p.machines for p, own in zip(pools, owns, strict=True) if own), default=1
            )
            made[rule] = Rule(
                -(-rule.count // largest),
                owns,
                np.array([pool.bucket in buckets for pool in pools], dtype=bool),
            )
        return RequiredMachines(
            tuple(made.values()), tuple(made[rule] for rule in disjoint(used, pools))
        )

    def within(self, owner: Array, inside: Mask, among: Mask) -> list[tuple[int, Mask]]:
        """List the rules of ``apart`` whose machines can only be inside, with their units."""
        shares = [(rule.count, rule.shares[owner]) for rule in self.apart]
        # A rule that other places could keep as well binds nothing here.
        return [(count, mine) for count, mine in shares if not np.any(mine & among & ~inside)]

    def first(self, pools: Sequence[int]) -> list[bool]:
        """Return whether a pool is of some rule, for each pool."""
        return [any(rule.owns[i] for rule in self.rules) for i in pools]

    def complete(self, place_of: Array) -> Mask:
        """List the pools of places that have machines for every rule; all if none has."""
        able = np.full(len(place_of), True)
        for rule in self.rules:
            able &= np.isin(place_of, place_of[rule.owns])
        return able if np.any(able) else np.full(len(place_of), True)

    def allows_alone(self, pool: int) -> bool:
        """Return whether one machine of a pool is all that must be used."""
        return all(rule.count == 1 and rule.owns[pool] for rule in self.rules)


def best_of(values: Array, most: int, machines: Indices | None = None) -> Array:
    """Return the sum of the n largest of each row, for n = 0 .. most; minus infinity beyond their
    number.

    ``values``: shape (rows, steps). ``machines``: how often each value may be taken, at least once;
    shape (steps,) or (rows, steps), and no fewer in one row than in another unless all have
    ``most``. None: once.

    >>> best_of(np.array([[1.0, 3.0]]), 3)
    array([[  0.,   3.,   4., -inf]])
    >>> best_of(np.array([[1.0, 3.0]]), 3, np.array([1, 2]))
    array([[0., 3., 6., 7.]])
    """
    allowance.check()
    built = np.full((len(values), most + 1), -np.inf)
    built[:, 0] = 0.0
    if machines is not None:
        units = _largest_units(values, most, machines)
        built[:, 1 : units.shape[1] + 1] = np.cumsum(units, axis=1)
        return built
    taken = min(most, values.shape[1])
    if taken:
        top = (
            -np.partition(-values, taken - 1, axis=1)[:, :taken]
            if taken < values.shape[1]
            else values
        )
        built[:, 1 : taken + 1] = np.cumsum(-np.sort(-top, axis=1), axis=1)
    return built


def best_sum(values: Array, n: int, machines: Indices) -> Array:
    """Return the sum of the n largest of each row, as `best_of` has it in its last column; shape
    (rows,).

    ``values``: shape (rows, steps). ``n``: at least 1. ``machines``: how often each value may be
    taken, at least once; shape (steps,).

    >>> best_sum(np.array([[1.0, 3.0]]), 3, np.array([2, 1])).tolist()
    [5.0]
    >>> best_sum(np.array([[1.0, 3.0]]), 3, np.array([3, 3])).tolist()
    [9.0]
    """
    if machines.sum() < n:
        return np.full(len(values), -np.inf)
    if machines.min() >= n:
        return n * values.max(axis=1)
    order = np.argsort(-values, axis=1)
    each = machines[order]
    taken = np.clip(n - (np.cumsum(each, axis=1) - each), 0, each)
    return np.sum(np.take_along_axis(values, order, axis=1) * taken, axis=1)


def _largest_units(values: Array, most: int, machines: Indices) -> Array:
    """Return the largest units of each row in falling order; shape (rows, units)."""
    machines = np.broadcast_to(machines, values.shape)
    if values.shape[1] > most > 0:  # every step has a machine, so no more steps are needed
        first = np.argpartition(-values, most - 1, axis=1)[:, :most]
        values, machines = (
            np.take_along_axis(table, first, axis=1) for table in (values, machines)
        )
    order = np.argsort(-values, axis=1)
    values, machines = (np.take_along_axis(table, order, axis=1) for table in (values, machines))
    before = np.cumsum(machines, axis=1) - machines
    taken = np.clip(most - before, 0, machines)
    return np.repeat(values.ravel(), taken.ravel()).reshape(len(values), -1)


def best_with(
    values: Array,
    inside: Mask,
    required: Sequence[tuple[int, Mask]],
    most: int,
    machines: Indices | None = None,
) -> Array:
    """Return `best_of` some values with enough of certain ones among them.

    ``values``: shape (rows, steps). ``inside``: steps that may be taken; shape (steps,).
    ``required``: how many machines at least of which steps; no step twice. ``machines``: how many
    machines each step has, at least one; shape (steps,). None: one. The c largest of the required
    ones, then the largest of all that is left: whatever else has c of them is not better, because
    each of its machines can be exchanged for one of these without loss.

    >>> last_two = np.array([False, False, True, True])
    >>> best_with(np.array([[5.0, 4.0, 1.0, 2.0]]), np.full(4, True), [(1, last_two)], 3)
    array([[-inf,   2.,   7.,  11.]])
    >>> each = np.array([1, 1, 1, 2])
    >>> best_with(np.array([[5.0, 4.0, 1.0, 2.0]]), np.full(4, True), [(2, last_two)], 3, each)
    array([[-inf, -inf,   4.,   9.]])
    """
    built = np.full((len(values), most + 1), -np.inf)
    each = np.ones(values.shape[1], dtype=np.intp) if machines is None else machines
    base, count, free = np.zeros((len(values), 1)), 0, inside
    blocks = []
    # Exchange argument: other machines of the same rule can be replaced by its best ones without
    # loss, so the best c are in some best set.
    for least, mine in required:
        here = mine & inside
        if each[here].sum() < least:
            return built
        block = _largest_units(values[:, here], max(least, most), each[here])
        base = base + block[:, :least].sum(axis=1, keepdims=True)
        blocks.append(block[:, least:])
        count, free = count + least, free & ~here
    if count <= most:
        rest = _largest_units(values[:, free], most - count, each[free])
        built[:, count:] = base + best_of(np.concatenate([rest, *blocks], axis=1), most - count)
    return built


def with_required_places(
    required: Sequence[str], places: Sequence[str], used: tuple[int, ...], joining: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """List the places that are used and that may join, once places that need a worker count as
    used; None if one is missing.

    >>> with_required_places(["b"], ["a", "b", "c"], (0,), (1, 2))
    ((0, 1), (2,))
    >>> with_required_places(["b"], ["a", "b", "c"], (0,), (2,)) is None
    True
    """
    if not required:
        return used, joining
    needed = [places.index(name) if name in places else -1 for name in required]
    if not {*needed} <= {*used, *joining}:
        return None
    return (*used, *(p for p in needed if p not in used)), tuple(
        p for p in joining if p not in needed
    )


def least_usd(usd: Array, cap: Array, required: Sequence[Rule], most: int) -> Array:
    """Return the least price of n machines that keep some rules, for n = 0 .. most; infinite where
    there are none.

    ``usd``, ``cap``: USD/h and most machines of each pool; shape (pools,). ``required``: rules of
    which no two share a pool.
    """
    machines = np.minimum(cap, most).astype(np.intp)
    if not required:
        return -best_of(-usd[None, machines > 0], most, machines[machines > 0])[0]
    rules = [(rule.count, rule.owns) for rule in required]
    return -best_with(-usd[None, :], machines > 0, rules, most, machines)[0]


class Owed:
    """Machines of each rule still to be chosen while pools are gone through in order."""

    def __init__(
        self, required: RequiredMachines, order: Sequence[int], caps: Sequence[int]
    ) -> None:
        self.owed = [rule.count for rule in required.rules]
        self.hits = [[r for r, rule in enumerate(required.rules) if rule.owns[i]] for i in order]
        self.room = [[0] * (len(order) + 1) for _ in required.rules]
        for r, room in enumerate(self.room):
            for at in range(len(order) - 1, -1, -1):
                room[at] = room[at + 1] + (caps[at] if r in self.hits[at] else 0)
        self.apart = [r for r, rule in enumerate(required.rules) if rule in required.apart]

    def take(self, at: int, count: int) -> None:
        """Choose machines of the pool at a position; a negative count puts them back."""
        for r in self.hits[at]:
            self.owed[r] -= count

    def possible(self, at: int) -> bool:
        """Return whether the pools from a position on can hold what is owed."""
        return all(owed <= room[at] for owed, room in zip(self.owed, self.room, strict=True))

    def allows(self, at: int, count: int) -> bool:
        """Return whether later pools can hold what is owed after so many of this one."""
        hits = self.hits[at]
        return all(
            owed - (count if r in hits else 0) <= self.room[r][at + 1]
            for r, owed in enumerate(self.owed)
        )

    def others(self, at: int) -> int:
        """Return the workers that must be left for other pools than the one at a position."""
        return max((owed for r, owed in enumerate(self.owed) if r not in self.hits[at]), default=0)

    def least_after(self, column: Sequence[float]) -> list[list[float]]:
        """Return the least value of a machine of each rule from each position on."""
        rows = []
        for r in range(len(self.owed)):
            row = [inf] * (len(column) + 1)
            for at in range(len(column) - 1, -1, -1):
                row[at] = min(row[at + 1], column[at]) if r in self.hits[at] else row[at + 1]
            rows.append(row)
        return rows

    def rest(self, at: int, least: Sequence[Sequence[float]]) -> tuple[int, float]:
        """Count machines owed to rules apart, and the least sum of something over them."""
        open_ = [r for r in self.apart if self.owed[r] > 0]
        return sum(self.owed[r] for r in open_), sum(self.owed[r] * least[r][at] for r in open_)
