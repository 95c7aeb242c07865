"""Largest weighted sums of n machines at some places, each by one partial sort of a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from placer.solving import allowance

from .arrays import Array, Indices, Mask
from .required_machines import RequiredMachines, best_of, best_with

KEPT_SUMS = 1024
"""Answers that are kept, of some ten kB each."""
AT_ONCE = 1_000_000
"""Increments that are sorted at once, and sums of single places that are kept."""


class Runs:
    """Increments of buckets as runs that do not increase in any row, so that the n largest of all
    are in the n runs that begin highest.

    Parameters
    ----------
    values, machines, owner
        As in `BestSums`.
    """

    def __init__(self, values: Array, machines: Indices, owner: Indices) -> None:
        steps = values.shape[1]
        begins = np.ones(steps, dtype=bool)
        begins[1:] = owner[1:] != owner[:-1]
        for row in values:  # row by row, to look at the clock
            allowance.check()
            begins[1:] |= row[1:] > row[:-1]
        self.starts = np.flatnonzero(begins)
        run = np.cumsum(begins) - 1
        place_in_run = np.arange(steps) - self.starts[run] if steps else run
        longest = int(place_in_run.max(initial=-1)) + 1
        self.table = np.empty((len(values), len(self.starts), longest))
        for row, own in zip(self.table, values, strict=True):
            allowance.check()
            row.fill(-np.inf)
            row[run, place_in_run] = own
        self.machines = np.ones((len(self.starts), longest), dtype=np.intp)
        self.machines[run, place_in_run] = machines

    def best_of(self, open_steps: Mask, most: int) -> Array:
        """Return the sum of the n largest machines of each row among the runs that are open; see
        `best_of`.
        """
        runs, rows = np.flatnonzero(open_steps[self.starts]), len(self.table)
        step = max(1, AT_ONCE // max(1, len(runs) * self.table.shape[2]))
        if rows > step:  # some rows at a time, to look at the clock
            some = [self._best_of(slice(k, k + step), runs, most) for k in range(0, rows, step)]
            return np.concatenate(some)
        return self._best_of(slice(0, rows), runs, most)

    def _best_of(self, rows: slice, runs: Indices, most: int) -> Array:
        """Return `best_of` for some rows and runs."""
        table = self.table[rows]
        count = len(table)
        if len(runs) > most > 0:
            # Only what the highest runs hold is copied, not the whole table.
            heads = table[:, runs, 0]
            first = runs[np.argpartition(-heads, most - 1, axis=1)[:, :most]]
            table = table[np.arange(count)[:, None], first, :most]
            machines = self.machines[first, :most]
        else:
            table, machines = table[:, runs, :most], self.machines[runs, :most]
        alike = count if machines.ndim == 3 else 1
        columns = table.shape[1] * table.shape[2]
        return best_of(table.reshape(count, columns), most, machines.reshape(alike, columns))


class BestSums:
    """Linear relaxation of the covering problem at fixed n.

    Parameters
    ----------
    values
        Concave increments of every quota bucket; shape (rows, steps).
    machines
        How many machines each step stands for; shape (steps,).
    owner, place
        First pool of each step's bucket, and its place; shape (steps,).
    of_hosts
        Which steps are of pools whose hosts are of some classes.
    places
        Number of places.
    required
        Machines that must be used.
    """

    def __init__(
        self,
        values: Array,
        machines: Indices,
        owner: Indices,
        place: Indices,
        of_hosts: Callable[[frozenset[str]], Mask],
        places: int,
        required: RequiredMachines,
    ) -> None:
        self.values, self.machines, self.owner, self.place = values, machines, owner, place
        self.of_hosts, self.places, self.required = of_hosts, places, required
        self.runs = Runs(values, machines, owner)
        self._kept_sums = lru_cache(maxsize=KEPT_SUMS)(self._sums)
        self._kept_each: dict[tuple[frozenset[str], int], tuple[Indices, Array]] = {}
        self._kept_totals = lru_cache(maxsize=KEPT_SUMS)(self._totals)

    def of(self, places: Indices, hosts: frozenset[str], most: int) -> Array:
        """Return the largest sum of exactly n machines at some places.

        Parameters
        ----------
        places
            Indices of places.
        hosts
            Averaging classes that may be used.
        most
            Largest n.

        Returns
        -------
        Array
            Shape (rows, most + 1); minus infinity where quotas do not allow n machines.

        Notes
        -----
        The searches ask for the same places again and again.
        """
        return self._kept_sums(places.astype(np.intp).tobytes(), hosts, most)

    def of_each(self, places: Indices, hosts: frozenset[str], most: int, rows: Indices) -> Array:
        """Return the sums of `of` for each place alone, in some rows, which ascend; shape (rows,
        places, most + 1).

        Notes
        -----
        What an improvement has for a dollar changes little from question to question, so the rows
        of the last one are kept.
        """
        if len(rows) * self.places * (most + 1) > AT_ONCE:
            return self._each(rows, hosts, most)[:, places]
        kept = self._kept_each.get((hosts, most))
        if kept is None or not np.isin(rows, kept[0]).all():
            kept = self._kept_each[hosts, most] = rows, self._each(rows, hosts, most)
        return kept[1][np.searchsorted(kept[0], rows)][:, places]

    def with_required(
        self, places: Indices, hosts: frozenset[str], most: int, among: Indices | None = None
    ) -> Array:
        """Return the sums of `of` where the machines that must be used are among the n.

        Parameters
        ----------
        places, hosts, most
            As in `of`.
        among
            All places of a placement, if ``places`` are a part of them: rules count whose machines
            can only be in that part. None: these.
        """
        if not self.required.rules:
            return self.of(places, hosts, most)
        every = places if among is None else among
        return self._kept_totals(
            places.astype(np.intp).tobytes(), every.astype(np.intp).tobytes(), hosts, most
        )

    def _each(self, rows: Indices, hosts: frozenset[str], most: int) -> Array:
        inside = self.of_hosts(hosts)
        values, machines, place = (
            each[..., inside] for each in (self.values[rows], self.machines, self.place)
        )
        return place_sums(values, machines, place, self.places, most)

    def _sums(self, places: bytes, hosts: frozenset[str], most: int) -> Array:
        # The sum keeps the quota of each bucket, but no joint quota, so it is at least that of any
        # n machines that can be had.
        built = self.runs.best_of(self._open_steps(places, hosts), most)
        built.setflags(write=False)
        return built

    def _totals(self, places: bytes, among: bytes, hosts: frozenset[str], most: int) -> Array:
        inside, open_ = (self._open_steps(part, hosts) for part in (places, among))
        rules = self.required.within(self.owner, inside, open_)
        if not rules:
            return self.of(np.frombuffer(places, dtype=np.intp), hosts, most)
        built = best_with(self.values, inside, rules, most, self.machines)
        built.setflags(write=False)
        return built

    def _open_steps(self, places: bytes, hosts: frozenset[str]) -> Mask:
        """Return which steps are of some places and hosts; shape (steps,)."""
        wanted = np.zeros(self.places, dtype=bool)
        wanted[np.frombuffer(places, dtype=np.intp)] = True
        mask: Mask = wanted[self.place] & self.of_hosts(hosts)
        return mask


def place_sums(values: Array, machines: Indices, place: Indices, places: int, most: int) -> Array:
    """Return the largest sums of n machines of each place.

    Parameters
    ----------
    values, machines, place
        Increments by row, shape (rows, steps), the machines of each step and its place; shape
        (steps,).

    Returns
    -------
    Array
        Shape (rows, places, most + 1); minus infinity where a place has fewer than n.

    Examples
    --------
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
