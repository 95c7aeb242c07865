"""Machines that must be used, and which of them are still owed while machines are chosen; bounds
take them as sums with a limit from below. Largest sums of machines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from placer.problem.requirements import Used, uses
from placer.problem.workers.pool import Pool
from placer.solving import allowance

from .arrays import Array, Indices, Mask


class Rule(Struct, frozen=True, eq=False, dict=True):
    """At least ``count`` workers of the pools that it ``owns``."""

    count: int
    owns: Mask


class RequiredMachines(Struct, frozen=True, dict=True):
    """Rules of a market."""

    rules: tuple[Rule, ...]

    @staticmethod
    def of(used: Sequence[Used], pools: Sequence[Pool]) -> RequiredMachines:
        """Look up the pools of each rule."""
        made = []
        for rule in used:
            owns = np.array(
                [uses(rule, pool.place, pool.offer.device, pool.offer.market) for pool in pools],
                dtype=bool,
            )
            # Machines are asked for, islands are counted: the largest island errs low.
            largest = max(
                (p.machines for p, own in zip(pools, owns, strict=True) if own), default=1
            )
            made.append(Rule(-(-rule.count // largest), owns))
        return RequiredMachines(tuple(made))

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
